package web

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
)

// againBench is a server with a workflow "anew", of one bot, that is run again after a restart. say is its model.
func againBench(t *testing.T, folder string, say func(ctx context.Context, yield func(string) bool) error) *bench {
	t.Helper()
	w, err := flow.ParseSpec("anew.yaml", []byte("name: anew\nbots: {writer: {format: text, message: '{{ input.q }}', root: answer}}\n"), nil)
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

// FT-32: a client of another protocol cannot take back what it has, so a stream of a run that goes on after a crash begins when nothing is taken back
// any more.
func TestOtherProtocolsHaveAnAnswerThatGoesOnAfterACrashOnce(t *testing.T) {
	type request struct{ name, method, path, body string }
	keyOf := func(r request) string { return "Idempotency-Key: " + strings.ReplaceAll(r.name, " ", "-") }
	requests := []request{
		{"OpenAI", "POST", "/v1/chat/completions", `{"model":"anew","stream":true,"messages":[{"role":"user","content":"{\"q\":\"x\"}"}]}`},
		{"AI SDK", "POST", "/v1/ui/anew", `{"id":"chat","input":{"q":"x"},"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`},
		{"AI SDK, version 6", "POST", "/v1/ui/anew?v=6", `{"id":"chat-6","input":{"q":"x"},"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}`},
		{"AI SDK, an object", "POST", "/v1/ui/anew/object", `{"q":"x"}`},
		{"AG-UI", "POST", "/v1/agui/anew", `{"threadId":"thread","runId":"r","protocolVersion":"1.0","messages":[{"id":"m","role":"user","content":"x"}],"tools":[],"context":[],"forwardedProps":{"input":{"q":"x"}}}`},
	}
	b := againBench(t, t.TempDir(), hangs("Old")).serve() // with a capital, which no random id has
	for _, r := range requests {
		resp := b.do(r.method, r.path, r.body, "Content-Type: application/json", keyOf(r))
		for text := []byte(nil); !strings.Contains(string(text), "Old"); {
			piece := make([]byte, 4096)
			n, err := resp.Body.Read(piece)
			if text = append(text, piece[:n]...); err != nil {
				t.Fatalf("%s: %v in %s", r.name, err, text)
			}
		}
	}
	folder := b.crashed()
	b.down()
	speaks, ends := make(chan struct{}), make(chan struct{})
	b = againBench(t, folder, func(_ context.Context, yield func(string) bool) error {
		<-speaks
		yield("new ")
		<-ends
		yield("words")
		return nil
	}).serve()
	bodies := make([]string, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			answer, err := b.try(t.Context(), r.method, r.path, r.body, "Content-Type: application/json", keyOf(r))
			if err != nil {
				t.Errorf("%s: %v", r.name, err)
				return
			}
			text, _ := io.ReadAll(answer.Body)
			bodies[i] = answer.Status + "\n" + string(text)
			_ = answer.Body.Close()
		})
	}
	close(speaks)
	close(ends)
	wg.Wait()
	for i, r := range requests {
		if text := bodies[i]; !strings.HasPrefix(text, "200 ") || strings.Contains(text, "Old") || !strings.Contains(text, "words") {
			t.Errorf("%s:\n%s", r.name, text)
		}
	}
}
