package logs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// testDisk is a disk that fails as it is told, and counts.
type testDisk struct {
	vfs.Folder
	read   atomic.Int64 // bytes of tapes
	opened atomic.Int64 // files

	mu       sync.Mutex
	room     int64            // bytes that tapes may still get
	stuck    bool             // what was written cannot be cut off
	failSync error            // what a sync of a tape ends with
	failOpen map[string]error // by the ending of the name
	syncs    int              // of tapes
	syncing  chan struct{}    // a sync waits for two values, when it is there
}

func openTestDisk(t testing.TB, dir string) *testDisk {
	t.Helper()
	d, err := vfs.At(dir).Open()
	if err != nil {
		t.Fatal(err)
	}
	return &testDisk{Folder: d, room: 1 << 40}
}

// openTest opens a store on such a disk, closed when the test ends.
func openTest(t testing.TB, dir string, o FolderOptions) (*Store, *testDisk) {
	t.Helper()
	d := openTestDisk(t, dir)
	s := openOn(d, o)
	t.Cleanup(func() { _ = s.Close() })
	return s, d
}

func (d *testDisk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *testDisk) Open(name string, flag int) (vfs.File, error) {
	d.mu.Lock()
	err := d.failOpen[filepath.Ext(name)]
	d.mu.Unlock()
	d.opened.Add(1)
	if err != nil {
		return nil, err
	}
	f, err := d.Folder.Open(name, flag)
	if err == nil && strings.HasSuffix(name, tapeEnd) {
		f = &testFile{f, d, name}
	}
	return f, err
}

type testFile struct {
	vfs.File
	d    *testDisk
	name string
}

func (f *testFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.d.read.Add(int64(n))
	return n, err
}

func (f *testFile) WriteAt(p []byte, at int64) (n int, err error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if int64(len(p)) <= f.d.room {
		f.d.room -= int64(len(p))
		return f.File.WriteAt(p, at)
	}
	n, err = f.File.WriteAt(p[:f.d.room], at)
	f.d.room = 0
	return n, errors.Join(err, &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC})
}

func (f *testFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.stuck {
		return errors.New("cannot be cut off")
	}
	return f.File.Truncate(size)
}

func (f *testFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	if c := f.d.syncing; c != nil {
		f.d.mu.Unlock()
		<-c
		<-c
		f.d.mu.Lock()
	}
	return f.d.failSync
}

// TA-12
func TestADiskThatFillsAtAnyByteLeavesTheTapeAsItWas(t *testing.T) {
	dir := t.TempDir()
	s, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
	create(t, s, "a")
	add(t, s, "a", "second", "third")
	was := info(t, s, "a")
	before, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	batch := tape.Batch{Entries: []tape.Entry{message("x"), tape.NewAnchor("n", nil)}}
	size := 0
	for _, e := range batch.Entries {
		e.ID = 1
		size += len(appendLine(nil, e, e.ID-1, false))
	}
	for room := range size {
		d.set(func() { d.room = int64(room) })
		if _, err := s.Append(t.Context(), "a", batch); !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "disk is full") != 1 || strings.Count(err.Error(), "tape ") != 1 {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		after, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
		if err != nil || !bytes.Equal(before, after) {
			t.Fatalf("room for %d bytes: the tape is %q, %v", room, after, err)
		}
		if i := info(t, s, "a"); i.LastID != 3 || i.Anchors != 0 || i != was {
			t.Fatalf("%+v", i)
		}
	}
	d.set(func() { d.room = 1 << 20 })
	if first := add(t, s, "a", "fourth"); first != 4 {
		t.Errorf("the next id is %d", first)
	}
}

