package web

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
)

// againBench is a server with a workflow "anew", of one bot, that is run again after a restart. say is its model.
func againBench(t *testing.T, folder string, say func(ctx context.Context, yield func(string) bool) error) *bench {
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
	})
	b.model = m
	return b
}

// crashed is what a process that is killed now leaves of the folder.
func (b *bench) crashed() string {
	b.t.Helper()
	b.s.runs.Flush(b.t.Context())
	folder := b.t.TempDir()
	if err := b.db.Backup(b.t.Context(), filepath.Join(folder, "lingserve.db")); err != nil {
		b.t.Fatal(err)
	}
	return folder
}

// hangs is a model that says something and no more.
func hangs(words string) func(context.Context, func(string) bool) error {
	return func(ctx context.Context, yield func(string) bool) error {
		yield(words)
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// FT-23, FT-28, FT-32: who followed a run that is run again after a crash gets the document of the new attempt, whatever they had.
func TestResumeAfterARestartHasTheDocumentOfTheNewAttempt(t *testing.T) {
	b := againBench(t, t.TempDir(), hangs("old words")).serve()
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
	}).serve()
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
	attached := map[string]*folded{
		"the last id": &f,
		"a key":       fold(t, b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")),
		"the run":     fold(t, b.do("GET", "/v1/runs/"+id+"/events", "")),
		"an old id":   fold(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+id+":1")),
		"a lost id":   fold(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+id+":777")),
	}
	for name, f := range attached {
		if f.json() != `{"answer":"new words"}` || f.terminal != `finished{"status":"completed"}` {
			t.Errorf("%s: %s %s", name, f.json(), f.terminal)
		}
	}
	if p := readProblem(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+id+":"+fmt.Sprint(uint64(run.Epoch+100)))); p.Status != 400 {
		t.Errorf("an id of the future: %+v", p)
	}
}
