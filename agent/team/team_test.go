package team_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/team"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/turn"
)

func member(t *testing.T, name, workflowName string) team.Member {
	t.Helper()
	a, err := agent.New(agent.Options{Name: name, Models: new(adapter.Registry)})
	if err != nil {
		t.Fatal(err)
	}
	m := team.Member{Name: name, Agent: a}
	if workflowName != "" {
		m.Workflow = &workflow.Stage{Workflow: workflowName, Workflows: new(flow.Registry)}
	}
	return m
}

func TestATeamHasItsMembersInOrder(t *testing.T) {
	first, second := member(t, "first", ""), member(t, "second", "essay")
	all := team.New(first, second)
	if diff := cmp.Diff([]string{"first", "second"}, all.Names()); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]*agent.Agent{"first": first.Agent, "second": second.Agent, "unknown": first.Agent, "": first.Agent} {
		if all.Agent(name) != want {
			t.Errorf("%q is another agent", name)
		}
	}
	if all.Workflow("first") != "" || all.Workflow("second") != "essay" || all.Workflow("unknown") != "" {
		t.Errorf("the workflows are %q, %q, %q", all.Workflow("first"), all.Workflow("second"), all.Workflow("unknown"))
	}
	var log strings.Builder
	all.WarnOfMissingWorkflows(slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "agent=second workflow=essay") {
		t.Error(got)
	}
}

// AG-40: an answer to a question that no agent has asked is refused.
func TestAnAnswerNeedsAQuestion(t *testing.T) {
	all := team.New(member(t, "first", ""), member(t, "second", ""))
	if err := all.Answer(t.Context(), agent.Answer{Session: "s", ID: "x", Approve: true}); !errors.Is(err, agent.ErrNoQuestion) {
		t.Errorf("got %v", err)
	}
	if n, list := all.Waiting(), all.Questions("s"); n != 0 || len(list) != 0 {
		t.Errorf("%d calls wait: %v", n, list)
	}
}

// A team is one plugin: the framework accepts it, with all hooks of an agent.
func TestATeamIsAPlugin(t *testing.T) {
	f := turn.New(turn.Options{Log: slog.New(slog.DiscardHandler)})
	if err := f.Register(agent.Name, team.New(member(t, "first", ""), member(t, "second", ""))); err != nil {
		t.Fatal(err)
	}
	if err := f.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}
