package web

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

// talker is a model of agents, and all models of a server. It answers by the last thing that it is told:
//
//	"use NAME"     it calls the tool of that name, and then repeats what came of it
//	"wait"         it says "…" and answers when told to, by go
//	anything else  it says how many messages it has got, and repeats the last
type talker struct {
	mu    sync.Mutex
	asked []adapter.Request
	waits chan struct{} // gets one when it waits
	goOn  chan struct{}
}

func (m *talker) Model(string) (adapter.Model, error) { return m, nil }
func (m *talker) Names() []string                     { return []string{"talk"} }

func (m *talker) requests() []adapter.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

func (m *talker) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		m.mu.Lock()
		m.asked = append(m.asked, req)
		m.mu.Unlock()
		last := req.Messages[len(req.Messages)-1]
		last.Content = last.Content[strings.LastIndex("\n\n"+last.Content, "\n\n"):] // what was said before and had no answer is joined with it
		end := adapter.Chunk{Finish: adapter.FinishStop, Usage: &adapter.Usage{PromptTokens: 4, CompletionTokens: 6, TotalTokens: 10}}
		name, calls := strings.CutPrefix(last.Content, "use ")
		switch {
		case last.Role == adapter.User && calls:
			_ = yield(adapter.Chunk{Model: "test:talk", Reasoning: "A tool helps.", Text: "Let me see."}, nil) &&
				yield(adapter.Chunk{ToolCall: &adapter.ToolCall{ID: "c1", Name: name, Arguments: `{"place":`}}, nil) &&
				yield(adapter.Chunk{ToolCall: &adapter.ToolCall{ID: "c1", Arguments: `"here"}`}}, nil) &&
				yield(end, nil)
		case last.Content == "wait":
			if !yield(adapter.Chunk{Model: "test:talk", Text: "…"}, nil) {
				return
			}
			m.waits <- struct{}{}
			select {
			case <-m.goOn:
				yield(end, nil)
			case <-ctx.Done():
				yield(adapter.Chunk{}, context.Cause(ctx))
			}
		case last.Content == "fail":
			yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeAuth, Message: "the model's server refused the key"})
		default:
			_ = yield(adapter.Chunk{Model: "test:talk", Text: strconv.Itoa(len(req.Messages)+1) + ": "}, nil) &&
				yield(adapter.Chunk{Text: last.Content}, nil) && yield(end, nil)
		}
	}
}

// sole is a server's only agent.
type sole struct{ *agent.Agent }

func (sole) Names() []string { return []string{"assistant"} }

func (sole) Workflow(string) string { return "" }

func (s sole) Remembered(ctx context.Context, _ string, t *tape.Tape) ([]string, error) {
	return s.Agent.Remembered(ctx, t)
}

// agentBench is a server with an agent.
type agentBench struct {
	*bench
	talk *talker
	ran  chan string // what the tool "danger" was called with
}

// memoryFiles is a store of files that ends with the test.
func memoryFiles(t testing.TB) FileStore {
	t.Helper()
	d, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d.Files()
}

func newAgentBench(t testing.TB, edit func(*Options, *agent.Options)) *agentBench {
	t.Helper()
	a := &agentBench{talk: &talker{waits: make(chan struct{}, 100), goOn: make(chan struct{})}, ran: make(chan string, 100)}
	type where struct {
		Place string `json:"place"`
	}
	tools, err := tool.NewSet(
		tool.Must(tool.New("weather", "Says how the weather is.", func(_ context.Context, in where) (map[string]string, error) {
			return map[string]string{"sky": "clear <" + in.Place + ">"}, nil
		})),
		tool.Must(tool.New("broken", "Fails.", func(context.Context, where) (string, error) { return "", errors.New("out of order") })),
		tool.Must(tool.New("danger", "Asks before.", func(_ context.Context, in where) (string, error) {
			a.ran <- in.Place
			return "done", nil
		}, tool.WithApproval(tool.Always))),
	)
	if err != nil {
		t.Fatal(err)
	}
	store := tapetest.NewMemory(nil)
	a.bench = newBench(t, func(o *Options) {
		o.MaxBody = 4 << 10
		o.Models.Register("talk", a.talk)
		o.Models.Default = "talk:talk"
		o.Tapes, o.Workspace, o.FileStore = store, t.TempDir(), memoryFiles(t)
		ao := agent.Options{Name: "assistant", Models: a.talk, Model: "talk:talk", Tools: tools, Store: store, Log: o.Log}
		o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Log: o.Log})
		if edit != nil {
			edit(o, &ao)
		}
		the, err := agent.New(ao)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Turns.Register(agent.Name, the); err != nil {
			t.Fatal(err)
		}
		if _, two := o.Agents.(namesake); two {
			o.Agents = namesake{sole{the}}
		} else {
			o.Agents = sole{the}
		}
	})
	turns := a.s.o.Turns
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = turns.Drain(ended)
		store.Close()
	})
	return a
}

