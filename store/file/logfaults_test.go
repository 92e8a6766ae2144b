package file_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

// logLife is the life of a space on a disk that may fail. It remembers what the space has said.
type logLife struct {
	t       *testing.T
	disk    *vfstest.Disk
	o       store.LogOptions
	e       *file.Engine
	l       store.Log
	n       int
	batches map[string][]lifeBatch
	trimmed map[string]uint64
	deleted map[string]bool // false: it may be there
}

// lifeBatch is a batch, and whether it must be there, must not be there, or neither.
type lifeBatch struct {
	texts       []string
	acked, sure bool
}

func (l *logLife) open() {
	e, err := file.Open(l.disk.Dir, file.Options{})
	if err != nil {
		l.disk.Mend()
		if e, err = file.Open(l.disk.Dir, file.Options{}); err != nil {
			l.t.Fatal(err)
		}
	}
	l.e = e
	l.t.Cleanup(func() { _ = e.Close() })
	if l.l, err = e.Log(l.t.Context(), l.o); err != nil {
		l.disk.Mend()
		if l.l, err = e.Log(l.t.Context(), l.o); err != nil {
			l.t.Fatal(err)
		}
	}
}

// append appends a batch, and sends it once more if it is not known whether it was written (ST-05).
func (l *logLife) append(name string, size int) {
	b := store.Batch{ID: storetest.NewID(), Head: fmt.Append(nil, "head ", l.n)}
	info, err := l.l.Info(l.t.Context(), name)
	if err == nil {
		b.After = info.Rev
	} else if !errors.Is(err, store.ErrNotFound) {
		return
	}
	one := lifeBatch{}
	for i := range size {
		l.n++
		one.texts = append(one.texts, fmt.Sprint(name, " ", l.n, " ", i+1, "/", size))
		b.Entries = append(b.Entries, store.Entry{Data: []byte(one.texts[i] + strings.Repeat("\n", l.n%3)), Mark: l.n%4 == 0})
	}
	_, err = l.l.Append(l.t.Context(), name, b)
	if errors.Is(err, store.ErrUnsure) {
		if _, again := l.l.Append(l.t.Context(), name, b); again == nil {
			err = nil
		}
	}
	one.acked, one.sure = err == nil, err == nil || !errors.Is(err, store.ErrUnsure)
	if err != nil && !errors.Is(err, store.ErrUnsure) && !errors.Is(err, store.ErrAway) && l.disk.Hit() == "" {
		l.t.Errorf("append to %s: %v", name, err)
	}
	if one.sure && !one.acked && !errors.Is(err, store.ErrAway) {
		one.sure = false // an error of the disk that says nothing
	}
	l.batches[name] = append(l.batches[name], one)
}

func (l *logLife) delete(name string) {
	if err := l.l.Delete(l.t.Context(), name); err == nil {
		delete(l.batches, name)
		delete(l.trimmed, name)
		l.deleted[name] = true
		return
	}
	l.deleted[name] = false
}

func (l *logLife) trim(name string, below uint64) {
	_ = l.l.Trim(l.t.Context(), name, below)
	l.trimmed[name] = below
}

// check reads everything. lossy says that acknowledged batches may be gone from the end.
func (l *logLife) check(log store.Log, when string, lossy bool) {
	l.t.Helper()
	names := []string{"a", "a/b", "gone"}
	for _, name := range names {
		var got []string
		last := uint64(0)
		var failed error
		for e, err := range log.Read(l.t.Context(), name, store.Range{}) {
			if failed = err; err != nil {
				break
			}
			if e.N <= last {
				l.t.Fatalf("%s: %s: entry %d behind %d", when, name, e.N, last)
			}
			last = e.N
			got = append(got, strings.TrimRight(string(e.Data), "\n"))
		}
		if errors.Is(failed, store.ErrNotFound) {
			failed = nil
		}
		if failed != nil {
			l.t.Fatalf("%s: read %s: %v", when, name, failed)
		}
		if deleted, tried := l.deleted[name]; tried && !deleted {
			continue
		}
		if err := l.fits(name, got, lossy); err != nil {
			l.t.Fatalf("%s: %s has %q: %v", when, name, got, err)
		}
	}
}

