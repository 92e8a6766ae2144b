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
