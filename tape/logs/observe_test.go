package logs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// told writes down what an observer is told.
type told struct {
	mu    sync.Mutex
	lines []string
	bytes int64
}

func (o *told) Appended(entries int, bytes int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes += bytes
	switch {
	case err == nil:
		o.lines = append(o.lines, fmt.Sprintf("%d entries", entries))
	case tape.Refused(err):
		o.lines = append(o.lines, "refused")
	default:
		o.lines = append(o.lines, "failed")
	}
}

func (o *told) Synced(took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprint("synced ", err == nil, took < 0))
}

func TestAnObserverIsToldWhatIsWritten(t *testing.T) {
	o := new(told)
	s, d := openTest(t, t.TempDir(), FolderOptions{Sync: SyncAlways, Observer: o})
	create(t, s, "a")
	info, err := s.Info(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if o.bytes != info.Bytes {
		t.Errorf("%d bytes of %d", o.bytes, info.Bytes)
	}
	o.lines = nil
	add := func(b tape.Batch) error { _, err := s.Append(t.Context(), "a", b); return err }
	two := []tape.Entry{message("x"), message("y")}
	_ = add(tape.Batch{Entries: two})
	_ = add(tape.Batch{Entries: two, IfLast: 99})
	once := tape.Batch{Entries: []tape.Entry{message("z")}, Create: true}
	_ = add(once)
	before := o.bytes
	d.set(func() { d.room = 10 })
	_ = add(tape.Batch{Entries: two})
	d.set(func() { d.room, d.failSync = 1<<20, errors.New("broken") })
	_ = add(tape.Batch{Entries: two})
	_ = add(tape.Batch{Entries: two})
	want := []string{"synced true false", "2 entries", "refused", "refused", "failed", "synced false false", "failed", "failed"}
	if !slices.Equal(o.lines, want) {
		t.Errorf("got  %v\nwant %v", o.lines, want)
	}
	if o.bytes != before {
		t.Errorf("%d bytes of what was not written", o.bytes-before)
	}
}
