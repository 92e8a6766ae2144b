package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
)

// answers are what a tape says to whatever depends on its index.
func answers(t *testing.T, s tape.Store, name string) []string {
	t.Helper()
	i := info(t, s, name)
	list := []string{fmt.Sprintf("%+v", i)}
	for _, q := range []tape.Query{
		{FromLast: true},
		{AfterAnchor: "one"},
		{FromAnchor: "two"},
		{AfterAnchor: "one", UntilAnchor: "two"},
		{After: i.LastID / 2},
		{Before: i.LastID / 2, Newest: true},
		{Kinds: []tape.Kind{tape.KindAnchor}},
	} {
		for e, err := range s.Read(t.Context(), name, q) {
			if err != nil {
				list = append(list, err.Error())
				continue
			}
			list = append(list, text(e))
		}
		list = append(list, "–")
	}
	return list
}

// anchored makes a tape with anchors between its entries, some of them within a batch.
func anchored(t testing.TB, s *Store, name string) {
	t.Helper()
	create(t, s, name)
	for i := range 5 {
		add(t, s, name, fmt.Sprint("a", i), fmt.Sprint("b", i))
		b := tape.Batch{Entries: []tape.Entry{
			message("x"), tape.NewAnchor("one", i), tape.NewAnchor("two", nil), tape.NewAnchor("other", nil), message("y"),
		}}
		if _, err := s.Append(t.Context(), name, b); err != nil {
			t.Fatal(err)
		}
	}
	add(t, s, name, "last")
}

