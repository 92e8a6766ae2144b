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

// Team is the agents of a server.
type Team struct {
	names  []string // the default agent first
	by     map[string]*workflow.Stage
	agents map[string]*agent.Agent
}

// New makes a team of at least one member; the first is the default agent.
func New(members ...Member) *Team {
	t := &Team{by: map[string]*workflow.Stage{}, agents: map[string]*agent.Agent{}}
	for _, m := range members {
		t.names = append(t.names, m.Name)
		t.agents[m.Name] = m.Agent
		if m.Workflow != nil {
			t.by[m.Name] = m.Workflow
		}
	}
	return t
}

// Names returns the names of the agents, the default agent first.
func (t *Team) Names() []string { return slices.Clone(t.names) }

// Workflow returns the name of the workflow that answers for an agent; "" for none.
func (t *Team) Workflow(name string) string {
	if stage := t.by[name]; stage != nil {
		return stage.Workflow
	}
	return ""
}

// WarnOfMissingWorkflows warns of agents whose workflows are not there: they may come with the next reload.
func (t *Team) WarnOfMissingWorkflows(log *slog.Logger) {
	for _, name := range t.names {
		if by := t.by[name]; by != nil {
			if _, ok := by.Workflows.Get(by.Workflow); !ok {
				log.Warn("agent names an unknown workflow", "agent", name, "workflow", by.Workflow)
			}
		}
	}
}

// Agent returns the agent of a name, or the default agent if there is none of this name.
func (t *Team) Agent(name string) *agent.Agent {
	if a := t.agents[name]; a != nil {
		return a
	}
	return t.agents[t.names[0]]
}

// Waiting is how many calls of tools wait for approval, of all agents.
func (t *Team) Waiting() int {
	n := 0
	for _, a := range t.agents {
		n += a.Waiting()
	}
	return n
}

// of is the agent that an envelope is for.
func (t *Team) of(e *turn.Envelope) *agent.Agent { return t.agents[t.named(e)] }

// named is the name of the agent that an envelope is for. Callers that named an unknown agent were refused before.
func (t *Team) named(e *turn.Envelope) string {
	if e != nil && t.agents[e.Agent()] != nil {
		return e.Agent()
	}
	return t.names[0]
}

// answering is the workflow that answers an envelope; nil where the agent does. Commands are always the agent's.
func (t *Team) answering(e *turn.Envelope) *workflow.Stage {
	if e.Kind == turn.KindCommand {
		return nil
	}
	return t.by[t.named(e)]
}

// in is the agent of the turn that a hook's context belongs to.
func (t *Team) in(ctx context.Context) *agent.Agent {
	if current := turn.FromContext(ctx); current != nil {
		return t.of(current.Envelope())
	}
	return t.of(nil)
}

// Answer answers the call of a tool that waits for approval: the agent that has the question takes the answer.
func (t *Team) Answer(ctx context.Context, a agent.Answer) error {
	err := agent.ErrNoQuestion
	for _, name := range t.names {
		if err = t.agents[name].Answer(ctx, a); !errors.Is(err, agent.ErrNoQuestion) {
			return err
		}
	}
	return err
}

// Questions returns the calls of a session that wait for approval.
func (t *Team) Questions(session string) (list []agent.Question) {
	for _, name := range t.names {
		list = append(list, t.agents[name].Questions(session)...)
	}
	return list
}

// Remembered returns the tools of an agent that were approved for the session of a tape.
func (t *Team) Remembered(ctx context.Context, name string, session *tape.Tape) ([]string, error) {
	if a := t.agents[name]; a != nil {
		return a.Remembered(ctx, session)
	}
	return nil, nil
}

// The hooks are those of [agent.Agent].

func (t *Team) AttachFramework(f *turn.Framework) error {
	var errs []error
	for _, name := range t.names {
		errs = append(errs, t.agents[name].AttachFramework(f))
	}
	return errors.Join(errs...)
}

func (t *Team) ResolveSession(ctx context.Context, e *turn.Envelope) (turn.SessionID, bool, error) {
	return t.of(e).ResolveSession(ctx, e)
}

func (t *Team) LoadState(ctx context.Context, e *turn.Envelope, id turn.SessionID) (turn.State, error) {
	return t.of(e).LoadState(ctx, e, id)
}

func (t *Team) BuildPrompt(ctx context.Context, e *turn.Envelope, id turn.SessionID, s turn.State) (turn.Prompt, bool, error) {
	return t.in(ctx).BuildPrompt(ctx, e, id, s)
}

func (t *Team) SystemPrompt(ctx context.Context, p turn.Prompt, s turn.State) (string, error) {
	return t.in(ctx).SystemPrompt(ctx, p, s)
}

// RunModelStream lets a workflow answer for the agents that have one.
func (t *Team) RunModelStream(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (turn.Stream, bool, error) {
	if current := turn.FromContext(ctx); current != nil {
		if by := t.answering(current.Envelope()); by != nil {
			return by.RunModelStream(ctx, p, id, s)
		}
	}
	return t.in(ctx).RunModelStream(ctx, p, id, s)
}

func (t *Team) SaveState(ctx context.Context, o *turn.Outcome) error {
	return t.of(o.Envelope).SaveState(ctx, o)
}

// RenderOutbound makes of a workflow's document what people can read. In the outcome it is as it was.
func (t *Team) RenderOutbound(ctx context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	list, err := t.of(o.Envelope).RenderOutbound(ctx, o)
	if t.answering(o.Envelope) != nil {
		for _, e := range list {
			e.Content = workflow.Shown(e.Content)
		}
	}
	return list, err
}

func (t *Team) OnError(ctx context.Context, stage turn.Stage, err error, e *turn.Envelope) {
	t.of(e).OnError(ctx, stage, err, e)
}

func (t *Team) ProvideTapeStore(ctx context.Context) (tape.Store, bool, error) {
	return t.of(nil).ProvideTapeStore(ctx)
}

// AnswerAside hands a decision to the agent that has asked for one in the session, whoever the message is for.
func (t *Team) AnswerAside(ctx context.Context, e *turn.Envelope, id turn.SessionID) ([]*turn.Envelope, bool, error) {
	one := t.of(e)
	if name, _ := turn.CommandName(e.Content); name == "approve" || name == "deny" {
		for _, a := range t.agents {
			if len(a.Questions(id)) > 0 { // one at most: a session has one turn at a time
				one = a
			}
		}
	}
	return one.AnswerAside(ctx, e, id)
}
