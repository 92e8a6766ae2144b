package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

func open(t testing.TB, e store.LogEngine, o logs.Options) *logs.Store {
	t.Helper()
	s, err := logs.Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func space(t testing.TB, e store.LogEngine) store.Log {
	t.Helper()
	l, err := e.Log(t.Context(), store.LogOptions{Space: logs.Space, Indexed: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// say returns entries that have a word each.
func say(words ...string) (entries []tape.Entry) {
	for _, word := range words {
		entries = append(entries, tape.NewMessage("user", word))
	}
	return entries
}

func create(t testing.TB, s tape.Store, name string, words ...string) {
	t.Helper()
	if _, err := s.Append(t.Context(), name, tape.Batch{Create: true, Entries: say(words...)}); err != nil {
		t.Fatal(err)
	}
}

func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func wantWords(t *testing.T, s tape.Store, name string, want ...string) {
	t.Helper()
	all, err := collect(s.Read(t.Context(), name, tape.Query{}))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{}
	for _, e := range all {
		var p struct{ Content string }
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		words = append(words, p.Content)
	}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Errorf("tape %s (-want +got):\n%s", name, diff)
	}
}

func TestAReplicaThatBelievesInItsLeaseIsRefused(t *testing.T) { // CL-06, ST-04
	for what, created := range map[string]bool{"a tape that exists": true, "a tape that does not exist yet": false} {
		t.Run(what, func(t *testing.T) {
			m, shared := storetest.NewModel(), new(leases)
			one := open(t, m, logs.Options{Leases: shared, Replica: "one"})
			two := open(t, m.Again(), logs.Options{Leases: shared, Replica: "two"})
			ctx := t.Context()
			var want []string
			first, err := one.Lease(ctx, "a", false)
			if err != nil {
				t.Fatal(err)
			}
			if created {
				create(t, one, "a", "one")
				want = append(want, "one")
			}
			shared.take("a")
			second, err := two.Lease(ctx, "a", false)
			if err != nil {
				t.Fatal(err)
			}
			if !created {
				create(t, two, "a", "two")
				want = append(want, "two")
			}
			for range 2 {
				if _, err := one.Append(ctx, "a", tape.Batch{Entries: say("late")}); !errors.Is(err, tape.ErrLeased) {
					t.Errorf("an append under a lease that another replica has taken: %v, want ErrLeased", err)
				}
				if err := one.Import(ctx, "a", "", "", nil); !errors.Is(err, tape.ErrLeased) && !errors.Is(err, tape.ErrNotEmpty) {
					t.Errorf("an import: %v", err)
				}
			}
			select {
			case <-first.Lost():
			default:
				t.Error("the lease is not lost")
			}
			if _, err := two.Append(ctx, "a", tape.Batch{Entries: say("on")}); err != nil {
				t.Fatal(err)
			}
			second.Release()
			first.Release()
			wantWords(t, two, "a", append(want, "on")...)
			third, err := one.Lease(ctx, "a", true)
			if err != nil {
				t.Fatal(err)
			}
			defer third.Release()
			if _, err := one.Append(ctx, "a", tape.Batch{Entries: say("back")}); err != nil {
				t.Error(err)
			}
			wantWords(t, one, "a", append(want, "on", "back")...)
		})
	}
}

func TestALeaseThatIsLostIsToldToItsHolder(t *testing.T) {
	shared := new(leases)
	s := open(t, storetest.NewModel(), logs.Options{Leases: shared, Replica: "one"})
	create(t, s, "a", "one")
	l, err := s.Lease(t.Context(), "a", true)
	if err != nil {
		t.Fatal(err)
	}
	shared.lose("a")
	<-l.Lost()
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("late")}); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("an append under a lost lease: %v, want ErrLeased", err)
	}
	l.Release()
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("without a lease")}); err != nil {
		t.Error(err)
	}
}

