// Package team lets several agents share a server. A [Team] is one plugin of package turn: each turn goes to the agent that its envelope
// names, so that all agents share the lanes of the sessions.
package team

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// Member is an agent of a team.
type Member struct {
	Name     string
	Agent    *agent.Agent
	Workflow *workflow.Stage // answers for the agent; nil if it answers itself
}

// Team is the agents of a server. What is the same for all of them, such as the questions for approval, the default agent does.
type Team struct {
	*standard
	names   []string // the default agent first
	members map[string]Member
}

// standard is the default agent.
type standard = agent.Agent

// New makes a team of at least one member; the first is the default agent.
func New(members ...Member) *Team {
	t := &Team{standard: members[0].Agent, members: map[string]Member{}}
	for _, m := range members {
		t.names = append(t.names, m.Name)
		t.members[m.Name] = m
		m.Agent.ShareQuestions(t.standard)
	}
	return t
}

// Names returns the names of the agents, the default agent first.
func (t *Team) Names() []string { return slices.Clone(t.names) }

// Workflow returns the name of the workflow that answers for an agent; "" for none.
func (t *Team) Workflow(name string) string {
	if stage := t.members[name].Workflow; stage != nil {
		return stage.Workflow
	}
	return ""
}

// WarnOfMissingWorkflows warns of agents whose workflows are not there: they may come with the next reload.
func (t *Team) WarnOfMissingWorkflows(log *slog.Logger) {
	for _, name := range t.names {
		if by := t.members[name].Workflow; by != nil {
			if _, ok := by.Workflows.Get(by.Workflow); !ok {
				log.Warn("agent names an unknown workflow", "agent", name, "workflow", by.Workflow)
			}
		}
	}
}

// Agent returns the agent of a name, or the default agent if there is none of this name.
func (t *Team) Agent(name string) *agent.Agent { return t.member(name).Agent }

func (t *Team) member(name string) Member {
	if m, ok := t.members[name]; ok {
		return m
	}
	return t.members[t.names[0]]
}

// answering returns the member that an envelope is for. Callers that named an unknown agent were refused before. Commands are the
// agent's also where a workflow answers messages.
func (t *Team) answering(e *turn.Envelope) Member {
	m := t.member(e.Agent)
	if e.Kind == turn.KindCommand {
		m.Workflow = nil
	}
	return m
}

// in returns the member that answers the turn of a hook's context.
func (t *Team) in(ctx context.Context) Member {
	if current := turn.FromContext(ctx); current != nil {
		return t.answering(current.Envelope())
	}
	return Member{Agent: t.standard}
}

// Remembered returns the tools of an agent that were approved for the session of a tape.
func (t *Team) Remembered(ctx context.Context, name string, session *tape.Tape) ([]string, error) {
	if m, ok := t.members[name]; ok {
		return m.Agent.Remembered(ctx, session)
	}
	return nil, nil
}

// The hooks are those of [agent.Agent].

func (t *Team) AttachFramework(f *turn.Framework) error {
	var errs []error
	for _, m := range t.members {
		errs = append(errs, m.Agent.AttachFramework(f))
	}
	return errors.Join(errs...)
}

func (t *Team) LoadState(ctx context.Context, e *turn.Envelope, id turn.SessionID) (turn.State, error) {
	return t.answering(e).Agent.LoadState(ctx, e, id)
}

func (t *Team) SystemPrompt(ctx context.Context, p turn.Prompt, s turn.State) (string, error) {
	return t.in(ctx).Agent.SystemPrompt(ctx, p, s)
}

// RunModelStream lets a workflow answer for the agents that have one.
func (t *Team) RunModelStream(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (turn.Stream, bool, error) {
	m := t.in(ctx)
	if m.Workflow != nil {
		return m.Workflow.RunModelStream(ctx, p, id, s)
	}
	return m.Agent.RunModelStream(ctx, p, id, s)
}

// RenderOutbound makes of a workflow's document what people can read. In the outcome it is as it was.
func (t *Team) RenderOutbound(ctx context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	list, err := t.standard.RenderOutbound(ctx, o)
	if t.answering(o.Envelope).Workflow != nil {
		for _, e := range list {
			e.Content = workflow.Shown(e.Content)
		}
	}
	return list, err
}
