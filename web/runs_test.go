package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// Package frame knows the framings byte by byte.
func TestOneRunCanBeReadInEachFraming(t *testing.T) {
	b := newBench(t, nil).serve()
	sseResp, st := b.start("?format=sse")
	id := sseResp.Header.Get("X-Run-Id")
	path := "/v1/runs/" + id
	jsonl := b.do("GET", path+"/events", "", "Accept: application/x-ndjson")
	st.set("article", "{}")
	st.send("article/title", `Why \"so\"`)
	st.set("article/n", "1.10")
	st.set(`article/$reasoning_context`, `"hm"`)
	const document = `{"article":{"title":"Why \"so\"","n":1.10}}`
	// Where it stands while it runs.
	if running := readDocument(t, b.do("GET", path, "")); running.Status != run.StatusRunning || string(running.Result) != document {
		t.Errorf("running: %+v", running)
	}
	waiting := make(chan *http.Response, 1)
	go func() {
		resp, err := b.try(t.Context(), "GET", path+"/events?format=json", "")
		if err != nil {
			t.Error(err)
		}
		waiting <- resp
	}()
	st.finish()
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"Location": path, "X-Content-Type-Options": "nosniff",
	} {
		if got := sseResp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	raw := text(t, sseResp)
	var retry int
	if _, err := fmt.Sscanf(raw, "retry: %d\n", &retry); err != nil || retry < 1800 || retry > 2200 || strings.Contains(raw, "\r") {
		t.Errorf("%q", raw)
	}
	for _, want := range []string{
		"id: " + id + ":0\nevent: started\ndata: {", `"workflow":"steps","model":"test:story"`, "id: " + id + ":3\ndata: {\"uri\":\"article/n\",\"delta\":1.10}\n\n",
		"id: " + id + ":5\nevent: finished\ndata: {\"status\":\"completed\"}\n\n",
	} {
		if !strings.Contains(raw, want) {
			t.Errorf("no %q in %s", want, raw)
		}
	}
	lines := strings.Split(text(t, jsonl), "\n")
	if len(lines) != 7 || jsonl.Header.Get("Content-Type") != "application/x-ndjson" || lines[3] != `{"id":"`+id+`:3","uri":"article/n","delta":1.10}` ||
		lines[5] != `{"id":"`+id+`:5","event":"finished","data":{"status":"completed"}}` {
		t.Errorf("%s %q", jsonl.Header.Get("Content-Type"), lines)
	}
	if got := readDocument(t, <-waiting); got.Status != run.StatusCompleted || got.Run != id || string(got.Result) != document || got.Reserved != nil {
		t.Errorf("%+v", got)
	}
	if got := readDocument(t, b.do("GET", path+"?include=reserved", "")); string(got.Reserved) != `{"article/$reasoning_context":"hm"}` {
		t.Errorf("%+v", got)
	}
}

func TestARunThatFailsBeforeAnyOutputAnswersWithItsStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		code   string
		after  int // Retry-After, at least
	}{
		// FT-01: what the provider says of waiting reaches whoever waits. DP-11: its 429 stays one.
		"rate limited for an hour": {&adapter.Error{Code: adapter.CodeRateLimited, Message: "too many", RetryAfter: 3599500 * time.Millisecond}, 429, "upstream_rate_limited", 3600},
		// DH-09: clients retry a 429 or 5xx by themselves, so what a retry does not mend has another status.
		"no credit":        {&adapter.Error{Code: adapter.CodeRateLimited, Message: "no credit"}, 402, "upstream_rate_limited", 0},
		"refused for good": {&adapter.Error{Code: adapter.CodeProtocol, Message: "unknown model"}, 424, "upstream_protocol", 0},
		"answer cut off":   {&adapter.Error{Code: adapter.CodeProtocol, Message: "cut off", Retryable: true}, 502, "upstream_protocol", 0},
		"no JSON":          {&bot.Failure{Code: bot.CodeOutputInvalid, Message: "no JSON", Retryable: true}, 424, "output_invalid", 0},
		"refusal":          {&bot.Failure{Code: bot.CodeOutputRefused, Message: "no"}, 424, "output_refused", 0},
		"key refused":      {&adapter.Error{Code: adapter.CodeAuth, Message: "the key was refused"}, 424, "upstream_auth", 0},
		"something of us":  {errors.New("oops"), 500, "internal", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			answered := b.post("/v1/runs", `{"workflow":"steps"}`)
			(<-b.steps.came).fail(tt.err)
			resp := <-answered
			p := readProblem(t, resp)
			if retry := strconv.FormatBool(tt.status == 429 || tt.status == 502); resp.Header.Get("X-Should-Retry") != retry {
				t.Errorf("X-Should-Retry is %q", resp.Header.Get("X-Should-Retry"))
			}
			after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			if p.Status != tt.status || p.Code != tt.code || p.Run == "" || resp.Header.Get("X-Run-Id") != p.Run || after < tt.after || (after == 0) != (tt.after == 0) {
				t.Errorf("%+v, Retry-After %d", p, after)
			}
			if state := text(t, b.do("GET", "/v1/runs/"+p.Run, "")); strings.Contains(state, `"retry_after":3600`) != (tt.after > 0) {
				t.Error(state)
			}
			// A stream has begun by then: it says so in events.
			f := fold(t, b.do("GET", "/v1/runs/"+p.Run+"/events", ""))
			if diff := cmp.Diff([]string{"started", "error", "finished"}, f.names); diff != "" || f.terminal != `finished{"status":"failed"}` {
				t.Errorf("%s %s", diff, f.terminal)
			}
		})
	}
}

