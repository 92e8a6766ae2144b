package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

func openLogs(t testing.TB, dir vfs.Dir, o store.LogOptions, options file.Options) (*file.Engine, store.Log) {
	t.Helper()
	e, err := file.Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	l, err := e.Log(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e, l
}

func appendTo(t testing.TB, l store.Log, name string, entries ...store.Entry) store.Info {
	t.Helper()
	info, err := l.Append(t.Context(), name, store.Batch{ID: storetest.NewID(), After: store.Any, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestALogWhoseSyncFailed is ST-07: a log of a Synced space takes nothing more until the space is opened again, and an Async log goes on in
// another file.
func TestALogWhoseSyncFailed(t *testing.T) {
	for _, durability := range []store.Durability{store.Async, store.Synced} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfstest.New()
			e, l := openLogs(t, disk.Dir, store.LogOptions{Space: "s", Durability: durability}, file.Options{})
			appendTo(t, l, "k", store.Entry{Data: []byte("1")})
			for n := 1; ; n++ { // until the sync fails
				b := store.Batch{ID: storetest.NewID(), After: store.Any, Entries: []store.Entry{{Data: []byte("2")}}}
				disk.Fail(vfstest.Fault{First: disk.Calls() + n, Count: 1})
				_, err := l.Append(t.Context(), "k", b)
				if durability == store.Async {
					err = errors.Join(err, l.Sync(t.Context()))
				}
				if strings.HasPrefix(disk.Hit(), "sync") {
					if err == nil {
						t.Fatal("the sync has failed, and nobody was told")
					}
					break
				}
				disk.Mend()
				if n == 100 {
					t.Fatal("nothing was synced")
				}
			}
			disk.Mend()
			b := store.Batch{ID: storetest.NewID(), After: store.Any, Entries: []store.Entry{{Data: []byte("last")}}}
			info, err := l.Append(t.Context(), "k", b)
			if durability == store.Synced {
				if !errors.Is(err, store.ErrAway) {
					t.Errorf("the log takes more: %v", err)
				}
				appendTo(t, l, "other", store.Entry{})
			} else if err := errors.Join(err, l.Sync(t.Context())); err != nil {
				t.Errorf("it does not go on: %v", err)
			}
			after := disk.Crash(true)
			if err := e.Close(); err != nil && durability == store.Async {
				t.Error(err)
			}
			_, l = openLogs(t, after.Dir, store.LogOptions{Space: "s", Durability: durability}, file.Options{})
			if got, err := l.Info(t.Context(), "k"); err != nil || durability == store.Async && got.Last != info.Last {
				t.Errorf("%+v, %v, want %+v", got, err, info)
			}
			appendTo(t, l, "k", store.Entry{Data: []byte("again")})
		})
	}
}

// TestTrimmedEntriesLeaveTheDisk is ST-17, where much is trimmed: the file is written anew, and all goes on.
func TestTrimmedEntriesLeaveTheDisk(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		dir := vfs.InMemory()
		o := store.LogOptions{Space: "s", Indexed: indexed, MaxBytes: 40 << 20}
		e, l := openLogs(t, dir, o, file.Options{})
		var info store.Info
		for i := range 150 {
			info = appendTo(t, l, "k", store.Entry{Data: make([]byte, 100_000), Mark: i%10 == 0}, store.Entry{Data: []byte("small")})
		}
		if err := l.Trim(t.Context(), "k", 250); err != nil {
			t.Fatal(err)
		}
		d, _ := dir.Open()
		if at, err := d.Stat("s.logs/k.log"); err != nil || at.Size() > 3<<20 {
			t.Errorf("%d bytes, %v", at.Size(), err)
		}
		check := func(l store.Log) {
			t.Helper()
			got, err := l.Info(t.Context(), "k")
			if err != nil || got.Rev != info.Rev || got.First != 250 || got.Last != 300 || got.Entries != 51 ||
				got.LastMark != 281 || got.Bytes != 25*100_000+26*5 {
				t.Errorf("%+v, %v", got, err)
			}
			var marks []uint64
			for e, err := range l.Read(t.Context(), "k", store.Range{Marks: true}) {
				if err != nil {
					t.Fatal(err)
				}
				marks = append(marks, e.N)
			}
			n := uint64(250)
			for e, err := range l.Read(t.Context(), "k", store.Range{}) {
				if err != nil || e.N != n {
					t.Fatalf("entry %d, %v, want %d", e.N, err, n)
				}
				n++
			}
			if !slices.Equal(marks, []uint64{261, 281}) || n != 301 {
				t.Errorf("marks %v, and entries before %d", marks, n)
			}
		}
		check(l)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e, l = openLogs(t, dir, o, file.Options{})
		check(l)
		for range 250 { // there is room again
			info = appendTo(t, l, "k", store.Entry{Data: make([]byte, 100_000)})
		}
		if err := l.Trim(t.Context(), "k", info.Last+1); err != nil {
			t.Fatal(err)
		}
		if at, err := d.Stat("s.logs/k.log"); err != nil || at.Size() > 10_000 {
			t.Errorf("%d bytes, %v", at.Size(), err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		_, l = openLogs(t, dir, o, file.Options{})
		if got := appendTo(t, l, "k", store.Entry{}); got.Last != info.Last+1 || got.First != got.Last || got.Entries != 1 {
			t.Errorf("%+v behind %+v", got, info)
		}
	}
}

// TestOldLogsAreDeleted is ST-18: a log goes when it was not changed for as long as entries are kept, and setting the clock makes none go.
func TestOldLogsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := vfs.InMemory()
		_, l := openLogs(t, dir, store.LogOptions{Space: "s", Keep: time.Hour}, file.Options{})
		appendTo(t, l, "old", store.Entry{})
		appendTo(t, l, "used", store.Entry{})
		d, _ := dir.Open()
		if err := d.Chtimes("s.logs/used.log", time.Now().Add(-1000*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			time.Sleep(30 * time.Minute)
			appendTo(t, l, "used", store.Entry{})
		}
		time.Sleep(10 * time.Minute)
		if _, err := l.Info(t.Context(), "old"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the old log: %v", err)
		}
		if info, err := l.Info(t.Context(), "used"); err != nil || info.Entries != 5 {
			t.Errorf("the log that is used: %+v, %v", info, err)
		}
	})
}