// lines yields n entries of about 1 KiB, and calls at before each.
func lines(n int, at func(i int)) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		for i := range n {
			at(i)
			e := tape.NewMessage("user", fmt.Sprint(i, strings.Repeat("x", 1000)))
			e.ID = int64(i + 1)
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestNobodySeesAnImportBeforeItsEnd(t *testing.T) { // TA-40, ST-03
	m := storetest.NewModel()
	s, other := open(t, m, logs.Options{}), open(t, m.Again(), logs.Options{})
	l := space(t, m)
	begun := false
	unseen := func(int) {
		if _, err := l.Info(t.Context(), "a"); err == nil {
			begun = true
		}
		_, err := other.Info(t.Context(), "a")
		all, listErr := collect(other.Sessions(t.Context(), tape.SessionQuery{}))
		_, readErr := collect(other.Read(t.Context(), "a", tape.Query{}))
		_, appendErr := other.Append(t.Context(), "a", tape.Batch{Entries: say("x")})
		if !errors.Is(err, tape.ErrNotFound) || len(all) != 0 || listErr != nil || !errors.Is(readErr, tape.ErrNotFound) || !errors.Is(appendErr, tape.ErrNotFound) {
			t.Fatalf("an import that goes on is seen: %v; listed %v, %v; read %v; append %v", err, all, listErr, readErr, appendErr)
		}
	}
	if err := s.Import(t.Context(), "a", "session", "/w", lines(1000, unseen)); err != nil {
		t.Fatal(err)
	}
	if !begun {
		t.Error("the import was one batch")
	}
	in, err := other.Info(t.Context(), "a")
	if err != nil || in.Entries != 1000 || in.LastID != 1000 || in.Session != "session" || in.Workspace != "/w" {
		t.Errorf("the tape is %+v, %v", in, err)
	}
	if first, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("on")}); first != 1001 || err != nil {
		t.Errorf("the next id is %d, %v", first, err)
	}
}

func TestAnImportAndAnotherWriterOfTheTape(t *testing.T) { // TA-40
	for what, wins := range map[string]func(t *testing.T, other *logs.Store){
		"a session is begun meanwhile": func(t *testing.T, other *logs.Store) { create(t, other, "a", "other") },
		"another import is done meanwhile": func(t *testing.T, other *logs.Store) {
			if err := other.Import(t.Context(), "a", "", "", func(yield func(tape.Entry, error) bool) {
				e := say("other")[0]
				e.ID = 7
				yield(e, nil)
			}); err != nil {
				t.Error(err)
			}
		},
	} {
		for _, after := range []int{0, 700} {
			t.Run(fmt.Sprint(what, " after ", after, " entries"), func(t *testing.T) {
				m := storetest.NewModel()
				s, other := open(t, m, logs.Options{}), open(t, m.Again(), logs.Options{})
				err := s.Import(t.Context(), "a", "", "", lines(1000, func(i int) {
					if i == after {
						wins(t, other)
					}
				}))
				if !errors.Is(err, tape.ErrNotEmpty) {
					t.Errorf("the import: %v, want ErrNotEmpty", err)
				}
				wantWords(t, other, "a", "other")
				wantWords(t, s, "a", "other")
			})
		}
	}
}

func TestWhatIsLeftOfAnImportIsInNobodysWay(t *testing.T) { // TA-40
	m := storetest.NewModel()
	leave := func() { // as a process that dies does
		gone := open(t, brokenDeletes{m}, logs.Options{})
		if err := gone.Import(t.Context(), "a", "", "", func(yield func(tape.Entry, error) bool) {
			for e := range lines(700, func(int) {}) {
				if !yield(e, nil) {
					return
				}
			}
			yield(tape.Entry{}, errors.New("the reader is gone"))
		}); err == nil {
			t.Fatal("no error")
		}
		if _, err := space(t, m).Info(t.Context(), "a"); err != nil {
			t.Fatalf("nothing is left: %v", err)
		}
	}
	s := open(t, m, logs.Options{})
	leave()
	create(t, s, "a", "begun")
	wantWords(t, s, "a", "begun")
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	leave()
	if err := s.Import(t.Context(), "a", "", "", lines(2, func(int) {})); err != nil {
		t.Fatal(err)
	}
	if in, err := s.Info(t.Context(), "a"); err != nil || in.Entries != 2 {
		t.Errorf("the tape is %+v, %v", in, err)
	}
}

// brokenDeletes is an engine that deletes nothing.
type brokenDeletes struct{ store.LogEngine }

func (e brokenDeletes) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	l, err := e.LogEngine.Log(ctx, o)
	return brokenLog{l}, err
}

type brokenLog struct{ store.Log }

func (brokenLog) Delete(context.Context, string) error { return store.ErrAway }

