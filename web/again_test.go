package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
)

// againBench is a server with a workflow "anew", of one bot, that is run again after a restart. say is its model.
func againBench(t *testing.T, folder string, say func(ctx context.Context, yield func(string) bool) error, edit func(*Options)) *bench {
	t.Helper()
	w, err := flow.ParseSpec("anew.yaml", []byte("name: anew\nrestart: true\nbots: {writer: {format: text, message: '{{ input.q }}', root: answer}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	// It is asked as soon as the server is there.
	m := &scripted{say: func(ctx context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		return say(ctx, yield)
	}}
	b := newBench(t, func(o *Options) {
		o.Data = folder
		o.Models = &adapter.Registry{Default: "test:story", Retries: adapter.Retries{Attempts: 1}}
		o.Models.Register("test", m)
		o.Workflows.Register(w)
		if edit != nil {
			edit(o)
		}
	})
	b.model = m
	return b
}

// crashed is what a process that is killed now leaves of the folder.
func (b *bench) crashed() string {
	b.t.Helper()
	b.s.runs.Inspect().Flush(b.t.Context())
	for {
		folder := b.t.TempDir()
		err := os.CopyFS(folder, os.DirFS(b.s.o.Data))
		if err == nil {
			return folder
		}
		if !errors.Is(err, fs.ErrNotExist) { // else a file has been renamed or removed between being listed and being read
			b.t.Fatal(err)
		}
	}
}

// hangs is a model that says something and no more.
func hangs(words string) func(context.Context, func(string) bool) error {
	return func(ctx context.Context, yield func(string) bool) error {
		yield(words)
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

func tells(words string) func(context.Context, func(string) bool) error {
	return func(_ context.Context, yield func(string) bool) error {
		yield(words)
		return nil
	}
}

// FT-23, FT-28, FT-32: a run of a workflow that says restart is run again from its input, under its id and its key, and who followed it
// gets the document of the new attempt, whatever they had.
func TestAWorkflowThatSaysRestartIsRunAgainAfterACrash(t *testing.T) {
	b := againBench(t, t.TempDir(), hangs("old words"), nil).serve()
	body := `{"workflow":"anew","input":{"q":"x"}}`
	resp := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")
	id := resp.Header.Get("X-Run-Id")
	next, stop := liveEvents(t, resp)
	var f folded
	for !strings.Contains(f.json(), "old words") {
		f.take(t, next())
	}
	stop()
	folder := b.crashed()
	b.down()

	more := make(chan string)
	b = againBench(t, folder, func(ctx context.Context, yield func(string) bool) error {
		for words := range more {
			yield(words)
		}
		return nil
	}, nil).serve()
	more <- "new "
	again := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k", "Last-Event-ID: "+f.last)
	if again.Header.Get("X-Run-Id") != id {
		t.Errorf("%s has become %s", id, again.Header.Get("X-Run-Id"))
	}
	next, stop = liveEvents(t, again)
	defer stop()
	for !strings.Contains(f.json(), "new ") {
		f.take(t, next())
	}
	more <- "words"
	close(more)
	for f.terminal == "" {
		f.take(t, next())
	}
	if f.json() != `{"answer":"new words"}` || f.terminal != `finished{"status":"completed"}` {
		t.Errorf("%s %s", f.json(), f.terminal)
	}
	// Its events are counted, wherever they are, from the beginning of the last attempt.
	r := b.runOf(id)
	<-r.Done()
	tb := b.s.runs.Inspect().Tube(r)
	if tb.Len() < run.Epoch {
		t.Errorf("its last event is %d, as if it had not been begun again", tb.Len())
	}
	// Those who come without an id, and those who come with a key, find the same.
	for name, f := range map[string]*folded{
		"a key":     fold(t, b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")),
		"the run":   fold(t, b.do("GET", "/v1/runs/"+id+"/events", "")),
		"an old id": fold(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+id+":1")),
		"a lost id": fold(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+id+":777")),
	} {
		if f.json() != `{"answer":"new words"}` || f.terminal != `finished{"status":"completed"}` {
			t.Errorf("%s: %s %s", name, f.json(), f.terminal)
		}
	}
	if p := readProblem(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+id+":"+fmt.Sprint(uint64(run.Epoch+100)))); p.Status != 400 {
		t.Errorf("an id of the future: %+v", p)
	}
	if n := b.model.calls.Load(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	// And once it has ended it does not run a third time.
	folder = b.crashed()
	b.down()
	if log, want := b.log.String(), fmt.Sprintf(" events=%d\n", tb.Len()-run.Epoch); !strings.Contains(log, want) {
		t.Errorf("expected %q in\n%s", want, log)
	}
	b = againBench(t, folder, tells("no"), nil).serve()
	if d := readDocument(t, b.do("POST", "/v1/runs", body, "Idempotency-Key: k")); string(d.Result) != `{"answer":"new words"}` || b.model.calls.Load() != 0 {
		t.Errorf("%+v", d)
	}
}

// A run that makes the server crash does not do so for ever.
func TestARunIsBegunOnlySoOften(t *testing.T) {
	folder := t.TempDir()
	b := againBench(t, folder, hangs("x"), nil).serve()
	resp := b.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async")
	id := resp.Header.Get("X-Run-Id")
	for attempt := 1; attempt <= run.MaxAttempts; attempt++ {
		eventually(t, "the model is asked", func() bool { return b.model.calls.Load() == 1 })
		folder = b.crashed()
		b.down()
		b = againBench(t, folder, hangs("x"), nil).serve()
	}
	d := readDocument(t, b.do("GET", "/v1/runs/"+id, ""))
	if d.Status != run.StatusInterrupted || !strings.Contains(d.Errors[0].Message, "already started 3 times") || b.model.calls.Load() != 0 {
		t.Errorf("%+v", d)
	}
}

// FT-21, RU-11: who is told to go leaves what was cut off to the next server, and that is no attempt, however often it happens. The events of
// each time it works begin at the next multiple of 2³².
func TestARunThatADrainHasCutOffIsRunAgain(t *testing.T) {
	folder := t.TempDir()
	b := againBench(t, folder, hangs("x"), nil).serve()
	id := b.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async").Header.Get("X-Run-Id")
	from := func() uint64 { return b.s.runs.Inspect().Tube(b.runOf(id)).From() }
	other := b.do("POST", "/v1/runs", `{"workflow":"chat","input":{"question":"x"}}`, "Prefer: respond-async").Header.Get("X-Run-Id")
	for n := range uint64(2 * run.MaxAttempts) {
		eventually(t, "the models are asked", func() bool { return b.model.calls.Load() > 0 })
		if got := from(); got != n*run.Epoch {
			t.Errorf("after %d drains its events begin at %d", n, got)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.s.Drain(over); err != nil {
			t.Fatal(err)
		}
		b.down()
		b = againBench(t, folder, hangs("x"), nil).serve()
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning {
		t.Errorf("%+v", d)
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+other, "")); d.Status != run.StatusInterrupted {
		t.Errorf("%+v", d)
	}
	b.down()
	b = againBench(t, folder, tells("done"), nil).serve()
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")); d.Status != run.StatusCompleted || string(d.Result) != `{"answer":"done"}` {
		t.Errorf("%+v", d)
	}
}

func TestWhatCannotBeRunAgainEndsAsInterrupted(t *testing.T) {
	for name, edit := range map[string]func(*Options){
		"the workflow is gone": func(o *Options) { o.Workflows = new(flow.Registry) },
		"it says restart no more": func(o *Options) {
			w, err := flow.ParseSpec("anew.yaml", []byte("name: anew\nbots: {writer: {format: text}}\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			o.Workflows.Register(w)
		},
		"its input does not fit any more": func(o *Options) {
			w, err := flow.ParseSpec("anew.yaml", []byte("name: anew\nrestart: true\ninput: {required: [z], properties: {z: {type: string}}}\nbots: {writer: {format: text}}\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			o.Workflows.Register(w)
		},
		"it is too old": func(o *Options) { o.KeyRetention = time.Nanosecond },
	} {
		t.Run(name, func(t *testing.T) {
			b := againBench(t, t.TempDir(), hangs("made"), nil).serve()
			id := b.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async").Header.Get("X-Run-Id")
			eventually(t, "it has made something", func() bool {
				return strings.Contains(string(readDocument(t, b.do("GET", "/v1/runs/"+id, "")).Result), "made")
			})
			folder := b.crashed()
			b.down()
			b = againBench(t, folder, tells("no"), edit).serve()
			d := readDocument(t, b.do("GET", "/v1/runs/"+id, ""))
			if d.Status != run.StatusInterrupted || string(d.Result) != `{"answer":"made"}` || len(d.Errors) != 1 || b.model.calls.Load() != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// FT-32, RU-11, RU-12: what a restart has cut off is not begun all at once. Those that wait are there, can be canceled, begin in the order in
// which they were begun first, and a crash while they wait is none of theirs.
func TestRunsThatARestartHasCutOffAreRunAgainAFewAtATime(t *testing.T) {
	const all = 2*run.RestartsAtOnce + 3
	var mu sync.Mutex
	var asked []string
	next := make(chan struct{})
	say := func(ctx context.Context, _ string, req adapter.Request, yield func(string) bool) error {
		mu.Lock()
		asked = append(asked, fmt.Sprint(req.Messages[len(req.Messages)-1].Content))
		mu.Unlock()
		select {
		case <-next:
			yield("done")
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(asked)
	}
	start := func(folder string) *bench {
		mu.Lock()
		asked = nil
		mu.Unlock()
		return againBench(t, folder, nil, func(o *Options) {
			o.Models = &adapter.Registry{Default: "test:story", Retries: adapter.Retries{Attempts: 1}}
			o.Models.Register("test", &scripted{say: say})
		}).serve()
	}
	b := start(t.TempDir())
	var ids []string
	for i := range all {
		ids = append(ids, b.do("POST", "/v1/runs", fmt.Sprintf(`{"workflow":"anew","input":{"q":"q%02d"}}`, i), "Prefer: respond-async").Header.Get("X-Run-Id"))
		time.Sleep(time.Microsecond) // that their order is known
	}
	eventually(t, "all have begun", func() bool { return count() == all })
	for range run.MaxAttempts + 1 { // those that wait are not given up for that; the others are
		folder := b.crashed()
		b.down()
		b = start(folder)
		eventually(t, "some have begun", func() bool { return count() >= run.RestartsAtOnce })
		b.s.runs.Inspect().Flush(b.t.Context())
		if n := count(); n != run.RestartsAtOnce || !strings.Contains(b.log.String(), "runs wait to be restarted") {
			t.Fatalf("%d have begun\n%s", n, b.log)
		}
	}
	// The first have crashed the server often enough.
	for i, id := range ids {
		d := readDocument(t, b.do("GET", "/v1/runs/"+id, ""))
		if want := map[bool]string{true: run.StatusInterrupted, false: run.StatusRunning}[i < run.RestartsAtOnce]; d.Status != want {
			t.Errorf("%d is %s, expected %s", i, d.Status, want)
		}
	}
	eventually(t, "the next have begun", func() bool { return count() == run.RestartsAtOnce })
	mu.Lock()
	slices.Sort(asked)
	if asked[0] != fmt.Sprintf("q%02d", run.RestartsAtOnce) || asked[run.RestartsAtOnce-1] != fmt.Sprintf("q%02d", 2*run.RestartsAtOnce-1) {
		t.Errorf("begun: %q", asked)
	}
	mu.Unlock()
	// One that waits is canceled; two go on when two have ended.
	if resp := b.do("POST", "/v1/runs/"+ids[all-2]+"/cancel", ""); resp.StatusCode != http.StatusAccepted {
		t.Error(resp.Status)
	}
	<-b.runOf(ids[all-2]).Done()
	next <- struct{}{}
	next <- struct{}{}
	eventually(t, "two more have begun", func() bool { return count() == run.RestartsAtOnce+2 })
	close(next)
	for _, i := range []int{all - 3, all - 1} {
		if d := readDocument(t, b.do("GET", "/v1/runs/"+ids[i]+"/events?format=json", "")); d.Status != run.StatusCompleted || string(d.Result) != `{"answer":"done"}` {
			t.Errorf("%+v", d)
		}
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+ids[all-2], "")); d.Status != run.StatusCanceled {
		t.Errorf("%+v", d)
	}
}