// counted is a disk that counts what is read of it.
type counted struct {
	vfs.Folder
	bytes, opened atomic.Int64
}

type countedFile struct {
	vfs.File
	c *counted
}

func (c *counted) Open(name string, flag int) (vfs.File, error) {
	f, err := c.Folder.Open(name, flag)
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	return countedFile{f, c}, nil
}

func (f countedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.c.bytes.Add(int64(n))
	return n, err
}

// TestALongLogIsReadLikeAShortOne is ST-09, in a process that begins, after the end of one that was killed, and after the power has gone.
func TestALongLogIsReadLikeAShortOne(t *testing.T) {
	read := func(entries int, power bool) (bytes int64) {
		disk := vfstest.New()
		o := store.LogOptions{Space: "s", Indexed: true}
		_, l := openLogs(t, disk.Dir, o, file.Options{Interval: -1})
		var batch []store.Entry
		for n := 1; n <= entries; n++ {
			batch = append(batch, store.Entry{Data: make([]byte, 200), Mark: n == entries-50 || n%1000 == 1})
			if len(batch) == 100 || n == entries {
				appendTo(t, l, "k", batch...)
				batch = nil
			}
		}
		if power {
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			appendTo(t, l, "k", store.Entry{Data: []byte("lost")})
		}
		after := disk.Crash(power)
		folder, _ := after.Dir(true)
		c := &counted{Folder: folder}
		_, l = openLogs(t, func(bool) (vfs.Folder, error) { return c, nil }, o, file.Options{})
		info, err := l.Info(t.Context(), "k")
		if err != nil || info.Last < uint64(entries) || info.LastMark != uint64(entries-50) {
			t.Fatalf("%+v, %v", info, err)
		}
		n := 0
		for _, err := range l.Read(t.Context(), "k", store.Range{From: info.LastMark + 1, Limit: 50}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		for e, err := range l.Read(t.Context(), "k", store.Range{From: uint64(entries) / 2, Limit: 1}) {
			if err != nil || e.N != uint64(entries)/2 {
				t.Fatal(e.N, err)
			}
		}
		if n != 50 {
			t.Fatalf("%d entries", n)
		}
		return c.bytes.Load()
	}
	short := read(200, false)
	for _, power := range []bool{false, true} {
		long, most := read(20_000, power), 3*short+1<<20
		if power {
			most += 2 << 20 // behind the last check slot
		}
		if long > most {
			t.Errorf("power %t: %d bytes were read of a long log, %d of a short one", power, long, short)
		}
	}
}

// TestAnUntouchedLogHoldsNothing is ST-29: no file, no goroutine, and a row of at most 170 bytes.
func TestAnUntouchedLogHoldsNothing(t *testing.T) {
	longtest.Only(t, "memory of the process is measured")
	_, l := openLogs(t, vfs.At(t.TempDir()), store.LogOptions{Space: "s", Indexed: true}, file.Options{Interval: -1})
	const many = 1000
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := runtime.NumGoroutine()
	for i := range many {
		b := store.Batch{ID: storetest.NewID(), Label: fmt.Sprint("group of 100: ", i/100), Entries: []store.Entry{{Data: []byte("x")}}}
		if _, err := l.Append(t.Context(), fmt.Sprintf("%032x", i), b); err != nil {
			t.Fatal(err)
		}
	}
	without := memory()
	if n, err := l.Count(t.Context(), ""); n != many || err != nil {
		t.Fatal(n, err)
	}
	for range l.List(t.Context(), store.Listing{Limit: 1}) {
	}
	if got := int64(memory()-without) / many; got > 170 {
		t.Errorf("%d bytes a log", got)
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil && len(open) > 2*128+40 {
		t.Errorf("%d files are open", len(open))
	}
	if now := runtime.NumGoroutine(); now > before+3 {
		t.Errorf("%d goroutines, and %d before", now, before)
	}
}

// TestListsOfANewProcess has a process begin with the list that another one has left: it looks at the logs alone that have changed since.
func TestListsOfANewProcess(t *testing.T) {
	disk := vfstest.New()
	o := store.LogOptions{Space: "s", Indexed: true}
	list := func(l store.Log) (names []string) {
		t.Helper()
		for info, err := range l.List(t.Context(), store.Listing{}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, info.Name)
		}
		return names
	}
	add := func(l store.Log, name string, at int) {
		t.Helper()
		b := store.Batch{ID: storetest.NewID(), After: store.Any, Updated: time.Unix(int64(at), 0), Entries: []store.Entry{{}}}
		if _, err := l.Append(t.Context(), name, b); err != nil {
			t.Fatal(err)
		}
	}
	e, l := openLogs(t, disk.Dir, o, file.Options{})
	for i := range 200 {
		add(l, fmt.Sprint("k", i), i)
	}
	list(l)
	add(l, "k7", 1000)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e, l = openLogs(t, disk.Dir, o, file.Options{Beside: true}) // a command that lists nothing
	add(l, "k9", 1001)
	if err := errors.Join(l.Delete(t.Context(), "k3"), e.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{"k9", "k7"}
	for i := 199; i >= 0; i-- {
		if i != 9 && i != 7 && i != 3 {
			want = append(want, fmt.Sprint("k", i))
		}
	}
	folder, _ := disk.Dir(true)
	c := &counted{Folder: folder}
	_, l = openLogs(t, func(bool) (vfs.Folder, error) { return c, nil }, o, file.Options{})
	var first []string
	for info, err := range l.List(t.Context(), store.Listing{Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, info.Name)
	}
	if !slices.Equal(first, want[:2]) {
		t.Errorf("%q, want %q", first, want[:2])
	}
	if n := c.opened.Load(); n > 60 {
		t.Errorf("%d files were opened for a page of two", n)
	}
	if got := list(l); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// One that was killed leaves no list: all logs are looked at.
	add(l, "k50", 2000)
	killed := disk.Crash(false)
	_, l = openLogs(t, killed.Dir, o, file.Options{})
	if got := list(l); len(got) != 199 || got[0] != "k50" {
		t.Errorf("after a kill: %q", got)
	}
}

// TestDamageHidesNoOtherEntry changes a log at random: what was not changed is read, in the order of the numbers, and the next batch is
// taken (ST-15).
func TestDamageHidesNoOtherEntry(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		disk := vfstest.New()
		o := store.LogOptions{Space: "s", Indexed: rapid.Bool().Draw(r, "indexed")}
		e, err := file.Open(disk.Dir, file.Options{})
		if err != nil {
			r.Fatal(err)
		}
		l, err := e.Log(t.Context(), o)
		if err != nil {
			r.Fatal(err)
		}
		type place struct{ from, to int }
		var places []place
		size := 0
		for i := range 8 {
			appendTo(t, l, "k", store.Entry{Data: fmt.Appendf(nil, "entry %d\n", i+1)})
			text := read(t, disk, "s.logs/k.log")
			at := size + bytes.Index(text[size:], []byte("entry"))
			at = bytes.LastIndexByte(text[:at], '\n') + 1
			places = append(places, place{at, at + bytes.IndexByte(text[at:], '\n') + 1})
			size = len(text)
		}
		if err := e.Close(); err != nil {
			r.Fatal(err)
		}
		text := read(t, disk, "s.logs/k.log")
		d := vfstest.DrawDamage(r, text[:places[6].from])
		changed := slices.Clone(d.Text)
		shift := len(d.Text) - places[6].from
		write(t, disk, "s.logs/k.log", append(changed, text[places[6].from:]...))
		e, err = file.Open(disk.Dir, file.Options{})
		if err != nil {
			r.Fatal(err)
		}
		defer e.Close()
		if l, err = e.Log(t.Context(), o); err != nil {
			r.Fatal(err)
		}
		for _, newest := range []bool{false, true} {
			got := map[uint64]string{}
			last := uint64(0)
			for e, err := range l.Read(context.Background(), "k", store.Range{Newest: newest}) {
				if err != nil && !errors.Is(err, store.ErrDamaged) {
					r.Fatalf("%+v: %v", d, err)
				}
				if last != 0 && (e.N <= last) != newest || e.N == 0 {
					r.Fatalf("%+v: entry %d behind %d", d, e.N, last)
				}
				last = e.N
				if err == nil {
					got[e.N] = string(e.Data)
				}
			}
			for i, p := range places {
				whole := i >= 7 || i == 6 && bytes.HasSuffix(d.Text, []byte("\n")) ||
					shift == 0 && d.Keeps(text, p.from-min(1, p.from), p.to) && d.Keeps(text, 0, 1)
				if want := fmt.Sprintf("entry %d\n", i+1); whole && got[uint64(i+1)] != want || got[uint64(i+1)] != "" && got[uint64(i+1)] != want {
					r.Fatalf("%s from %d to %d: entry %d is %q", d.Kind, d.First, d.Last, i+1, got[uint64(i+1)])
				}
			}
		}
		b := store.Batch{ID: storetest.NewID(), After: store.Any, Entries: []store.Entry{{Data: []byte("next")}}}
		info, err := l.Append(t.Context(), "k", b)
		if err != nil || info.Last != 9 {
			r.Fatalf("%+v, %v", info, err)
		}
	})
}

