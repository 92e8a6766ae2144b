package file_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/channel/journaltest"
)

func windows(t testing.TB, dir string, o channel.WindowOptions) *channel.Window {
	t.Helper()
	s, err := file.OpenWindows(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return channel.NewWindow(s, o)
}

func say(t testing.TB, w *channel.Window, thread, text string) {
	t.Helper()
	err := w.Record(t.Context(), channel.Recording{
		Key: place(thread), MessageID: text, Message: channel.MessageFacts{RawBody: text}, Sender: channel.SenderFacts{ID: "p"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func place(thread string) channel.WindowKey {
	return channel.WindowKey{Channel: "fake", Conversation: "../c", Thread: thread}
}

func heard(t testing.TB, w *channel.Window, thread string) (all []string) {
	t.Helper()
	for _, e := range w.Snapshot(t.Context(), place(thread), 0).Entries {
		all = append(all, e.Body)
	}
	return all
}

func TestAWindowOutlivesItsProcess(t *testing.T) { // CH-90, CH-96
	dir := t.TempDir()
	w := windows(t, dir, channel.WindowOptions{})
	say(t, w, "", "one")
	say(t, w, "", "two")
	say(t, w, "5", "three")
	old := w.Snapshot(t.Context(), place(""), 0)
	content(t, dir) // looks at the modes
	w = windows(t, dir, channel.WindowOptions{})
	if got := heard(t, w, ""); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q wait, expected [one two]", got)
	}
	say(t, w, "", "four")
	w.Consume(t.Context(), old)
	w = windows(t, dir, channel.WindowOptions{})
	if got := heard(t, w, ""); !slices.Equal(got, []string{"four"}) {
		t.Errorf("%q wait, expected [four]", got)
	}
	w.Forget(t.Context(), place(""))
	w.Forget(t.Context(), place("5"))
	if text := content(t, dir); len(text) > 0 {
		t.Errorf("%q is left on the disk of what was forgotten", text)
	}
}

func TestWindowsOnDiskAreBounded(t *testing.T) { // CH-90
	dir := t.TempDir()
	w := windows(t, dir, channel.WindowOptions{Keys: 10})
	for i := range 30 {
		say(t, w, fmt.Sprint(i), "x")
	}
	w = windows(t, dir, channel.WindowOptions{Keys: 10})
	for i := range 5 {
		say(t, w, fmt.Sprint("new", i), "x")
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 10 {
		t.Errorf("there are %d files, expected 10", len(names))
	}
	for thread, want := range map[string]int{"24": 0, "25": 1, "29": 1, "new0": 1} {
		if got := heard(t, w, thread); len(got) != want {
			t.Errorf("in the window %s wait %q, expected %d", thread, got, want)
		}
	}
}

func TestAWindowThatIsDamagedIsEmptyWithAWarning(t *testing.T) { // CH-98
	for name, text := range map[string]string{
		"empty": "", "torn": `{"version":1,"entries":[{"Seq":1,"Bo`, "of another version": `{"version":7,"entries":[]}`,
		"out of order": `{"version":1,"entries":[{"Seq":2},{"Seq":1}]}`, "rubbish": "\x00\xff", "huge": strings.Repeat("x", 2<<20),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			say(t, windows(t, dir, channel.WindowOptions{}), "", "canary")
			names, _ := filepath.Glob(filepath.Join(dir, "*.window"))
			if len(names) != 1 {
				t.Fatalf("the files are %q, expected one", names)
			}
			if err := os.WriteFile(names[0], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "x-1.new"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			w := windows(t, dir, channel.WindowOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if got := heard(t, w, ""); got != nil {
				t.Errorf("%q wait, expected nothing", got)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 || strings.Contains(log.String(), "canary") {
				t.Errorf("there are %d warnings, expected one:\n%s", n, log.String())
			}
			say(t, w, "", "again")
			if got := heard(t, windows(t, dir, channel.WindowOptions{}), ""); !slices.Equal(got, []string{"again"}) {
				t.Errorf("%q wait, expected [again]", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "x-1.new")); err == nil {
				t.Error("what a dead process was writing is still there")
			}
		})
	}
}

func TestAWindowIsNotWrittenThroughALink(t *testing.T) { // CH-76, CH-90
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	say(t, windows(t, dir, channel.WindowOptions{}), "", "one")
	names, _ := filepath.Glob(filepath.Join(dir, "*.window"))
	if err := os.WriteFile(outside, []byte(`{"version":1,"entries":[{"Seq":1,"Body":"secret"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, names[0]); err != nil {
		t.Skip(err)
	}
	w := windows(t, dir, channel.WindowOptions{})
	if got := heard(t, w, ""); got != nil {
		t.Errorf("%q is read through a link", got)
	}
	say(t, w, "", "two")
	if text, _ := os.ReadFile(outside); !bytes.Contains(text, []byte("secret")) {
		t.Errorf("a file outside was changed to %q", text)
	}
}

func BenchmarkRecord(b *testing.B) {
	w := windows(b, b.TempDir(), channel.WindowOptions{})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		say(b, w, "", fmt.Sprint(i, strings.Repeat("x", 100)))
		i++
	}
}

func TestTexts(t *testing.T) { // CH-90
	var folders sync.Map
	open := func(t testing.TB, dir string) channel.WindowStore {
		w, err := file.OpenWindows(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		folders.Store(w, dir)
		return w
	}
	journaltest.RunTexts(t, journaltest.Texts{
		Open: func(t testing.TB) channel.WindowStore { return open(t, t.TempDir()) },
		Again: func(t testing.TB, was channel.WindowStore) channel.WindowStore {
			dir, _ := folders.Load(was)
			return open(t, dir.(string))
		},
	})
}
