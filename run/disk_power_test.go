//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/tube"
)

// shadow knows what of a data folder outlasts the end of the machine for certain: of each file what it held when it was synced last,
// and names as they were when their folder was.
type shadow struct {
	t      testing.TB
	folder string

	mu    sync.Mutex
	holds []held
	names map[string]map[string]fs.FileInfo // by folder, as they were synced
	fails func(name string) error           // what comes of a sync; nil is success
	calls map[string]int                    // syncs, by folder
}

// held is a file that was synced. It is kept open, so that no other gets its number.
type held struct {
	file *os.File
	info fs.FileInfo
	text []byte
}

var dataFolders = []string{".", runsFolder, journalFolderName, "store"}

// newShadow opens a data folder under the eyes of a shadow.
func newShadow(t testing.TB, folder string) (*disk, *shadow) {
	t.Helper()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := &shadow{t: t, folder: folder, names: map[string]map[string]fs.FileInfo{}, calls: map[string]int{}}
	t.Cleanup(func() {
		for _, h := range s.holds {
			h.file.Close()
		}
	})
	d.root = shadowFolder{d.root, s}
	for _, name := range dataFolders {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := d.root.SyncFolder(name); err != nil {
			t.Fatal(err)
		}
	}
	return d, s
}

type shadowFolder struct {
	vfs.Folder
	s *shadow
}

func (d shadowFolder) Open(name string, flag int) (vfs.File, error) {
	f, err := d.Folder.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return shadowFile{f, d.s, name}, nil
}

// SyncFolder notes the names in a folder.
func (d shadowFolder) SyncFolder(name string) error {
	if err := d.s.failure(name); err != nil {
		return err
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.names[name] = d.s.list(name)
	d.s.calls[name]++
	return nil
}

type shadowFile struct {
	vfs.File
	s    *shadow
	name string // it had when it was opened
}

// Sync notes what a file holds now.
func (f shadowFile) Sync() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.s.failure(f.name); err != nil {
		return err
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	for _, folder := range dataFolders {
		for name, is := range f.s.list(folder) {
			if os.SameFile(info, is) {
				f.s.hold(filepath.Join(f.s.folder, folder, name), true)
				return nil
			}
		}
	}
	return nil // it was removed
}

func (s *shadow) failure(name string) error {
	s.mu.Lock()
	fails := s.fails
	s.mu.Unlock()
	if fails == nil {
		return nil
	}
	return fails(filepath.Join(s.folder, name))
}

// list returns the files of a folder.
func (s *shadow) list(folder string) map[string]fs.FileInfo {
	entries, err := os.ReadDir(filepath.Join(s.folder, folder))
	if err != nil {
		s.t.Error(err)
	}
	found := map[string]fs.FileInfo{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			s.hold(filepath.Join(s.folder, folder, e.Name()), false)
			found[e.Name()] = info
		}
	}
	return found
}

func (s *shadow) hold(path string, synced bool) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil {
		s.t.Error(err)
	}
	for i := range s.holds {
		if h := &s.holds[i]; os.SameFile(h.info, info) {
			f.Close()
			if synced {
				h.text, _ = os.ReadFile(path)
			}
			return
		}
	}
	h := held{file: f, info: info}
	if synced {
		h.text, _ = os.ReadFile(path)
	}
	s.holds = append(s.holds, h)
}

// left makes the folder that is left if the power goes now: with the names as they are, or as they were synced without those that were
// removed since. Of a file that was never synced, the name alone is there.
func (s *shadow) left(asSynced bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.t.TempDir()
	for _, folder := range dataFolders {
		if err := os.MkdirAll(filepath.Join(to, folder), 0o700); err != nil {
			s.t.Fatal(err)
		}
		names := s.list(folder)
		if asSynced {
			now := names
			names = map[string]fs.FileInfo{}
			for name, info := range s.names[folder] {
				if now[name] != nil {
					names[name] = info
				}
			}
		}
		for name, info := range names {
			var text []byte
			for _, h := range s.holds {
				if os.SameFile(h.info, info) {
					text = h.text
				}
			}
			if err := os.WriteFile(filepath.Join(to, folder, name), text, 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return to
}

// instant is a workflow whose runs say something and end.
func instant() flow.Workflow {
	return flow.Func("instant", "", nil, func(ctx context.Context, m *ling.Manager, _ map[string]any) error {
		_, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte("said")})
		return err
	})
}

// shadowRuns are runs on a folder under the eyes of a shadow.
func shadowRuns(t testing.TB, d *disk) (*Service, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	rs := bareService(Options{Models: new(adapter.Registry), Log: slog.New(slog.NewTextHandler(log, nil))}, d)
	if err := rs.restore(time.Now()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rs.drain()
		rs.interrupt(context.Background())
		rs.closeJournal()
		rs.keys.close()
		d.close()
	})
	return rs, log
}

