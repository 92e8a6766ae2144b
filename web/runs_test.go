package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

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
	// Where it stands while it runs.
	running := readDocument(t, b.do("GET", path, ""))
	if running.Status != run.StatusRunning || string(running.Result) != `{"article":{"title":"Why \"so\"","n":1.10}}` {
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
	if !strings.HasPrefix(raw, "retry: ") || strings.Contains(raw, "\r") || !strings.HasSuffix(raw, "\n\n") {
		t.Errorf("%q", raw)
	}
	head, _, _ := strings.Cut(raw, "\n")
	var retry int
	if _, err := fmt.Sscanf(head, "retry: %d", &retry); err != nil || retry < 1800 || retry > 2200 {
		t.Errorf("%q", head)
	}
	_, raw, _ = strings.Cut(raw, "\n")
	want := fmt.Sprintf(`id: %[1]s:0
event: started
data: {"run":"%[1]s","workflow":"steps","session":"","model":"test:story"}

id: %[1]s:1
data: {"uri":"article","delta":{}}

id: %[1]s:2
data: {"uri":"article/title","delta":"Why \"so\""}

id: %[1]s:3
data: {"uri":"article/n","delta":1.10}

id: %[1]s:4
data: {"uri":"article/$reasoning_context","delta":"hm"}

id: %[1]s:5
event: finished
data: {"status":"completed"}

`, id)
	if diff := cmp.Diff(want, normalStarted(raw)); diff != "" {
		t.Error(diff)
	}
	if ct := jsonl.Header.Get("Content-Type"); ct != "application/x-ndjson" {
		t.Error(ct)
	}
	lines := strings.Split(strings.TrimSuffix(text(t, jsonl), "\n"), "\n")
	if len(lines) != 6 || lines[3] != `{"id":"`+id+`:3","uri":"article/n","delta":1.10}` ||
		lines[5] != `{"id":"`+id+`:5","event":"finished","data":{"status":"completed"}}` {
		t.Errorf("%q", lines)
	}
	for i, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("line %d: %q", i, line)
		}
	}
	resp := <-waiting
	defer resp.Body.Close()
	if got := readDocument(t, resp); got.Status != run.StatusCompleted || got.Run != id || string(got.Result) != `{"article":{"title":"Why \"so\"","n":1.10}}` || got.Reserved != nil {
		t.Errorf("%+v", got)
	}
	if got := readDocument(t, b.do("GET", path+"?include=reserved", "")); string(got.Reserved) != `{"article/$reasoning_context":"hm"}` {
		t.Errorf("%+v", got)
	}
}

// normalStarted puts the members of the started event in the order that the test expects, whatever it is.
func normalStarted(raw string) string {
	lines := strings.SplitAfter(raw, "\n")
	var s struct {
		Run      string `json:"run"`
		Workflow string `json:"workflow"`
		Session  string `json:"session"`
		Model    string `json:"model"`
	}
	if len(lines) > 2 && json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &s) == nil {
		text, _ := json.Marshal(s)
		lines[2] = "data: " + string(text) + "\n"
	}
	return strings.Join(lines, "")
}

func TestAFilterHidesFromAllFramingsAndTheDocument(t *testing.T) {
	b := newBench(t, nil).serve()
	resp := b.do("POST", "/v1/runs", `{"workflow":"steps","filter":{"exclude":["a/secret","b/*"]},"format":"sse"}`)
	st := <-b.steps.came
	st.send("a/secret", "s")
	st.send("a/open", "o")
	st.send("b/x", "x")
	st.finish()
	f := fold(t, resp)
	if f.json() != `{"a":{"open":"o"}}` || !strings.HasSuffix(f.last, ":4") {
		t.Errorf("%s, last %s", f.json(), f.last)
	}
	if d := readDocument(t, b.do("GET", resp.Header.Get("Location"), "")); string(d.Result) != f.json() {
		t.Errorf("%s", d.Result)
	}
}

