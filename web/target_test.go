package web

import (
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
)

// namesake is two agents, one of which has a workflow's name.
type namesake struct{ Agents }

func (namesake) Names() []string { return []string{"assistant", "echo"} }

func (namesake) Workflow(name string) string { return map[string]string{"echo": "chat"}[name] }

func TestANameIsAnAgentsOrElseAWorkflows(t *testing.T) {
	a := echoBench(t)
	a.s.o.Agents = namesake{a.s.o.Agents}
	for name, want := range map[string]ask{
		"assistant":       {Agent: "assistant"},
		"agent/assistant": {Agent: "assistant"},
		"chat":            {Workflow: "chat"},
		"workflow/chat":   {Workflow: "chat"},
		"echo":            {Agent: "echo"},
		"workflow/echo":   {Workflow: "echo"},
	} {
		if got, ok := a.s.target(access.Local, name); !ok || !cmp.Equal(got, want) {
			t.Errorf("%s is %+v", name, got)
		}
	}
	for _, name := range []string{"", "nobody", "agent/chat", "workflow/assistant", "agent/", "workflow/workflow/chat"} {
		if got, ok := a.s.target(access.Local, name); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
	agents, workflows := a.s.targets(access.Local)
	if diff := cmp.Diff([][]string{{"assistant", "agent/echo"}, {"chat", "workflow/echo", "steps"}}, [][]string{agents, workflows}); diff != "" {
		t.Error(diff)
	}
	for _, name := range append(agents, workflows...) {
		if _, ok := a.s.target(access.Local, name); !ok {
			t.Errorf("%s is listed and means nothing", name)
		}
	}
}

func TestAgentsAreListed(t *testing.T) {
	a := echoBench(t)
	a.s.o.Agents = namesake{a.s.o.Agents}
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
		if r := a.s.runs.inLane(laneOf(session)); r == nil || r.id != want {
			t.Errorf("of %s it is %v, expected %s", session, r, want)
		}
	}
	rs := a.s.runs
	a.quiet()
	rs.sweep(time.Now().Add(24 * 365 * time.Hour))
	if rs.inLane(laneOf("s")) != nil || rs.inLane(laneOf("t")) != nil || len(rs.inSession) != 0 {
		t.Errorf("forgotten runs are still known in %d sessions", len(rs.inSession))
	}
}
