package web

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// FT-28
func TestARepeatedStartAttachesToTheFirstRun(t *testing.T) {
	b := newBench(t, nil).serve()
	body := `{"workflow":"steps","input":{"a":[1,2]}}`
	first := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k1")
	st := <-b.steps.came
	id := first.Header.Get("X-Run-Id")
	if first.Header.Get("Idempotency-Replayed") != "" {
		t.Error("the first says it is not")
	}
	st.send("a", "b")
	// While it runs, written in another way and asked for in another framing.
	second := b.do("POST", "/v1/runs", `{"format":"sse","input":{"a":[1, 2]},"workflow":"steps"}`, "Idempotency-Key: k1")
	async := b.do("POST", "/v1/runs", body, "Idempotency-Key: k1", "Prefer: respond-async")
	st.finish()
	// Later.
	third := b.do("GET", "/v1/runs?workflow=steps&key=k1&format=sse&input="+`%7B%22a%22:[1,2]%7D`, "")
	for name, resp := range map[string]*http.Response{"while it runs": second, "async": async, "later": third} {
		if resp.Header.Get("X-Run-Id") != id || resp.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %v", name, resp.Header)
		}
	}
	for _, resp := range []*http.Response{first, second, third} {
		if f := fold(t, resp); f.json() != `{"a":"b"}` || f.terminal != `finished{"status":"completed"}` {
			t.Errorf("%s %s", f.json(), f.terminal)
		}
	}
	for name, other := range map[string]string{
		"another input":      `{"workflow":"steps","input":{"a":[2,1]}}`,
		"another workflow":   `{"workflow":"chat","input":{"a":[1,2]}}`,
		"one that is not":    `{"workflow":"nope","input":{"a":[1,2]}}`,
		"with another model": `{"workflow":"steps","input":{"a":[1,2]},"model":"test:facts"}`,
	} {
		if p := readProblem(t, b.do("POST", "/v1/runs", other, "Idempotency-Key: k1")); p.Status != 422 || p.Code != wire.CodeInvalid {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if n := b.steps.started(); n != 1 {
		t.Errorf("%d runs", n)
	}
	resp := b.do("POST", "/v1/runs", body, "Idempotency-Key: k2", "Prefer: respond-async")
	if resp.Header.Get("X-Run-Id") == id {
		t.Error("another key found the same run")
	}
	(<-b.steps.came).finish()
}

// FT-28
func TestStartsThatComeTogetherWithOneKeyStartOneRun(t *testing.T) {
	b := newBench(t, nil).serve()
	var mu sync.Mutex
	ids := map[string]int{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp := b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: together", "Prefer: respond-async")
			mu.Lock()
			ids[resp.Header.Get("X-Run-Id")]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(ids) != 1 || b.steps.started() != 1 {
		t.Errorf("%v, %d started", ids, b.steps.started())
	}
	(<-b.steps.came).finish()
}

// FT-28
func TestAFailureIsKeptUnderItsKeyAndARefusalIsNot(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxRuns = 1 }).serve()
	for _, refused := range []string{`{"workflow":"steps"`, `{"workflow":"nope"}`, `{"workflow":"chat","input":""}`, `{"workflow":"steps","model":"x"}`} {
		if p := readProblem(t, b.do("POST", "/v1/runs", refused, "Idempotency-Key: k")); p.Status >= 500 {
			t.Errorf("%+v", p)
		}
	}
	_, busy := b.startAsync()
	if p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k")); p.Status != 503 {
		t.Errorf("%+v", p)
	}
	busy.finish()
	<-b.runOf(busy.m.ID()).Done()
	var resp *http.Response
	eventually(t, "a place is free", func() bool {
		resp = b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k", "Prefer: respond-async")
		return resp.StatusCode == 202
	})
	st := <-b.steps.came
	st.fail(fs.ErrInvalid)
	for range 2 {
		p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k"))
		if p.Status != 500 || p.Run != st.m.ID() {
			t.Errorf("%+v", p)
		}
	}
	if b.steps.started() != 2 {
		t.Errorf("%d runs", b.steps.started())
	}
}