func TestARunThatFailsBeforeAnyOutputAnswersWithItsStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		code   string
	}{
		// FT-01: what the provider says of waiting reaches whoever waits. DP-11: its 429 stays one.
		"rate limited for an hour": {&adapter.Error{Code: adapter.CodeRateLimited, Message: "too many", RetryAfter: 3599500 * time.Millisecond}, 429, "upstream_rate_limited"},
		"key refused":              {&adapter.Error{Code: adapter.CodeAuth, Message: "the key was refused"}, 502, "upstream_auth"},
		"rate limited":             {&adapter.Error{Code: adapter.CodeRateLimited, Message: "too many"}, 429, "upstream_rate_limited"},
		"not reached":              {&adapter.Error{Code: adapter.CodeUnavailable, Message: "no connection"}, 502, "upstream_unavailable"},
		"too slow":                 {&adapter.Error{Code: adapter.CodeTimeout, Message: "no token came"}, 504, "upstream_timeout"},
		"rubbish":                  {&adapter.Error{Code: adapter.CodeProtocol, Message: "not an answer"}, 502, "upstream_protocol"},
		"something of us":          {errors.New("oops"), 500, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			var resp *http.Response
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp = b.do("POST", "/v1/runs", `{"workflow":"steps"}`)
			}()
			st := <-b.steps.came
			st.fail(tt.err)
			<-done
			p := readProblem(t, resp)
			if p.Status != tt.status || p.Code != tt.code || p.Run == "" || resp.Header.Get("X-Run-Id") != p.Run {
				t.Errorf("%+v", p)
			}
			least := 5
			if e, ok := errors.AsType[*adapter.Error](tt.err); ok && e.RetryAfter > 0 {
				least = 3600
			}
			if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); tt.status == 429 && (err != nil || after < least) {
				t.Errorf("Retry-After %q, want at least %d", resp.Header.Get("Retry-After"), least)
			}
			if state := text(t, b.do("GET", "/v1/runs/"+p.Run, "")); strings.Contains(state, `"retry_after":3600`) != (least == 3600) {
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

func TestARunThatFailsLaterAnswersWithWhatItMade(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	st.send("a", "half")
	st.fail(&adapter.Error{Code: adapter.CodeProtocol, Message: "the answer was cut off"})
	d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", ""))
	if d.Status != run.StatusFailed || string(d.Result) != `{"a":"half"}` || len(d.Errors) != 1 || d.Errors[0].Code != "upstream_protocol" {
		t.Errorf("%+v", d)
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

// FT-31
func TestTooManyRunsAreRefusedAndComeInWhenOthersHaveEnded(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxRuns = 3 }).serve()
	var runs []*stepped
	for range 3 {
		_, st := b.startAsync()
		runs = append(runs, st)
	}
	for range 10 {
		resp := b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async")
		if p := readProblem(t, resp); p.Status != 503 || p.Code != wire.CodeOverloaded || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("%+v", p)
		}
	}
	if n := b.steps.started(); n != 3 {
		t.Errorf("%d runs were started", n)
	}
	runs[0].finish()
	eventually(t, "a place is free", func() bool {
		resp := b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async")
		defer resp.Body.Close()
		return resp.StatusCode == 202
	})
}

