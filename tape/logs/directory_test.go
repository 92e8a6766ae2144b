package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// listing is what a store lists, and an error where there is one.
func listing(s *Store, q tape.SessionQuery) (all []tape.Info, err error) {
	for i, err := range s.Sessions(context.Background(), q) {
		if err != nil {
			return all, err
		}
		all = append(all, i)
	}
	return all, nil
}

func listed(t testing.TB, s *Store, q tape.SessionQuery) (names []string) {
	t.Helper()
	all, err := listing(s, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		names = append(names, i.Tape)
	}
	return names
}

// mortalDisk closes the journals of its process when that dies.
type mortalDisk struct {
	vfs.Folder
	mu       sync.Mutex
	journals []vfs.File
}

func (d *mortalDisk) Open(name string, flag int) (vfs.File, error) {
	f, err := d.Folder.Open(name, flag)
	if err == nil && strings.HasPrefix(name, ".changes/") && flag&os.O_EXCL != 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.journals = append(d.journals, f)
	}
	return f, err
}

func (d *mortalDisk) die() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.journals {
		_ = f.Close()
	}
	d.journals = nil
}

// DO-03: several processes use one folder. Each lists at any moment what all of them have written, as if it sorted all tapes.
func TestAListIsThatOfAllTapesInOrderWhicheverProcessHasWrittenThem(t *testing.T) {
	longtest.Only(t, "many processes")
	base := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		var stores [3]*Store
		var disks [3]*mortalDisk
		var dead []*Store
		start := func(i int) {
			folder, err := vfs.At(dir).Open()
			if err != nil {
				r.Fatal(err)
			}
			disks[i] = &mortalDisk{Folder: folder}
			stores[i] = openOn(disks[i], FolderOptions{Sync: SyncNone})
		}
		for i := range stores {
			start(i)
		}
		defer func() {
			for _, s := range append(dead, stores[:]...) {
				_ = s.Close()
			}
		}()
		infos := map[string]tape.Info{}
		drawStore := func(r *rapid.T) *Store { return stores[rapid.IntRange(0, len(stores)-1).Draw(r, "store")] }
		drawName := func(r *rapid.T) (name, session, workspace string) {
			i := rapid.IntRange(0, 30).Draw(r, "tape")
			return fmt.Sprint("t", i), fmt.Sprintf("web:%d#%d", i%4, i), fmt.Sprint("/w", i%2)
		}
		written := func(s *Store, name string) {
			info, err := s.Info(context.Background(), name)
			if err != nil {
				r.Fatal(err)
			}
			infos[name] = info
		}
		r.Repeat(map[string]func(*rapid.T){
			"append": func(r *rapid.T) {
				s := drawStore(r)
				name, session, workspace := drawName(r)
				e := message(fmt.Sprint("at ", name))
				e.Date = base.Add(time.Duration(rapid.IntRange(0, 1000).Draw(r, "second")) * time.Second)
				_, there := infos[name]
				if _, err := s.Append(context.Background(), name, tape.Batch{Create: !there, Session: session, Workspace: workspace, Entries: []tape.Entry{e}}); err != nil {
					r.Fatal(err)
				}
				written(s, name)
			},
			"import": func(r *rapid.T) {
				s := drawStore(r)
				name, session, workspace := drawName(r)
				e := message("imported")
				e.ID, e.Date = 5, base.Add(time.Duration(rapid.IntRange(0, 1000).Draw(r, "second"))*time.Second)
				if _, there := infos[name]; there {
					r.Skip("it is there")
				}
				if err := s.Import(context.Background(), name, session, workspace, func(yield func(tape.Entry, error) bool) { yield(e, nil) }); err != nil {
					r.Fatal(err)
				}
				written(s, name)
			},
			"fork": func(r *rapid.T) {
				name, _, _ := drawName(r)
				_, err := drawStore(r).Append(context.Background(), name+".1-x", tape.Batch{Create: true, Entries: []tape.Entry{message("fork")}})
				if err != nil && !errors.Is(err, tape.ErrNotEmpty) {
					r.Fatal(err)
				}
			},
			"delete": func(r *rapid.T) {
				name, _, _ := drawName(r)
				if err := drawStore(r).Delete(context.Background(), name); err != nil {
					r.Fatal(err)
				}
				delete(infos, name)
			},
			"start anew": func(r *rapid.T) {
				i := rapid.IntRange(0, len(stores)-1).Draw(r, "store")
				if err := stores[i].Close(); err != nil {
					r.Fatal(err)
				}
				start(i)
			},
			"die": func(r *rapid.T) { // without a word: the system closes its files
				i := rapid.IntRange(0, len(disks)-1).Draw(r, "store")
				disks[i].die()
				dead = append(dead, stores[i])
				start(i)
			},
			"list": func(r *rapid.T) {
				q := tape.SessionQuery{
					Workspace: rapid.SampledFrom([]string{"", "/w0", "/w1"}).Draw(r, "workspace"),
					Prefix:    rapid.SampledFrom([]string{"", "web:1#", "web:", "web:1#1"}).Draw(r, "prefix"),
					Limit:     rapid.IntRange(0, 5).Draw(r, "limit"),
				}
				s := drawStore(r)
				for {
					var want []tape.Info
					for i := range tapetest.Page(slices.Collect(maps.Values(infos)), q) {
						want = append(want, i)
					}
					got, err := listing(s, q)
					if diff := cmp.Diff(want, got); err != nil || diff != "" {
						r.Fatalf("%+v: %v (-want +got):\n%s", q, err, diff)
					}
					if len(got) == 0 || q.Limit == 0 {
						return
					}
					q.After = got[len(got)-1].Cursor()
				}
			},
		})
	})
}

