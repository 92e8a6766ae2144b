package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/memory"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func TestStore(t *testing.T) {
	tapetest.Run(t, tapetest.Factory{Open: func(string) (tape.Store, error) { return memory.New(nil), nil }})
}

func TestAStoreThatIsFullTakesNothingAndLosesNothing(t *testing.T) { // TA-65
	s := memory.New(&memory.Options{MaxBytes: 2000})
	ctx := t.Context()
	e := []tape.Entry{tape.NewMessage("user", "hello")}
	if _, err := s.Append(ctx, "a", tape.Batch{Create: true, Entries: e}); err != nil {
		t.Fatal(err)
	}
	n := 1
	for ; ; n++ {
		if _, err := s.Append(ctx, "a", tape.Batch{Entries: e}); err != nil {
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
	if _, err := s.Append(ctx, "b", tape.Batch{Create: true, Entries: e}); !errors.Is(err, tape.ErrTooLarge) {
		t.Errorf("a new tape in a full store: %v, want ErrTooLarge", err)
	}
	if _, err := s.Info(ctx, "b"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(ctx, "b", tape.Batch{Create: true, Entries: e}); err != nil {
		t.Errorf("after a deletion: %v", err)
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

func (c *counter) Synced(time.Duration, error) { panic("there is no disk") }

func TestAnObserverIsToldWhatIsAppended(t *testing.T) {
	var c counter
	s := memory.New(&memory.Options{MaxBytes: 2000, Observer: &c})
	for range 20 {
		_, _ = s.Append(t.Context(), "a", tape.Batch{Create: c.entries == 0, Entries: []tape.Entry{tape.NewMessage("user", "hello")}})
	}
	info, err := s.Info(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if int64(c.entries) != info.Entries || c.bytes != info.Bytes || c.entries+c.refused != 20 || c.refused == 0 {
		t.Errorf("got %+v of %+v", c, info)
	}
}
