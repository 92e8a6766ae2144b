package web

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
)

// namesake is two agents, one of which has a workflow's name.
type namesake struct{ run.Agents }

func (namesake) Names() []string { return []string{"assistant", "echo"} }

func (namesake) Workflow(name string) string { return map[string]string{"echo": "chat"}[name] }

// namesakeBench is a server with two agents, and a workflow of the name of the second.
func namesakeBench(t *testing.T) *agentBench {
	a := newAgentBench(t, func(o *Options, _ *agent.Options) {
		o.Agents = namesake{}
		o.Workflows.Register(flow.Func("echo", "", nil, func(context.Context, *ling.Manager, map[string]any) error { return nil }))
	})
	a.serve()
	return a
}

func TestANameIsAnAgentsOrElseAWorkflows(t *testing.T) {
	a := namesakeBench(t)
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
	for name, tt := range map[string]struct {
		bench       *bench
		body, limit string
	}{
		"a server that keeps files": {namesakeBench(t).bench, `{"agents":[{"name":"assistant","default":true},{"name":"echo","workflow":"chat"}]}`, "max-size=16777216"},
		"a server without agents":   {newBench(t, nil).serve(), `{"agents":[]}`, ""},
	} {
		got := tt.bench.whole("GET", "/v1/agents", "")
		if limit := got.Header.Get("Upload-Limit"); got.Body != tt.body+"\n" || limit != tt.limit {
			t.Errorf("%s: %q, upload limit %q", name, got.Body, limit)
		}
	}
}
