package web

import (
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
)

// namesake is two agents, one of which has a workflow's name.
type namesake struct{ run.Agents }

func (namesake) Names() []string { return []string{"assistant", "echo"} }

func (namesake) Workflow(name string) string { return map[string]string{"echo": "chat"}[name] }

func TestANameIsAnAgentsOrElseAWorkflows(t *testing.T) {
	a := echoBench(t)
	a.s.o.Agents = namesake{a.s.o.Agents}
	a.s.wire.Agents = a.s.o.Agents
	a.s.runs.Inspect().Options().Agents = a.s.o.Agents
	for name, want := range map[string]run.Subject{
		"assistant":       {Agent: "assistant"},
		"agent/assistant": {Agent: "assistant"},
		"chat":            {Workflow: "chat"},
		"workflow/chat":   {Workflow: "chat"},
		"echo":            {Agent: "echo"},
		"workflow/echo":   {Workflow: "echo"},
	} {
		if got, ok := a.s.wire.Target(access.Local, name); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v", name, got)
		}
	}
	for _, name := range []string{"", "nobody", "agent/chat", "workflow/assistant", "agent/", "workflow/workflow/chat"} {
		if got, ok := a.s.wire.Target(access.Local, name); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
	agents, workflows := a.s.wire.Targets(access.Local)
	if diff := cmp.Diff([][]string{{"assistant", "agent/echo"}, {"chat", "workflow/echo", "steps"}}, [][]string{agents, workflows}); diff != "" {
		t.Error(diff)
	}
	for _, name := range append(agents, workflows...) {
		if _, ok := a.s.wire.Target(access.Local, name); !ok {
			t.Errorf("%s is listed and means nothing", name)
		}
	}
}

func TestAgentsAreListed(t *testing.T) {
	a := echoBench(t)
	a.s.o.Agents = namesake{a.s.o.Agents}
	a.s.wire.Agents = a.s.o.Agents
	a.s.runs.Inspect().Options().Agents = a.s.o.Agents
	body, err := io.ReadAll(a.do("GET", "/v1/agents", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"agents":[{"name":"assistant","default":true},{"name":"echo","workflow":"chat"}]}` + "\n"; string(body) != want {
		t.Errorf("%s", body)
	}
	none := newBench(t, nil).serve()
	if body, _ = io.ReadAll(none.do("GET", "/v1/agents", "").Body); string(body) != `{"agents":[]}`+"\n" {
		t.Errorf("%s", body)
	}
}

func TestTheLatestRunOfASessionIsKnownWhileItIsKept(t *testing.T) {
	a := echoBench(t)
	say := func(session string) string {
		d := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"echo","session":"`+session+`","input":"hello"}`))
		return d.Run
	}
	say("s")
	second, other := say("s"), say("t")
	for session, want := range map[string]string{"s": second, "t": other} {
		if r := a.s.runs.Inspect().Latest(laneOf(session)); r == nil || r.ID != want {
			t.Errorf("of %s it is %v, expected %s", session, r, want)
		}
	}
	rs := a.s.runs.Inspect()
	a.quiet()
	rs.Sweep(time.Now().Add(24 * 365 * time.Hour))
	if rs.Latest(laneOf("s")) != nil || rs.Latest(laneOf("t")) != nil || rs.Sessions() != 0 {
		t.Errorf("forgotten runs are still known in %d sessions", rs.Sessions())
	}
}