func TestCancelingKeepsWhatWasMade(t *testing.T) {
	b := newBench(t, nil).serve()
	resp, st := b.start("?format=sse")
	path := resp.Header.Get("Location")
	st.send("a", "half")
	canceling := b.do("POST", path+"/cancel", "")
	if d := readDocument(t, canceling); canceling.StatusCode != 202 || d.Run == "" {
		t.Errorf("%d %+v", canceling.StatusCode, d)
	}
	f := fold(t, resp)
	if f.terminal != `canceled{"reason":"canceled by request"}` || f.json() != `{"a":"half"}` {
		t.Errorf("%s %s", f.terminal, f.json())
	}
	<-st.ctx.Done()
	if d := readDocument(t, b.do("GET", path+"/events?format=json", "")); d.Status != run.StatusCanceled || string(d.Result) != `{"a":"half"}` {
		t.Errorf("%+v", d)
	}
	again := b.do("POST", path+"/cancel", "")
	if p := readProblem(t, again); p.Status != 409 || p.Code != wire.CodeConflict {
		t.Errorf("%+v", p)
	}
	if p := readProblem(t, b.do("POST", "/v1/runs/unknown/cancel", "")); p.Status != 404 {
		t.Errorf("%+v", p)
	}
}

func TestRespondAsyncAnswersAtOnceWithThePlaceOfTheRun(t *testing.T) {
	b := newBench(t, nil).serve()
	resp, st := b.start("", "Prefer: wait=10, respond-async", "Accept: text/event-stream, */*;q=0.1")
	if resp.StatusCode != 202 || resp.Header.Get("Preference-Applied") != "respond-async" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	d := readDocument(t, resp)
	if d.Status != run.StatusRunning || resp.Header.Get("Location") != "/v1/runs/"+d.Run {
		t.Errorf("%+v", d)
	}
	st.send("a", "b")
	st.finish()
	if f := fold(t, b.do("GET", "/v1/runs/"+d.Run+"/events", "")); f.json() != `{"a":"b"}` {
		t.Error(f.json())
	}
}

func TestWhatARequestNamesMustBeThere(t *testing.T) {
	b := newBench(t, func(o *Options) { o.InlineWorkflows = true }).serve()
	closed := newBench(t, nil).serve()
	for _, tt := range []struct {
		on      *bench
		body    string
		status  int
		pointer string // "": it is of the whole request
		detail  string
	}{
		{b, `{"workflow":"stesp"}`, 404, "", `unknown workflow "stesp"; did you mean steps? expected one of chat, steps`}, // DW-07
		{b, `{"agent":"a"}`, 404, "", `unknown agent "a"; this server has no agents`},
		{b, `{}`, 400, "/workflow", "expected the name of a workflow; GET /v1/workflows lists them"},
		{b, `{"agent":"a","workflow":"steps"}`, 400, "/agent", "expected a workflow or an agent, not both"},
		{b, `{"workflow":"steps","session":"s"}`, 400, "/session", "this server has no sessions"},
		{closed, `{"workflow":{"name":"x"}}`, 400, "/workflow", "expected the name of a workflow; this server accepts no workflows inside requests (inline_workflows)"},
		{b, `{"workflow":{"name":"x","bots":{"a":{"prompt":"{{ input.oops","colour":"red"}}}}`, 400, "/workflow", "line 1, column "},
		{b, `{"workflow":{"bots":{"a":{"model":"tset:m"}}},"input":{}}`, 400, "/workflow", `unknown provider "tset", did you mean "test"?`},
		{b, `{"workflow":"steps","model":["test:story","other:x"]}`, 400, "/model", `the model "other:x" has an unknown provider`},
		{b, `{"workflow":"steps","model":"test:missing"}`, 400, "/model", "there is no such model"},
		{b, `{"workflow":"steps","model":"http://evil.test/v1"}`, 400, "/model", ""}, // SE-01
		{b, `{"workflow":"chat","input":{"question":7}}`, 400, "/input/question", "expected a string, got a number"},
		{b, `{"workflow":"chat"}`, 400, "/input/question", "this property is required"},
	} {
		p := readProblem(t, tt.on.do("POST", "/v1/runs", tt.body))
		detail := p.Detail
		if len(p.Errors) > 0 {
			detail = p.Errors[0].Detail
		}
		if p.Status != tt.status || !strings.Contains(detail, tt.detail) || (tt.pointer != "") != (len(p.Errors) > 0) || tt.pointer != "" && p.Errors[0].Pointer != tt.pointer {
			t.Errorf("%s: %+v", tt.body, p)
		}
	}
	if b.steps.started() != 0 || b.model.calls.Load() != 0 {
		t.Error("something was started")
	}
}

// DW-10: a request by GET has parameters, and its problems name them.
func TestProblemsOfARunByGETNameParameters(t *testing.T) {
	b := newBench(t, nil).serve()
	for query, want := range map[string]run.Field{
		"":                         {Parameter: "workflow", Detail: "expected the name of a workflow; GET /v1/workflows lists them"},
		"workflow=steps&session=s": {Parameter: "session", Detail: "this server has no sessions"},
		"workflow=chat&input.question=q&input.level=x": {Parameter: "input.level", Detail: "expected an integer, got a string"},
	} {
		p := readProblem(t, b.do("GET", "/v1/runs?"+query, ""))
		if diff := cmp.Diff([]run.Field{want}, p.Errors); diff != "" || p.Status != 400 || p.Detail != "query parameter "+want.Parameter+": "+want.Detail {
			t.Errorf("%q: %d %s %s", query, p.Status, p.Detail, diff)
		}
	}
}