// say starts a run in the session s.
func (a *agentBench) say(text, more string, header ...string) *http.Response {
	a.t.Helper()
	quoted, _ := json.Marshal(text)
	return a.do("POST", "/v1/runs", `{"agent":"assistant","session":"s","input":`+string(quoted)+more+`}`, header...)
}

// names are the names of a stream's named events.
func named(t testing.TB, resp *http.Response) (f *folded, data map[string]string) {
	t.Helper()
	f, data = &folded{}, map[string]string{}
	list, broken := events(resp.Body)
	resp.Body.Close()
	if broken {
		t.Error("the stream was broken off")
	}
	for _, e := range list {
		f.take(t, e)
		if e.Type != "" {
			data[e.Type] = e.Data
		}
	}
	return f, data
}

// tapeOf are the entries of the session s, as kind and payload.
func (a *agentBench) tapeOf(session string) string {
	a.t.Helper()
	var lines []string
	for _, e := range get[entryPage](a.bench, sessionPath(session)+"/tape?limit=1000").Entries {
		lines = append(lines, e.Kind+" "+string(e.Payload))
	}
	return strings.Join(lines, "\n")
}

const asEvents = "Accept: text/event-stream"

// DP-03: a session says which agent answers in it, so that a client lists an agent's sessions and opens them with that agent.
func TestASessionKnowsItsAgent(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	readDocument(t, a.say("hello", ""))
	readDocument(t, a.do("POST", "/v1/runs", `{"agent":"assistant","session":"commands","input":",help"}`))
	a.session("older", "from a server that named no agent")
	got := map[string]string{}
	for _, s := range get[sessionList](a.bench, "/v1/sessions").Sessions {
		got[s.ID] = s.Agent
		if one := get[session](a.bench, sessionPath(s.ID)); one.Agent != s.Agent {
			t.Errorf("%s: the session says %q, the list %q", s.ID, one.Agent, s.Agent)
		}
	}
	if diff := cmp.Diff(map[string]string{"s": "assistant", "commands": "assistant", "older": ""}, got); diff != "" {
		t.Error(diff)
	}
}

// TU-46
func TestWhatAnAgentDoesIsToldOnTheRunsTube(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	resp := a.say("use weather", `,"done":true`, asEvents)
	f, data := named(t, resp)
	if f.terminal != `finished{"status":"completed"}` || !strings.Contains(data["started"], `"agent":"assistant","session":"s"`) {
		t.Errorf("%s %s", f.terminal, data)
	}
	d := readDocument(t, a.do("GET", resp.Header.Get("Location")+"?include=reserved", ""))
	// The second request ends with the tool's result.
	if !strings.HasPrefix(string(d.Result), `"Let me see.\n\n5: `) || !strings.HasSuffix(string(d.Result), `{\"sky\":\"clear <here>\"}"`) {
		t.Errorf("%s", d.Result)
	}
	want := `{"$reasoning_context":"A tool helps.","$tools":{"0":{"id":"c1","name":"weather","arguments":{"place":"here"}}},
		"$tool_results":{"0":{"sky":"clear <here>"}}}`
	var got, wanted any
	if json.Unmarshal(d.Reserved, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
		t.Fatalf("%s", d.Reserved)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s", diff)
	}
	if d.Usage["assistant"].TotalTokens != 20 {
		t.Errorf("%+v", d.Usage)
	}
	// A tool that fails is an error that the run goes on after; what it says is for the model.
	d = readDocument(t, a.say("use broken", ""))
	if d.Status != run.StatusCompleted || len(d.Errors) != 1 || d.Errors[0].Message != "the tool broken has failed" || d.Errors[0].ID == "" || d.Errors[0].Fatal {
		t.Errorf("%+v", d)
	}
}

// question waits for the question of a stream, and returns its id.
func (a *agentBench) question(resp *http.Response) (id string, next func() (string, string), stop func()) {
	a.t.Helper()
	event, stop := liveEvents(a.t, resp)
	next = func() (string, string) {
		e := event()
		return e.Type, e.Data
	}
	for {
		if name, data := next(); name == "approval_required" {
			var q struct {
				ID, Call, Tool string
				Arguments      json.RawMessage
				Expires        time.Time
			}
			if err := json.Unmarshal([]byte(data), &q); err != nil || q.Call != "c1" || q.Tool != "danger" || string(q.Arguments) != `{"place":"here"}` || q.Expires.IsZero() {
				a.t.Fatalf("%s: %v", data, err)
			}
			return q.ID, next, stop
		}
	}
}

