package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// DO-03: several processes use one folder. Each lists at any moment what all of them have written, as if it sorted all tapes.
func TestAListIsThatOfAllTapesInOrderWhicheverProcessHasWrittenThem(t *testing.T) {
	base := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		var stores [3]*Store
		start := func(i int) {
			s, err := Open(dir, Options{Sync: SyncNone})
			if err != nil {
				r.Fatal(err)
			}
			stores[i] = s
		}
		for i := range stores {
			start(i)
		}
		defer func() {
			for _, s := range stores {
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
				s := drawStore(r)
				s.changes.mu.Lock()
				defer s.changes.mu.Unlock()
				if s.changes.file != nil {
					_ = s.changes.file.Close()
					s.changes.file = nil
				}
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
					for i := range tape.Page(slices.Collect(maps.Values(infos)), q) {
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
	s, d := openTest(t, dir, Options{Sync: SyncNone})
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
	other := open(t, dir, Options{Sync: SyncNone})
	for i := range 3 {
		add(t, other, fmt.Sprint("s", i), "later")
	}
	again, d := openTest(t, dir, Options{Sync: SyncNone})
	if n := opened(again, d, queries[0], page); n > 50 {
		t.Errorf("a new process has opened %d files for the first page", n)
	}
	if first := listed(t, again, queries[0]); fmt.Sprint(first[:3]) != "[s2 s1 s0]" {
		t.Errorf("the first are %v", first)
	}
	// What lies there is not believed when it is damaged.
	text, err := os.ReadFile(filepath.Join(dir, sessionsFile))
	if err != nil {
		t.Fatal(err)
	}
	for what, damaged := range map[string]string{
		"cut": string(text[:len(text)/2]), "empty": "", "changed": strings.Replace(string(text), "web:", "wob:", 1), "short": sessionsMagic, "noise": strings.Repeat("\xff", 100),
	} {
		if err := os.WriteFile(filepath.Join(dir, sessionsFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(listed(t, again, tape.SessionQuery{}), listed(t, open(t, dir, Options{Sync: SyncNone}), tape.SessionQuery{})); diff != "" {
			t.Errorf("it is %s (-want +got):\n%s", what, diff)
		}
	}
}

// DO-03: who misses the journal of another process looks at all tapes.
func TestAListShowsWhatNoJournalSays(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, dir string, other *Store){
		"its writer died before it wrote the line": func(t *testing.T, dir string, other *Store) {
			if err := errors.Join(other.changes.file.Truncate(0), other.changes.file.Close()); err != nil {
				t.Fatal(err)
			}
			other.changes.file = nil
		},
		"somebody removed it": func(t *testing.T, dir string, other *Store) {
			if err := os.RemoveAll(filepath.Join(dir, changesFolder)); err != nil {
				t.Fatal(err)
			}
		},
		"it was removed, and others came": func(t *testing.T, dir string, other *Store) {
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			for i := range 2 * changesKept {
				s := open(t, dir, Options{Sync: SyncNone})
				create(t, s, fmt.Sprint("x", i))
				if err := s.Delete(t.Context(), fmt.Sprint("x", i)); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := listChanges(other.disk); err == nil && len(n) > changesKept+2 {
				t.Errorf("%d journals are left", len(n))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, other := open(t, dir, Options{Sync: SyncNone}), open(t, dir, Options{Sync: SyncNone})
			create(t, other, "a")
			create(t, s, "b")
			if got := fmt.Sprint(listed(t, s, tape.SessionQuery{})); got != "[b a]" {
				t.Fatal(got)
			}
			create(t, other, "c")
			add(t, other, "a", "later")
			lose(t, dir, other)
			for range 2 {
				if got := fmt.Sprint(listed(t, s, tape.SessionQuery{})); got != "[a c b]" {
					t.Errorf("the list is %s", got)
				}
			}
		})
	}
}

func TestAJournalThatIsFullGoesOnInTheNextOne(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, Options{Sync: SyncNone}), open(t, dir, Options{Sync: SyncNone})
	create(t, s, "a")
	create(t, other, "b")
	listed(t, s, tape.SessionQuery{})
	for i := range 3 {
		fill := strings.Repeat("b\n", int(changesMost-other.changes.size)/2)
		if _, err := other.changes.file.WriteAt([]byte(fill), other.changes.size); err != nil {
			t.Fatal(err)
		}
		other.changes.size += int64(len(fill))
		name := fmt.Sprint("c", i)
		create(t, other, name)
		if got := listed(t, s, tape.SessionQuery{Limit: 1}); !slices.Equal(got, []string{name}) {
			t.Errorf("the newest is %v, want %s", got, name)
		}
		add(t, other, "b", "next")
		if got := listed(t, s, tape.SessionQuery{Limit: 1}); !slices.Equal(got, []string{"b"}) {
			t.Errorf("the newest is %v, want b", got)
		}
	}
	if n := other.changes.number; n < 5 {
		t.Errorf("the journal has number %d", n)
	}
}

// Somebody restores a tape while the server runs.
func TestATapeThatSomebodyHasPutThereIsListedAfterAWhile(t *testing.T) {
	dir, backup := t.TempDir(), t.TempDir()
	from := open(t, backup, Options{Sync: SyncNone})
	create(t, from, "restored")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir, Options{Sync: SyncNone})
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
		time.Sleep(sweepEvery)
		listed(t, s, tape.SessionQuery{}) // begins to look
		synctest.Wait()
		if got := listed(t, s, tape.SessionQuery{}); !slices.Contains(got, "restored") || slices.Contains(got, "b") || len(got) != 2 {
			t.Errorf("the list is %v", got)
		}
	})
}

// A writer makes its journal and locks it then. A list that falls between the two sees a journal without a writer.
func TestAJournalThatIsLockedLateIsRead(t *testing.T) {
	for _, begun := range []bool{false, true} {
		dir := t.TempDir()
		s := open(t, dir, Options{Sync: SyncNone})
		if begun {
			listed(t, s, tape.SessionQuery{})
		}
		if err := s.disk.Mkdir(changesFolder); err != nil {
			t.Fatal(err)
		}
		f, err := s.disk.Open(changesPath(1), os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if err != nil {
			t.Fatal(err)
		}
		listed(t, s, tape.SessionQuery{})
		listed(t, s, tape.SessionQuery{})
		if ok, err := f.TryLock(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		other := open(t, dir, Options{Sync: SyncNone})
		other.changes.file, other.changes.number = f, 1
		if _, err := other.Append(context.Background(), "late", tape.Batch{Create: true, Entries: []tape.Entry{message("x")}}); err != nil {
			t.Fatal(err)
		}
		if got := listed(t, s, tape.SessionQuery{}); !slices.Equal(got, []string{"late"}) {
			t.Errorf("the list was begun before: %v: %v", begun, got)
		}
	}
}

func TestManyListsAndWritersAtOnce(t *testing.T) {
	dir := t.TempDir()
	stores := []*Store{open(t, dir, Options{Sync: SyncNone}), open(t, dir, Options{Sync: SyncNone})}
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
	writer := open(b, dir, Options{Sync: SyncNone})
	tapetest.FillSessions(b, writer)
	_ = writer.Close()
	begin := func() (*Store, time.Duration) {
		s := open(b, dir, Options{Sync: SyncNone})
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

// DO-03: batches of the sessions of a moment before cost no line in the journal, and the other processes learn of them all the same.
func TestABatchOfASessionOfAMomentBeforeIsListedWithoutALineInTheJournal(t *testing.T) {
	dir := t.TempDir()
	writer, reader := open(t, dir, Options{}), open(t, dir, Options{})
	for i := range changesLast + 2 {
		create(t, writer, fmt.Sprint("s", i))
	}
	newest := func() (first string) {
		t.Helper()
		for in, err := range reader.Sessions(t.Context(), tape.SessionQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			return in.Session
		}
		return ""
	}
	newest() // from now on the reader follows the journal
	for i, size := range []int64{2, 9, 0, 2} {
		name := fmt.Sprint("s", size)
		before := writer.changes.size
		if _, err := writer.Append(t.Context(), name, tape.Batch{Entries: []tape.Entry{message("x")}}); err != nil {
			t.Fatal(err)
		}
		info, err := writer.Info(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := newest(); got != info.Session {
			t.Errorf("batch %d: the newest session is %q; expected %q", i, got, info.Session)
		}
		// s0 was not among the last names; with its line s2 is not among them either.
		if grown := writer.changes.size > before; grown != (i >= 2) {
			t.Errorf("batch %d of %s: the journal has grown: %v", i, name, grown)
		}
	}
}
