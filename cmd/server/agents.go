package main

import (
	"bufio"
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	comma "github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/agent/team"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tool/mcp"
	"github.com/lingserve/lingserve/turn"
)

// turnOptions says how turns are run.
func turnOptions(c *config.Config, ledger *adapter.Ledger, log *slog.Logger) turn.Options {
	return turn.Options{
		Workspace: c.Workspace, Log: log, Timeout: c.Turn.Timeout, Concurrency: c.Turn.Concurrency,
		Queue: c.Turn.Queue, QueueTotal: c.Turn.QueueTotal, Code: modelCode, Within: ledger.Within,
		Caller: func(s turn.SessionID) string { return channel.ConversationOf(string(s)) },
	}
}

var _ run.Agents = (*team.Team)(nil)

// openTurns makes the configured agents and the framework that runs their turns. Workflows that answer for agents are looked up when they
// answer.
func (s *core) openTurns(ledger *adapter.Ledger) (err error) {
	c := s.c
	if s.servers, err = startServers(c, s.log); err != nil {
		return err
	}
	s.atClose(func() {
		if err := s.servers.Close(); err != nil {
			s.log.Warn("MCP servers did not stop cleanly", "error", err)
		}
	})
	tools, err := tool.NewSet()
	if err != nil {
		return err
	}
	tools.Attach(s.servers)
	// The tools of an empty folder say more than those of a folder that does not exist.
	if err := os.MkdirAll(c.Workspace, 0o755); err != nil {
		s.log.Warn("cannot make the workspace", "error", err)
	}
	places := []skill.Place{skill.Dir(c.Workspace, ".agents/skills")}
	around := &host{servers: s.servers}
	if c.Data != "" {
		places = append(places, skill.Dir(c.Data, "skills"))
		around.folder = filepath.Join(c.Data, "exports")
	}
	skills := skill.New(s.log, places...)
	var members []team.Member
	for _, a := range c.Agents {
		o := agentOptions(c, a, s.models, tools, skills, s.log)
		o.Store, o.Host, o.AwaitTools = s.tapes, around, s.servers.Wait
		m := team.Member{Name: a.Name}
		if m.Agent, err = agent.New(o); err != nil {
			return err
		}
		if a.Workflow != "" {
			m.Workflow = &workflow.Stage{
				Workflow: a.Workflow, Workflows: s.workflows, Bot: bot.Config{Model: c.Model},
				Run: ling.Options{
					Models: s.models, Log: s.log, MaxBots: c.Run.MaxBots, MaxTasks: c.Run.MaxTasks,
					MaxResult: int(c.Run.MaxResult), MaxLog: int(c.Run.MaxLog), Agent: a.Name,
				},
			}
		}
		members = append(members, m)
	}
	s.agents = team.New(members...)
	s.turns = turn.New(turnOptions(c, ledger, s.log))
	s.atClose(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // the grace period of turns is over
		_ = s.turns.Drain(ctx)
	})
	s.agents.WarnOfMissingWorkflows(s.log)
	return s.turns.Register(agent.Name, s.agents)
}

// agentOptions are the options of an agent that is configured. It warns of skills and models that do not exist.
func agentOptions(
	c *config.Config, a *config.Agent, models *adapter.Registry, tools *tool.Set, skills *skill.Library, log *slog.Logger,
) agent.Options {
	o := agent.Options{
		Name: a.Name, Models: models, Choices: models.Usable(), Instructions: a.Instructions, Tools: tools, Skills: skills,
		Approvals: map[string]tool.Approval{}, MaxSteps: a.MaxSteps, ToolTimeout: a.ToolTimeout, ApprovalTimeout: a.ApprovalTimeout, AskUnknown: a.OnUnknown == "ask",
		Summarize: a.Summarize, MaxContext: a.MaxContext, MaxReply: int(c.Turn.MaxReply), Options: a.Options, Log: log,
	}
	if len(a.Tools) > 0 {
		o.Tools = tools.Subset(a.Tools...)
	}
	if len(a.Skills) > 0 {
		o.Skills = skills.Only(a.Skills...)
		existing := o.Skills.List()
		for _, name := range a.Skills {
			if !slices.ContainsFunc(existing, func(s skill.Skill) bool { return s.Name == name }) {
				log.Warn("agent names an unknown skill", "agent", a.Name, "skill", name)
			}
		}
	}
	for i, name := range adapter.Links(cmp.Or(a.Model, c.Model)) {
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
	return o
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
	switch e := err.(type) {
	case *adapter.Error:
		return e.Code
	case *bot.Failure:
		return e.Code
	}
	return ""
}

// zone returns the time zone that the configuration has for an agent.
func zone(c *config.Config) func(agent string) string {
	return func(name string) string {
		a, _ := c.Agent(name)
		return a.Timezone
	}
}

// host does for the commands of agents what only this program can: it implements [agent.Host].
type host struct {
	servers *mcp.Client
	folder  string // for exports; "" is none
}

// Servers implements [agent.Host].
func (h *host) Servers(context.Context) ([]comma.Server, error) {
	var list []comma.Server
	for _, s := range h.servers.Status() {
		state := s.State
		switch {
		case state == mcp.Ready:
			state = "connected"
		case s.Reason != "":
			state += ": " + s.Reason
		}
		list = append(list, comma.Server{Name: s.Name, State: state, Tools: s.Tools})
	}
	return list, nil
}

// Export implements [agent.Host]: a tape is written to a new file below the data folder, as a whole or not at all.
func (h *host) Export(ctx context.Context, t *tape.Tape) (_ comma.Exported, err error) {
	if h.folder == "" {
		return comma.Exported{}, comma.Errorf("this server has no data folder; set data")
	}
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		return comma.Exported{}, err
	}
	f, err := os.CreateTemp(h.folder, ".export-*") // readable for the server's user only
	if err != nil {
		return comma.Exported{}, err
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	out := bufio.NewWriter(f)
	if err := cmp.Or(t.Export(ctx, out), out.Flush(), f.Sync()); err != nil {
		return comma.Exported{}, err
	}
	file, err := f.Stat()
	if err != nil {
		return comma.Exported{}, err
	}
	in, err := t.Info(ctx)
	if err != nil {
		return comma.Exported{}, err
	}
	e := comma.Exported{Name: t.Name() + "-" + time.Now().UTC().Format("20060102-150405.000000") + ".jsonl", Entries: in.Entries, Bytes: file.Size()}
	return e, os.Rename(f.Name(), filepath.Join(h.folder, e.Name))
}
