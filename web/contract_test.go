package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/api"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/aisdk/aisdktest"
)

// contract holds answers to the description, and knows which of its answers have been seen.
type contract struct {
	doc    *openapi3.T
	router routers.Router
	seen   map[string]bool // "GET /v1/runs 200"
}

// loadContract reads the description, once for all tests: that takes more time than most of them.
var loadContract = sync.OnceValues(func() (contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Contract)
	if err != nil {
		return contract{}, err
	}
	router, err := gorillamux.NewRouter(doc)
	// Of these the description says only that they are text; their events are looked at here.
	for _, media := range []string{"text/event-stream", "application/x-ndjson", "application/yaml", "text/html"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.PlainBodyDecoder)
	}
	return contract{doc: doc, router: router}, err
})

func newContract(t *testing.T) *contract {
	t.Helper()
	c, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	c.seen = map[string]bool{}
	return &c
}

// call is a request and what is to come of it.
type call struct {
	method, path, body string
	header             []string
	status             int
	bad                bool // the request is invalid the description, and is not meant to
}

// check sends a request and holds it and its answer to the description.
func (c *contract) check(t *testing.T, b *bench, want call) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), want.method, b.url+want.path, strings.NewReader(want.body))
	if err != nil {
		t.Fatal(err)
	}
	if want.body != "" {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	for _, line := range want.header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	describe := req.Clone(t.Context())
	describe.Host = ""
	describe.URL.Host, describe.URL.Scheme = "", ""
	describe.Body = io.NopCloser(strings.NewReader(want.body))
	route, params, err := c.router.FindRoute(describe)
	if err != nil {
		t.Fatalf("%s %s: %v", want.method, want.path, err)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: describe, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if !want.bad {
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("the request is not described: %v", err)
		}
	}
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != want.status {
		t.Fatalf("%d, want %d: %s", resp.StatusCode, want.status, body)
	}
	status := strconv.Itoa(want.status)
	if route.Operation.Responses.Value(status) == nil {
		status = "default"
	}
	c.seen[want.method+" "+route.Path+" "+status] = true
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header,
		Body: io.NopCloser(bytes.NewReader(body)), Options: input.Options,
	})
	if err != nil {
		t.Errorf("the answer is not described: %v\n%v\n%s", err, resp.Header, body)
	}
	if want.method == "HEAD" {
		if len(body) > 0 {
			t.Errorf("a body: %q", body)
		}
		return
	}
	switch resp.Header.Get("Content-Type") {
	case "text/event-stream":
		if strings.HasPrefix(route.Path, "/v1/agui/") {
			c.checkAGUI(t, string(body))
			return
		}
		if strings.HasPrefix(route.Path, "/v1/chat/") {
			if s, _ := readStream(t, bytes.NewReader(body)); !s.done {
				t.Errorf("%s", body)
			}
			return
		}
		if strings.HasPrefix(route.Path, "/v1/ui/") {
			if err := (&aisdktest.Message{Version: 7}).Write(body); err != nil {
				t.Error(err)
			}
			return
		}
		c.checkSSE(t, string(body))
	case "application/x-ndjson":
		if strings.HasSuffix(route.Path, "/tape") {
			c.checkEntries(t, string(body))
			return
		}
		c.checkLines(t, string(body))
	}
}

// eventData has the schemas of the data of the named events.
var eventData = map[string]string{
	"started": "StartedData", "restarted": "RestartedData", "usage": "UsageData", "bot": "BotData", "error": "RunError", "finished": "FinishedData", "canceled": "CanceledData",
	"queued": "QueuedData", "waiting": "WaitingData", "retrying": "RetryingData", "approval_required": "ApprovalRequest", "approval_resolved": "ApprovalResolvedData",
	"handoff": "HandoffData", "follow_up": "FollowUpData", "warning": "WarningData", "html": "HTMLData",
}

func (c *contract) checkSSE(t *testing.T, body string) {
	t.Helper()
	var lines strings.Builder
	for e, err := range sse.Read(strings.NewReader(body), nil) {
		if err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(strings.TrimPrefix(e.Data, "{"), "}")
		if e.Type != "" {
			line = fmt.Sprintf(`"event":%q,"data":%s`, e.Type, e.Data)
		}
		if e.LastEventID != "" { // the first of a snapshot have none
			line = `"id":"` + e.LastEventID + `",` + line
		}
		lines.WriteString("{" + line + "}\n")
	}
	if lines.Len() == 0 {
		t.Error("no event")
	}
	c.checkLines(t, lines.String())
}

// checkAGUI holds events of AG-UI to what the description says of them; package agui knows more.
func (c *contract) checkAGUI(t *testing.T, body string) {
	t.Helper()
	var lines strings.Builder
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			t.Fatal(event)
		}
		lines.WriteString(data + "\n")
	}
	c.checkAll(t, "AGUIEvent", values(t, lines.String()))
}

func (c *contract) checkEntries(t *testing.T, body string) {
	t.Helper()
	c.checkAll(t, "Entry", values(t, body))
}