// TA-12: not even when what was written cannot be taken back at once.
func TestWhatCannotBeCutOffIsNeitherSeenNorKept(t *testing.T) {
	line := int64(len(appendLine(nil, tape.Entry{ID: 2, Kind: "message", Payload: message("lost").Payload}, 1, false)))
	for name, room := range map[string]int64{"a byte": 1, "all but the line feed": line - 1} {
		t.Run(name, func(t *testing.T) {
			s, d := openTest(t, t.TempDir(), FolderOptions{Sync: SyncNone})
			create(t, s, "a")
			d.set(func() { d.room, d.stuck = room, true })
			for range 2 {
				if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{message("lost")}}); err == nil {
					t.Fatal("no error")
				}
				if diff := cmp.Diff([]string{"1 first"}, texts(t, s, "a", tape.Query{})); diff != "" {
					t.Error(diff)
				}
			}
			d.set(func() { d.room, d.stuck = 1<<20, false })
			if first := add(t, s, "a", "kept"); first != 2 {
				t.Errorf("the next id is %d", first)
			}
			if diff := cmp.Diff([]string{"1 first", "2 kept"}, texts(t, s, "a", tape.Query{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATapeThatCouldNotBeBegunIsNotThere(t *testing.T) {
	dir := t.TempDir()
	s, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
	d.set(func() { d.room = 10 })
	begin := tape.Batch{Create: true, Entries: []tape.Entry{message("first")}}
	if _, err := s.Append(t.Context(), "a", begin); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := s.Info(t.Context(), "a"); !errors.Is(err, tape.ErrNotFound) {
		t.Error(err)
	}
	if names := files(t, dir); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
	d.set(func() { d.room = 1 << 20 })
	create(t, s, "a")
}

// TA-60: an index that cannot be written costs time, never entries.
func TestATapeDoesWithoutAnIndex(t *testing.T) {
	dir := t.TempDir()
	s, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
	d.failOpen = map[string]error{indexEnd: fs.ErrPermission, sessionEnd: fs.ErrPermission}
	create(t, s, "a")
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{tape.NewAnchor("n", nil), message("third")}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"2 anchor n", "3 third"}
	if diff := cmp.Diff(want, texts(t, s, "a", tape.Query{FromAnchor: "n"})); diff != "" {
		t.Error(diff)
	}
	again, d2 := openTest(t, dir, FolderOptions{Sync: SyncNone})
	d2.failOpen = d.failOpen
	if diff := cmp.Diff(want, texts(t, again, "a", tape.Query{FromAnchor: "n"})); diff != "" {
		t.Error(diff)
	}
	d.set(func() { d.failOpen = nil })
	add(t, s, "a", "fourth")
	third, d3 := openTest(t, dir, FolderOptions{Sync: SyncNone})
	if i := info(t, third, "a"); i.LastID != 4 || i.LastAnchor.Name != "n" || i.Title != "first" {
		t.Errorf("%+v", i)
	}
	if n := d3.read.Load(); n > 1000 {
		t.Errorf("%d bytes of the tape were read: the index did not come back", n)
	}
}

// TA-11
func TestSyncPolicies(t *testing.T) {
	for _, c := range []struct {
		name                               string
		sync                               Sync
		appended, turnEnded, after, closed int // syncs until then
	}{
		{"none", SyncNone, 0, 0, 0, 0},
		{"interval", SyncInterval, 0, 0, 1, 1},
		{"turn", SyncTurn, 0, 1, 1, 1},
		{"always", SyncAlways, 2, 2, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				d := openTestDisk(t, dir)
				s := openOn(d, FolderOptions{Sync: c.sync})
				check := func(when string, want int) {
					t.Helper()
					synctest.Wait()
					d.set(func() {
						if d.syncs != want {
							t.Errorf("%s: %d syncs, want %d", when, d.syncs, want)
						}
					})
				}
				create(t, s, "a")
				add(t, s, "a", "second")
				check("appended", c.appended)
				if err := s.TurnEnded(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				check("the turn has ended", c.turnEnded)
				time.Sleep(time.Second)
				check("a second later", c.after)
				time.Sleep(time.Hour)
				check("an hour later", c.after)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				check("closed", c.closed)
			})
		})
	}
}

// TA-11: what waits for the interval, or for the end of a turn, is durable when the store is closed.
func TestCloseMakesDurableWhatWasAppended(t *testing.T) {
	for _, policy := range []Sync{SyncInterval, SyncTurn} {
		s, d := openTest(t, t.TempDir(), FolderOptions{Sync: policy})
		create(t, s, "a")
		create(t, s, "b")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if d.syncs != 2 {
			t.Errorf("policy %d: %d syncs", policy, d.syncs)
		}
	}
}

// TA-11
func TestConcurrentCallersShareASync(t *testing.T) {
	s, d := openTest(t, t.TempDir(), FolderOptions{Sync: SyncAlways})
	create(t, s, "a")
	d.set(func() { d.syncing, d.syncs = make(chan struct{}), 0 })
	var callers sync.WaitGroup
	const n = 20
	call := func() { callers.Go(func() { add(t, s, "a", "x") }) }
	call()
	d.syncing <- struct{}{} // it is in its sync
	for range n - 1 {
		call()
	}
	for waiting := 0; waiting < n-1; runtime.Gosched() {
		s.mu.Lock()
		waiting = len(s.slots["a"].queue)
		s.mu.Unlock()
	}
	if i := info(t, s, "a"); i.LastID != 1 {
		t.Errorf("seen before it was durable: %+v", i)
	}
	close(d.syncing)
	callers.Wait()
	if i := info(t, s, "a"); i.LastID != n+1 {
		t.Errorf("%+v", i)
	}
	if d.syncs != 2 {
		t.Errorf("%d syncs for %d callers", d.syncs, n)
	}
}

// FT-26, TA-12: a disk that could not keep something is not asked a second time.
func TestAfterAFailedSyncTheTapeIsNotWritten(t *testing.T) {
	broken := errors.New("i/o error")
	t.Run("always", func(t *testing.T) {
		dir := t.TempDir()
		s, d := openTest(t, dir, FolderOptions{Sync: SyncAlways})
		create(t, s, "a")
		create(t, s, "b")
		d.set(func() { d.failSync = broken })
		if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{message("x")}}); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		d.set(func() { d.failSync = nil })
		if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{message("x")}}); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 first"}, texts(t, s, "a", tape.Query{})); diff != "" {
			t.Error(diff)
		}
		add(t, s, "b", "others go on")
		if first := add(t, open(t, dir, FolderOptions{}), "a", "second"); first != 2 {
			t.Errorf("the next id is %d", first)
		}
	})
	t.Run("interval", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			d := openTestDisk(t, dir)
			s := openOn(d, FolderOptions{})
			create(t, s, "a")
			d.set(func() { d.failSync = broken })
			time.Sleep(time.Second)
			synctest.Wait()
			if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{message("x")}}); !errors.Is(err, broken) {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// SE-20: names are names of files and nothing else has their place.
func TestOnlyOrdinaryFilesAreOpened(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := appendLine(nil, tape.Entry{ID: 1, Kind: "x", Payload: []byte("{}")}, 0, false)
	for _, c := range []struct {
		name string
		put  func(path string) error
	}{
		{"a link to a file outside", func(path string) error { return os.Symlink(outside, path) }},
		{"a link to nothing", func(path string) error { return os.Symlink(outside+"-missing", path) }},
		{"a link to a file inside", func(path string) error {
			return errors.Join(os.WriteFile(filepath.Join(filepath.Dir(path), "real"), line, 0o600), os.Symlink("real", path))
		}},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a pipe", func(path string) error { return pipe(path) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, end := range []string{tapeEnd, indexEnd, sessionEnd, tornEnd, leaseEnd} {
				dir := t.TempDir()
				if err := c.put(filepath.Join(dir, "a"+end)); err != nil {
					t.Fatal(err)
				}
				s := open(t, dir, FolderOptions{})
				switch end {
				case tapeEnd:
					if _, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: []tape.Entry{message("x")}}); !errors.Is(err, vfs.ErrNotRegular) {
						t.Errorf("append: %v", err)
					}
					if _, err := s.Info(t.Context(), "a"); !errors.Is(err, vfs.ErrNotRegular) {
						t.Errorf("info: %v", err)
					}
					for _, err := range s.Sessions(t.Context(), tape.SessionQuery{}) {
						t.Errorf("a session is listed, %v", err)
					}
				case indexEnd, sessionEnd: // can be done without
					create(t, s, "a")
					if i := info(t, s, "a"); i.Title != "first" {
						t.Errorf("%+v", i)
					}
				case tornEnd:
					if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), append(bytes.Clone(line), "torn"...), 0o600); err != nil {
						t.Fatal(err)
					}
					if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{message("x")}}); !errors.Is(err, vfs.ErrNotRegular) {
						t.Errorf("append: %v", err)
					}
				case leaseEnd:
					if _, err := s.Lease(t.Context(), "a", false); !errors.Is(err, vfs.ErrNotRegular) {
						t.Errorf("lease: %v", err)
					}
				}
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != "secret\n" {
				t.Errorf("%q, %v", text, err)
			}
			if _, err := os.Stat(outside + "-missing"); !errors.Is(err, fs.ErrNotExist) {
				t.Error("a file was made outside")
			}
		})
	}
	t.Run("names", func(t *testing.T) {
		s := open(t, t.TempDir(), FolderOptions{})
		for _, name := range []string{"", "..", ".", "../a", "a/b", `a\b`, "a\x00", "A", "é", "-a", strings.Repeat("a", 241)} {
			if _, err := s.Append(t.Context(), name, tape.Batch{Create: true, Entries: []tape.Entry{message("x")}}); !errors.Is(err, tape.ErrInvalid) {
				t.Errorf("append to %q: %v", name, err)
			}
			if err := s.Delete(t.Context(), name); !errors.Is(err, tape.ErrInvalid) {
				t.Errorf("delete %q: %v", name, err)
			}
			if _, err := s.Lease(t.Context(), name, false); !errors.Is(err, tape.ErrInvalid) {
				t.Errorf("lease %q: %v", name, err)
			}
		}
		create(t, s, strings.Repeat("a", 240))
		if _, err := s.PutBlob(t.Context(), strings.Repeat("a", 240), nil); err != nil {
			t.Error(err)
		}
	})
}

// pipe makes a named pipe, where there are any, else a folder.
var pipe = func(path string) error { return os.Mkdir(path, 0o700) }

func TestAFolderThatCannotBeMadeOrWrittenIsSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenFolder(file, FolderOptions{}); err == nil || !strings.HasPrefix(err.Error(), "tape folder: ") {
		t.Errorf("%v, %v", s, err)
	}
	s, d := openTest(t, t.TempDir(), FolderOptions{})
	d.failOpen = map[string]error{tapeEnd: &fs.PathError{Op: "open", Path: "a.jsonl", Err: syscall.EACCES}}
	_, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: []tape.Entry{message("x")}})
	if want := "tape a: this user may not use the data folder; check who owns it: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%T", err)
	}
}
