package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/store/db"
)

func openDatabase(t testing.TB, url string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestTextsInMemory(t *testing.T) { // CH-90
	runTexts(t, textStore{Open: func(testing.TB) channel.Texts { return channel.NewTexts(0) }})
}

func TestTextsInDatabase(t *testing.T) { // CL-02, CH-90
	var databases sync.Map
	open := func(d *db.DB) channel.Texts {
		texts := d.Values(db.Windows, db.ValueOptions{Life: channel.WindowLife})
		databases.Store(texts, d)
		return texts
	}
	runTexts(t, textStore{
		Open: func(t testing.TB) channel.Texts { return open(openDatabase(t, "memory")) },
		Again: func(_ testing.TB, was channel.Texts) channel.Texts {
			d, _ := databases.Load(was)
			return open(d.(*db.DB))
		},
	})
}

// CH-90, CH-96: the next process finds a window.
func TestAWindowOutlivesItsProcess(t *testing.T) {
	file := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	run := func(do func(w *channel.Window)) {
		d, err := db.Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		do(channel.NewWindow(d.Values(db.Windows, db.ValueOptions{}), channel.WindowOptions{}))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var old *channel.Snapshot
	run(func(w *channel.Window) {
		keep(t, w, waits("1", "one"))
		keep(t, w, waits("2", "two"))
		old = w.Snapshot(t.Context(), room, 0)
	})
	run(func(w *channel.Window) {
		if got := look(t, w); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("%q wait", got)
		}
		keep(t, w, waits("3", "three"))
		w.Consume(t.Context(), old)
	})
	run(func(w *channel.Window) {
		if got := look(t, w); !slices.Equal(got, []string{"three"}) {
			t.Errorf("%q wait, expected the one that came later", got)
		}
		w.Forget(t.Context(), room)
	})
	run(func(w *channel.Window) {
		if got := look(t, w); len(got) != 0 {
			t.Errorf("%q wait, expected none", got)
		}
	})
}

// textStore opens stores of texts. Again opens the same for another process; if it is nil, one process uses a store.
type textStore struct {
	Open  func(testing.TB) channel.Texts
	Again func(testing.TB, channel.Texts) channel.Texts
}

// runTexts runs what every store of texts has to show, and what one of several processes has to.
func runTexts(t *testing.T, s textStore) {
	if s.Again == nil {
		s.Again = func(_ testing.TB, was channel.Texts) channel.Texts { return was }
	}
	t.Run("CH-90: what is saved is loaded, also by the next process", func(t *testing.T) { texts(t, s) })
	t.Run("CH-90: the texts with a prefix are listed", func(t *testing.T) { all(t, s) })
	t.Run("CL-02: nothing is lost where two processes change one text", func(t *testing.T) { changes(t, s) })
	t.Run("CL-02: a window is the same in all processes", func(t *testing.T) { windows(t, s) })
	t.Run("CL-02: who is paired by one process is paired in all", func(t *testing.T) { pairs(t, s) })
	t.Run("CL-02, CH-23: sessions are known to all processes", func(t *testing.T) { sessions(t, s) })
}

func load(t testing.TB, s channel.Texts, name string, want []byte) {
	t.Helper()
	got, err := s.Load(t.Context(), name)
	if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		t.Errorf("%s is %q, %v, expected %q", name, got, err, want)
	}
}

// save replaces a text; nil removes it.
func save(t testing.TB, s channel.Texts, name string, text []byte) {
	t.Helper()
	do(t, s.Change(t.Context(), name, func([]byte) ([]byte, error) { return text, nil }))
}

