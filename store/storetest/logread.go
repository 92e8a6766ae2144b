package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

func testSnapshot(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		l := logs(t, place.Open(t), o)
		info := add(t, l, "k", store.Batch{Entries: entries("1", "2", "3")})
		for _, newest := range []bool{false, true} {
			var got []uint64
			last := info.Last
			for e, err := range l.Read(t.Context(), "k", store.Range{Newest: newest}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.N)
				info = add(t, l, "k", store.Batch{After: info.Rev, Entries: entries("more")})
			}
			if len(got) != int(last) || slices.Max(got) != last || slices.Min(got) != 1 {
				t.Errorf("%v of %d entries", got, last)
			}
		}
	})
}

func testMarks(t *testing.T, s Setup) {
	place := s.New(t)
	e := place.Open(t)
	o := store.LogOptions{Indexed: true}
	l := logs(t, e, o)
	var want []string
	for i := range 30 {
		batch := make([]store.Entry, 100)
		for n := range batch {
			batch[n] = store.Entry{Data: []byte(fmt.Sprint(i*100+n+1, strings.Repeat(" ", 500))), Mark: n == 17 && i%3 == 0 || n == 99 && i == 6}
			if batch[n].Mark {
				want = append(want, fmt.Sprint(i*100+n+1, "*:", string(batch[n].Data)))
			}
		}
		add(t, l, "k", store.Batch{After: store.Any, Entries: batch})
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	l = logs(t, place.Open(t), o)
	if info := infoOf(t, l, "k"); info.LastMark != 2718 || info.Last != 3000 || info.Entries != 3000 {
		t.Errorf("%+v", info)
	}
	wantRead(t, l, "k", store.Range{Marks: true}, want...)
	wantRead(t, l, "k", store.Range{Marks: true, From: 19, Limit: 2}, want[1:3]...)
	newest := slices.Clone(want)
	slices.Reverse(newest)
	wantRead(t, l, "k", store.Range{Marks: true, Newest: true}, newest...)
	wantRead(t, l, "k", store.Range{Marks: true, Newest: true, Before: 2718, Limit: 1}, newest[1])
	for _, from := range []uint64{1, 2, 99, 100, 101, 1234, 2718, 2999, 3000} {
		got := read(t, l, "k", store.Range{From: from, Limit: 3})
		back := read(t, l, "k", store.Range{Before: from + 1, Newest: true, Limit: 1})
		start := fmt.Sprint(from)
		if len(got) != int(min(3, 3001-from)) || !strings.HasPrefix(got[0], start) || !strings.HasPrefix(back[0], start) {
			t.Errorf("from %d: %q, and back %q", from, got, back)
		}
	}
}

func testLogSeen(t *testing.T, s Setup) {
	place := s.New(t)
	o := store.LogOptions{Indexed: true}
	ls := []store.Log{logs(t, place.Open(t), o), logs(t, place.Open(t), o)}
	rev := store.New
	for i := range 20 {
		writes, reads := ls[i%2], ls[(i+1)%2]
		if i == 0 {
			noLog(t, reads, "k")
		}
		data := fmt.Append(nil, i)
		info := add(t, writes, "k", store.Batch{After: rev, Head: data, Entries: []store.Entry{{Data: data, Mark: i%5 == 0}}})
		rev = info.Rev
		if got := infoOf(t, reads, "k"); !sameInfo(got, info) {
			t.Fatalf("%+v, want %+v", got, info)
		}
		if got := read(t, reads, "k", store.Range{Newest: true, Limit: 1}); len(got) != 1 || !strings.HasSuffix(got[0], fmt.Sprint(":", i)) {
			t.Fatalf("%q, want %d", got, i)
		}
	}
	if err := ls[0].Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	noLog(t, ls[1], "k")
	if _, err := tryAdd(t, ls[1], "k", store.Batch{After: rev}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("behind a deleted log: %v", err)
	}
}

func list(t testing.TB, l store.Log, o store.Listing) (infos []store.Info) {
	t.Helper()
	for info, err := range l.List(t.Context(), o) {
		if err != nil {
			t.Fatalf("list %+v: %v", o, err)
		}
		infos = append(infos, info)
	}
	return infos
}

func names(infos []store.Info) (names []string) {
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

func testList(t *testing.T, s Setup) {
	place := s.New(t)
	o := store.LogOptions{Indexed: true}
	e := place.Open(t)
	a, b := logs(t, e, o), logs(t, place.Open(t), o)
	if got := list(t, b, store.Listing{}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for i, name := range []string{"a", "b/1", "b/2", "b/2/x", "c"} {
		add(t, []store.Log{a, b}[i%2], name, store.Batch{Label: []string{"even", "odd", ""}[i%3], Entries: entries(name), Head: []byte(name)})
		<-time.After(2 * time.Millisecond)
	}
	add(t, b, "a", store.Batch{After: store.Any, Entries: entries("again")})
	check := func(l store.Log, o store.Listing, want ...string) {
		t.Helper()
		got := list(t, l, o)
		if !slices.Equal(names(got), want) {
			t.Errorf("list %+v: %q, want %q", o, names(got), want)
		}
		for _, info := range got {
			if want := infoOf(t, l, info.Name); !sameInfo(info, want) {
				t.Errorf("%+v, want %+v", info, want)
			}
		}
	}
	check(a, store.Listing{}, "a", "c")
	check(b, store.Listing{Prefix: "b/"}, "b/2", "b/1")
	check(a, store.Listing{Prefix: "b/2"}, "b/2")
	check(b, store.Listing{Prefix: "b/2/"}, "b/2/x")
	check(a, store.Listing{Label: "odd"}, "c")
	check(b, store.Listing{Label: "odd", Prefix: "b/"}, "b/1")
	check(a, store.Listing{Label: "od"})
	check(b, store.Listing{Limit: 1}, "a")
	check(b, store.Listing{Label: "even", Prefix: "a", Limit: 5}, "a")
	for _, l := range []store.Log{a, b} {
		for prefix, want := range map[string]int{"": 2, "b/": 2, "b/2": 1, "b/2/": 1, "x": 0} {
			if n, err := l.Count(t.Context(), prefix); n != want || err != nil {
				t.Errorf("%d logs below %q, %v, want %d", n, prefix, err, want)
			}
		}
	}
	// The writer says when the log was updated; the time may go back.
	old := time.Date(1999, 3, 1, 9, 0, 0, 123456000, time.UTC)
	if info := add(t, b, "a", store.Batch{After: store.Any, Updated: old}); !info.Updated.Equal(old) {
		t.Errorf("updated at %v, want %v", info.Updated, old)
	}
	check(a, store.Listing{}, "c", "a")
	check(a, store.Listing{After: store.Info{Name: "_", Updated: old}}, "a")
	check(a, store.Listing{After: store.Info{Name: "a", Updated: old}})
	if err := a.Delete(t.Context(), "b/2"); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []store.Log{b, logs(t, place.Open(t), o)} {
		check(l, store.Listing{}, "c", "a")
		check(l, store.Listing{Prefix: "b/"}, "b/1")
		check(l, store.Listing{Prefix: "b/2/"})
	}
}

// testPages lists in pages, while logs are written and another process goes on with the page.
func testPages(t *testing.T, s Setup) {
	place := s.New(t)
	o := store.LogOptions{Indexed: true}
	a, b := logs(t, place.Open(t), o), logs(t, place.Open(t), o)
	var want []string
	for i := range 50 {
		name := fmt.Sprintf("k/%02d", i)
		add(t, a, name, store.Batch{Label: fmt.Sprint(i % 2)})
		want = append(want, name)
	}
	whole := list(t, b, store.Listing{Prefix: "k/"})
	if !slices.IsSortedFunc(whole, CompareInfos) {
		t.Errorf("%q", names(whole))
	}
	for _, label := range []string{"", "1"} {
		var got []string
		after := store.Info{}
		for page := 0; ; page++ {
			cursor := store.Info{Name: after.Name, Updated: after.Updated}
			infos := list(t, []store.Log{a, b}[page%2], store.Listing{Prefix: "k/", Label: label, After: cursor, Limit: 7})
			if len(infos) == 0 {
				break
			}
			got = append(got, names(infos)...)
			after = infos[len(infos)-1]
			add(t, a, fmt.Sprint("new", label, page), store.Batch{})
		}
		wanted := slices.DeleteFunc(names(whole), func(name string) bool { return label != "" && !slices.Contains(want, name) })
		if label != "" {
			wanted = slices.DeleteFunc(wanted, func(name string) bool { return (name[3]-'0')%2 != 1 })
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("%q, want %q", got, wanted)
		}
	}
}
