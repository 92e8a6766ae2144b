package channel_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest/file"
)

func openEngine(t testing.TB, dir vfs.Dir, o file.Options) store.Engine {
	t.Helper()
	e, err := file.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func openTexts(t testing.TB, e store.Engine, o channel.TextTable) channel.Texts {
	t.Helper()
	s, err := channel.OpenTexts(t.Context(), e, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTextsInMemory(t *testing.T) { // CH-90
	journaltest.RunTexts(t, journaltest.Texts{Open: func(testing.TB) channel.Texts { return channel.NewTexts(0) }})
}

func TestTextsInFiles(t *testing.T) { // CL-02, CH-90
	var folders sync.Map
	open := func(t testing.TB, dir vfs.Dir, beside bool) channel.Texts {
		s := openTexts(t, openEngine(t, dir, file.Options{Beside: beside}), channel.WindowTable)
		folders.Store(s, dir)
		return s
	}
	journaltest.RunTexts(t, journaltest.Texts{
		Open: func(t testing.TB) channel.Texts { return open(t, vfs.At(t.TempDir()), false) },
		Again: func(t testing.TB, was channel.Texts) channel.Texts {
			dir, _ := folders.Load(was)
			return open(t, dir.(vfs.Dir), true)
		},
	})
}

// CH-90, CH-96: the next process finds a window. CH-76, ST-24: what was consumed and forgotten is off the disk within a minute, and at the end.
func TestAWindowOutlivesItsProcess(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			run := func(do func(w *channel.Window)) {
				e, err := file.Open(vfs.At(dir), file.Options{})
				if err != nil {
					t.Fatal(err)
				}
				do(channel.NewWindow(openTexts(t, e, channel.WindowTable), channel.WindowOptions{}))
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var old *channel.Snapshot
			run(func(w *channel.Window) {
				keep(t, w, waits("1", "canary one"))
				keep(t, w, waits("2", "canary two"))
				old = w.Snapshot(t.Context(), room, 0)
			})
			run(func(w *channel.Window) {
				if got := look(t, w); !slices.Equal(got, []string{"canary one", "canary two"}) {
					t.Errorf("%q wait", got)
				}
				keep(t, w, waits("3", "canary three"))
				w.Consume(t.Context(), old)
			})
			run(func(w *channel.Window) {
				if got := look(t, w); !slices.Equal(got, []string{"canary three"}) {
					t.Errorf("%q wait, expected the one that came later", got)
				}
				w.Forget(t.Context(), room)
				if !closed {
					time.Sleep(time.Minute)
					lacks(t, dir, "canary")
				}
			})
			lacks(t, dir, "canary")
		})
	}
}

// lacks checks that no file of a folder has a text, and that all files are for the server's user alone.
func lacks(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.table"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		got, err := os.ReadFile(f)
		if err != nil || bytes.Contains(got, []byte(text)) {
			t.Errorf("%s has %q, %v", f, text, err)
		}
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", f, info.Mode(), err)
		}
	}
}

// CH-90: the windows that were changed longest ago go.
func TestTextsInATableAreBounded(t *testing.T) {
	o := channel.WindowTable
	o.MaxRecords = 10
	w := channel.NewWindow(openTexts(t, openEngine(t, vfs.InMemory(), file.Options{}), o), channel.WindowOptions{})
	at := func(i int) channel.WindowKey { return channel.WindowKey{Channel: "fake", Conversation: fmt.Sprint(i)} }
	for i := range 30 {
		r := waits("1", "x")
		r.Key = at(i)
		keep(t, w, r)
	}
	for i, want := range map[int]int{0: 0, 19: 0, 20: 1, 29: 1} {
		if got := w.Snapshot(t.Context(), at(i), 0).Entries; len(got) != want {
			t.Errorf("in the window %d wait %d messages, expected %d", i, len(got), want)
		}
	}
}