// startInstant starts a run, and waits for its end.
func startInstant(t testing.TB, rs *Service, key string) string {
	t.Helper()
	sp := &spec{id: NewID(), workflow: instant(), key: key, hash: [16]byte{1}}
	sp.start.enter(startChecked)
	if earlier, err := rs.claimKey(t.Context(), sp); earlier.Run != "" || err != nil {
		t.Fatal(earlier, err)
	}
	took := rs.place(sp)
	if took.err != nil {
		t.Fatal(took.err)
	}
	<-took.run.done
	return took.id
}

// FT-24, FT-28: the end of the machine takes what came in the last second and a quarter, of runs that have ended and of keys as of all
// else, whenever it comes.
func TestWhatHasEndedOutlastsTheMachine(t *testing.T) {
	longtest.Only(t, "many losses of power")
	t.Run("disk", func(t *testing.T) { testOutlasts(t, 0) })
	t.Run("slow disk", func(t *testing.T) { testOutlasts(t, 4*time.Second) })
}

// testOutlasts has each look at the folder of ended runs take a time, in which the journal must do.
func testOutlasts(t *testing.T, slow time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newShadow(t, t.TempDir())
		s.fails = func(name string) error {
			if filepath.Base(name) == runsFolder {
				time.Sleep(slow)
			}
			return nil
		}
		rs, log := shadowRuns(t, d)
		ended := map[string]time.Time{} // by id
		keys := map[string]string{}
		look := func(asSynced bool) {
			d, err := openDisk(s.left(asSynced))
			if err != nil {
				t.Fatal(err)
			}
			after, _ := shadowRuns(t, d)
			for id, at := range ended {
				if time.Since(at) < file.FlushEvery+file.SyncEvery {
					continue
				}
				r, err := after.get(t.Context(), access.Local, id)
				if err != nil {
					t.Fatalf("%v after its end: %v\n%s", time.Since(at), err, log)
				}
				if got := documentOf(r.tube); r.result.Status != StatusCompleted || got != `{"a":"said"}{}` {
					t.Errorf("%v after its end: %s %s", time.Since(at), r.result.Status, got)
				}
				if key := keys[id]; key != "" && slow == 0 {
					if led, p := after.findKey(t.Context(), "", key, [16]byte{1}); led.Run != id || p != nil {
						t.Errorf("%v after its end its key leads to %q, %v", time.Since(at), led, p)
					}
				}
			}
		}
		for step := range 90 { // 27 s: those without a key leave memory meanwhile
			for i := range 2 {
				key := ""
				if i == 0 {
					key = fmt.Sprint("key ", step)
				}
				id := startInstant(t, rs, key)
				ended[id], keys[id] = time.Now(), key
			}
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			rs.sweep(time.Now())
			if step%10 == 9 || step > 44 && step < 50 {
				look(true)
				look(false)
			}
		}
		s.mu.Lock()
		if s.calls[runsFolder] > 60 {
			t.Errorf("the folder of %d runs was synced %d times", len(ended), s.calls[runsFolder])
		}
		s.mu.Unlock()
		time.Sleep(KeepInMemory + 5*time.Second)
		rs.sweep(time.Now())
		time.Sleep(5*time.Second + 3*slow)
		synctest.Wait()
		if names := logFiles(s.folder); len(names) != 0 {
			t.Errorf("%v are left, and nothing needs them", names)
		}
		look(true)
	})
}