func (c *contract) checkLines(t *testing.T, body string) {
	t.Helper()
	events, data := values(t, body), map[string][]any{}
	c.checkAll(t, "RunEvent", events)
	for _, v := range events {
		e := v.(map[string]any)
		name, _ := e["event"].(string)
		if schema := eventData[name]; schema != "" {
			data[schema] = append(data[schema], e["data"])
		}
	}
	for schema, list := range data {
		c.checkAll(t, schema, list)
	}
}

// checkAll holds values to a schema, all in one go: each check compiles the schema, which takes longer than the check itself.
func (c *contract) checkAll(t *testing.T, schema string, list []any) {
	t.Helper()
	all := openapi3.NewArraySchema()
	all.Items = openapi3.NewSchemaRef("", c.doc.Components.Schemas[schema].Value)
	if err := all.VisitJSON(list, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s: %v in %v", schema, err, list)
	}
}

// values reads lines of JSON.
func values(t *testing.T, body string) (list []any) {
	t.Helper()
	for line := range strings.Lines(body) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, v)
	}
	return list
}

// contractBench is a server on which everything that the description knows can happen.
func contractBench(t *testing.T, edit func(*Options)) *bench {
	return newBench(t, func(o *Options) {
		o.MaxBody, o.Files.MaxSize = 4<<10, 4<<10
		workflow := func(name string, run func(context.Context, *ling.Manager, map[string]any) error) {
			o.Workflows.Register(flow.Func(name, "For the contract.", question, run))
		}
		workflow("encyclopedia", func(ctx context.Context, m *ling.Manager, input map[string]any) error {
			return chatWorkflow().Run(ctx, m, input)
		})
		workflow("broken", func(context.Context, *ling.Manager, map[string]any) error { panic("broken") })
		for name, code := range map[string]string{
			"upstream": adapter.CodeAuth, "limited": adapter.CodeRateLimited, "busy": adapter.CodeOverloaded, "slow": adapter.CodeTimeout,
			"unreachable": adapter.CodeUnavailable, "unpaid": adapter.CodeRateLimited, "dear": adapter.CodeBudget, "looping": bot.CodeLimitReached,
		} {
			workflow(name, func(context.Context, *ling.Manager, map[string]any) error {
				return &adapter.Error{Code: code, Message: "the model's server said no", Retryable: name != "unpaid"}
			})
		}
		o.Models.Register("demo", &scripted{say: func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
			yield(`{"title":"Why the sky is blue","notes":[1]}`)
			return nil
		}, names: []string{"story"}})
		store := tapetest.NewMemory(nil)
		t.Cleanup(func() { store.Close() })
		o.Tapes, o.Workspace, o.FileStore = store, t.TempDir(), memoryFiles(t)
		if edit != nil {
			edit(o)
		}
	})
}