// TA-60
func TestAnIndexThatDoesNotFitIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	anchored(t, s, "a")
	want := answers(t, s, "a")
	create(t, s, "b")
	add(t, s, "b", "1", "2", "3")
	path := filepath.Join(dir, "a.index")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(filepath.Join(dir, "b.index"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T) {
		t.Helper()
		again := open(t, dir, FolderOptions{Sync: SyncNone})
		if diff := cmp.Diff(want, answers(t, again, "a")); diff != "" {
			t.Error(diff)
		}
	}
	for _, end := range []string{indexEnd, sessionEnd} {
		t.Run("without"+end, func(t *testing.T) {
			if err := os.Remove(filepath.Join(dir, "a"+end)); err != nil {
				t.Fatal(err)
			}
			check(t)
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		})
		t.Run("rubbish for"+end, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "a"+end), []byte(strings.Repeat("rubbish", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
			check(t)
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		})
		t.Run("that of another tape for"+end, func(t *testing.T) {
			other, err := os.ReadFile(filepath.Join(dir, "b"+end))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "a"+end), other, 0o600); err != nil {
				t.Fatal(err)
			}
			check(t)
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	for n := 0; n <= len(good); n += 64 {
		t.Run(fmt.Sprint("cut at ", n), func(t *testing.T) {
			if err := os.WriteFile(path, good[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			check(t)
		})
		t.Run(fmt.Sprint("another one's bytes from ", n), func(t *testing.T) {
			mixed := slices.Clone(good)
			if n < len(foreign) {
				copy(mixed[n:], foreign[n:])
			}
			if err := os.WriteFile(path, mixed, 0o600); err != nil {
				t.Fatal(err)
			}
			check(t)
		})
	}
}

// TA-60, TA-22: whatever the moment in which a writer died, or how much of the tape the end of the machine took.
func TestAnIndexIsCompletedFromWhereItStops(t *testing.T) {
	longtest.Only(t, "many crashes")
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	create(t, s, "a")
	indexes := map[string][]byte{}
	keep := func(when string) {
		index, err := os.ReadFile(filepath.Join(dir, "a.index"))
		if err != nil {
			t.Fatal(err)
		}
		indexes[when] = index
	}
	for i := range 4 {
		keep(fmt.Sprint("before anchor ", i))
		b := tape.Batch{Entries: []tape.Entry{tape.NewAnchor("one", i), tape.NewAnchor("two", i)}}
		if _, err := s.Append(t.Context(), "a", b); err != nil {
			t.Fatal(err)
		}
		keep(fmt.Sprint("after anchor ", i))
		add(t, s, "a", "x", "y")
	}
	keep("the last")
	whole, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := os.ReadFile(filepath.Join(dir, "a.session"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= len(whole); n++ {
		if n < len(whole) && whole[n-1] != '\n' { // where lines end; elsewhere tapetest cuts
			continue
		}
		plain := t.TempDir()
		if err := os.WriteFile(filepath.Join(plain, "a.jsonl"), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		p := open(t, plain, FolderOptions{Sync: SyncNone})
		want := answers(t, p, "a")
		first := add(t, p, "a", "next")
		for when, index := range indexes {
			d := t.TempDir()
			for name, text := range map[string][]byte{"a.jsonl": whole[:n], "a.index": index, "a.session": session} {
				if err := os.WriteFile(filepath.Join(d, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			again := open(t, d, FolderOptions{Sync: SyncNone})
			if diff := cmp.Diff(want, answers(t, again, "a")); diff != "" {
				t.Fatalf("tape of %d bytes, index as it was %s: %s", n, when, diff)
			}
			if got := add(t, again, "a", "next"); got != first {
				t.Fatalf("tape of %d bytes, index as it was %s: the next id is %d, not %d", n, when, got, first)
			}
			third := open(t, d, FolderOptions{Sync: SyncNone})
			if diff := cmp.Diff(answers(t, again, "a"), answers(t, third, "a")); diff != "" {
				t.Fatalf("tape of %d bytes, index as it was %s, opened again: %s", n, when, diff)
			}
		}
	}
}

// TA-22: counted in bytes, which no machine changes.
func TestContextCostsWhatLiesBehindTheLastAnchor(t *testing.T) {
	read := map[int]int64{}
	for _, n := range []int{100, 10_000} {
		dir := t.TempDir()
		s, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
		long(t, s, "a", n)
		cost := func(what string, s *Store, d *testDisk, q tape.Query) {
			t.Helper()
			d.read.Store(0)
			if got := len(texts(t, s, "a", q)); got != 51 {
				t.Errorf("%s: %d entries", what, got)
			}
			if what == "cold" {
				read[n] = d.read.Load()
			} else if d.read.Load() > read[n]+blockSize {
				t.Errorf("%s, %d entries: %d bytes were read, cold %d", what, n, d.read.Load(), read[n])
			}
		}
		again, d2 := openTest(t, dir, FolderOptions{Sync: SyncNone})
		cost("cold", again, d2, tape.Query{FromLast: true})
		cost("warm", again, d2, tape.Query{FromLast: true})
		cost("by name", s, d, tape.Query{FromAnchor: "phase"})
		cost("newest first", s, d, tape.Query{Newest: true, Limit: 51})

		// A crash between the write of the tape and that of the index.
		index, err := os.ReadFile(filepath.Join(dir, "a.index"))
		if err != nil {
			t.Fatal(err)
		}
		var b tape.Batch
		b.Entries = append(b.Entries, tape.NewAnchor("late", nil))
		for range 50 {
			b.Entries = append(b.Entries, message("x"))
		}
		if _, err := s.Append(t.Context(), "a", b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.index"), index, 0o600); err != nil {
			t.Fatal(err)
		}
		crashed, d3 := openTest(t, dir, FolderOptions{Sync: SyncNone})
		cost("after a crash", crashed, d3, tape.Query{FromLast: true})
	}
	if read[10_000] > 2*read[100] {
		t.Errorf("a tape of 100 entries costs %d bytes, one of 10,000 %d", read[100], read[10_000])
	}
}

// TA-21, TA-22: an entry is found by its id wherever it lies, between lines of all lengths.
func TestEntriesAreFoundByID(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s, d := openTest(t, t.TempDir(), FolderOptions{Sync: SyncNone})
	b := tape.Batch{Create: true, KeepIDs: true}
	var ids []int64
	for id := int64(1); len(ids) < 1500; id += 1 + r.Int64N(3)*r.Int64N(2) {
		e := message(strings.Repeat("x", int(math.Exp(r.Float64()*11))))
		e.ID = id
		ids = append(ids, id)
		b.Entries = append(b.Entries, e)
	}
	if _, err := s.Append(t.Context(), "a", b); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		after := r.Int64N(ids[len(ids)-1] + 2)
		before := after + r.Int64N(6)
		var want []int64
		for _, id := range ids {
			if after < id && id < before {
				want = append(want, id)
			}
		}
		for _, newest := range []bool{false, true} {
			d.read.Store(0)
			var got []int64
			for e, err := range s.Read(t.Context(), "a", tape.Query{After: after, Before: max(1, before), Newest: newest}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.ID)
			}
			if newest {
				slices.Reverse(got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("between %d and %d, newest first %v: %s", after, before, newest, diff)
			}
			if n, all := d.read.Load(), info(t, s, "a").Bytes; n > all/4 {
				t.Fatalf("between %d and %d: %d of %d bytes were read", after, before, n, all)
			}
		}
	}
}

// TA-08
func TestListingReadsNoTape(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	for i := range 20 {
		anchored(t, s, fmt.Sprint("s", i))
	}
	again, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
	d.failOpen = map[string]error{tapeEnd: errors.New("a tape was opened")}
	n := 0
	for i, err := range again.Sessions(t.Context(), tape.SessionQuery{}) {
		if n++; err != nil || !cmp.Equal(i, info(t, s, i.Tape)) {
			t.Errorf("%+v, %v", i, err)
		}
	}
	if n != 20 {
		t.Errorf("%d sessions", n)
	}
	// It is derived: what is missing is made again.
	d.set(func() { d.failOpen = nil })
	for _, end := range []string{sessionEnd, indexEnd} {
		if err := os.Remove(filepath.Join(dir, "s3"+end)); err != nil {
			t.Fatal(err)
		}
		want := info(t, s, "s3")
		for i, err := range again.Sessions(t.Context(), tape.SessionQuery{}) {
			if err != nil || i.Tape == "s3" && !cmp.Equal(i, want) {
				t.Errorf("%+v, %v", i, err)
			}
		}
	}
}

// TA-62, TA-10: two stores on a folder are as two processes; their locks are of their own.
func TestStoresOnOneFolderTakeInWhatOthersAppend(t *testing.T) {
	dir := t.TempDir()
	stores := make([]*Store, 3)
	for i := range stores {
		stores[i] = open(t, dir, FolderOptions{Sync: SyncNone})
	}
	create(t, stores[0], "a")
	const each = 60
	var writers sync.WaitGroup
	for i, s := range stores {
		writers.Go(func() {
			for n := range each {
				b := tape.Batch{Entries: []tape.Entry{
					message(fmt.Sprint(i, "-", n)), tape.NewAnchor(fmt.Sprint("w", i), n), message(fmt.Sprint(i, "-", n)),
				}}
				if _, err := s.Append(t.Context(), "a", b); err != nil {
					t.Error(err)
				}
				if last := texts(t, s, "a", tape.Query{FromAnchor: fmt.Sprint("w", i)}); len(last) < 2 {
					t.Errorf("%q", last)
				}
			}
		})
	}
	writers.Wait()
	want := answers(t, stores[0], "a")
	if i := info(t, stores[0], "a"); i.LastID != 1+3*3*each || i.Entries != i.LastID || i.Anchors != 3*each {
		t.Errorf("%+v", i)
	}
	last := int64(0)
	for _, line := range texts(t, stores[1], "a", tape.Query{}) {
		var id int64
		if _, err := fmt.Sscan(line, &id); err != nil || id != last+1 {
			t.Fatalf("%q follows %d", line, last)
		}
		last = id
	}
	for _, s := range append(stores[1:], open(t, dir, FolderOptions{})) {
		if diff := cmp.Diff(want, answers(t, s, "a")); diff != "" {
			t.Error(diff)
		}
	}
	anchors := len(texts(t, stores[2], "a", tape.Query{Kinds: []tape.Kind{tape.KindAnchor}}))
	if anchors != 3*each {
		t.Errorf("%d anchors", anchors)
	}
}

// TA-62, TA-41
func TestAFileThatIsNoLongerAtItsPathIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, FolderOptions{Sync: SyncNone}), open(t, dir, FolderOptions{Sync: SyncNone})
	create(t, a, "x")
	add(t, b, "x", strings.Repeat("x", 2<<20), "third") // it has the file open
	blob, err := b.PutBlob(t.Context(), "x", []byte("large"))
	if err != nil {
		t.Fatal(err)
	}
	create(t, a, "x.1-fork")
	if err := os.WriteFile(filepath.Join(dir, "x.torn"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, a, "x1")
	next, stop := readPulled(b, t, "x")
	defer stop()
	if err := a.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if err := next(); !errors.Is(err, tape.ErrDeleted) {
		t.Errorf("the read that went on: %v", err)
	}
	if diff := cmp.Diff([]string{".changes", ".changes/1", ".changes/2", "x1.index", "x1.jsonl", "x1.session"}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
	for _, s := range []*Store{a, b} {
		if _, err := s.Append(t.Context(), "x", tape.Batch{Entries: []tape.Entry{message("late")}}); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("append: %v", err)
		}
		if _, err := s.PutBlob(t.Context(), "x", []byte("late")); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("blob: %v", err)
		}
		if _, _, err := s.ReadBlob(t.Context(), "x", blob, 0, 10); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("read blob: %v", err)
		}
		if err := s.Delete(t.Context(), "x"); err != nil {
			t.Errorf("delete again: %v", err)
		}
	}
	born := info(t, a, "x1").Created
	create(t, a, "x")
	if first := add(t, b, "x", "new"); first != 2 {
		t.Errorf("the id is %d", first)
	}
	if _, err := b.Append(t.Context(), "x", tape.Batch{Born: born, Entries: []tape.Entry{message("late")}}); !errors.Is(err, tape.ErrDeleted) {
		t.Errorf("of the one before: %v", err)
	}
	if diff := cmp.Diff([]string{"1 first", "2 new"}, texts(t, a, "x", tape.Query{})); diff != "" {
		t.Error(diff)
	}
	// Somebody puts another file there by hand.
	if err := os.Rename(filepath.Join(dir, "x1.jsonl"), filepath.Join(dir, "x.jsonl")); err != nil {
		t.Fatal(err)
	}
	if first := add(t, b, "x", "second"); first != 2 {
		t.Errorf("the id is %d", first)
	}
}

// readPulled begins a read; next asks for one more entry.
func readPulled(s *Store, t *testing.T, name string) (next func() error, stop func()) {
	t.Helper()
	pull, stop := iter.Pull2(s.Read(t.Context(), name, tape.Query{}))
	next = func() error {
		_, err, ok := pull()
		if !ok {
			return io.EOF
		}
		return err
	}
	if err := next(); err != nil {
		t.Fatal(err)
	}
	return next, stop
}

// What a crash left of an erasure is erased by the next one.
func TestOrphansAreErased(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.index", "a.session", "a.torn", "a.import", "a.1-x.index", "a.1-x.torn"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, FolderOptions{})
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if names := files(t, dir); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
}

// TA-03: order is that of ids.
func TestAClockThatGoesBackwardsChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	var want []string
	for i := range 100 {
		e := message(fmt.Sprint("m", i))
		e.Date = at.Add(-time.Duration(i) * time.Hour)
		if _, err := s.Append(t.Context(), "a", tape.Batch{Create: i == 0, Entries: []tape.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(i+1, " m", i))
	}
	again := open(t, dir, FolderOptions{})
	if diff := cmp.Diff(want, texts(t, again, "a", tape.Query{})); diff != "" {
		t.Error(diff)
	}
	got := texts(t, again, "a", tape.Query{From: at.Add(-3 * time.Hour), To: at.Add(-time.Hour)})
	if diff := cmp.Diff(want[1:4], got); diff != "" {
		t.Error(diff)
	}
}

// TA-22, TA-23: a million entries, ten thousand sessions.
func TestLargeStores(t *testing.T) {
	longtest.Only(t, "a million entries")
	if testing.Short() {
		t.Skip("takes long")
	}
	// What is counted is the same for a part of it; under the race detector the whole takes more than a minute.
	entries := 1_000_000
	if raced {
		entries /= 20
	}
	t.Run("many entries", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, FolderOptions{Sync: SyncNone})
		long(t, s, "a", entries)
		long(t, s, "b", 100)
		cold := func(name string) (time.Duration, int64) {
			best := time.Duration(math.MaxInt64)
			var read int64
			for range 20 {
				s, d := openTest(t, dir, FolderOptions{Sync: SyncNone})
				start := time.Now()
				if n := len(texts(t, s, name, tape.Query{FromLast: true})); n != 51 {
					t.Fatalf("%d entries", n)
				}
				best, read = min(best, time.Since(start)), d.read.Load()
				_ = s.Close()
			}
			return best, read
		}
		large, bytes := cold("a")
		small, fewBytes := cold("b")
		t.Logf("context opened cold: %v of %d entries, %v of a hundred", large, entries, small)
		if bytes > 2*fewBytes {
			t.Errorf("%d bytes are read, of the small tape %d", bytes, fewBytes)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		n := 0
		for _, err := range s.Read(t.Context(), "a", tape.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == entries*9/10 {
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); n != entries || grown > 4<<20 {
			t.Errorf("%d entries read with %d bytes", n, grown)
		}
		if err := os.Remove(filepath.Join(dir, "a.index")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		again := open(t, dir, FolderOptions{Sync: SyncNone})
		if i := info(t, again, "a"); i.Entries != int64(entries) || i.Anchors != 2 {
			t.Errorf("%+v", i)
		}
		t.Logf("the index was made again in %v", time.Since(start))
		if _, err := os.Stat(filepath.Join(dir, "a.index")); errors.Is(err, fs.ErrNotExist) {
			t.Log("it is written with the next append")
		}
	})
	t.Run("ten thousand sessions", func(t *testing.T) {
		s := open(t, t.TempDir(), FolderOptions{Sync: SyncNone})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		sessions := 10_000
		if raced {
			sessions /= 5
		}
		for i := range sessions {
			create(t, s, fmt.Sprint("s", i))
			add(t, s, fmt.Sprint("s", i), "x", "y")
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > int64(sessions)*2000 {
			t.Errorf("%d bytes", grown)
		}
		start := time.Now()
		n := 0
		for _, err := range s.Sessions(t.Context(), tape.SessionQuery{}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d sessions listed in %v", n, time.Since(start))
	})
}
