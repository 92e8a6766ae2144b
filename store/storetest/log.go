package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Damager is a [Place] that can damage an entry, so that it cannot be read.
type Damager interface {
	// DamageEntry damages the entry with the number n of a log. All engines are closed.
	DamageEntry(t testing.TB, space, name string, n uint64)
}

// Logs tests the logs of an engine. The engines of its places are a [store.LogEngine].
func Logs(t *testing.T, s Setup) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Setup)
	}{
		{"a log is read as it was appended", testLog},
		{"ST-01 names and sizes are checked", testLogNames},
		{"ST-02 numbers rise", testNumbers},
		{"ST-03 a batch is seen whole", testWhole},
		{"ST-03 large entries and batches", testLarge},
		{"ST-04 one of all writers with one revision wins", testLogOneWins},
		{"ST-04 a batch without entries fences", testFence},
		{"ST-05 a batch that is sent again is written once", testLogAgain},
		{"ST-06 a failed append leaves the log as it was", testFailed},
		{"ST-08 a read sees the log as it was", testSnapshot},
		{"ST-09 marks and numbers are found", testMarks},
		{"ST-10 ST-11 what one process was told, another sees", testLogSeen},
		{"ST-14 lists have every log", testList},
		{"ST-14 lists in pages", testPages},
		{"ST-15 a damaged entry is passed over", testDamaged},
		{"ST-16 deleting ends readers", testDelete},
		{"ST-17 trimming", testTrim},
		{"ST-18 nothing goes too early", testKeep},
		{"a space is full", testFullSpace},
		{"a call whose context has ended does nothing to a log", testLogEnded},
		{"ST-27 a closed engine refuses logs", testLogClosed},
		{"ST-28 a second process reads and appends", testBeside},
	} {
		if s.NoTrim && strings.HasPrefix(test.name, "ST-17") {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if s.Bubble {
				synctest.Test(t, func(t *testing.T) { test.run(t, s) })
				return
			}
			test.run(t, s)
		})
	}
	t.Run("logs are like the model", func(t *testing.T) {
		t.Parallel()
		testLogModel(t, s)
	})
}

