package web

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// goingRun is a run that goes on, without anything that makes it do so.
func goingRun(l runlog.Log, i int) *run {
	id := fmt.Sprintf("run%023d", i)
	r := &run{id: id, of: subject{Workflow: "w"}, owner: "somebody", began: time.Now(), tube: tube.New(id, tubeOptions(64<<10)), done: make(chan struct{})}
	must(r.tube.Send(tube.Event{Kind: tube.Named, Name: "started", Value: []byte(`{"run":"` + id + `"}`)}))
	(&runs{journal: l}).keepGoing(r)
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (r *run) say(uri, text string) {
	must(r.tube.Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(text)}))
}

// finish ends a run as ended does.
func (r *run) finish() {
	if err := r.tube.Close(statusCompleted); err != nil {
		panic(err)
	}
	r.outcome = outcome{Status: statusCompleted, Repairs: map[string]map[string]int{"b": {"comma": 1}}}
	close(r.done)
	r.keepEnd()
}

func documentOf(t *tube.Tube) string {
	document, beside := t.Snapshot(true)
	return string(document) + string(beside)
}

// openLog opens a log of runs in a folder.
func openLog(t testing.TB, folder string) (*file.Log, []*runlog.Left) {
	t.Helper()
	root, err := vfs.At(folder).Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	l, left, err := file.Open(root, journalFolderName, file.Options{Tube: func() *tube.Options { return tubeOptions(64 << 10) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, left
}

// logFiles are the files of the log in a data folder.
func logFiles(folder string) []string {
	names, err := filepath.Glob(filepath.Join(folder, journalFolderName, "*"))
	if err != nil {
		panic(err)
	}
	return names
}

// FT-23: what a server knows of its runs beside their events is what the next one knows of them.
func TestWhatIsKnownOfRunsThatGoOnIsReadBack(t *testing.T) {
	folder := t.TempDir()
	l, _ := openLog(t, folder)
	going, ended := goingRun(l, 1), goingRun(l, 2)
	going.again = &again{ask: ask{Workflow: "w", Input: []byte(`"x"`)}, from: 0, attempt: 1, role: tool.Admin}
	going.reopen()
	for _, r := range []*run{going, ended} {
		r.say("a", "said")
	}
	ended.finish()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	_, list := openLog(t, folder)
	found := map[string]*replayed{}
	for _, left := range list {
		found[left.ID] = must(replayedFrom(left))
	}
	if len(found) != 2 {
		t.Fatalf("%d runs", len(found))
	}
	p := found[going.id]
	if p.Owner != "somebody" || p.Workflow != "w" || p.Attempt != 1 || p.Role != tool.Admin || p.Again == nil || string(p.Again.Input) != `"x"` || p.ended != nil {
		t.Errorf("%+v", p.opening)
	}
	r := p.run("cut off")
	if got := documentOf(r.tube); got != `{"a":"said"}{}` || r.outcome.Status != statusInterrupted || r.outcome.Errors[0].Message != "cut off" {
		t.Errorf("%s %+v", got, r.outcome)
	}
	r = found[ended.id].run("cut off")
	if got := documentOf(r.tube); got != `{"a":"said"}{}` || r.outcome.Status != statusCompleted || r.outcome.Repairs["b"]["comma"] != 1 {
		t.Errorf("%s %+v", got, r.outcome)
	}
}

// FT-23: a data folder that the version before has left is taken over: testdata/before is what it had when it was killed.
func TestTheFolderOfTheVersionBeforeIsRead(t *testing.T) {
	const again, plain, canceled = "hzpbvehiwizjadw2y6bbyz5imr", "g6hi2o5afzi27brnij23fospni", "6xkgzauidouylvgkeyiwqtna7u"
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("testdata/before")); err != nil {
		t.Fatal(err)
	}
	b := againBench(t, folder, tells("said now"), func(o *Options) {
		o.KeyRetention = 200 * 365 * 24 * time.Hour // or it is too old to be run again, some day
		w, err := flow.ParseSpec("plain.yaml", []byte("name: plain\nbots: {writer: {format: text, message: '{{ input.q }}', root: answer}}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		o.Workflows.Register(w)
	}).serve()
	<-b.runOf(again).done
	for id, want := range map[string]document{
		again:    {Status: statusCompleted, Result: []byte(`{"answer":"said now"}`)},
		plain:    {Status: statusInterrupted, Result: []byte(`{"answer":"said before"}`)},
		canceled: {Status: statusCanceled, Result: []byte(`{"answer":"said before"}`)},
	} {
		if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != want.Status || string(d.Result) != string(want.Result) {
			t.Errorf("%s: %s %s", id, d.Status, d.Result)
		}
	}
	after := b.crashed()
	b.down()
	b = againBench(t, after, tells("not again"), nil).serve()
	for _, id := range []string{again, plain, canceled} {
		if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status == statusRunning {
			t.Errorf("%s goes on", id)
		}
	}
	if n := b.model.calls.Load(); n != 0 {
		t.Errorf("%d runs were run once more", n)
	}
}

// A run whose record is not one of ours is no run, and harms no other.
func TestWhatCannotBeReadOfALogIsLeftOut(t *testing.T) {
	folder := t.TempDir()
	l, _ := openLog(t, folder)
	goingRun(l, 1).say("a", "said")
	for i, opening := range []string{"", "{}", `{"run":"other"}`, `{"run":7}`} {
		id := fmt.Sprint("odd", i)
		l.Keep(runlog.Run{ID: id, Opening: []byte(opening), Tube: tube.New(id, tubeOptions(0))})
	}
	l.Keep(runlog.Run{ID: "a/b", Opening: []byte(`{"run":"a/b"}`), Tube: tube.New("a/b", tubeOptions(0))})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *Options) { o.Data = folder }).serve()
	b.s.runs.mu.Lock()
	if got := slices.Collect(maps.Keys(b.s.runs.onDisk)); len(got) != 1 {
		t.Errorf("%q", got)
	}
	b.s.runs.mu.Unlock()
	eventually(t, "all is forgotten", func() bool { return len(logFiles(folder)) == 0 })
}

func FuzzOpening(f *testing.F) {
	r := goingRun(nil, 1)
	r.again = &again{ask: ask{Workflow: "w", Input: []byte(`"x"`)}, attempt: 1, role: tool.Admin}
	f.Add(r.opening(), []byte(nil), false)
	r.outcome = outcome{Status: statusCompleted, Repairs: map[string]map[string]int{"b": {"comma": 1}}}
	f.Add(r.opening(), mustJSON(headerOf(r)), true)
	f.Fuzz(func(t *testing.T, opening, head []byte, ended bool) {
		left := &runlog.Left{ID: r.id, Opening: opening, Tube: tube.New(r.id, tubeOptions(0))}
		if ended {
			left.Head = append([]byte{}, head...)
			if err := left.Tube.Close(statusCompleted); err != nil {
				t.Fatal(err)
			}
		}
		p, err := replayedFrom(left)
		if err != nil {
			return
		}
		r := p.run("cut off")
		if !r.ended() || !wellFormed(r.id) {
			t.Fatalf("%+v", r)
		}
		r.document(true)
	})
}

// laneOf is the lane of a session of the one user of a server.
func laneOf(session string) string { return webchannel.SessionKey("", session) }