func TestForksOfForksAreErasedWithTheirFork(t *testing.T) { // TA-30
	m := storetest.NewModel()
	s := open(t, m, logs.Options{})
	names := []string{"a", "a.1-x", "a.1-x.2-y", "a.1-x.2-y.3-z", "a.1-x.2-y.3-z.4-w", "a.1-x.2-yy", "a.1-xx"}
	for _, name := range names {
		create(t, s, name, name)
	}
	if err := s.Delete(t.Context(), "a.1-x.2-y"); err != nil {
		t.Fatal(err)
	}
	left := func() (left []string) {
		for _, name := range names {
			if _, err := s.Info(t.Context(), name); err == nil {
				left = append(left, name)
			}
		}
		return left
	}
	if diff := cmp.Diff([]string{"a", "a.1-x", "a.1-x.2-yy", "a.1-xx"}, left()); diff != "" {
		t.Errorf("after a fork of a fork was erased (-want +got):\n%s", diff)
	}
	create(t, s, "a.1-x.2-y.3-z", "again")
	if err := s.Delete(t.Context(), "a.1-x"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "a.1-xx"}, left()); diff != "" {
		t.Errorf("after a fork was erased (-want +got):\n%s", diff)
	}
	if err := s.Delete(t.Context(), "a"); err != nil || len(left()) > 0 {
		t.Errorf("after the session was erased: %v, %v", left(), err)
	}
}

