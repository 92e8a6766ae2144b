package run

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// goingRun is a run that goes on, without anything that makes it do so.
func goingRun(l runlog.Log, i int) *Run {
	id := fmt.Sprintf("run%023d", i)
	r := &Run{ID: id, Of: Subject{Workflow: "w"}, owner: "somebody", Began: time.Now(), tube: tube.New(id, TubeOptions(64<<10)), done: make(chan struct{})}
	must(r.tube.Send(tube.Event{Kind: tube.Named, Name: "started", Value: []byte(`{"run":"` + id + `"}`)}))
	(&Service{shared: &Shared{Runs: localLog{l}}}).keepInLog(r)
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (r *Run) say(uri, text string) {
	must(r.tube.Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(text)}))
}

// finish ends a run as ended does.
func (r *Run) finish() {
	if err := r.tube.Close(StatusCompleted); err != nil {
		panic(err)
	}
	r.result = Result{Status: StatusCompleted, Repairs: map[string]map[string]int{"b": {"comma": 1}}}
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
	l, left, err := file.Open(root, journalFolderName, file.Options{Tube: func() *tube.Options { return TubeOptions(64 << 10) }})
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
	going.restart = &restart{request: Request{Subject: Subject{Workflow: "w"}, Input: []byte(`"x"`)}, from: 0, attempt: 1, role: tool.Admin}
	going.reopen()
	for _, r := range []*Run{going, ended} {
		r.say("a", "said")
	}
	ended.finish()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	_, list := openLog(t, folder)
	found := map[string]*leftRun{}
	for _, left := range list {
		found[left.ID] = must(readLeft(left))
	}
	if len(found) != 2 {
		t.Fatalf("%d runs", len(found))
	}
	p := found[going.ID]
	if p.Owner != "somebody" || p.Workflow != "w" || p.Attempt != 1 || p.Role != tool.Admin || p.Again == nil || string(p.Again.Input) != `"x"` || p.ended != nil {
		t.Errorf("%+v", p.opening)
	}
	r := p.run("cut off")
	if got := documentOf(r.tube); got != `{"a":"said"}{}` || r.result.Status != StatusInterrupted || r.result.Errors[0].Message != "cut off" {
		t.Errorf("%s %+v", got, r.result)
	}
	r = found[ended.ID].run("cut off")
	if got := documentOf(r.tube); got != `{"a":"said"}{}` || r.result.Status != StatusCompleted || r.result.Repairs["b"]["comma"] != 1 {
		t.Errorf("%s %+v", got, r.result)
	}
}

func FuzzOpening(f *testing.F) {
	r := goingRun(noLog{}, 1)
	r.restart = &restart{request: Request{Subject: Subject{Workflow: "w"}, Input: []byte(`"x"`)}, attempt: 1, role: tool.Admin}
	f.Add(r.opening(), []byte(nil), false)
	r.result = Result{Status: StatusCompleted, Repairs: map[string]map[string]int{"b": {"comma": 1}}}
	f.Add(r.opening(), mustJSON(headerOf(r)), true)
	f.Fuzz(func(t *testing.T, opening, head []byte, ended bool) {
		left := &runlog.Left{ID: r.ID, Opening: opening, Tube: tube.New(r.ID, TubeOptions(0))}
		if ended {
			left.Head = append([]byte{}, head...)
			if err := left.Tube.Close(StatusCompleted); err != nil {
				t.Fatal(err)
			}
		}
		p, err := readLeft(left)
		if err != nil {
			return
		}
		r := p.run("cut off")
		if !r.Ended() || !ValidID(r.ID) {
			t.Fatalf("%+v", r)
		}
		resultText(r)
	})
}

// A run whose record is not one of ours is no run, and harms no other.
func TestWhatCannotBeReadOfALogIsLeftOut(t *testing.T) {
	folder := t.TempDir()
	l, _ := openLog(t, folder)
	goingRun(l, 1).say("a", "said")
	for i, opening := range []string{"", "{}", `{"run":"other"}`, `{"run":7}`} {
		id := fmt.Sprint("odd", i)
		l.Keep(runlog.Run{ID: id, Opening: []byte(opening), Tube: tube.New(id, TubeOptions(0))})
	}
	l.Keep(runlog.Run{ID: "a/b", Opening: []byte(`{"run":"a/b"}`), Tube: tube.New("a/b", TubeOptions(0))})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := bareService(Options{}, d)
	if err := s.restore(time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(s.onDisk)); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if err := errors.Join(s.closeJournal(), s.keys.close(), d.close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is forgotten", func() bool { return len(logFiles(folder)) == 0 })
}
