package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tool/mcp"
	"github.com/lingserve/lingserve/turn"
)

// crew is the agents of a server as one plugin: each turn goes to the agent that its envelope names, so that all of them share
// the lanes of the sessions.
type crew struct {
	names  []string                   // the default agent first
	by     map[string]*workflow.Stage // the workflows that answer for agents, by agent
	agents map[string]*agent.Agent
}

var (
	_ run.Agents     = (*crew)(nil)
	_ run.ByWorkflow = (*crew)(nil)
)

// turnOptions says how turns are run.
func turnOptions(c *config.Config, ledger *adapter.Ledger, log *slog.Logger) turn.Options {
	return turn.Options{
		Workspace: c.Workspace, Log: log, Timeout: c.Turn.Timeout, Concurrency: c.Turn.Concurrency,
		Queue: c.Turn.Queue, QueueTotal: c.Turn.QueueTotal, Code: modelCode, Within: ledger.Within,
		Caller: func(s turn.SessionID) string { return channel.ConversationOf(string(s)) },
	}
}

// newTurns makes the agents that are configured, and what runs their turns. Workflows that answer for agents are found in workflows
// when they are to answer.
// stop ends them, and the servers that they have tools from; the store is to be closed after that.
func newTurns(c *config.Config, models *adapter.Registry, workflows *flow.Registry, store tape.Store, ledger *adapter.Ledger, log *slog.Logger) (_ *turn.Framework, _ *crew, stop func(), err error) {
	servers, err := startServers(c, log)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			servers.Close()
		}
	}()
	theirs, err := tool.NewSet()
	if err != nil {
		return nil, nil, nil, err
	}
	theirs.Attach(servers)
	// An empty folder tells more than one that cannot be opened.
	if err := os.MkdirAll(c.Workspace, 0o755); err != nil {
		log.Warn("cannot make the workspace", "error", err)
	}
	places := []skill.Place{skill.Dir(c.Workspace, ".agents/skills")}
	if c.Data != "" {
		places = append(places, skill.Dir(c.Data, "skills"))
	}
	skills := skill.New(log, places...)
	all := &crew{agents: map[string]*agent.Agent{}, by: map[string]*workflow.Stage{}}
	around := &host{servers: servers}
	if c.Data != "" {
		around.folder = filepath.Join(c.Data, "exports")
	}
	for _, a := range c.Agents {
		o := agent.Options{
			Name: a.Name, Models: models, Choices: models.Usable(), Instructions: a.Instructions, Skills: skills, Approvals: map[string]tool.Approval{},
			MaxSteps: a.MaxSteps, ToolTimeout: a.ToolTimeout, ApprovalTimeout: a.ApprovalTimeout, Summarize: a.Summarize, MaxContext: a.MaxContext, Options: a.Options,
			Store: store, Log: log, Host: around,
		}
		o.Tools = theirs
		if len(a.Tools) > 0 {
			o.Tools = theirs.Subset(a.Tools...)
		}
		if len(a.Skills) > 0 {
			o.Skills = skills.Only(a.Skills...)
			there := o.Skills.List()
			for _, name := range a.Skills {
				if !slices.ContainsFunc(there, func(s skill.Skill) bool { return s.Name == name }) {
					log.Warn("agent names an unknown skill", "agent", a.Name, "skill", name)
				}
			}
		}
		chain := a.Model
		if chain == "" {
			chain = c.Model
		}
		for i, name := range adapter.Links(chain) {
			if _, err := models.Model(name); err != nil {
				log.Warn("agent names an unknown model", "agent", a.Name, "error", err)
			}
			if i == 0 {
				o.Model = name
			} else {
				o.Fallback = append(o.Fallback, name)
			}
		}
		for _, pattern := range a.AskAlways {
			o.Approvals[pattern] = tool.Always
		}
		for _, pattern := range a.AskNever {
			o.Approvals[pattern] = tool.Never
		}
		one, err := agent.New(o)
		if err != nil {
			return nil, nil, nil, err
		}
		if a.Workflow != "" {
			all.by[a.Name] = &workflow.Stage{
				Workflow: a.Workflow, Workflows: workflows, Bot: bot.Config{Model: c.Model},
				Run: ling.Options{
					Models: models, Log: log, MaxBots: c.Run.MaxBots, MaxTasks: c.Run.MaxTasks,
					MaxResult: int(c.Run.MaxResult), MaxLog: int(c.Run.MaxLog), Agent: a.Name,
				},
			}
		}
		all.names = append(all.names, a.Name)
		all.agents[a.Name] = one
	}
	turns := turn.New(turnOptions(c, ledger, log))
	if err := turns.Register(agent.Name, all); err != nil {
		return nil, nil, nil, err
	}
	return turns, all, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = turns.Drain(ctx) // it has had its time
		if err := servers.Close(); err != nil {
			log.WarnContext(ctx, "MCP servers did not stop cleanly", "error", err)
		}
	}, nil
}