func TestWhatIsDamagedIsSkippedAndNamed(t *testing.T) { // ST-15, TA-64, DO-06
	var log bytes.Buffer
	m := storetest.NewModel()
	s := open(t, m, logs.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	create(t, s, "a", "one", "two")
	l := space(t, m)
	in, err := l.Info(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	// Entry 3 is none, entry 4 says that it is another one.
	other := say("other")[0]
	other.ID, other.Date = 9, time.Now()
	in.Head = bytes.Replace(in.Head, []byte(`"last":2`), []byte(`"last":4`), 1)
	if _, err := l.Append(t.Context(), "a", store.Batch{ID: storetest.NewID(), After: in.Rev, Head: in.Head, Entries: []store.Entry{{Data: []byte("{")}, {Data: other.AppendJSON(nil)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("five")}); err != nil {
		t.Fatal(err)
	}
	wantWords(t, s, "a", "one", "two", "five")
	for _, want := range []string{"tape=a", "entry 3", "entry 4"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not name %q: %s", want, log.String())
		}
	}
}

func TestAStoreThatIsFullTakesNothingAndLosesNothing(t *testing.T) { // TA-65
	s := open(t, storetest.NewModel(), logs.Options{MaxBytes: 2000})
	ctx := t.Context()
	create(t, s, "a", "hello")
	n := 1
	for ; ; n++ {
		if _, err := s.Append(ctx, "a", tape.Batch{Entries: say("hello")}); err != nil {
			if !errors.Is(err, tape.ErrTooLarge) {
				t.Errorf("the store is full: %v, want ErrTooLarge", err)
			}
			break
		}
	}
	if n < 5 || n > 20 {
		t.Errorf("%d entries fit into 2000 bytes", n)
	}
	if _, err := s.PutBlob(ctx, "a", make([]byte, 1000)); !errors.Is(err, tape.ErrTooLarge) {
		t.Errorf("a blob in a full store: %v, want ErrTooLarge", err)
	}
	if in, err := s.Info(ctx, "a"); err != nil || in.Entries != int64(n) || in.LastID != int64(n) {
		t.Errorf("the tape has %d entries, %v, want %d", in.Entries, err, n)
	}
	// A tape that could not be made is not there, and room that is given back is used.
	if _, err := s.Append(ctx, "b", tape.Batch{Create: true, Entries: say("hello")}); !errors.Is(err, tape.ErrTooLarge) {
		t.Errorf("a new tape in a full store: %v, want ErrTooLarge", err)
	}
	if _, err := s.Info(ctx, "b"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	create(t, s, "b", "hello")
}

func TestBlobsOfManyParts(t *testing.T) { // AG-29
	m := storetest.NewModel()
	s := open(t, m, logs.Options{})
	create(t, s, "a", "start")
	data := make([]byte, 1<<20+12345)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	handle, err := s.PutBlob(t.Context(), "a", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][2]int{{0, len(data)}, {512<<10 - 3, 7}, {512 << 10, 1}, {1<<20 - 1, 20000}, {600_000, 600_000}} {
		got, size, err := s.ReadBlob(t.Context(), "a", handle, int64(part[0]), int64(part[1]))
		if want := data[part[0]:min(len(data), part[0]+part[1])]; !bytes.Equal(got, want) || size != int64(len(data)) || err != nil {
			t.Errorf("%v: %d bytes of %d, %v, want %d", part, len(got), size, err, len(want))
		}
	}
	// Another writer has left less of it: the blob is written again.
	l := space(t, m)
	key := "a/b/" + handle
	if err := l.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), key, store.Batch{ID: storetest.NewID(), Entries: []store.Entry{{Data: data[:512<<10]}}}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.PutBlob(t.Context(), "a", data); again != handle || err != nil {
		t.Fatal(again, err)
	}
	if got, _, err := s.ReadBlob(t.Context(), "a", handle, 0, 1<<30); !bytes.Equal(got, data) || err != nil {
		t.Errorf("after a repair: %d bytes, %v", len(got), err)
	}
}

// answers is an engine whose appends fail as they are told, written or not.
type answers struct {
	store.LogEngine
	next func(do func() (store.Info, error)) (store.Info, error)
}

func (a *answers) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	l, err := a.LogEngine.Log(ctx, o)
	return &answersLog{l, a}, err
}

type answersLog struct {
	store.Log
	a *answers
}

func (l *answersLog) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	do := func() (store.Info, error) { return l.Log.Append(ctx, name, b) }
	if l.a.next == nil {
		return do()
	}
	return l.a.next(do)
}

func TestErrorsOfAnEngine(t *testing.T) { // ST-26
	for what, row := range map[string]struct {
		err, want  error
		overloaded bool
	}{
		"away":      {store.ErrAway, tape.ErrAway, true},
		"unsure":    {store.ErrUnsure, tape.ErrUnsure, true},
		"full":      {store.ErrFull, store.ErrFull, true},
		"too large": {store.ErrTooLarge, tape.ErrTooLarge, false},
		"damaged":   {store.ErrDamaged, tape.ErrDamaged, false},
		"closed":    {store.ErrClosed, tape.ErrClosed, false},
	} {
		t.Run(what, func(t *testing.T) {
			a := &answers{LogEngine: storetest.NewModel()}
			s := open(t, a, logs.Options{})
			create(t, s, "a", "one")
			a.next = func(do func() (store.Info, error)) (store.Info, error) {
				if errors.Is(row.err, store.ErrUnsure) {
					if _, err := do(); err != nil {
						t.Error(err)
					}
				}
				return store.Info{}, fmt.Errorf("told: %w", row.err)
			}
			_, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("two")})
			var coded interface{ ErrorCode() string }
			if !errors.Is(err, row.want) || errors.As(err, &coded) != row.overloaded || row.overloaded && coded.ErrorCode() != "overloaded" {
				t.Errorf("an append: %v, want %v", err, row.want)
			}
			a.next = nil
			want := []string{"one", "three"}
			if errors.Is(row.err, store.ErrUnsure) {
				want = []string{"one", "two", "three"}
			}
			if first, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("three")}); first != int64(len(want)) || err != nil {
				t.Errorf("the next append: %d, %v", first, err)
			}
			wantWords(t, s, "a", want...)
		})
	}
}

// counter is an observer that adds up.
type counter struct {
	entries, refused int
	bytes            int64
}

func (c *counter) Appended(entries int, bytes int64, err error) {
	if err != nil {
		c.refused++
		return
	}
	c.entries += entries
	c.bytes += bytes
}

func (c *counter) Synced(time.Duration, error) { panic("the engine syncs") }

func TestAnObserverIsToldWhatIsAppended(t *testing.T) {
	var c counter
	s := open(t, storetest.NewModel(), logs.Options{MaxBytes: 2000, Observer: &c})
	for range 20 {
		_, _ = s.Append(t.Context(), "a", tape.Batch{Create: c.entries == 0, Entries: say("hello")})
	}
	info, err := s.Info(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if int64(c.entries) != info.Entries || c.bytes != info.Bytes || c.entries+c.refused != 20 || c.refused == 0 {
		t.Errorf("got %+v of %+v", c, info)
	}
}
