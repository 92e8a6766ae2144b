package web

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// echoBench is a server with an agent and a workflow that hands its question to the same model.
func echoBench(t testing.TB) *agentBench {
	t.Helper()
	a := newAgentBench(t, func(o *Options, _ *agent.Options) {
		o.Workflows.Register(flow.Func("echo", "", question, func(_ context.Context, m *ling.Manager, input map[string]any) error {
			b, err := m.CreateBot("echo", "", func(c *bot.Config) { c.Format = bot.Text })
			if err != nil {
				return err
			}
			return b.Chat(textMessage(input["question"].(string)))
		}))
	})
	a.serve()
	return a
}

// ask starts a run of the workflow in the session s.
func (a *agentBench) ask(text, more string) string {
	return `{"workflow":"echo","session":"s","input":"` + text + `"` + more + `}`
}

func TestAWorkflowAnswersWithWhatWasSaidBeforeInItsSession(t *testing.T) {
	a := echoBench(t)
	d := readDocument(t, a.do("POST", "/v1/runs", a.ask("hello", "")))
	if d.Status != run.StatusCompleted || d.Session != "s" || string(d.Result) != `"2: hello"` || d.Usage["echo"].TotalTokens != 10 {
		t.Errorf("%+v %s", d, d.Result)
	}
	_, data := named(t, a.do("POST", "/v1/runs", a.ask(",again", ""), asEvents))
	if !strings.Contains(data["started"], `"workflow":"echo","session":"s"`) || data["finished"] != `{"status":"completed"}` {
		t.Errorf("%v", data)
	}
	// The agent knows of it, too, and the workflow of what the agent says.
	if d := readDocument(t, a.say("you there", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	readDocument(t, a.do("POST", "/v1/runs", a.ask("last", "")))
	var said []string
	for _, m := range a.talk.requests()[3].Messages {
		said = append(said, m.Role+" "+m.Content)
	}
	want := []string{
		"user hello", "assistant 2: hello", "user ,again", "assistant 4: ,again",
		"user you there", "assistant 7: you there", "user last",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	if log := a.tapeOf("s"); strings.Count(log, `"turn.start"`) != 4 || strings.Count(log, `"turn.end"`) != 4 {
		t.Error(log)
	}
}

func TestAWorkflowsTurnEndsOnItsTapeAsAnAgentsDoes(t *testing.T) {
	a := echoBench(t)
	if p := readProblem(t, a.do("POST", "/v1/runs", a.ask("fail", ""))); p.Status != 502 || p.Code != adapter.CodeAuth {
		t.Errorf("%+v", p)
	}
	first := a.do("POST", "/v1/runs", a.ask("wait", ""), asEvents)
	<-a.talk.waits
	if d := readDocument(t, a.do("POST", "/v1/runs", a.ask("next", `,"on_busy":"interrupt"`))); d.Status != run.StatusCompleted || !strings.HasSuffix(string(d.Result), `: next"`) {
		t.Errorf("%+v %s", d, d.Result)
	}
	if f, _ := named(t, first); f.terminal != `canceled{"reason":"interrupted"}` || f.json() != `"…"` {
		t.Errorf("%s %s", f.terminal, f.json())
	}
	log := text(t, a.do("GET", "/v1/sessions/s/tape?format=jsonl", ""))
	for _, want := range []string{
		`{"kind":"upstream_auth","message":"the model's server refused the key"}`, `{"status":"error"}`, `"content":"…"`, `"partial":true`, `{"status":"canceled"}`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}

// AG-23: also where the turn that had no end was an agent's, and once.
func TestAWorkflowSaysThatTheTurnBeforeHasNoEnd(t *testing.T) {
	a := echoBench(t)
	tp, err := tape.Open(t.Context(), a.s.o.Tapes, a.s.o.Workspace, "s")
	if err != nil {
		t.Fatal(err)
	}
	cutOff := tape.Meta{Turn: "t-lost"}
	if _, err := tp.Append(t.Context(), tape.NewEvent("turn.start", nil).With(cutOff), tape.NewMessage(adapter.User, "what was").With(cutOff)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d := readDocument(t, a.do("POST", "/v1/runs", a.ask("hello", ""))); d.Status != run.StatusCompleted {
			t.Errorf("%+v", d)
		}
	}
	if d := readDocument(t, a.say("you there", "")); d.Status != run.StatusCompleted { // which has nothing to add
		t.Errorf("%+v", d)
	}
	log := a.tapeOf("s")
	at := strings.Index(log, `{"name":"turn.aborted","data":{"turn":"t-lost"}}`)
	if at < 0 || at > strings.Index(log, `"workflow":"echo"`) || strings.Count(log, "turn.aborted") != 1 {
		t.Error(log)
	}
}

// byEcho is an agent that the workflow "echo" answers for, beside one that is not answered for by any that there is.
type byEcho struct{ run.Agents }

func (byEcho) Names() []string { return []string{"assistant", "writer", "broken"} }

func (byEcho) Workflow(name string) string {
	return map[string]string{"writer": "echo", "broken": "nothing-there"}[name]
}

func TestAnAgentCanAnswerByAWorkflow(t *testing.T) {
	a := echoBench(t)
	a.setAgents(byEcho{a.s.o.Agents})
	say := func(name, text, more string, header ...string) *http.Response {
		return a.do("POST", "/v1/runs", `{"agent":"`+name+`","input":"`+text+`"`+more+`}`, header...)
	}
	if d := readDocument(t, say("writer", "hello", `,"session":"s"`)); d.Status != run.StatusCompleted || d.Session != "s" || string(d.Result) != `"2: hello"` {
		t.Errorf("%+v %s", d, d.Result)
	}
	_, data := named(t, say("writer", "again", `,"session":"s"`, asEvents))
	if !strings.Contains(data["started"], `"agent":"writer","session":"s"`) || strings.Contains(data["started"], "workflow") {
		t.Errorf("%v", data)
	}
	if log := a.tapeOf("s"); strings.Count(log, `"workflow":"echo"`) != 2 || !strings.Contains(log, "4: again") {
		t.Error(log)
	}
	if d := readDocument(t, say("writer", "hello", "")); d.Session == "" || string(d.Result) != `"2: hello"` { // a session of its own
		t.Errorf("%+v %s", d, d.Result)
	}
	for more, want := range map[string]int{`,"model":"talk:talk"`: 400, `,"params":{}`: 400, `,"on_busy":"steer"`: 400} {
		if p := readProblem(t, say("writer", "hello", more)); p.Status != want {
			t.Errorf("%s: %+v", more, p)
		}
	}
	if p := readProblem(t, say("broken", "hello", "")); p.Status != 500 || p.ID == "" || strings.Contains(p.Detail, "nothing-there") {
		t.Errorf("%+v", p)
	}
	if log := a.log.String(); !strings.Contains(log, "nothing-there") {
		t.Error(log)
	}
	eventually(t, "the log has the end of its runs", func() bool { return strings.Count(a.log.String(), " agent=writer status=completed") == 3 })
}

// onlooker is a router whose wrapper sees what goes by.
type onlooker struct {
	saw  *[]turn.Event
	fail bool
}

func (onlooker) Dispatch(context.Context, *turn.Envelope) (bool, error) { return false, nil }

func (o onlooker) WrapStream(_ context.Context, _ *turn.Envelope, s turn.Stream) turn.Stream {
	return func(yield func(turn.Event, error) bool) {
		for e, err := range s {
			*o.saw = append(*o.saw, e)
			if !yield(e, err) {
				return
			}
			if o.fail {
				panic("the wrapper is broken")
			}
		}
	}
}

// TU-46, TU-43: a router that is bound to the turns sees the document of a workflow's turn grow, and the run's own stream is the same, also if
// the router's wrapper panics.
func TestTU_46ARouterSeesTheDocumentOfAWorkflowsTurnGrow(t *testing.T) {
	streams := map[string]string{}
	for _, router := range []string{"none", "looks on", "is broken"} {
		a := echoBench(t)
		a.s.o.Models.Default = "test:story"
		var saw []turn.Event
		if router != "none" {
			defer a.s.o.Turns.Bind(onlooker{&saw, router == "is broken"})()
		}
		resp := a.do("POST", "/v1/runs?format=jsonl", `{"workflow":"chat","session":"s","input":"why"}`)
		id := resp.Header.Get("X-Run-Id")
		streams[router] = strings.ReplaceAll(text(t, resp), id, "RUN")
		if diff := cmp.Diff(strings.Split(streams["none"], "\n"), strings.Split(streams[router], "\n")); diff != "" || !strings.Contains(streams[router], `{"status":"completed"}`) {
			t.Errorf("the router %s: %s", router, diff)
		}
		if router != "looks on" {
			continue
		}
		var d jsonuri.Document
		deltas := 0
		for _, e := range saw {
			if e.Kind != turn.DeltaEvent {
				continue
			}
			deltas++
			apply := d.Set
			if e.Value[0] == '"' {
				apply, e.Value = d.Append, e.Value[1:len(e.Value)-1]
			}
			if err := apply([]byte(e.URI), e.Value); err != nil {
				t.Fatal(err)
			}
		}
		whole := string(readDocument(t, a.do("GET", "/v1/runs/"+id, "")).Result)
		last := saw[len(saw)-1]
		if fold := string(d.AppendJSON(nil)); deltas < 50 || fold != whole || last.Final == nil || last.Final.Text != whole {
			t.Errorf("%d deltas fold to\n%s\nnot\n%s\n%+v", deltas, fold, whole, last)
		}
	}
}