func texts(t *testing.T, s textStore) {
	store := s.Open(t)
	const odd = "hook@../a b/\u00e9" // as the names of channels and accounts
	load(t, store, "a1", nil)
	for _, text := range []string{"one", "two \x00\xff\n", ""} {
		save(t, store, "a1", []byte(text))
		load(t, store, "a1", []byte(text))
	}
	save(t, store, "b2", []byte("other"))
	save(t, store, odd, []byte("odd"))
	store = s.Again(t, store)
	load(t, store, "a1", []byte{})
	load(t, store, "b2", []byte("other"))
	load(t, store, odd, []byte("odd"))
	for range 2 { // what is not there is removed, too
		save(t, store, "a1", nil)
		load(t, store, "a1", nil)
	}
	load(t, store, "b2", []byte("other"))
	store = s.Again(t, store)
	load(t, store, "a1", nil)
	save(t, store, "a1", []byte("again"))
	load(t, store, "a1", []byte("again"))
	if err := store.Change(t.Context(), "big", func([]byte) ([]byte, error) { return make([]byte, 600<<10), nil }); err == nil {
		t.Error("a text that is too large is saved")
	}
}

func all(t *testing.T, s textStore) {
	store := s.Open(t)
	for _, name := range []string{"a-1", "a-2", "a-3", "b-1"} {
		save(t, store, name, []byte("text "+name))
	}
	save(t, store, "a-3", nil)
	got, err := s.Again(t, store).All(t.Context(), "a-")
	if want := map[string][]byte{"a-1": []byte("text a-1"), "a-2": []byte("text a-2")}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the texts are %q, %v, expected %q", got, err, want)
	}
}

// both are two processes with one store.
func both(t *testing.T, s textStore) (a, b channel.Texts) {
	first := s.Open(t)
	return first, s.Again(t, first)
}