// AG-40, AG-41, AG-71, AG-72
func TestACallWaitsForApproval(t *testing.T) {
	for _, tt := range []struct{ body, decision, result string }{
		{`{"decision":"deny","reason":"not on a Sunday"}`, "deny", "not on a Sunday"},
		{`{"decision":"approve","remember":"session"}`, "approve", "done"},
	} {
		t.Run(tt.decision, func(t *testing.T) {
			a := newAgentBench(t, nil)
			a.serve()
			resp := a.say("use danger", "", asEvents)
			call, next, stop := a.question(resp)
			defer stop()
			select {
			case <-a.ran:
				t.Fatal("it has run")
			default:
			}
			path := resp.Header.Get("Location") + "/approvals/"
			if p := readProblem(t, a.do("POST", path+run.NewID(), tt.body)); p.Status != 404 {
				t.Errorf("%+v", p)
			}
			// The model's id of the call was the name of the question once.
			if p := readProblem(t, a.do("POST", path+"c1", tt.body)); p.Status != 410 || !strings.Contains(p.Detail, "/v1/runs/{run}/approvals/{approval}") {
				t.Errorf("%+v", p)
			}
			if p := readProblem(t, a.do("POST", path+call, `{}`)); p.Status != 400 || p.Errors[0].Pointer != "/decision" {
				t.Errorf("%+v", p)
			}
			if r := a.do("POST", path+call, tt.body); r.StatusCode != 204 {
				t.Fatalf("%d %s", r.StatusCode, text(t, r))
			}
			if p := readProblem(t, a.do("POST", path+call, tt.body)); p.Status != 409 {
				t.Errorf("%+v", p)
			}
			for {
				kind, data := next()
				if kind == "approval_resolved" && !strings.Contains(data, `"decision":"`+tt.decision+`"`) {
					t.Error(data)
				}
				if kind == "finished" {
					break
				}
			}
			d := readDocument(t, a.do("GET", resp.Header.Get("Location"), ""))
			if d.Status != run.StatusCompleted || !strings.Contains(string(d.Result), tt.result) {
				t.Errorf("%+v %s", d, d.Result)
			}
			if ran := len(a.ran) == 1; ran != (tt.decision == "approve") {
				t.Errorf("it has run: %v", ran)
			}
			session := "/v1/sessions/" + d.Session
			if got, remembered := text(t, a.do("GET", session, "")), strings.Contains(tt.body, "remember"); strings.Contains(got, `"approved":["danger"]`) != remembered { // DS-06
				t.Error(got)
			}
			if strings.Contains(tt.body, "remember") { // it is not asked again
				if d := readDocument(t, a.say("use danger", "")); !strings.Contains(string(d.Result), "done") {
					t.Errorf("%+v", d)
				}
				resp := a.do("POST", "/v1/runs", `{"agent":"assistant","session":"`+d.Session+`","input":",ask danger"}`)
				if said, got := text(t, resp), text(t, a.do("GET", session, "")); strings.Contains(got, "approved") {
					t.Errorf("%s after %s", got, said)
				}
			}
		})
	}
}

// AG-40
func TestWhereNobodyCanAnswerACallIsDeniedAtOnce(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	d := readDocument(t, a.say("use danger", ""))
	if d.Status != run.StatusCompleted || !strings.Contains(string(d.Result), "denied") || len(a.ran) != 0 {
		t.Errorf("%+v %s", d, d.Result)
	}
	// Whoever goes on with something else can come back with the answer.
	resp := a.say("use danger", "", "Prefer: respond-async")
	resp = a.do("GET", resp.Header.Get("Location")+"/events", "")
	call, _, stop := a.question(resp)
	defer stop()
	if r := a.do("POST", resp.Header.Get("Location")+"/approvals/"+call, `{"decision":"approve"}`); r.StatusCode != 204 {
		t.Error(r.StatusCode)
	}
	<-a.ran
}

// AG-70
func TestABusySessionQueuesOrSteers(t *testing.T) {
	t.Run("queue", func(t *testing.T) {
		a, first := busy(t, nil)
		second := a.say("next", "", asEvents)
		event, stop := liveEvents(t, second)
		defer stop()
		event() // started
		if e := event(); e.Type != "queued" || e.Data != `{"position":1}` {
			t.Errorf("%+v", e)
		}
		a.talk.goOn <- struct{}{}
		if f, _ := named(t, first); f.terminal != `finished{"status":"completed"}` {
			t.Error(f.terminal)
		}
		for e := event(); e.Type != "finished"; e = event() {
		}
	})
	t.Run("steer", func(t *testing.T) {
		a, first := busy(t, nil)
		second := a.say("also this", `,"on_busy":"steer"`, asEvents)
		if second.Header.Get("X-Run-Id") != first.Header.Get("X-Run-Id") {
			t.Errorf("%s is not %s", second.Header.Get("X-Run-Id"), first.Header.Get("X-Run-Id"))
		}
		a.talk.goOn <- struct{}{}
		for _, resp := range []*http.Response{first, second} {
			if f, _ := named(t, resp); f.terminal != `finished{"status":"completed"}` || !strings.HasSuffix(f.json(), `: also this"`) {
				t.Errorf("%s %s", f.terminal, f.json())
			}
		}
	})
}