func logs(t testing.TB, e store.Engine, o store.LogOptions) store.Log {
	t.Helper()
	if o.Space == "" {
		o.Space = "logs"
	}
	engine, ok := e.(store.LogEngine)
	if !ok {
		t.Fatalf("%T is no store.LogEngine", e)
	}
	l, err := engine.Log(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func entries(data ...string) (entries []store.Entry) {
	for _, d := range data {
		entries = append(entries, store.Entry{Data: []byte(d)})
	}
	return entries
}

func add(t testing.TB, l store.Log, name string, b store.Batch) store.Info {
	t.Helper()
	info, err := tryAdd(t, l, name, b)
	if err != nil {
		t.Fatalf("append to %s after %q: %v", name, b.After, err)
	}
	return info
}

func tryAdd(t testing.TB, l store.Log, name string, b store.Batch) (store.Info, error) {
	if b.ID == [16]byte{} {
		b.ID = NewID()
	}
	return l.Append(t.Context(), name, b)
}

func infoOf(t testing.TB, l store.Log, name string) store.Info {
	t.Helper()
	info, err := l.Info(t.Context(), name)
	if err != nil {
		t.Fatalf("info of %s: %v", name, err)
	}
	return info
}

func sameInfo(a, b store.Info) bool {
	return a.Name == b.Name && a.Label == b.Label && a.Rev == b.Rev && a.First == b.First && a.Last == b.Last && a.LastMark == b.LastMark &&
		a.Entries == b.Entries && a.Bytes == b.Bytes && bytes.Equal(a.Head, b.Head) && a.Created.Equal(b.Created) && a.Updated.Equal(b.Updated)
}

// show is what a test compares: the number, a star for a mark, and the data.
func show(e store.Entry) string {
	star := ""
	if e.Mark {
		star = "*"
	}
	return fmt.Sprint(e.N, star, ":", string(e.Data))
}

func read(t testing.TB, l store.Log, name string, r store.Range) []string {
	t.Helper()
	got, err := tryRead(t.Context(), l, name, r)
	if err != nil {
		t.Fatalf("read %+v of %s: %v", r, name, err)
	}
	return got
}

func tryRead(ctx context.Context, l store.Log, name string, r store.Range) (got []string, err error) {
	for e, err := range l.Read(ctx, name, r) {
		if err != nil {
			return got, err
		}
		got = append(got, show(e))
	}
	return got, nil
}

func wantRead(t testing.TB, l store.Log, name string, r store.Range, want ...string) {
	t.Helper()
	if got := read(t, l, name, r); !slices.Equal(got, want) {
		t.Errorf("read %+v of %s: %q, want %q", r, name, got, want)
	}
}

func noLog(t testing.TB, l store.Log, name string) {
	t.Helper()
	if info, err := l.Info(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("info of %s: %+v, %v, want %v", name, info, err, store.ErrNotFound)
	}
	if got, err := tryRead(t.Context(), l, name, store.Range{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("read %s: %q, %v, want %v", name, got, err, store.ErrNotFound)
	}
}

// eventually waits until something that an engine does soon is done.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Hour); !done(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// both runs a test in an Indexed space and in one that is not.
func both(t *testing.T, s Setup, test func(t *testing.T, place Place, o store.LogOptions)) {
	for _, o := range []store.LogOptions{
		{Space: "indexed", Indexed: true}, {Space: "plain"}, {Space: "synced", Indexed: true, Durability: store.Synced},
	} {
		test(t, s.New(t), o)
	}
}

func testLog(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		l := logs(t, place.Open(t), o)
		noLog(t, l, "a")
		begun := time.Now().Add(-time.Minute)
		made := add(t, l, "a", store.Batch{Label: "label", Head: []byte("head")})
		if made.Name != "a" || made.Label != "label" || made.Rev == store.New || made.Rev == store.Any || made.First != 0 || made.Last != 0 ||
			made.Entries != 0 || string(made.Head) != "head" || made.Created.Before(begun) || made.Updated.Before(made.Created) {
			t.Errorf("%+v", made)
		}
		if got := infoOf(t, l, "a"); !sameInfo(got, made) {
			t.Errorf("%+v, want %+v", got, made)
		}
		wantRead(t, l, "a", store.Range{})
		first := add(t, l, "a", store.Batch{After: made.Rev, Entries: entries("one", "", "three")})
		if first.Rev == made.Rev || first.First != 1 || first.Last != 3 || first.Entries != 3 || first.Bytes != 8 ||
			string(first.Head) != "head" || first.Label != "label" || first.LastMark != 0 ||
			!first.Created.Equal(made.Created) || first.Updated.Before(made.Updated) {
			t.Errorf("%+v", first)
		}
		binary := string([]byte{0, 0xff, '\n', '\r', '"', 0xf1, 0})
		second := add(t, l, "a", store.Batch{
			After: first.Rev, Head: []byte{}, Entries: []store.Entry{{Data: []byte(binary), Mark: true}, {Data: []byte("five")}},
		})
		if second.Last != 5 || second.LastMark != 4 || len(second.Head) != 0 || second.Entries != 5 || second.Bytes != 8+7+4 {
			t.Errorf("%+v", second)
		}
		if got := infoOf(t, l, "a"); !sameInfo(got, second) {
			t.Errorf("%+v, want %+v", got, second)
		}
		add(t, l, "b", store.Batch{After: store.Any, Entries: entries("other")})
		all := []string{"1:one", "2:", "3:three", "4*:" + binary, "5:five"}
		wantRead(t, l, "a", store.Range{}, all...)
		wantRead(t, l, "a", store.Range{From: 2, Before: 4}, all[1:3]...)
		wantRead(t, l, "a", store.Range{From: 6})
		wantRead(t, l, "a", store.Range{From: 5, Before: 5})
		wantRead(t, l, "a", store.Range{From: 1, Before: 100, Limit: 2}, all[:2]...)
		wantRead(t, l, "a", store.Range{Newest: true, Limit: 2}, all[4], all[3])
		wantRead(t, l, "a", store.Range{From: 2, Before: 4, Newest: true}, all[2], all[1])
		wantRead(t, l, "a", store.Range{Marks: true}, all[3])
		wantRead(t, l, "a", store.Range{Marks: true, Before: 4})
		wantRead(t, l, "b", store.Range{}, "1:other")
		if err := l.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func testLogNames(t *testing.T, s Setup) {
	l := logs(t, s.New(t).Open(t), store.LogOptions{Indexed: true})
	long := strings.Repeat("~", 128)
	valid := []string{"a", "A/b/0/~-_.", strings.Repeat("x", 128), "a..b"}
	valid = append(valid, strings.Join([]string{long, long, long, long}, "/"), "A", "a/index", "a.index")
	for _, name := range valid {
		add(t, l, name, store.Batch{Entries: entries(name)})
	}
	for _, name := range valid {
		wantRead(t, l, name, store.Range{}, "1:"+name)
	}
	for prefix, want := range map[string]int{"": 5, "a/": 1, "A/b/0/": 1, "A/b/": 0} {
		if n, err := l.Count(t.Context(), prefix); n != want || err != nil {
			t.Errorf("%d logs below %q, %v, want %d", n, prefix, err, want)
		}
	}
	for _, name := range []string{
		"", "/", "a/", "/a", "a//b", ".a", "a/.b", "a/b/c/d/e", strings.Repeat("x", 129), "a b", "é", "a*", "a>", "a\x00",
	} {
		_, err := tryAdd(t, l, name, store.Batch{})
		_, infoErr := l.Info(t.Context(), name)
		_, readErr := tryRead(t.Context(), l, name, store.Range{})
		for _, err := range []error{err, infoErr, readErr, l.Trim(t.Context(), name, 1), l.Delete(t.Context(), name)} {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	for _, b := range []store.Batch{
		{Head: make([]byte, store.MaxHead+1)},
		{Label: strings.Repeat("x", store.MaxLabel+1)},
		{Entries: []store.Entry{{Data: make([]byte, store.MaxEntry+1)}}},
	} {
		if _, err := tryAdd(t, l, "k", b); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%v", err)
		}
	}
	_, labelErr := tryAdd(t, l, "k", store.Batch{After: store.Any, Label: "x"})
	_, idErr := l.Append(t.Context(), "k", store.Batch{})
	_, orderErr := tryAdd(t, l, "k", store.Batch{Entries: []store.Entry{{N: 7}, {N: 7}}})
	_, nextErr := tryAdd(t, l, "k", store.Batch{Entries: []store.Entry{{N: 7}, {}, {N: 8}}})
	for _, err := range []error{labelErr, idErr, orderErr, nextErr} {
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
	noLog(t, l, "k")
	add(t, l, "k", store.Batch{Head: make([]byte, store.MaxHead), Label: strings.Repeat("é", store.MaxLabel/2)})
	if got := infoOf(t, l, "k"); len(got.Head) != store.MaxHead || len(got.Label) != store.MaxLabel {
		t.Errorf("%+v", got)
	}
}

func testNumbers(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		l := logs(t, place.Open(t), o)
		add(t, l, "a", store.Batch{Entries: []store.Entry{{Data: []byte("a")}, {N: 10, Data: []byte("b")}, {Data: []byte("c")}}})
		info := add(t, l, "a", store.Batch{After: store.Any, Entries: entries("d")})
		if info.First != 1 || info.Last != 12 || info.Entries != 4 {
			t.Errorf("%+v", info)
		}
		for _, n := range []uint64{1, 11, 12} {
			if _, err := tryAdd(t, l, "a", store.Batch{After: info.Rev, Entries: []store.Entry{{N: n}}}); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("number %d behind 12: %v", n, err)
			}
		}
		add(t, l, "a", store.Batch{After: info.Rev, Entries: []store.Entry{{N: 13, Data: []byte("e")}, {N: 20, Data: []byte("f")}}})
		wantRead(t, l, "a", store.Range{}, "1:a", "10:b", "11:c", "12:d", "13:e", "20:f")
		wantRead(t, l, "a", store.Range{From: 2, Limit: 1}, "10:b")
		wantRead(t, l, "a", store.Range{From: 14}, "20:f")
		wantRead(t, l, "a", store.Range{Before: 20, Newest: true, Limit: 1}, "13:e")
		start := add(t, l, "late", store.Batch{Entries: []store.Entry{{N: 5, Data: []byte("x")}}})
		if start.First != 5 || start.Last != 5 {
			t.Errorf("%+v", start)
		}
	})
}

// testWhole reads while batches of one, two and up to 9 entries are written: what is read ends with a whole one.
func testWhole(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := logs(t, place.Open(t), store.LogOptions{Indexed: true}), logs(t, place.Open(t), store.LogOptions{Indexed: true})
	add(t, a, "k", store.Batch{Entries: entries("1/1")})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, l := range []store.Log{a, b} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				got, err := tryRead(t.Context(), l, "k", store.Range{})
				if err != nil || len(got) == 0 {
					t.Errorf("%q, %v", got, err)
					return
				}
				var n, of int
				last := got[len(got)-1]
				if _, err := fmt.Sscanf(last[strings.IndexByte(last, ':')+1:], "%d/%d", &n, &of); err != nil || n != of {
					t.Errorf("it ends with %s", last)
				}
			}
		})
	}
	for i := range 40 {
		size := i%9 + 1
		var batch []store.Entry
		for n := range size {
			batch = append(batch, store.Entry{Data: fmt.Append(nil, n+1, "/", size)})
		}
		add(t, []store.Log{a, b}[i%2], "k", store.Batch{After: store.Any, Entries: batch})
	}
	close(stop)
	readers.Wait()
}