// FT-28, FT-21
func TestAKeyHoldsAcrossARestart(t *testing.T) {
	folder := t.TempDir()
	with := func(o *Options) { o.Data = folder }
	b := newBench(t, with).serve()
	body := `{"workflow":"steps","input":{"q":"a"}}`
	resp := b.do("POST", "/v1/runs", body, "Idempotency-Key: k", "Prefer: respond-async")
	id := resp.Header.Get("X-Run-Id")
	st := <-b.steps.came
	st.send("a", "b")
	st.finish()
	<-b.runOf(id).Done()
	b.down()

	b = newBench(t, with).serve()
	resp = b.do("POST", "/v1/runs", body, "Idempotency-Key: k")
	if d := readDocument(t, resp); d.Run != id || string(d.Result) != `{"a":"b"}` || resp.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v", d)
	}
	if p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k")); p.Status != 422 {
		t.Errorf("%+v", p)
	}
	if b.steps.started() != 0 {
		t.Error("started again")
	}
}

// left is what a process leaves of a folder that is killed now. One of its files may go while they are copied, which is no such moment: they are
// copied anew.
func left(t testing.TB, folder string) (copied string) {
	t.Helper()
	eventually(t, "all files are copied", func() bool {
		copied = t.TempDir()
		err := os.CopyFS(copied, os.DirFS(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	})
	return copied
}

// FT-23, FT-28, RU-13
func TestARunThatACrashHasCutOffIsShownAsInterruptedAndNotRunAgain(t *testing.T) {
	folder := t.TempDir()
	b := newBench(t, func(o *Options) { o.Data = folder }).serve()
	body := `{"workflow":"steps"}`
	resp := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")
	id := resp.Header.Get("X-Run-Id")
	st := <-b.steps.came
	st.send("a", "b")
	b.s.runs.Inspect().Flush(t.Context())
	crashed := left(t, folder)
	st.finish()
	<-b.runOf(id).Done()
	// One that is killed after the run's end has it whole.
	eventually(t, "the run is on disk", func() bool {
		_, err := os.Stat(filepath.Join(folder, run.FileOf(id)))
		return err == nil
	})
	after := left(t, folder)
	b.down()
	b = newBench(t, func(o *Options) { o.Data = after }).serve()
	if d := readDocument(t, b.do("POST", "/v1/runs", body, "Idempotency-Key: k")); d.Status != run.StatusCompleted || string(d.Result) != `{"a":"b"}` {
		t.Errorf("%+v", d)
	}
	b.down()

	b = newBench(t, func(o *Options) { o.Data = crashed }).serve()
	d := readDocument(t, b.do("POST", "/v1/runs", body, "Idempotency-Key: k"))
	if d.Run != id || d.Status != run.StatusInterrupted || string(d.Result) != `{"a":"b"}` || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Message, "another Idempotency-Key") {
		t.Errorf("%+v", d)
	}
	f := fold(t, b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k"))
	if f.terminal != `finished{"status":"interrupted"}` || strings.Join(f.names, " ") != "started error finished" {
		t.Errorf("%+v", f)
	}
	// The client that was reading goes on from what is left, and is told the end.
	resp = b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k", "Last-Event-ID: "+id+":1")
	f = fold(t, resp)
	if f.json() != `{"a":"b"}` || f.terminal != `finished{"status":"interrupted"}` || strings.Join(f.names, " ") != "error finished" {
		t.Errorf("%+v", f)
	}
	if resp := b.do("POST", "/v1/runs?format=sse", body, "Last-Event-ID: "+f.last); resp.StatusCode != 204 {
		t.Errorf("%d", resp.StatusCode)
	}
	if b.steps.started() != 0 {
		t.Error("started again")
	}
	b.down()
	// And it stays so.
	b = newBench(t, func(o *Options) { o.Data = crashed }).serve()
	if d := readDocument(t, b.do("POST", "/v1/runs", body, "Idempotency-Key: k")); d.Status != run.StatusInterrupted {
		t.Errorf("%+v", d)
	}
}

func TestAKeyThatCannotBeOneIsRefused(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, key := range []string{strings.Repeat("k", 256), "a b", "schlüssel"} {
		p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: "+key))
		if p.Status != 400 || p.Errors[0].Header != "Idempotency-Key" {
			t.Errorf("%q: %+v", key, p)
		}
	}
	if p := readProblem(t, b.do("GET", "/v1/runs?workflow=steps&key=a", "", "Idempotency-Key: b")); p.Status != 400 {
		t.Errorf("%+v", p)
	}
}