// fits compares what a log has with its batches.
func (l *logLife) fits(name string, got []string, lossy bool) error {
	all := l.batches[name]
	acked := 0
	for _, b := range all {
		if b.acked {
			acked += len(b.texts)
		}
	}
	trimmed := l.trimmed[name]
	if len(got) == 0 && acked < int(trimmed) {
		return nil
	}
	if trimmed > 0 && len(got) > 0 {
		first := slices.IndexFunc(all, func(b lifeBatch) bool { return slices.Contains(b.texts, got[0]) })
		if first < 0 {
			return errors.New("an unknown entry")
		}
		at := slices.Index(all[first].texts, got[0])
		all = slices.Clone(all[first:])
		all[0].texts = all[0].texts[at:]
	}
	for _, b := range all {
		n := len(b.texts)
		there := len(got) >= n && slices.Equal(got[:n], b.texts)
		switch {
		case there && b.sure && !b.acked:
			return fmt.Errorf("batch %q was refused", b.texts)
		case there:
			got = got[n:]
		case b.acked && !lossy:
			return fmt.Errorf("batch %q was acknowledged", b.texts)
		case lossy && b.acked && len(got) > 0:
			return fmt.Errorf("batch %q is missing in the middle", b.texts)
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("%q is no batch, or a part of one", got)
	}
	return nil
}

func (l *logLife) crashed(power bool, when string) {
	l.t.Helper()
	disk := l.disk.Crash(power)
	e, err := file.Open(disk.Dir, file.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = e.Close() })
	log, err := e.Log(l.t.Context(), l.o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.check(log, when, power && l.o.Durability == store.Async)
	for name := range l.batches { // the next batch gets its place
		info, err := log.Info(l.t.Context(), name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			l.t.Fatalf("%s: %v", when, err)
		}
		b := store.Batch{ID: storetest.NewID(), After: info.Rev, Entries: []store.Entry{{Data: []byte("next")}}}
		if next, err := log.Append(l.t.Context(), name, b); err != nil || next.Last != info.Last+1 || next.Entries != info.Entries+1 {
			l.t.Fatalf("%s: append to %s: %+v, %v, behind %+v", when, name, next, err, info)
		}
	}
	if err := e.Close(); err != nil {
		l.t.Fatalf("%s: close: %v", when, err)
	}
}

func (l *logLife) run() int {
	l.open()
	l.append("a", 1)
	l.append("a", 3)
	l.append("a/b", 2)
	l.append("gone", 2)
	l.list()
	_ = l.l.Sync(l.t.Context())
	l.append("a", 2)
	l.delete("gone")
	l.append("a", 1)
	time.Sleep(2 * time.Second) // Async logs are synced
	l.crashed(false, "the process has died: "+l.disk.Hit())
	l.crashed(true, "the power has gone: "+l.disk.Hit())
	_ = l.e.Close()
	if open := l.disk.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	l.open()
	l.append("a", 2)
	l.trim("a", 3)
	l.append("a/b", 1)
	l.list()
	calls := l.disk.Calls()
	l.disk.Mend()
	l.crashed(false, "the process has died later: "+l.disk.Hit())
	l.crashed(true, "the power has gone later: "+l.disk.Hit())
	l.check(l.l, "with the disk back: "+l.disk.Hit(), false)
	_ = l.e.Close()
	l.open()
	l.check(l.l, "opened again: "+l.disk.Hit(), false)
	l.append("a", 2)
	l.append("a/b", 1)
	l.check(l.l, "after that", false)
	if err := l.e.Close(); err != nil {
		l.t.Errorf("close: %v", err)
	}
	if open := l.disk.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	return calls
}

func (l *logLife) list() {
	if !l.o.Indexed {
		return
	}
	for _, err := range l.l.List(l.t.Context(), store.Listing{}) {
		if err != nil && l.disk.Hit() == "" {
			l.t.Errorf("list: %v", err)
		}
	}
}

func logLifeAt(t *testing.T, o store.LogOptions, fault vfstest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		l := &logLife{
			t: t, disk: vfstest.New(), o: o,
			batches: map[string][]lifeBatch{}, trimmed: map[string]uint64{}, deleted: map[string]bool{},
		}
		l.disk.Fail(fault)
		calls = l.run()
	})
	return calls
}

// TestEveryCallOfALogFails has the disk fail at its N-th call for every N, and ends the process, or the machine's power, afterwards (ST-03,
// ST-05, ST-06, ST-07, ST-30).
func TestEveryCallOfALogFails(t *testing.T) {
	for name, o := range map[string]store.LogOptions{
		"synced":  {Space: "s", Indexed: true, Durability: store.Synced},
		"indexed": {Space: "s", Indexed: true},
		"plain":   {Space: "s"},
	} {
		for _, kind := range []vfstest.Kind{vfstest.NotDone, vfstest.Done, vfstest.Full} {
			for _, count := range []int{1, 0} {
				t.Run(fmt.Sprintf("%s, %v, %d times", name, kind, count), func(t *testing.T) {
					t.Parallel()
					calls := logLifeAt(t, o, vfstest.Fault{})
					for n := 1; n <= calls && !t.Failed(); n++ {
						calls = max(calls, logLifeAt(t, o, vfstest.Fault{First: n, Count: count, Kind: kind}))
					}
					if calls < 50 {
						t.Errorf("%d calls", calls)
					}
				})
			}
		}
	}
}