// TestFillALog creates a log of more entries than a batch has: it is there whole or not at all.
func TestFillALog(t *testing.T) {
	disk := vfstest.New()
	o := store.LogOptions{Space: "s", Indexed: true, Durability: store.Synced}
	_, l := openLogs(t, disk.Dir, o, file.Options{})
	entries := func(n int, end error) func(func(store.Entry, error) bool) {
		return func(yield func(store.Entry, error) bool) {
			for i := range n {
				if _, err := l.Info(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) && i > 0 && i < 3 {
					t.Errorf("a part of the log is seen: %v", err)
				}
				if !yield(store.Entry{N: uint64(2*i + 2), Mark: i == 500, Data: bytes.Repeat([]byte{byte(i)}, 300)}, nil) {
					return
				}
			}
			if end != nil {
				yield(store.Entry{}, end)
			}
		}
	}
	at := time.Unix(1000, 0)
	head := func() ([]byte, time.Time) { return []byte("head"), at }
	f := l.(store.Filler)
	broken := errors.New("the source is broken")
	if _, err := f.Fill(t.Context(), "k", "label", entries(900, broken), head); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := l.Info(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("after a failure: %v", err)
	}
	info, err := f.Fill(t.Context(), "k", "label", entries(1000, nil), head)
	if err != nil || info.Label != "label" || string(info.Head) != "head" ||
		info.Entries != 1000 || info.Last != 2000 || info.LastMark != 1002 ||
		!info.Updated.Equal(at) {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := f.Fill(t.Context(), "k", "", entries(1, nil), head); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a log that is there: %v", err)
	}
	for _, power := range []bool{false, true} {
		_, l := openLogs(t, disk.Crash(power).Dir, o, file.Options{})
		if got, err := l.Info(t.Context(), "k"); err != nil || got.Label != "label" || string(got.Head) != "head" || got.Entries != 1000 {
			t.Errorf("power %t: %+v, %v", power, got, err)
		}
		if next := appendTo(t, l, "k", store.Entry{}); next.Last != 2001 {
			t.Errorf("%+v", next)
		}
	}
}

// TestDeletingLogsOfAFlatSpace deletes what is below a log also where logs below others come late.
func TestDeletingLogsOfAFlatSpace(t *testing.T) {
	_, l := openLogs(t, vfs.InMemory(), store.LogOptions{Space: "s"}, file.Options{})
	for round := range 3 {
		appendTo(t, l, "a", store.Entry{})
		if round > 0 {
			appendTo(t, l, "a/b", store.Entry{})
		}
		for range round + 1 {
			if err := l.Delete(t.Context(), "other"); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "a/b"} {
			if info, err := l.Info(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("round %d: %+v, %v", round, info, err)
			}
		}
	}
}