func TestWhatARequestNamesMustBeThere(t *testing.T) {
	b := newBench(t, nil).serve()
	for name, tt := range map[string]struct {
		body   string
		status int
		code   string
		errors []run.Field
		detail string
	}{
		"an unknown workflow": {`{"workflow":"nope"}`, 404, wire.CodeNotFound, nil, `unknown workflow "nope"; expected one of chat, steps`},
		"no workflow":         {`{}`, 400, wire.CodeInvalid, []run.Field{{Pointer: "/workflow", Detail: "expected the name of a workflow; GET /v1/workflows lists them"}}, ""},
		"an agent":            {`{"agent":"a"}`, 404, wire.CodeNotFound, nil, `unknown agent "a"; this server has no agents`},
		"both":                {`{"agent":"a","workflow":"steps"}`, 400, wire.CodeInvalid, []run.Field{{Pointer: "/agent", Detail: "expected a workflow or an agent, not both"}}, ""},
		"a session":           {`{"workflow":"steps","session":"s"}`, 400, wire.CodeInvalid, []run.Field{{Pointer: "/session", Detail: "this server has no sessions"}}, ""},
		"a workflow of its own": {
			`{"workflow":{"name":"x"}}`, 400, wire.CodeInvalid,
			[]run.Field{{Pointer: "/workflow", Detail: "expected the name of a workflow; this server accepts no workflows inside requests (inline_workflows)"}},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := readProblem(t, b.do("POST", "/v1/runs", tt.body))
			if p.Status != tt.status || p.Code != tt.code || tt.detail != "" && p.Detail != tt.detail {
				t.Errorf("%+v", p)
			}
			if diff := cmp.Diff(tt.errors, p.Errors); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, tt := range map[string]struct{ body, pointer string }{
		"an unknown model":       {`{"workflow":"steps","model":"other:x"}`, "/model"},
		"a model that is none":   {`{"workflow":"steps","model":"test:missing"}`, "/model"},
		"a url for a model":      {`{"workflow":"steps","model":"http://evil.test/v1"}`, "/model"}, // SE-01
		"a property too many":    {`{"workflow":"chat","input":{"question":"q","more":1}}`, "/input"},
		"a number for a string":  {`{"workflow":"chat","input":{"question":7}}`, "/input/question"},
		"a string that is empty": {`{"workflow":"chat","input":""}`, "/input/question"},
		"a missing property":     {`{"workflow":"chat"}`, "/input"},
		"a deep one":             {`{"workflow":"chat","input":{"question":"q","level":0}}`, "/input/level"},
	} {
		t.Run(name, func(t *testing.T) {
			p := readProblem(t, b.do("POST", "/v1/runs", tt.body))
			if p.Status != 400 || len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Pointer, tt.pointer) {
				t.Errorf("%+v", p)
			}
		})
	}
	if b.steps.started() != 0 || b.model.calls.Load() != 0 {
		t.Error("something was started")
	}
}

func TestAWorkflowOfARequestIsReadWhereThatIsAllowed(t *testing.T) {
	b := newBench(t, func(o *Options) { o.InlineWorkflows = true }).serve()
	p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":{"name":"x","bots":{"a":{"prompt":"{{ input.oops","colour":"red"}}}}`))
	if p.Status != 400 || len(p.Errors) == 0 || p.Errors[0].Pointer != "/workflow" || !strings.HasPrefix(p.Errors[0].Detail, "line 1, column ") {
		t.Errorf("%+v", p)
	}
}

// PROTOCOL 3: the request's model goes before the workflow's, and that before the server's default.
func TestTheModelIsTheRequestsOrElseTheWorkflowsOwn(t *testing.T) {
	b := newBench(t, func(o *Options) { o.InlineWorkflows = true }).serve()
	for name, tt := range map[string]struct{ members, want string }{
		"the workflow's": {``, "test:own"},
		"the request's":  {`,"model":"test:asked"`, "test:asked"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := b.do("POST", "/v1/runs?format=jsonl",
				`{"workflow":{"name":"x","model":"test:own","bots":{"a":{"message":"hi","root":"a","format":"text"}}}`+tt.members+`}`)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%d %s %v", resp.StatusCode, text, err)
			}
			if n := strings.Count(string(text), `"model":"`+tt.want+`"`); n != 2 { // of started and of usage
				t.Errorf("%q is named %d times in\n%s", tt.want, n, text)
			}
		})
	}
}

// DW-04: a run fails because of the last failure that was not handled, where none ended it.
func TestAFailureThatWasHandledIsNotTheCause(t *testing.T) {
	o := run.Result{Status: run.StatusFailed, Errors: []ling.ErrorData{{Code: "a"}, {Code: "b"}, {Code: "c", Handled: true}}}
	if cause, ok := o.Cause(); !ok || cause.Code != "b" {
		t.Errorf("%+v %v", cause, ok)
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
		if diff := cmp.Diff([]run.Field{want}, p.Errors); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
		if detail := "query parameter " + want.Parameter + ": " + want.Detail; p.Status != 400 || p.Detail != detail {
			t.Errorf("%q: %d %s", query, p.Status, p.Detail)
		}
	}
}
