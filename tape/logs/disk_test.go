package logs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// testDisk is a disk that fails as it is told, and counts.
type testDisk struct {
	vfs.Folder

	mu       sync.Mutex
	room     int64            // bytes that tapes may still get
	failOpen map[string]error // by the ending of the name
	syncs    int              // of tapes
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

func (f *testFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	return nil
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