// Nobody waits for a disk that turns slowly: neither who ends a run, nor who asks for it, nor who starts another.
func TestNobodyWaitsForAFileToBeSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newShadow(t, t.TempDir())
		rs, _ := shadowRuns(t, d)
		stuck := make(chan struct{})
		s.mu.Lock()
		s.fails = func(name string) error {
			if !strings.Contains(name, journalFolderName) {
				<-stuck
			}
			return nil
		}
		s.mu.Unlock()
		began := time.Now()
		first := startInstant(t, rs, "one")
		time.Sleep(2 * settleEvery)
		second := startInstant(t, rs, "two")
		synctest.Wait()
		for _, id := range []string{first, second} {
			if _, err := rs.get(t.Context(), access.Local, id); err != nil {
				t.Error(err)
			}
		}
		rs.mu.Lock()
		if rs.running != 0 || time.Since(began) != 2*settleEvery {
			t.Errorf("%d runs go on after %v", rs.running, time.Since(began))
		}
		rs.mu.Unlock()
		close(stuck)
	})
}

// A disk that does not keep up comes to be too many runs, and not more and more memory.
func TestWhatWaitsToBeSafeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newShadow(t, t.TempDir())
		rs, _ := shadowRuns(t, d)
		stuck := make(chan struct{})
		s.mu.Lock()
		s.fails = func(name string) error {
			if !strings.Contains(name, journalFolderName) {
				<-stuck
			}
			return nil
		}
		s.mu.Unlock()
		d.settler.add(settling{NewID(), func(error) {}})
		time.Sleep(2 * settleEvery) // that one is at it
		for range maxSettling {
			d.settler.add(settling{NewID(), func(error) {}})
		}
		startInstant(t, rs, "one")
		time.Sleep(time.Minute)
		synctest.Wait()
		rs.mu.Lock()
		running := rs.running
		rs.mu.Unlock()
		if running != 1 || !d.settler.behind() {
			t.Errorf("%d runs wait for the disk", running)
		}
		close(stuck)
		time.Sleep(2 * settleEvery)
		synctest.Wait()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.running != 0 || d.settler.behind() {
			t.Errorf("%d runs wait for the disk still", rs.running)
		}
	})
}

// FT-26: a file whose sync has failed is not synced again. What it holds is written as another one; where that does not help either, the
// log says so.
func TestAFileOfARunThatCannotBeMadeSafeIsWrittenAnew(t *testing.T) {
	for name, c := range map[string]struct {
		fail int
		said bool
	}{"once": {1, false}, "always": {1000, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, s := newShadow(t, t.TempDir())
				rs, log := shadowRuns(t, d)
				failed := map[uint64]bool{} // files, by number
				left := c.fail
				s.mu.Lock()
				s.fails = func(name string) error {
					if !strings.HasSuffix(name, suffix) {
						return nil
					}
					info, err := os.Stat(name)
					if err != nil {
						t.Error(err)
						return err
					}
					number := info.Sys().(*syscall.Stat_t).Ino
					if failed[number] {
						t.Error("the same file was synced once more")
					}
					if left--; left < 0 {
						return nil
					}
					// So that its number is not given to the next.
					s.mu.Lock()
					s.hold(name, false)
					s.mu.Unlock()
					failed[number] = true
					return syscall.EIO
				}
				s.mu.Unlock()
				id := startInstant(t, rs, "one")
				time.Sleep(20 * settleEvery)
				synctest.Wait()
				if said := strings.Count(log.String(), "cannot sync an ended run"); said != map[bool]int{true: 1}[c.said] {
					t.Errorf("said %d times:\n%s", said, log)
				}
				if want := min(c.fail, maxSettles); len(failed) != want {
					t.Errorf("%d files have failed, expected %d", len(failed), want)
				}
				if r, err := d.load(id, 1<<20); err != nil || documentOf(r.tube) != `{"a":"said"}{}` {
					t.Error(err)
				}
				if names := logFiles(s.folder); len(names) != 0 {
					t.Errorf("%v are left", names)
				}
			})
		})
	}
}

// What a folder cannot say of its names is an error of all that stands in it.
func TestAFolderThatCannotBeMadeSafeIsAnErrorOfItsFiles(t *testing.T) {
	d, s := newShadow(t, t.TempDir())
	defer d.close()
	s.fails = func(name string) error {
		if filepath.Base(name) == runsFolder {
			return syscall.EIO
		}
		return nil
	}
	var got []error
	for range 3 {
		d.settler.add(settling{NewID(), func(err error) { got = append(got, err) }})
	}
	d.settler.pass()
	for _, err := range got {
		if !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d were told", len(got))
	}
}