// startServers begins to connect to the MCP servers.
func startServers(c *config.Config, log *slog.Logger) (*mcp.Client, error) {
	var list []mcp.Server
	for _, s := range c.MCP {
		one := mcp.Server{Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Timeout: s.Timeout, Traced: propagated(c, s.Name)}
		if s.Authorization != "" {
			one.Header = map[string]string{"Authorization": s.Authorization.Reveal()}
		}
		list = append(list, one)
	}
	return mcp.Start(list, &mcp.Options{Log: log, Redact: func(text string) string { return adapter.Redact(text) }, Version: build().version, ProxyEnv: c.Upstream.ProxyEnv})
}

// modelCode is the code of a model's error, or of a bot's; "" of any other.
func modelCode(err error) string {
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		return e.Code
	}
	if f, ok := errors.AsType[*bot.Failure](err); ok {
		return f.Code
	}
	return ""
}

// Names implements [run.Agents].
func (c *crew) Names() []string { return slices.Clone(c.names) }

// Workflow implements [run.ByWorkflow].
func (c *crew) Workflow(name string) string {
	if stage := c.by[name]; stage != nil {
		return stage.Workflow
	}
	return ""
}

// look warns of agents whose workflows are not there: they may come with the next reload.
func (c *crew) look(log *slog.Logger) {
	for _, name := range c.names {
		if by := c.by[name]; by != nil {
			if _, ok := by.Workflows.Get(by.Workflow); !ok {
				log.Warn("agent names an unknown workflow", "agent", name, "workflow", by.Workflow)
			}
		}
	}
}

// asks reports whether an agent has tools that ask for approval. Servers that are still connecting have some, unless the agent is told not to
// ask for theirs.
func (c *crew) asks(conf *config.Config, name string) bool {
	if slices.ContainsFunc(c.agents[name].Tools().Tools(), func(t *tool.Tool) bool { return t.Approval == tool.Always }) {
		return true
	}
	a, _ := conf.Agent(name)
	return slices.ContainsFunc(conf.MCP, func(s config.MCPServer) bool {
		all := "mcp." + s.Name + ".*"
		return len(a.Tools) == 0 && !slices.ContainsFunc(a.AskNever, func(p string) bool { return p == "*" || p == "mcp.*" || p == all })
	})
}

// of is the agent that an envelope is for.
func (c *crew) of(e *turn.Envelope) *agent.Agent { return c.agents[c.named(e)] }

// named is the name of the agent that an envelope is for. Who has asked for one that is not there, was told so before.
func (c *crew) named(e *turn.Envelope) string {
	if e != nil {
		if name, ok := e.Extra[run.ExtraAgent].(string); ok && c.agents[name] != nil {
			return name
		}
	}
	return c.names[0]
}

// answering is the workflow that answers an envelope; nil where the agent does. Commands are always the agent's.
func (c *crew) answering(e *turn.Envelope) *workflow.Stage {
	if e.Kind == turn.KindCommand {
		return nil
	}
	return c.by[c.named(e)]
}