func TestEveryAnswerThatIsDescribedIsGivenAndEveryAnswerIsAsDescribed(t *testing.T) {
	c := newContract(t)
	b := contractBench(t, nil).serve()
	aFile, otherFile := filesPath+"/"+b.upload("a.txt", "some text").ID, filesPath+"/"+b.upload("b", "text").ID
	noFile := filesPath + "/" + "file_unknown"

	// Runs in all states.
	_, going := b.startAsync()
	defer going.finish()
	endedRun, st := b.startAsync()
	st.set("a", `{"b":[1,null,"x"]}`)
	st.finish()
	failedRun := map[string]string{}
	failures := map[string]int{"broken": 500, "upstream": 424, "unreachable": 502, "limited": 429, "unpaid": 402, "busy": 503, "slow": 504, "dear": 402, "looping": 422}
	for workflow := range failures {
		resp := b.do("POST", "/v1/runs", `{"workflow":"`+workflow+`","input":"q"}`, "Prefer: respond-async")
		failedRun[workflow] = resp.Header.Get("X-Run-Id")
	}
	for _, id := range append(slices.Collect(maps.Values(failedRun)), endedRun) {
		<-b.runOf(id).Done()
	}
	gone, unknown := run.NewID(), run.NewID()
	b.expireRun(gone, "")
	keyed := b.do("POST", "/v1/runs", `{"workflow":"chat","input":"q"}`, "Idempotency-Key: kept", "Prefer: respond-async")
	keyed.Body.Close()
	b.putKey("lost", &run.Request{Subject: run.Subject{Workflow: "steps"}}, gone)

	b.session("s-42", "hello", "again")
	b.session("a/b")
	b.session("erased")
	broken := sessionsBench(t, func(s tape.Store) tape.Store { return failing{s} })
	broken.s.o.FileStore = failingFiles{err: errors.New("broken")}
	broken.serve()

	const question, yes = "abcdefghijklmnopqrstuvwxyz", `{"decision":"approve"}`
	const aSession, handoff = "/v1/sessions/s-42", `{"name":"n","state":[1]}`
	const start = "/v1/runs?workflow=chat&input=q"
	const ui, uiInput = "/v1/ui", `{"id":"t","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"q"}]}]}`
	const agui, aguiInput = "/v1/agui", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"q"}]}`
	const aguiForwarded = `{"threadId":"t","runId":"r","messages":[],"forwardedProps":{"input":{}}}`
	b.putKey("lost-agui", &run.Request{Subject: run.Subject{Workflow: "steps"}, Input: json.RawMessage("{}"), Done: true}, gone)
	ended, events := "/v1/runs/"+endedRun, "/v1/runs/"+endedRun+"/events"
	chat := `{"workflow":"chat","input":"q"}`
	rows := map[string][]call{
		"start": {
			{"POST", "/v1/runs", chat, nil, 200, false},
			{"POST", "/v1/runs?include=reserved&done=1", chat, []string{"Accept: application/json"}, 200, false},
			{"POST", "/v1/runs", chat, []string{"Accept: text/event-stream"}, 200, false},
			{"POST", "/v1/runs?format=jsonl&keepalive=1&on_disconnect=cancel", chat, nil, 200, false},
			{"POST", "/v1/runs", chat, []string{"Idempotency-Key: kept"}, 200, false},
			{"POST", "/v1/runs?format=sse", "", []string{"Last-Event-ID: " + unknown + ":3"}, 200, false},
			{"POST", "/v1/runs", chat, []string{"Prefer: respond-async"}, 202, false},
			{"POST", "/v1/runs", `{"workflow":"steps"}`, []string{"Prefer: wait=0"}, 202, false},
			{"POST", "/v1/runs", chat, []string{"Prefer: wait=60"}, 200, false},
			{"POST", "/v1/runs?format=sse&last_event_id=" + endedRun + ":2", "", nil, 204, false},
			{"POST", "/v1/runs", `{"workflow":7}`, nil, 400, true},
			{"POST", "/v1/runs", `{"workflow":"chat","input":{}}`, nil, 400, false},
			{"POST", "/v1/runs", `{"workflow":"nope"}`, nil, 404, false},
			{"POST", "/v1/runs", `{"agent":"nope"}`, nil, 404, false},
			{"POST", "/v1/runs", chat, []string{"Accept: image/png"}, 406, false},
			{"POST", "/v1/runs", `{"workflow":"steps"}`, []string{"Idempotency-Key: lost"}, 410, false},
			{"POST", "/v1/runs", `{"workflow":"chat","input":"other"}`, []string{"Idempotency-Key: kept"}, 422, false},
		},
		"start by GET": {
			{"GET", start, "", nil, 200, false},
			{"GET", start + "&format=sse", "", nil, 200, false},
			{"GET", "/v1/runs?workflow=chat&input.question=q&input.level=2", "", []string{"Accept: application/x-ndjson"}, 200, false},
			{"GET", start + "&model=test:facts&params=%7B%7D&options=%7B%22seed%22:1%7D&filter=%7B%22exclude%22:[%22a%22]%7D&key=g&done=0", "", nil, 200, false},
			{"GET", start, "", []string{"Prefer: respond-async"}, 202, false},
			{"GET", "/v1/runs", "", []string{"Accept: text/event-stream", "Last-Event-ID: " + endedRun + ".2"}, 204, false},
			{"GET", start + "&colour=red", "", nil, 400, false},
			{"GET", start + "&session=s", "", nil, 400, false},
			{"GET", start + "&key=a", "", []string{"Idempotency-Key: b"}, 400, false},
			{"GET", "/v1/runs?workflow=nope", "", nil, 404, false},
			{"GET", "/v1/runs?agent=assistant&input=,help", "", nil, 405, false},
			{"GET", start, "", []string{"Accept: application/pdf"}, 406, false},
			{"GET", "/v1/runs?workflow=steps&key=lost", "", nil, 410, false},
			{"GET", "/v1/runs?workflow=chat&input=other&key=kept", "", nil, 422, false},
		},
		"attach": {
			{"GET", events, "", nil, 200, false},
			{"GET", events + "?after=0&snapshot=1", "", nil, 200, false},
			{"GET", events + "?format=json&include=reserved", "", nil, 200, false},
			{"GET", events, "", []string{"Accept: application/x-ndjson"}, 200, false},
			{"GET", events, "", []string{"Last-Event-ID: " + endedRun + ":2"}, 204, false},
			{"GET", events + "?after=-1", "", nil, 400, true},
			{"GET", events + "?lastEventId=" + endedRun + ":77", "", nil, 400, false},
			{"GET", "/v1/runs/" + unknown + "/events", "", nil, 404, false},
			{"GET", events, "", []string{"Accept: text/html"}, 406, false},
			{"GET", "/v1/runs/" + gone + "/events", "", nil, 410, false},
		},
		"look": {
			{"GET", ended, "", nil, 200, false},
			{"GET", ended + "?include=reserved", "", nil, 200, false},
			{"GET", "/v1/runs/" + failedRun["upstream"], "", nil, 200, false},
			{"HEAD", events, "", nil, 200, false},
			{"HEAD", events + "?format=nope", "", nil, 400, true},
			{"HEAD", events, "", []string{"Accept: image/png"}, 406, false},
			{"HEAD", "/v1/runs/" + unknown + "/events", "", nil, 404, false},
			{"HEAD", "/v1/runs/" + gone + "/events", "", nil, 410, false},
			{"GET", ended + "?include=all", "", nil, 400, true},
			{"GET", "/v1/runs/" + unknown, "", nil, 404, false},
			{"GET", "/v1/runs/" + gone, "", nil, 410, false},
		},
		"cancel": {
			{"POST", "/v1/runs/" + going.m.ID() + "/cancel", "", nil, 202, false},
			{"POST", ended + "/cancel?include=all", "", nil, 400, true},
			{"POST", "/v1/runs/" + unknown + "/cancel", "", nil, 404, false},
			{"POST", ended + "/cancel", "", nil, 409, false},
			{"POST", "/v1/runs/" + gone + "/cancel", "", nil, 410, false},
		},
		"history": {
			{"GET", "/v1/history", "", nil, 200, false},
			{"GET", "/v1/history?limit=2&status=completed,failed&workflow=chat&owner=local&from=2026-01-01T00:00:00Z&to=2126-01-01T00:00:00Z", "", nil, 200, false},
			{"GET", "/v1/history?agent=assistant&session=s", "", nil, 200, false},
			{"GET", "/v1/history?after=x", "", nil, 400, false},
			{"POST", "/v1/history/cancel", `{"owner":"ann"}`, nil, 202, false},
			{"POST", "/v1/history/cancel", `{"owner":7}`, nil, 400, true},
		},
		"sessions": {
			{"GET", "/v1/sessions", "", nil, 200, false},
			{"GET", "/v1/sessions?limit=1", "", nil, 200, false},
			{"GET", "/v1/sessions?limit=0", "", nil, 400, true},
			{"GET", aSession, "", nil, 200, false},
			{"GET", "/v1/sessions/a%2Fb", "", nil, 200, false},
			{"GET", aSession + "?x=1", "", nil, 400, false},
			{"GET", "/v1/sessions/nobody", "", nil, 404, false},
		},
		"tapes": {
			{"GET", aSession + "/tape", "", nil, 200, false},
			{"GET", aSession + "/tape?after=1&limit=1&kinds=message,anchor&q=again&format=json", "", nil, 200, false},
			{"GET", aSession + "/tape?limit=1000000", "", []string{"Accept: application/jsonl"}, 200, false},
			{"GET", aSession + "/tape?limit=0", "", nil, 400, true},
			{"GET", "/v1/sessions/nobody/tape", "", nil, 404, false},
			{"GET", aSession + "/tape", "", []string{"Accept: text/event-stream"}, 406, false},
			{"GET", aSession + "/approvals", "", nil, 200, false},
			{"GET", aSession + "/approvals?x=1", "", nil, 400, false},
			{"GET", "/v1/sessions/nobody/approvals", "", nil, 404, false},
			{"POST", aSession + "/approvals/" + question, "{}", nil, 400, true},
			{"POST", aSession + "/approvals/" + question, yes, nil, 404, false},
			{"POST", aSession + "/approvals/c1", yes, nil, 410, false},
			{"POST", aSession + "/cancel?x=1", "", nil, 400, false},
			{"POST", "/v1/sessions/nobody/cancel", "", nil, 404, false},
			{"POST", aSession + "/cancel", "", nil, 409, false},
			{"POST", aSession + "/handoff", handoff, nil, 201, false},
			{"POST", aSession + "/handoff", `{"state":1}`, nil, 400, true},
			{"POST", "/v1/sessions/nobody/handoff", handoff, nil, 404, false},
			{"POST", aSession + "/fork", "", nil, 201, false},
			{"POST", aSession + "/fork", `{"session":"telegram/42","at":2}`, nil, 201, false},
			{"POST", aSession + "/fork", `{"at":99}`, nil, 400, false},
			{"POST", "/v1/sessions/nobody/fork", "", nil, 404, false},
			{"POST", aSession + "/fork", `{"session":"a/b"}`, nil, 409, false},
			{"POST", aSession + "/fork", `{"session":"57d915daec76c2cc"}`, nil, 201, false}, // the next id has the same hash
			{"GET", "/v1/sessions/9547bebb3b269de0", "", nil, 409, false},
			{"HEAD", "/v1/sessions/9547bebb3b269de0", "", nil, 409, false},
			{"GET", "/v1/sessions/9547bebb3b269de0/tape", "", nil, 409, false},
			{"DELETE", "/v1/sessions/9547bebb3b269de0", "", nil, 409, false},
			{"DELETE", "/v1/sessions/erased?x=1", "", nil, 400, false},
			{"DELETE", "/v1/sessions/erased", "", nil, 204, false},
			{"DELETE", "/v1/sessions/erased", "", nil, 404, false},
		},
		"chat completions": {
			{"POST", completions, chatBody("chat", "q", ""), nil, 200, false},
			{"POST", completions, chatBody("chat", "q", streaming), nil, 200, false},
			{"POST", completions, chatBody("chat", "q", `,"n":2`), nil, 400, false},
			{"POST", completions, chatBody("nobody", "q", ""), nil, 404, false},
			{"POST", completions, chatBody("chat", "q", ""), []string{"Idempotency-Key: kept"}, 422, false},
			{"GET", "/v1/models/demo%3Astory", "", nil, 200, false},
			{"HEAD", "/v1/models/chat", "", nil, 200, false},
			{"GET", "/v1/models/no%2Fsuch", "", nil, 404, false},
			{"HEAD", "/v1/models/no%2Fsuch", "", nil, 404, false},
		},
		"AG-UI": {
			{"POST", ui + "/chat?v=5", uiInput, nil, 200, false},
			{"POST", ui + "/chat", uiInput, []string{"Idempotency-Key: ui"}, 200, false},
			{"POST", ui + "/chat", `{"id":"t","messages":[]}`, nil, 400, true},
			{"POST", ui + "/nobody", uiInput, nil, 404, false},
			{"POST", ui + "/chat", uiInput, []string{"Idempotency-Key: lost"}, 422, false},
			{"POST", ui + "/chat?v=6", `{"id":"t","messages":[{"id":"` + gone + `","role":"assistant","parts":[{"type":"dynamic-tool","state":"approval-responded","approval":{"id":"c","approved":true}}]}]}`, nil, 410, false},
			{"POST", ui + "/chat?v=6", `{"id":"","messages":[{"id":"` + unknown + `","role":"assistant","parts":[]}]}`, nil, 400, true},
			{"POST", ui + "/chat/object?on_disconnect=cancel", `{"question":"q"}`, nil, 200, false},
			{"POST", ui + "/chat/object", `{"question":"q"}`, []string{"Idempotency-Key: object"}, 200, false},
			{"POST", ui + "/chat/object", `{"question":"r"}`, []string{"Idempotency-Key: object"}, 422, false},
			{"POST", ui + "/steps/object", `{}`, []string{"Idempotency-Key: lost-agui"}, 410, false},
			{"POST", ui + "/chat/object", `{"nonsense":1}`, nil, 400, false},
			{"POST", ui + "/nobody/object", `"q"`, nil, 404, false},
			{"GET", ui + "/chat/s-42", "", nil, 200, false},
			{"HEAD", ui + "/chat/s-42?v=6", "", nil, 200, false},
			{"GET", ui + "/chat/s-42?x=1", "", nil, 400, false},
			{"GET", ui + "/nobody/s-42", "", nil, 404, false},
			{"GET", ui + "/workflow%2Fchat/s-42/stream", "", nil, 204, false},
			{"GET", ui + "/chat/s-42/stream?v=x", "", nil, 400, true},
			{"GET", ui + "/nobody/s-42/stream", "", nil, 404, false},
			{"POST", agui + "/chat?on_disconnect=cancel", aguiInput, nil, 200, false},
			{"POST", agui + "/chat", `{"threadId":"t","runId":"r","messages":[]}`, nil, 400, false},
			{"POST", agui + "/chat?on_busy=steer", aguiInput, nil, 400, true},
			{"POST", agui + "/chat", `{"threadId":7}`, nil, 400, true},
			{"POST", agui + "/nobody", aguiInput, nil, 404, false},
			{"POST", agui + "/steps", aguiForwarded, []string{"Idempotency-Key: lost-agui"}, 410, false},
			{"POST", agui + "/chat", aguiInput, []string{"Idempotency-Key: kept"}, 422, false},
			{"GET", agui + "/workflow%2Fchat/t", "", nil, 200, false},
			{"GET", agui + "/chat/s-42", "", nil, 200, false},
			{"GET", agui + "/chat/t?x=1", "", nil, 400, false},
			{"GET", agui + "/nobody/t", "", nil, 404, false},
		},
		"files": {
			{"POST", "/v1/files?filename=a.json", `"x"`, nil, 201, false},
			{"POST", "/v1/files?x=1", `"x"`, nil, 400, false},
			{"POST", "/v1/files", `"` + strings.Repeat("x", 5000) + `"`, nil, 413, false},
			{"POST", "/v1/files", "PK\x03\x04", nil, 415, true},
			{"GET", aFile, "", nil, 200, false},
			{"GET", aFile + "/content", "", nil, 200, false},
			{"GET", "/v1/files/x", "", nil, 404, false},
			{"GET", "/v1/files/x/content", "", nil, 404, false},
			{"DELETE", "/v1/files/x", "", nil, 404, false},
			{"DELETE", otherFile, "", nil, 200, false},
		},
		"the rest": {
			{"POST", "/v1/tickets", `{"path":"/v1/runs"}`, nil, 201, false},
			{"POST", "/v1/tickets", `{"path":"x"}`, nil, 400, false},
			{"GET", "/v1/workflows", "", nil, 200, false},
			{"GET", "/v1/workflows/chat", "", nil, 200, false},
			{"GET", "/v1/workflows/no%2Fpe", "", nil, 404, false},
			{"GET", "/v1/agents", "", nil, 200, false},
			{"GET", "/v1/models", "", nil, 200, false},
			{"GET", "/healthz", "", nil, 200, false},
			{"GET", "/readyz", "", nil, 200, false},
			{"GET", "/openapi.yaml", "", nil, 200, false},
			{"GET", "/openapi.yaml", "", []string{"If-None-Match: " + contractTag}, 304, false},
			{"GET", "/", "", nil, 200, false},
			{"GET", "/", "", []string{"Accept: text/html"}, 200, false},
			{"GET", "/", "", []string{"Accept: text/html", "If-None-Match: *"}, 304, false},
			{"GET", "/assets/notices.txt", "", nil, 200, false},
			{"GET", "/assets/notices.txt", "", []string{"If-None-Match: *"}, 304, false},
			{"GET", "/assets/no.js", "", nil, 404, false},
		},
	}
	for name, calls := range rows {
		for _, want := range calls {
			t.Run(fmt.Sprintf("%s/%s %s %d", name, want.method, wording.Clip(want.path), want.status), func(t *testing.T) { c.check(t, b, want) })
			if want.method == "GET" && want.status != 304 && (name == "look" || name == "history" || name == "sessions" || name == "files" || name == "the rest") {
				want.method = "HEAD"
				t.Run(fmt.Sprintf("%s/HEAD %s %d", name, wording.Clip(want.path), want.status), func(t *testing.T) { c.check(t, b, want) })
			}
		}
	}
	for workflow, status := range failures {
		for _, want := range []call{
			{"POST", "/v1/runs", `{"workflow":"` + workflow + `","input":"q"}`, nil, status, false},
			{"GET", "/v1/runs?workflow=" + workflow + "&input=q", "", nil, status, false},
			{"GET", "/v1/runs/" + failedRun[workflow] + "/events?format=json", "", nil, status, false},
			{"POST", ui + "/" + workflow + "/object", `"q"`, nil, status, false},
			{"POST", completions, chatBody(workflow, "q", ""), nil, status, false},
			{"POST", completions, chatBody(workflow, "q", streaming), nil, status, false},
		} {
			t.Run(fmt.Sprint("failures/", want.method, " ", want.path, " ", status), func(t *testing.T) { c.check(t, b, want) })
		}
	}
	for path, item := range c.doc.Paths.Map() {
		address := strings.NewReplacer("{run}", endedRun, "{approval}", question, "{id}", "s-42", "{agent}", "chat").Replace(path)
		for method, op := range item.Operations() {
			for status, request := range map[int][2]string{413: {`"` + strings.Repeat("x", 9000) + `"`, "application/json"}, 415: {"{}", "text/plain"}} {
				if op.Responses.Value(strconv.Itoa(status)) == nil || path == "/v1/files" {
					continue
				}
				want := call{method, address, request[0], []string{"Content-Type: " + request[1]}, status, true}
				t.Run(fmt.Sprint(status, " ", method, " ", path), func(t *testing.T) { c.check(t, b, want) })
			}
		}
	}
	draining := contractBench(t, nil).serve()
	if err := draining.s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []call{
		{"GET", "/readyz", "", nil, 503, false},
		{"HEAD", "/readyz", "", nil, 503, false},
		{"POST", "/v1/runs", chat, nil, 503, false},
		{"GET", start, "", nil, 503, false},
		{"POST", agui + "/chat", aguiInput, nil, 503, false},
		{"POST", ui + "/chat", uiInput, nil, 503, false},
	} {
		t.Run("draining/"+want.method+" "+want.path, func(t *testing.T) { c.check(t, draining, want) })
	}
	c.checkAgents(t)
	c.checkChannels(t)
	c.checkDoor(t)
	none := newBench(t, nil).serve() // without a store
	for _, method := range []string{"GET", "HEAD"} {
		t.Run("no files/"+method, func(t *testing.T) { c.check(t, none, call{"POST", "/v1/files", `"x"`, nil, 404, false}) })
		t.Run("no sessions/"+method, func(t *testing.T) { c.check(t, none, call{method, "/v1/sessions", "", nil, 404, false}) })
	}
	away := awayBench(t) // its runs cannot be reached
	for _, want := range []call{
		{"GET", "/v1/runs/" + run.NewID(), "", nil, 503, false},
		{"HEAD", "/v1/runs/" + run.NewID(), "", nil, 503, false},
		{"HEAD", "/v1/runs/" + run.NewID() + "/events", "", nil, 503, false},
		{"POST", "/v1/runs/" + run.NewID() + "/cancel", "", nil, 503, false},
		{"POST", "/v1/runs/" + run.NewID() + "/approvals/" + run.NewID(), `{"decision":"approve"}`, nil, 503, false},
	} {
		t.Run("away/"+want.method+" "+want.path, func(t *testing.T) { c.check(t, away, want) })
	}
	for status, err := range map[int]error{500: errors.New("broken"), 503: store.ErrAway} { // runs cannot be listed
		unlisted := unlistedBench(t, err)
		for _, want := range []call{
			{"GET", "/v1/history", "", nil, status, false},
			{"HEAD", "/v1/history", "", nil, status, false},
			{"POST", "/v1/history/cancel", `{"owner":"ann"}`, nil, status, false},
		} {
			t.Run(fmt.Sprint("no list of runs/", status, " ", want.method, " ", want.path), func(t *testing.T) { c.check(t, unlisted, want) })
		}
	}
	noTapes := newBench(t, func(o *Options) { o.Tapes, o.FileStore = tapesAway{}, failingFiles{err: databaseAway{}} }).serve() // what keeps sessions cannot be reached
	for path, item := range c.doc.Paths.Map() {
		if !strings.HasPrefix(path, "/v1/sessions") && !strings.HasPrefix(path, "/v1/files") {
			continue
		}
		address := strings.NewReplacer("/v1/files/{id}", noFile, "{id}", "s-42", "{approval}", question).Replace(path)
		for method, op := range item.Operations() {
			for status, on := range map[int]*bench{500: broken, 503: noTapes} {
				if op.Responses.Value(strconv.Itoa(status)) == nil || on == noTapes && (method == "DELETE" && address != noFile || strings.HasSuffix(path, "/handoff")) { // that of turns which end: see checkAgents
					continue
				}
				body := map[string]string{"/handoff": handoff, "{approval}": yes, "/files": `"x"`}[path[strings.LastIndexAny(path, "/{"):]]
				t.Run(fmt.Sprint(status, " ", method, " ", path), func(t *testing.T) { c.check(t, on, call{method, address, body, nil, status, false}) })
			}
		}
	}
	t.Run("500 AG-UI", func(t *testing.T) { c.check(t, broken, call{"GET", agui + "/chat/s-42", "", nil, 500, false}) })
	t.Run("500 AI SDK", func(t *testing.T) { c.check(t, broken, call{"GET", ui + "/chat/s-42", "", nil, 500, false}) })

	described := map[string]bool{}
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				described[method+" "+path+" "+status] = true
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(c.seen))); diff != "" {
		t.Errorf("described, but not seen (-), or the other way (+):\n%s", diff)
	}
}

// checkAgents is what can happen with an agent.
func (c *contract) checkAgents(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	resp := a.say("use danger", "", asEvents)
	question, _, stop := a.question(resp)
	defer stop()
	gone := run.NewID()
	a.expireRun(gone, "")
	path := "/v1/runs/" + resp.Header.Get("X-Run-Id") + "/approvals/" + question
	const yes, busy = `{"decision":"approve","remember":"session"}`, `{"agent":"assistant","session":"s","input":"x","on_busy":"reject"}`
	for _, want := range []call{
		{"POST", "/v1/runs", busy, nil, 409, false},
		{"POST", "/v1/agui/assistant?on_busy=reject", `{"threadId":"s","runId":"r","messages":[{"role":"user","content":"x"}]}`, nil, 409, false},
		{"GET", "/v1/runs?agent=assistant&session=s&input=x&on_busy=reject", "", nil, 409, false},
		{"POST", "/v1/ui/assistant?v=7", `{"id":"s","messages":[{"id":"` + resp.Header.Get("X-Run-Id") + `","role":"assistant","parts":[{"type":"dynamic-tool","state":"approval-responded","approval":{"id":"no","approved":true}}]}]}`, nil, 409, false},
		{"GET", "/v1/ui/assistant/s/stream?v=6", "", nil, 200, false},
		{"POST", "/v1/sessions/s/handoff", `{"name":"n"}`, nil, 409, false},
		{"POST", path, `{"decision":"perhaps"}`, nil, 400, true},
		{"POST", "/v1/runs/" + resp.Header.Get("X-Run-Id") + "/approvals/" + run.NewID(), yes, nil, 404, false},
		{"POST", path + "x", yes, nil, 410, false},
		{"POST", "/v1/runs/" + gone + "/approvals/" + question, yes, nil, 410, false},
		{"POST", path, yes, nil, 204, false},
		{"POST", path, yes, nil, 409, false},
		{"POST", "/v1/sessions/s/approvals/" + question, yes, nil, 409, false},
		{"GET", "/v1/runs?agent=assistant&session=s&input=again", "", []string{"Accept: text/event-stream"}, 200, false},
	} {
		t.Run("agents/"+want.method+" "+wording.Clip(want.path)+" "+strconv.Itoa(want.status), func(t *testing.T) { c.check(t, a.bench, want) })
	}
	other := newAgentBench(t, nil)
	other.serve()
	question, _, end := other.question(other.say("use danger", "", asEvents))
	defer end()
	for _, want := range []call{
		{"GET", "/v1/sessions/s/approvals", "", nil, 200, false},
		{"POST", "/v1/sessions/s/approvals/" + question, `{"decision":"deny"}`, nil, 204, false},
		{"POST", "/v1/sessions/s/cancel", "", nil, 202, false},
	} {
		if want.status == 202 { // once more, so that a turn runs
			_, _, end := other.question(other.say("use danger", "", asEvents))
			defer end()
		}
		t.Run("agents/"+want.method+" "+wording.Clip(want.path)+" "+strconv.Itoa(want.status), func(t *testing.T) { c.check(t, other.bench, want) })
	}
	if err := a.s.o.Turns.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []call{
		{"POST", "/v1/sessions/s/handoff", `{"name":"n"}`, nil, 503, false},
		{"DELETE", "/v1/sessions/s", "", nil, 503, false},
	} {
		t.Run("agents/"+want.method+" "+want.path, func(t *testing.T) { c.check(t, a.bench, want) })
	}
}

func TestTheRoutesAreThoseThatAreDescribed(t *testing.T) {
	b := newBench(t, nil)
	defer b.s.Close()
	var described []string
	for path, item := range newContract(t).doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+strings.ReplaceAll(path, "/models/{model}", "/models/*")) // names with slashes are many segments
		}
	}
	slices.Sort(described)
	if diff := cmp.Diff(described, routesOf(t, b.s)); diff != "" {
		t.Errorf("described, but not served (-), or the other way (+):\n%s", diff)
	}
}

func TestTheMembersAndParametersAreThoseThatAreDescribed(t *testing.T) {
	c := newContract(t)
	b := contractBench(t, nil).serve()
	b.session("s")
	id, st := b.startAsync()
	defer st.finish()
	known := func(resp *http.Response) []string {
		t.Helper()
		p := readProblem(t, resp)
		_, list, ok := strings.Cut(p.Errors[0].Detail, "expected one of ")
		if !ok {
			t.Fatal(p.Detail)
		}
		return strings.Split(list, ", ")
	}
	for operation, path := range map[string]string{
		"GET /v1/runs": "/v1/runs", "POST /v1/runs": "/v1/runs", "GET /v1/runs/{run}": "/v1/runs/" + id,
		"GET /v1/runs/{run}/events": "/v1/runs/" + id + "/events", "POST /v1/runs/{run}/cancel": "/v1/runs/" + id + "/cancel",
		"GET /v1/history": "/v1/history", "GET /v1/sessions": "/v1/sessions", "GET /v1/sessions/{id}/tape": "/v1/sessions/s/tape",
	} {
		method, route, _ := strings.Cut(operation, " ")
		var described []string
		for _, p := range c.doc.Paths.Value(route).GetOperation(method).Parameters {
			if p.Value.In == "query" && p.Value.Name != "ticket" { // taken off before a handler sees the query
				described = append(described, p.Value.Name)
			}
		}
		slices.Sort(described)
		body := ""
		if route == "/v1/runs" && method == "POST" {
			body = "{}"
		}
		if diff := cmp.Diff(described, known(b.do(method, path+"?nonsense=1", body))); diff != "" {
			t.Errorf("%s: %s", operation, diff)
		}
	}
	for schema, try := range map[string][2]string{
		"StartRunRequest": {"/v1/runs", `{"nonsense":1}`}, "ModelOptions": {"/v1/runs", `{"options":{"nonsense":1}}`},
		"Filter": {"/v1/runs", `{"filter":{"nonsense":1}}`}, "CreateAnchorRequest": {"/v1/sessions/s/handoff", `{"nonsense":1}`},
		"CancelRunsRequest": {"/v1/history/cancel", `{"nonsense":1}`}, "ForkSessionRequest": {"/v1/sessions/s/fork", `{"nonsense":1}`}, "ApprovalDecision": {"/v1/runs/" + id + "/approvals/" + run.NewID(), `{"nonsense":1}`},
	} {
		described := slices.Sorted(maps.Keys(c.doc.Components.Schemas[schema].Value.Properties))
		if diff := cmp.Diff(described, known(b.do("POST", try[0], try[1]))); diff != "" {
			t.Errorf("%s: %s", schema, diff)
		}
	}
}

func TestTheExamplesOfTheDescriptionWork(t *testing.T) {
	c := newContract(t)
	b := contractBench(t, nil).serve()
	media := c.doc.Paths.Value("/v1/runs").Post.RequestBody.Value.Content["application/json"]
	if len(media.Examples) < 3 {
		t.Fatal("the examples are gone")
	}
	for name, example := range media.Examples {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(example.Value.Value)
			if err != nil {
				t.Fatal(err)
			}
			on := b
			if name == "agent" {
				on = newAgentBench(t, nil).serve()
			}
			c.check(t, on, call{"POST", "/v1/runs", string(body), nil, 200, false})
		})
	}
	run := c.doc.Components.Responses["Run"].Value.Content
	t.Run("events", func(t *testing.T) { c.checkSSE(t, run["text/event-stream"].Example.(string)) })
	t.Run("lines", func(t *testing.T) { c.checkLines(t, run["application/x-ndjson"].Example.(string)) })
	// The events of the example make the document of the example.
	t.Run("fold", func(t *testing.T) {
		var f folded
		list, _ := events(strings.NewReader(run["text/event-stream"].Example.(string)))
		for _, e := range list {
			f.take(t, e)
		}
		want, err := json.Marshal(run["application/json"].Example.(map[string]any)["result"])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), f.json()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheCodesOfProblemsAreThoseThatAreDescribed(t *testing.T) {
	described := []string{}
	for _, code := range newContract(t).doc.Components.Schemas["ProblemCode"].Value.Enum {
		described = append(described, code.(string))
	}
	slices.Sort(described)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(wire.Statuses)), described); diff != "" {
		t.Errorf("(-known +described):\n%s", diff)
	}
}