func testLarge(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := logs(t, place.Open(t), store.LogOptions{Indexed: true}), logs(t, place.Open(t), store.LogOptions{Indexed: true})
	large := bytes.Repeat([]byte("0123456789abcdef"), store.MaxEntry/16)
	info := add(t, a, "k", store.Batch{Entries: []store.Entry{{Data: []byte("small")}, {Data: large, Mark: true}, {Data: []byte("end")}}})
	many := make([]store.Entry, 3000)
	for i := range many {
		many[i].Data = bytes.Repeat([]byte{byte(i)}, 700)
	}
	info = add(t, a, "k", store.Batch{After: info.Rev, Entries: many})
	if info.Last != 3003 || info.Bytes != int64(len(large)+8+3000*700) {
		t.Errorf("%+v", info)
	}
	for _, l := range []store.Log{a, b} {
		n := 0
		for e, err := range l.Read(t.Context(), "k", store.Range{From: 2}) {
			switch want := uint64(n + 2); {
			case err != nil || e.N != want, want == 2 && !bytes.Equal(e.Data, large), want > 3 && !bytes.Equal(e.Data, many[want-4].Data):
				t.Fatalf("entry %d of %d bytes, %v", e.N, len(e.Data), err)
			}
			n++
		}
		if n != 3002 {
			t.Errorf("%d entries", n)
		}
		wantRead(t, l, "k", store.Range{Before: 2, Newest: true}, "1:small")
	}
}