func changes(t *testing.T, s textStore) {
	a, b := both(t, s)
	const n = 20
	var wg sync.WaitGroup
	for _, store := range []channel.Texts{a, b} {
		wg.Go(func() {
			for range n {
				if err := store.Change(t.Context(), "count", func(text []byte) ([]byte, error) { return append(slices.Clone(text), 'x'), nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	load(t, a, "count", bytes.Repeat([]byte{'x'}, 2*n))
	no := errors.New("no")
	if err := b.Change(t.Context(), "count", func([]byte) ([]byte, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("got %v, expected %v", err, no)
	}
	do(t, b.Change(t.Context(), "count", func(text []byte) ([]byte, error) { return text, nil }))
	load(t, a, "count", bytes.Repeat([]byte{'x'}, 2*n))
	do(t, b.Change(t.Context(), "count", func([]byte) ([]byte, error) { return nil, nil }))
	load(t, a, "count", nil)
}

func windows(t *testing.T, s textStore) {
	first, second := both(t, s)
	a, b := channel.NewWindow(first, channel.WindowOptions{}), channel.NewWindow(second, channel.WindowOptions{})
	place := channel.WindowKey{Channel: "fake", Conversation: "../c"}
	say := func(w *channel.Window, text string) {
		err := w.Record(t.Context(), channel.Recording{
			Key: place, MessageID: text, Message: channel.MessageFacts{RawBody: text}, Sender: channel.SenderFacts{ID: "p"},
		})
		if err != nil {
			t.Error(err)
		}
	}
	heard := func(w *channel.Window, want ...string) {
		t.Helper()
		var got []string
		for _, e := range w.Snapshot(t.Context(), place, 0).Entries {
			got = append(got, e.Body)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q wait, expected %q", got, want)
		}
	}
	say(a, "one")
	say(b, "two")
	say(b, "one") // delivered again, to another process
	heard(a, "one", "two")
	seen := b.Snapshot(t.Context(), place, 0)
	say(a, "three")
	if !b.Edit(t.Context(), place, "three", "tree") || b.Edit(t.Context(), place, "never", "x") {
		t.Error("a message that another process has kept is edited, and no other")
	}
	b.Consume(t.Context(), seen)
	heard(a, "tree")
	a.Forget(t.Context(), place)
	heard(b)
	var wg sync.WaitGroup
	var want []string
	for i := range 40 {
		w := []*channel.Window{a, b}[i%2]
		want = append(want, fmt.Sprint("m", i))
		wg.Go(func() { say(w, fmt.Sprint("m", i)) })
	}
	wg.Wait()
	entries := a.Snapshot(t.Context(), place, 0).Entries
	var got []string
	for i, e := range entries {
		got = append(got, e.Body)
		if i > 0 && e.Seq <= entries[i-1].Seq {
			t.Errorf("entry %d has the number %d behind %d", i, e.Seq, entries[i-1].Seq)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q wait, expected %q", got, want)
	}
}

func pairs(t *testing.T, s textStore) {
	first, second := both(t, s)
	a, b := channel.NewPairs(first), channel.NewPairs(second)
	paired := func(p *channel.Pairs, want bool) {
		t.Helper()
		if is, err := p.Paired(t.Context(), "fake", "x", "ann"); err != nil || is != want {
			t.Errorf("paired is %v, %v, expected %v", is, err, want)
		}
	}
	var mu sync.Mutex
	told := map[string]int{}
	var wg sync.WaitGroup
	for _, p := range []*channel.Pairs{a, b, a, b} {
		wg.Go(func() {
			code, tell, err := p.Request(t.Context(), "fake", "x", channel.SenderFacts{ID: "ann", Name: "Ann"})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if told[code] += 0; tell {
				told[code]++
			}
		})
	}
	wg.Wait()
	if len(told) != 1 {
		t.Fatalf("there are %d codes, expected one: %v", len(told), told)
	}
	paired(b, false)
	for code, times := range told {
		if times != 1 {
			t.Errorf("the code is told %d times, expected once", times)
		}
		if _, err := b.Approve(t.Context(), "fake", code); err != nil {
			t.Error(err)
		}
	}
	paired(a, true)
	if all, err := a.List(t.Context()); err != nil || len(all) != 1 || all[0].Sender != "ann" {
		t.Errorf("the list is %v, %v", all, err)
	}
	if ok, err := a.Remove(t.Context(), "fake", "x", "ann"); err != nil || !ok {
		t.Error(ok, err)
	}
	paired(b, false)
}

func sessions(t *testing.T, s textStore) {
	first, second := both(t, s)
	a, b := channel.NewSessions(first, nil), channel.NewSessions(second, nil)
	row := func(sender string) channel.Row {
		return channel.Row{
			SessionKey: "s", Channel: "fake", Account: "x", Sender: sender, At: time.Unix(1, 0).UTC(),
			Route:        channel.RouteFacts{MainSessionKey: "main"},
			Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender},
			Reply:        channel.ReplyPlanFacts{To: sender},
		}
	}
	var wg sync.WaitGroup
	for i, s := range []*channel.Sessions{a, b, a, b} {
		wg.Go(func() {
			r := row(fmt.Sprint("p", i))
			if err := errors.Join(s.Record(t.Context(), r), s.LastRoute(t.Context(), r)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	one, err := a.Owner(t.Context(), "main")
	if other, err2 := b.Owner(t.Context(), "main"); one == "" || one != other || err != nil || err2 != nil {
		t.Errorf("the main session is of %q here and %q there, %v, %v", one, other, err, err2)
	}
	if places, err := b.Places(t.Context(), "s"); err != nil || len(places) != 4 {
		t.Errorf("%d places are known of 4, %v", len(places), err)
	}
	do(t, a.LastRoute(t.Context(), row("ann")))
	if r, ok, err := b.Last(t.Context(), "s"); err != nil || !ok || r.Reply.To != "ann" {
		t.Errorf("the last route is %q, %v, %v", r.Reply.To, ok, err)
	}
	do(t, b.Forget(t.Context(), "s"))
	if _, ok, err := a.Last(t.Context(), "s"); ok || err != nil {
		t.Errorf("a session that was forgotten is known: %v", err)
	}
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
