package channel_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

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

// processes returns a table of a database as two processes have it.
func processes(t *testing.T, table string) (first, second channel.Texts) {
	d := openDatabase(t, "memory")
	return d.Values(table, db.ValueOptions{}), d.Values(table, db.ValueOptions{})
}

// CL-02, CH-90: a window is the same in all processes.
func TestProcessesShareWindows(t *testing.T) {
	first, second := processes(t, db.Windows)
	a, b := channel.NewWindow(first, channel.WindowOptions{}), channel.NewWindow(second, channel.WindowOptions{})
	place := channel.WindowKey{Channel: "fake", Conversation: "../c"}
	say := func(w *channel.Window, text string) {
		err := w.Record(t.Context(), channel.Recording{
			HistoryHint: channel.HistoryHint{Key: place}, MessageID: text, Message: channel.MessageFacts{RawBody: text},
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
	b.Edit(t.Context(), place, "three", "tree")
	b.Edit(t.Context(), place, "never", "x")
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

// CL-02: a sender whom one process has paired is paired in all.
func TestProcessesSharePairs(t *testing.T) {
	first, second := processes(t, db.Pairs)
	a, b := channel.NewPairs(first), channel.NewPairs(second)
	paired := func(p *channel.Pairs, want bool) {
		t.Helper()
		if is, _, err := p.State(t.Context(), "fake", "x", "ann"); err != nil || is != want {
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

// CL-02, CH-23: sessions are known to all processes.
func TestProcessesShareSessions(t *testing.T) {
	first, second := processes(t, db.Conversations)
	a, b := channel.NewSessions(first), channel.NewSessions(second)
	row := func(sender string) channel.Row {
		return channel.Row{
			SessionKey: "s", Channel: "fake", Account: "x", Sender: sender,
			Route:        channel.RouteFacts{MainSessionKey: "main"},
			Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender},
			Reply:        channel.ReplyPlanFacts{To: sender},
		}
	}
	var wg sync.WaitGroup
	for i, s := range []*channel.Sessions{a, b, a, b} {
		wg.Go(func() {
			r := row(fmt.Sprint("p", i))
			if err := s.Record(t.Context(), r, true); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	one, _, err := a.Last(t.Context(), "main")
	if other, ok, err2 := b.Last(t.Context(), "main"); !ok || one.Sender != other.Sender || err != nil || err2 != nil {
		t.Errorf("the main session is of %q here and %q there, %v, %v", one.Sender, other.Sender, err, err2)
	}
	if places, err := b.Places(t.Context(), "s"); err != nil || len(places) != 1 {
		t.Errorf("%d places are known, expected that of the owner, %v", len(places), err)
	}
	r := row("ann")
	r.Route.MainSessionKey = ""
	do(t, a.Record(t.Context(), r, true))
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