// TA-41
func TestErasingASessionEndsWhatRunsInIt(t *testing.T) {
	a, resp := busy(t, nil)
	queued := a.say("next", "", "Prefer: respond-async")
	if r := a.do("DELETE", "/v1/sessions/s", ""); r.StatusCode != 204 {
		t.Fatalf("%d %s", r.StatusCode, text(t, r))
	}
	if f, _ := named(t, resp); f.terminal != `canceled{"reason":"the session was erased"}` {
		t.Error(f.terminal)
	}
	if d := readDocument(t, a.do("GET", queued.Header.Get("Location")+"/events?format=json", "")); d.Status != run.StatusCanceled {
		t.Errorf("%+v", d)
	}
	if p := readProblem(t, a.do("GET", "/v1/sessions/s", "")); p.Status != 404 {
		t.Errorf("%+v", p)
	}
}

// MO-22: a caller's options go before those of the agent, one by one.
func TestWhatIsAskedOfTheModelReachesTheAgentsModel(t *testing.T) {
	a := newAgentBench(t, func(_ *Options, o *agent.Options) {
		o.Options = adapter.Options{Temperature: new(1.0), Verbosity: "low", Reasoning: adapter.Reasoning{Effort: "high"}}
	})
	a.serve()
	readDocument(t, a.say("hello", `,"options":{"temperature":0.5,"max_tokens":7,"top_p":0.25,"stop":"x","seed":3,"reasoning":{"budget":9}}`))
	req := a.talk.requests()[0]
	if req.Verbosity != "low" || req.Reasoning.Effort != "" || *req.Reasoning.Budget != 9 {
		t.Errorf("%+v", req.Options)
	}
	if *req.Temperature != 0.5 || *req.MaxTokens != 7 || *req.TopP != 0.25 || *req.Seed != 3 || req.Stop[0] != "x" {
		t.Errorf("%+v", req)
	}
}

func TestAnAgentThatWritesTooMuchIsEnded(t *testing.T) {
	a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.MaxResult = 20 })
	a.serve()
	f, data := named(t, a.say("this is longer than twenty bytes", "", asEvents))
	if f.terminal != `finished{"status":"failed"}` || !strings.Contains(data["error"], wire.CodeTooLarge) {
		t.Errorf("%s %v", f.terminal, data)
	}
}

func TestWhatDoesNotFitAnAgentIsSaid(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for body, want := range map[string]string{
		`{"agent":"nobody","input":"x"}`:                                  `unknown agent "nobody"; expected one of assistant`,
		`{"agent":"assistant"}`:                                           "/input: expected a string, found nothing",
		`{"agent":"assistant","input":{"a":1}}`:                           "/input: expected a string, found an object",
		`{"agent":"assistant","input":""}`:                                "/input: is empty; expected a message to the agent",
		`{"agent":"assistant","input":"x","params":{}}`:                   "/params: an agent takes no params",
		`{"agent":"assistant","input":"x","model":"demo:fast"}`:           "/model: an agent chooses its own model; send the input ,model NAME to change it for the session",
		`{"workflow":"chat","input":"x","on_busy":"queue"}`:               "/on_busy: expected a session too, because only a session can be busy",
		`{"workflow":"chat","input":"x","session":"s","on_busy":"steer"}`: "/on_busy: steer works only with agents; expected queue, reject or interrupt",
		`{"agent":"assistant","input":"x","session":" \u2003"}`:           "/session: the session id is empty; expected at least one visible character",
		`{"workflow":"chat","input":"x","session":"a\u0007"}`:             "/session: the session id \"a\\a\" contains control characters; remove them",
	} {
		if p := readProblem(t, a.do("POST", "/v1/runs", body)); p.Detail != want || p.Status/100 != 4 {
			t.Errorf("%s:\n%s", body, p.Detail)
		}
	}
	if p := readProblem(t, a.do("GET", "/v1/runs?agent=assistant&input.a=x", "")); p.Detail != "query parameter input: an agent's input is text without properties" {
		t.Error(p.Detail)
	}
	if d := readDocument(t, a.do("GET", "/v1/runs?agent=assistant&input=x&session=telegram%2F7&on_busy=reject", "")); d.Session != "telegram/7" {
		t.Errorf("%+v", d)
	}
	if n := len(get[sessionList](a.bench, "/v1/sessions").Sessions); n != 1 {
		t.Errorf("%d sessions", n)
	}
}