func testLogOneWins(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := logs(t, place.Open(t), store.LogOptions{Indexed: true}), logs(t, place.Open(t), store.LogOptions{Indexed: true})
	rev := store.New
	for round := range 4 {
		var won, moved atomic.Int64
		var next atomic.Value
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				info, err := tryAdd(t, []store.Log{a, b}[i%2], "k", store.Batch{After: rev, Entries: entries("x", "y")})
				var m *store.MovedLog
				switch {
				case err == nil:
					won.Add(1)
					next.Store(info.Rev)
				case errors.As(err, &m) && m.Name == "k" && m.Rev != rev && m.Last == uint64(2*round+2):
					moved.Add(1)
				default:
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		wait.Wait()
		if won.Load() != 1 || moved.Load() != 7 {
			t.Fatalf("round %d: %d have won, %d have moved", round, won.Load(), moved.Load())
		}
		rev = next.Load().(store.Rev)
	}
	if info := infoOf(t, b, "k"); info.Rev != rev || info.Last != 8 {
		t.Errorf("%+v", info)
	}
	var m *store.MovedLog
	if _, err := tryAdd(t, a, "other", store.Batch{After: rev}); !errors.As(err, &m) || m.Rev != store.New || m.Name != "other" {
		t.Errorf("a revision of another log: %v", err)
	}
	noLog(t, a, "other")
}

func testFence(t *testing.T, s Setup) {
	place := s.New(t)
	a, b := logs(t, place.Open(t), store.LogOptions{Indexed: true}), logs(t, place.Open(t), store.LogOptions{Indexed: true})
	old := add(t, a, "k", store.Batch{Entries: entries("1")})
	next := add(t, b, "k", store.Batch{After: old.Rev})
	if next.Rev == old.Rev || next.Last != 1 || next.Entries != 1 {
		t.Errorf("%+v", next)
	}
	if _, err := tryAdd(t, a, "k", store.Batch{After: old.Rev, Entries: entries("late")}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the old holder: %v", err)
	}
	add(t, b, "k", store.Batch{After: next.Rev, Head: []byte("h"), Entries: entries("2")})
	wantRead(t, a, "k", store.Range{}, "1:1", "2:2")
}

func testLogAgain(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		e := place.Open(t)
		l := logs(t, e, o)
		first := store.Batch{ID: NewID(), Label: "l", Entries: entries("1")}
		one := add(t, l, "k", first)
		if again := add(t, l, "k", first); !sameInfo(again, one) {
			t.Errorf("%+v, want %+v", again, one)
		}
		if _, err := tryAdd(t, l, "k", store.Batch{Entries: entries("1")}); !errors.Is(err, store.ErrMoved) {
			t.Errorf("another ID: %v", err)
		}
		if _, err := l.Append(t.Context(), "k", store.Batch{ID: first.ID, After: "x", Entries: entries("1")}); !errors.Is(err, store.ErrMoved) {
			t.Errorf("another revision: %v", err)
		}
		second := store.Batch{ID: NewID(), After: one.Rev, Entries: entries("2", "3"), Head: []byte("h")}
		two := add(t, l, "k", second)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		l = logs(t, place.Open(t), o)
		if again := add(t, l, "k", second); !sameInfo(again, two) {
			t.Errorf("%+v, want %+v", again, two)
		}
		// Of a batch that is not the last an engine may know the ID, or not.
		if again, err := l.Append(t.Context(), "k", first); err == nil && again.Rev != one.Rev || err != nil && !errors.Is(err, store.ErrMoved) {
			t.Errorf("%+v, %v", again, err)
		}
		wantRead(t, l, "k", store.Range{}, "1:1", "2:2", "3:3")
	})
}

func testFailed(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		l := logs(t, place.Open(t), o)
		was := add(t, l, "k", store.Batch{Entries: entries("1"), Head: []byte("h")})
		for _, b := range []store.Batch{
			{After: "x", Entries: entries("no")},
			{Entries: entries("no")},
			{After: was.Rev, Entries: []store.Entry{{Data: []byte("no")}, {Data: make([]byte, store.MaxEntry+1)}}},
			{After: was.Rev, Entries: []store.Entry{{N: 5}, {N: 4}}, Head: []byte("no")},
			{After: was.Rev, Entries: []store.Entry{{N: 1}}, Head: []byte("no")},
		} {
			if _, err := tryAdd(t, l, "k", b); err == nil {
				t.Errorf("%d entries after %q were taken", len(b.Entries), b.After)
			}
			if got := infoOf(t, l, "k"); !sameInfo(got, was) {
				t.Errorf("%+v, want %+v", got, was)
			}
		}
		add(t, l, "k", store.Batch{After: was.Rev, Entries: entries("2")})
		wantRead(t, l, "k", store.Range{}, "1:1", "2:2")
	})
}
