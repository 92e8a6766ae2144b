package channel_test

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/journaltest"
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
	journaltest.RunTexts(t, journaltest.Texts{Open: func(testing.TB) channel.Texts { return channel.NewTexts(0) }})
}

func TestTextsInDatabase(t *testing.T) { // CL-02, CH-90
	var databases sync.Map
	open := func(d *db.DB) channel.Texts {
		texts := d.Values(db.Windows, db.ValueOptions{Life: channel.WindowLife})
		databases.Store(texts, d)
		return texts
	}
	journaltest.RunTexts(t, journaltest.Texts{
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