// DO-03
func TestAListOpensFilesOfTheSessionsThatItShows(t *testing.T) {
	dir := t.TempDir()
	s, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
	opened := func(s *Store, d *testDisk, q tape.SessionQuery, want int) int {
		t.Helper()
		before := d.opened.Load()
		if n := len(listed(t, s, q)); n != want {
			t.Errorf("%+v: %d sessions, want %d", q, n, want)
		}
		return int(d.opened.Load() - before)
	}
	const page = 10
	queries := []tape.SessionQuery{{Limit: page}, {Workspace: "/w", Limit: page}, {Workspace: "/w", Prefix: "web:7#", Limit: page}}
	var few [3]int
	made := 0
	for _, sessions := range []int{150, 600} {
		for ; made < sessions; made++ {
			if _, err := s.Append(t.Context(), fmt.Sprint("s", made), tape.Batch{Create: true, Session: fmt.Sprintf("web:%d#%d", made%10, made), Workspace: "/w", Entries: []tape.Entry{message("x")}}); err != nil {
				t.Fatal(err)
			}
		}
		opened(s, d, queries[0], page) // the first one of all looks at all tapes
		for i, q := range queries {
			n := opened(s, d, q, page)
			if few[i] == 0 {
				few[i] = n
			}
			if n > few[i] || n > 3*page {
				t.Errorf("%+v: of %d sessions %d files were opened, of fewer %d", q, sessions, n, few[i])
			}
		}
	}
	// A new process knows most of it.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir, FolderOptions{Sync: SyncNone})
	for i := range 3 {
		add(t, other, fmt.Sprint("s", i), "later")
	}
	again, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
	if n := opened(again, d, queries[0], page); n > 50 {
		t.Errorf("a new process has opened %d files for the first page", n)
	}
	if first := listed(t, again, queries[0]); fmt.Sprint(first[:3]) != "[s2 s1 s0]" {
		t.Errorf("the first are %v", first)
	}
	// What lies there is not believed when it is damaged.
	text, err := os.ReadFile(filepath.Join(dir, ".lists"))
	if err != nil {
		t.Fatal(err)
	}
	for what, damaged := range map[string]string{
		"cut": string(text[:len(text)/2]), "empty": "", "changed": strings.Replace(string(text), "web:", "wob:", 1), "short": "LSL1", "noise": strings.Repeat("\xff", 100),
	} {
		if err := os.WriteFile(filepath.Join(dir, ".lists"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(listed(t, again, tape.SessionQuery{}), listed(t, open(t, dir, FolderOptions{Sync: SyncNone}), tape.SessionQuery{})); diff != "" {
			t.Errorf("it is %s (-want +got):\n%s", what, diff)
		}
	}
}

// Somebody restores a tape while the server runs.
func TestATapeThatSomebodyHasPutThereIsListedAfterAWhile(t *testing.T) {
	dir, backup := t.TempDir(), t.TempDir()
	from := open(t, backup, FolderOptions{Sync: SyncNone})
	create(t, from, "restored")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir, FolderOptions{Sync: SyncNone})
		create(t, s, "a")
		create(t, s, "b")
		if got := listed(t, s, tape.SessionQuery{}); len(got) != 2 {
			t.Fatal(got)
		}
		for _, name := range files(t, backup) {
			if strings.HasPrefix(name, "restored") {
				text, err := os.ReadFile(filepath.Join(backup, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Remove(filepath.Join(dir, "b.jsonl")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		listed(t, s, tape.SessionQuery{}) // begins to look
		synctest.Wait()
		if got := listed(t, s, tape.SessionQuery{}); !slices.Contains(got, "restored") || slices.Contains(got, "b") || len(got) != 2 {
			t.Errorf("the list is %v", got)
		}
	})
}

func TestManyListsAndWritersAtOnce(t *testing.T) {
	dir := t.TempDir()
	stores := []*Store{open(t, dir, FolderOptions{Sync: SyncNone}), open(t, dir, FolderOptions{Sync: SyncNone})}
	const tapes, rounds = 8, 20
	writers, readers := make(chan error), make(chan error)
	end := make(chan struct{})
	for i, s := range stores {
		go func() {
			for n := range rounds * tapes {
				name := fmt.Sprintf("s%d-%d", i, n%tapes)
				if _, err := s.Append(context.Background(), name, tape.Batch{Create: n < tapes, Entries: []tape.Entry{message("x")}}); err != nil {
					writers <- err
					return
				}
				if n%10 == 9 {
					_ = stores[1-i].Delete(context.Background(), fmt.Sprintf("s%d-none", i))
				}
			}
			writers <- nil
		}()
		go func() {
			for {
				select {
				case <-end:
					readers <- nil
					return
				default:
				}
				if _, err := listing(s, tape.SessionQuery{Limit: 5}); err != nil {
					readers <- err
					return
				}
			}
		}()
	}
	for range stores {
		if err := <-writers; err != nil {
			t.Error(err)
		}
	}
	close(end)
	for range stores {
		if err := <-readers; err != nil {
			t.Error(err)
		}
	}
	for _, s := range stores {
		all, err := listing(s, tape.SessionQuery{})
		if err != nil || len(all) != 2*tapes {
			t.Errorf("%d sessions, %v", len(all), err)
		}
		for _, i := range all {
			if i.Entries != rounds {
				t.Errorf("%s has %d entries", i.Tape, i.Entries)
			}
		}
	}
}

// BenchmarkPageOfSessions times pages of 100 000 sessions, or of 1000 with -short. It logs how long the first page of a process takes, without and with the
// list that an earlier process has saved.
func BenchmarkPageOfSessions(b *testing.B) {
	dir := b.TempDir()
	writer := open(b, dir, FolderOptions{Sync: SyncNone})
	tapetest.FillSessions(b, writer)
	_ = writer.Close()
	begin := func() (*Store, time.Duration) {
		s := open(b, dir, FolderOptions{Sync: SyncNone})
		began := time.Now()
		listed(b, s, tape.SessionQuery{Limit: 1})
		return s, time.Since(began).Round(time.Millisecond)
	}
	one, cold := begin()
	_ = one.Close()
	two, warm := begin()
	b.Logf("the first page takes %v, and %v with a saved list", cold, warm)
	tapetest.BenchmarkPages(b, two)
}