// in is the agent of the turn that a hook's context belongs to.
func (c *crew) in(ctx context.Context) *agent.Agent {
	if t := turn.FromContext(ctx); t != nil {
		return c.of(t.Envelope())
	}
	return c.of(nil)
}

// zone returns the time zone that the configuration has for an agent.
func zone(c *config.Config) func(agent string) string {
	return func(name string) string {
		a, _ := c.Agent(name)
		return a.Timezone
	}
}

// Answer implements [run.Agents]: the agent that has the question takes the answer.
func (c *crew) Answer(ctx context.Context, a agent.Answer) error {
	err := agent.ErrNoQuestion
	for _, name := range c.names {
		if err = c.agents[name].Answer(ctx, a); !errors.Is(err, agent.ErrNoQuestion) {
			return err
		}
	}
	return err
}

// Questions implements [run.Agents].
func (c *crew) Questions(session string) (list []agent.Question) {
	for _, name := range c.names {
		list = append(list, c.agents[name].Questions(session)...)
	}
	return list
}

// The hooks are those of [agent.Agent].

func (c *crew) AttachFramework(f *turn.Framework) error {
	var errs []error
	for _, name := range c.names {
		errs = append(errs, c.agents[name].AttachFramework(f))
	}
	return errors.Join(errs...)
}

func (c *crew) ResolveSession(ctx context.Context, e *turn.Envelope) (turn.SessionID, bool, error) {
	return c.of(e).ResolveSession(ctx, e)
}

func (c *crew) LoadState(ctx context.Context, e *turn.Envelope, id turn.SessionID) (turn.State, error) {
	return c.of(e).LoadState(ctx, e, id)
}

func (c *crew) BuildPrompt(ctx context.Context, e *turn.Envelope, id turn.SessionID, s turn.State) (turn.Prompt, bool, error) {
	return c.in(ctx).BuildPrompt(ctx, e, id, s)
}

func (c *crew) SystemPrompt(ctx context.Context, p turn.Prompt, s turn.State) (string, error) {
	return c.in(ctx).SystemPrompt(ctx, p, s)
}

// RunModelStream lets a workflow answer for the agents that have one.
func (c *crew) RunModelStream(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (turn.Stream, bool, error) {
	if t := turn.FromContext(ctx); t != nil {
		if by := c.answering(t.Envelope()); by != nil {
			return by.RunModelStream(ctx, p, id, s)
		}
	}
	return c.in(ctx).RunModelStream(ctx, p, id, s)
}

func (c *crew) SaveState(ctx context.Context, o *turn.Outcome) error {
	return c.of(o.Envelope).SaveState(ctx, o)
}

// RenderOutbound makes of a workflow's document what people can read. In the outcome it is as it was.
func (c *crew) RenderOutbound(ctx context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	list, err := c.of(o.Envelope).RenderOutbound(ctx, o)
	if c.answering(o.Envelope) != nil {
		for _, e := range list {
			e.Content = workflow.Shown(e.Content)
		}
	}
	return list, err
}

func (c *crew) DispatchOutbound(ctx context.Context, e *turn.Envelope) (bool, error) {
	return c.in(ctx).DispatchOutbound(ctx, e)
}

func (c *crew) OnError(ctx context.Context, stage turn.Stage, err error, e *turn.Envelope) {
	c.of(e).OnError(ctx, stage, err, e)
}

func (c *crew) ProvideTapeStore(ctx context.Context) (tape.Store, bool, error) {
	return c.of(nil).ProvideTapeStore(ctx)
}

// AnswerAside hands a decision to the agent that has asked for one in the session, whoever the message is for.
func (c *crew) AnswerAside(ctx context.Context, e *turn.Envelope, id turn.SessionID) ([]*turn.Envelope, bool, error) {
	one := c.of(e)
	if name, _ := turn.CommandName(e.Content); name == "approve" || name == "deny" {
		for _, a := range c.agents {
			if len(a.Questions(id)) > 0 { // one at most: a session has one turn at a time
				one = a
			}
		}
	}
	return one.AnswerAside(ctx, e, id)
}
