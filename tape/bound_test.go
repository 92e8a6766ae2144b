package tape_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func bounded(t *testing.T, s tape.Store, most int) *tape.Bounded {
	t.Helper()
	b, err := tape.Bound(t.Context(), s, most, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABoundedStoreIsAStoreLikeOthers(t *testing.T) {
	tapetest.Run(t, tapetest.Factory{Open: func(string) (tape.Store, error) {
		return tape.Bound(context.Background(), tapetest.NewMemory(nil), 1<<20, 0)
	}})
}

func TestNoSessionBeginsWhereThereAreAsManyAsThereMayBe(t *testing.T) {
	inner := tapetest.NewMemory(nil)
	if _, err := tape.Open(t.Context(), inner, "w", "old"); err != nil {
		t.Fatal(err)
	}
	b := bounded(t, inner, 2) // which has one
	first, err := tape.Open(t.Context(), b, "w", "first")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tape.Open(t.Context(), b, "w", "second")
	if c, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); !errors.Is(err, tape.ErrTooMany) || !ok || c.ErrorCode() != "overloaded" {
		t.Errorf("%v", err)
	}
	if err := tape.Import(t.Context(), b, "w", "third", strings.NewReader(`{"id":1,"kind":"message","payload":{"role":"user","content":"x"}}`+"\n")); !errors.Is(err, tape.ErrTooMany) {
		t.Errorf("an import: %v", err)
	}
	if _, err := first.ForkSession(t.Context(), "copy", 1); !errors.Is(err, tape.ErrTooMany) {
		t.Errorf("a copy: %v", err)
	}

	// Those that are there go on, with forks.
	if _, err := tape.Open(t.Context(), b, "w", "first"); err != nil {
		t.Error(err)
	}
	if err := tape.WithFork(t.Context(), first, true, func(ctx context.Context, f *tape.Fork) error {
		_, err := f.Append(ctx, tape.NewMessage("user", "hi"))
		return err
	}); err != nil {
		t.Error(err)
	}
	if _, err := b.Append(t.Context(), first.Name(), tape.Batch{Create: true, Entries: []tape.Entry{tape.NewMessage("user", "x")}}); !errors.Is(err, tape.ErrNotEmpty) {
		t.Errorf("one that is there: %v", err)
	}

	// And an erased one makes room for another, once.
	for range 2 {
		if err := b.Delete(t.Context(), first.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tape.Open(t.Context(), b, "w", "fourth"); err != nil {
		t.Error(err)
	}
	if _, err := tape.Open(t.Context(), b, "w", "fifth"); !errors.Is(err, tape.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
}

func TestSessionsThatBeginAtOnceAreNoMoreThanThereMayBe(t *testing.T) {
	b := bounded(t, tapetest.NewMemory(nil), 10)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for i := range 40 {
		wg.Go(func() {
			_, err := tape.Open(t.Context(), b, "w", fmt.Sprint(i%30))
			if err != nil && !errors.Is(err, tape.ErrTooMany) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			}
		})
	}
	wg.Wait()
	// Who comes for a session that another is making holds a place until it is told so, for which a third may have been refused.
	for i := range 30 {
		if _, err := tape.Open(t.Context(), b, "w", fmt.Sprint(i)); err != nil && !errors.Is(err, tape.ErrTooMany) {
			t.Error(err)
		}
	}
	there := 0
	for _, err := range b.Sessions(t.Context(), tape.SessionQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		there++
	}
	if _, err := tape.Open(t.Context(), b, "w", "one more"); there != 10 || made < 1 || err == nil {
		t.Errorf("%d sessions, opened %d times, then %v", there, made, err)
	}
}

func TestWhatAnotherProcessErasesMakesRoomAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := tapetest.NewMemory(nil)
		b := bounded(t, inner, 1)
		tp, err := tape.Open(t.Context(), b, "w", "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := inner.Delete(t.Context(), tp.Name()); err != nil { // behind its back
			t.Fatal(err)
		}
		if _, err := tape.Open(t.Context(), b, "w", "b"); !errors.Is(err, tape.ErrTooMany) {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := tape.Open(t.Context(), b, "w", "b"); err != nil {
			t.Errorf("after a while: %v", err)
		}
	})
}

func TestWhatOtherReplicasBeginCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := tapetest.NewMemory(nil)
		one, two := bounded(t, inner, 4), bounded(t, inner, 4) // of two replicas
		for i := range 2 {
			for _, b := range []*tape.Bounded{one, two} {
				if _, err := tape.Open(t.Context(), b, "w", fmt.Sprintf("%p %d", b, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		for what, b := range map[string]*tape.Bounded{"one": one, "two": two} {
			if _, err := tape.Open(t.Context(), b, "w", "more"); !errors.Is(err, tape.ErrTooMany) {
				t.Errorf("the fifth session of four at %s: %v", what, err)
			}
		}
	})
}

// dumb is a store that cannot be counted any more.
type dumb struct {
	*tapetest.Memory
	away bool
}

func (s *dumb) Count(ctx context.Context, owner string) (int, error) {
	if s.away {
		return 0, errors.New("away")
	}
	return s.Memory.Count(ctx, owner)
}

func TestSessionsBeginWhereTheyWereFewAndCannotBeCountedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &dumb{Memory: tapetest.NewMemory(nil)}
		b := bounded(t, s, 2)
		s.away = true
		time.Sleep(time.Minute)
		for i := range 2 {
			if _, err := tape.Open(t.Context(), b, "w", fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := tape.Open(t.Context(), b, "w", "third"); err == nil || errors.Is(err, tape.ErrTooMany) {
			t.Errorf("as many as there may be, as far as is known: %v", err)
		}
	})
}
