package before_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/before"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// The folders of testdata were written by the code of these commits.
var versions = []string{"8a17c0c", "d85e0e7"}

// copyOf returns a copy of a folder that an earlier version has written. Its answers are an hour old.
func copyOf(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "channels")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", version))); err != nil {
		t.Fatal(err)
	}
	answers, err := filepath.Glob(filepath.Join(dir, "state", "*", "results", "*"))
	if err != nil || len(answers) != 1 {
		t.Fatal(answers, err)
	}
	if err := os.Chtimes(answers[0], time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkKept looks for all that was taken in and does not expire.
func checkKept(t *testing.T, tables vfs.Dir) {
	t.Helper()
	e, err := file.Open(tables, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	texts := func(o channel.TextTable) channel.Texts {
		texts, err := channel.OpenTexts(t.Context(), e, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	pairs := channel.NewPairs(texts(channel.PairTable))
	for _, who := range [][3]string{{"telegram", "", "42"}, {"slack", "work", "U1/é"}} {
		if ok, err := pairs.Paired(t.Context(), who[0], who[1], who[2]); !ok || err != nil {
			t.Errorf("%q is paired: %v, %v", who, ok, err)
		}
	}
	if ok, err := pairs.Paired(t.Context(), "telegram", "", "43"); ok || err != nil {
		t.Errorf("who asks is paired: %v, %v", ok, err)
	}
	if all, err := pairs.List(t.Context()); err != nil || len(all) < 2 {
		t.Errorf("%v are listed, %v", all, err)
	}
	sessions := channel.NewSessions(texts(channel.SessionTable), nil)
	if r, ok, err := sessions.Last(t.Context(), "telegram:42"); !ok || err != nil || r.Reply.To != "42" {
		t.Errorf("the last route is %+v, %v, %v", r, ok, err)
	}
	if owner, err := sessions.Owner(t.Context(), "main"); owner != "42" || err != nil {
		t.Errorf("the main session is of %q, %v", owner, err)
	}
	learned := texts(channel.LearnedTable)
	for login, want := range map[string]string{"telegram": `{"-5":-1005}`, "slack@work": `[["C1","1.2"]]`, "feishu": ""} {
		if text, err := learned.Load(t.Context(), login); string(text) != want || err != nil {
			t.Errorf("%s has learned %q, %v", login, text, err)
		}
	}
}

// checkEvents looks for the events and replies that were taken in. Events that were settled are known for a day, which begins in the bubble when
// the testdata was written.
func checkEvents(t *testing.T, tables vfs.Dir, settled bool) {
	t.Helper()
	e, err := file.Open(tables, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	j, err := inbox.Open(t.Context(), e, inbox.Options{Shown: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var waiting []string
	for e, err := range j.Pending(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen, err := j.Seen(t.Context(), e.Key.String())
		if want := `{"raw":"` + e.Key.ID + `"}`; string(e.Raw) != want || err != nil || e.Key.Synthetic != (e.Key.ID == "made waits") || e.At.Year() != 2026 {
			t.Errorf("%+v has %q, %v, expected %q", e.Key, e.Raw, err, want)
		}
		waiting = append(waiting, fmt.Sprint(e.Key.ID, " ", e.Attempt, " ", seen))
	}
	want := []string{"waits 0 not_sent", "runs 1 not_sent", "released 1 not_sent", "made waits 0 not_sent", "sending 1 unknown", "sent 1 sent", "é/x y 0 not_sent"}
	if !slices.Equal(waiting, want) {
		t.Errorf("%q wait, expected %q", waiting, want)
	}
	states := map[string]channel.ClaimState{"erased": channel.ClaimNone}
	if settled {
		states["settled"], states["made"] = channel.ClaimSettled, channel.ClaimSettled
	}
	for id, want := range states {
		k := channel.EventKey{Channel: "telegram", Account: "work", Conversation: "-5", Thread: "7", ID: id}
		if state, err := j.Peek(t.Context(), k); state != want || err != nil {
			t.Errorf("%s is %q, %v, expected %q", id, state, err, want)
		}
	}
	o, err := outbox.Open(t.Context(), e, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var news []channel.BlockNews
	if err := o.Start(func(n channel.BlockNews) { news = append(news, n) }); err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, n := range news {
		out, err := o.Load(t.Context(), n.ID)
		if err != nil || out == nil || n.Event != out.Event || n.Target != channel.TargetName(out) || !n.Left || n.Alive {
			t.Fatalf("%+v is %+v, %v", n, out, err)
		}
		thread, _ := out.Block.Target.MessageThreadID.Get()
		blocks = append(blocks, fmt.Sprint(out.Block.Text, " ", out.Block.Target.To, " ", thread, " ", n.Attempt, " ", n.Sending))
	}
	want = []string{"the answer prepared -5 7 0 false", "the answer sending -5 7 1 true", "the answer unsent -5 7 1 false", "the answer last -5 7 0 false"}
	if !slices.Equal(blocks, want) {
		t.Errorf("%q are to be sent, expected %q", blocks, want)
	}
}

// check looks for all that was taken in, in a bubble: windows that are a day old are empty.
func check(t *testing.T, tables vfs.Dir) {
	t.Helper()
	checkKept(t, tables)
	checkEvents(t, tables, true)
	e, err := file.Open(tables, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	texts, err := channel.OpenTexts(t.Context(), e, channel.WindowTable, nil)
	if err != nil {
		t.Fatal(err)
	}
	var waiting []string
	window := channel.NewWindow(texts, channel.WindowOptions{})
	for _, e := range window.Snapshot(t.Context(), channel.WindowKey{Channel: "telegram", Conversation: "-5", Thread: "7"}, 0).Entries {
		waiting = append(waiting, e.Body)
	}
	if !slices.Equal(waiting, []string{"one", "two"}) {
		t.Errorf("%q wait", waiting)
	}
	results, err := webhook.OpenResults(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := results.Load(t.Context(), "hook@work/msg-1"); err != nil || !strings.Contains(string(text), `"hello"`) {
		t.Errorf("the answer is %q, %v", text, err)
	}
}

func TestFoldersOfEarlierVersionsAreTakenIn(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, tables := copyOf(t, version), vfs.InMemory()
				for range 2 { // the second start finds nothing
					if err := before.Channels(t.Context(), vfs.At(dir), tables, slog.New(slog.DiscardHandler)); err != nil {
						t.Fatal(err)
					}
					check(t, tables)
				}
				entries, err := os.ReadDir(dir)
				var names []string
				for _, e := range entries {
					names = append(names, e.Name())
				}
				if want := []string{"journal.before", "outbox.before", "pairs.before", "sessions.before", "state.before", "windows.before"}; err != nil || !slices.Equal(names, want) {
					t.Errorf("there are %q, %v, expected %q", names, err, want)
				}
				e, err := file.Open(tables, file.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				results, err := webhook.OpenResults(t.Context(), e)
				if err != nil {
					t.Fatal(err)
				}
				j, err := inbox.Open(t.Context(), e, inbox.Options{Shown: true})
				if err != nil {
					t.Fatal(err)
				}
				defer j.Close()
				want := channel.ShownText{}
				if version != versions[0] { // which kept none
					want = channel.ShownText{Session: "telegram@work:-5#7", Turn: "t-1", Text: "half an ans"}
				}
				if s, err := j.LastShown(t.Context(), "telegram/work/-5/7/sending"); s != want || err != nil {
					t.Errorf("people saw %+v, %v, expected %+v", s, err, want)
				}
				time.Sleep(23*time.Hour + 2*time.Second)
				if text, err := results.Load(t.Context(), "hook@work/msg-1"); text != nil || err != nil {
					t.Errorf("the answer is there after a day: %q, %v", text, err)
				}
			})
		})
	}
}

// Who goes back to an earlier version and comes again has two folders that were taken in. What is in the tables stays.
func TestAFolderIsTakenInOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, tables, log := copyOf(t, versions[0]), vfs.InMemory(), slog.New(slog.DiscardHandler)
		if err := before.Channels(t.Context(), vfs.At(dir), tables, log); err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(copyOf(t, versions[0]), "windows")
		files, _ := filepath.Glob(filepath.Join(again, "*"))
		if err := os.WriteFile(files[0], []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(again, filepath.Join(dir, "windows")); err != nil {
			t.Fatal(err)
		}
		if err := before.Channels(t.Context(), vfs.At(dir), tables, log); err != nil {
			t.Fatal(err)
		}
		check(t, tables)
		if _, err := os.Stat(filepath.Join(dir, "windows.before2")); err != nil {
			t.Error(err)
		}
	})
}

func TestNoFolderIsTakenInWhileAnEarlierVersionUsesIt(t *testing.T) {
	dir := copyOf(t, versions[1])
	root, err := vfs.At(dir).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	lock, err := root.Open("journal/lock", os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := before.Channels(t.Context(), vfs.At(dir), vfs.InMemory(), slog.New(slog.DiscardHandler)); !errors.Is(err, store.ErrInUse) {
		t.Errorf("got %v, expected %v", err, store.ErrInUse)
	}
	if _, err := os.Stat(filepath.Join(dir, "pairs")); err != nil {
		t.Error(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedPairDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, tables := copyOf(t, versions[1]), vfs.InMemory()
		requests, _ := filepath.Glob(filepath.Join(dir, "pairs", "request-*.json"))
		if len(requests) != 1 {
			t.Fatal(requests)
		}
		if err := os.WriteFile(requests[0], []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if err := before.Channels(t.Context(), vfs.At(dir), tables, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		check(t, tables)
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), filepath.Base(requests[0])) {
			t.Errorf("logged %s", &log)
		}
	})
}

// Whichever call of the tables to their disk fails: a folder is renamed only if all of it is there after a loss of power. If a start fails, the
// next one takes in the rest. What a disk has lost that failed to sync, no next start can know; it is in the folders that were renamed.
func TestEachCallToTheDiskMayFail(t *testing.T) {
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		dir, log := copyOf(t, versions[1]), slog.New(slog.NewTextHandler(io.Discard, nil))
		failed := before.Channels(t.Context(), vfs.At(dir), d.Dir, log)
		if failed != nil {
			d.Mend()
			if err := before.Channels(t.Context(), vfs.At(dir), d.Dir, log); err != nil {
				t.Fatal(err)
			}
		}
		d.Mend()
		if left, _ := filepath.Glob(filepath.Join(dir, "*.before")); len(left) != 6 {
			t.Errorf("%q were taken in", left)
		}
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open at the end: %q", open)
		}
		checkKept(t, d.Crash(failed == nil).Dir)
		checkEvents(t, d.Crash(failed == nil).Dir, false)
	})
}
