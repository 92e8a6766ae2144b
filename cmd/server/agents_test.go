package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/team"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

const twoAgents = `
model: demo:fast
agents:
  assistant: {instructions: "You are the first."}
  careful: {instructions: "You are the second.", ask_always: [tape.info], model: "demo:fast,demo:demo"}
`

// agentsOf starts the agents of a configuration in the current folder, and ends them with stop.
func agentsOf(t *testing.T, file string) (turns *turn.Framework, c *team.Team, store tape.Store, stop func()) {
	t.Helper()
	return agentsWith(t, new(flow.Registry), file)
}

// agentsWith is agentsOf with workflows that answer for agents.
func agentsWith(t *testing.T, workflows *flow.Registry, file string) (turns *turn.Framework, c *team.Team, store tape.Store, stop func()) {
	t.Helper()
	if err := os.WriteFile("lingserve.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(nil, []string{"LINGSERVE_DEMO_PACE=0"})
	if err != nil {
		t.Fatal(err)
	}
	s := &core{c: settings, log: slog.New(slog.DiscardHandler)}
	if err := errors.Join(s.openModels(), s.openDatabase(), s.openTapes(nil, nil)); err != nil {
		t.Fatal(err)
	}
	if workflows != nil {
		s.workflows = workflows
	}
	if err := s.openTurns(nil); err != nil {
		t.Fatal(err)
	}
	return s.turns, s.agents, s.tapes, s.close
}

// tell sends a message to an agent and returns what it answers.
func tell(t *testing.T, turns *turn.Framework, name, text string) *turn.Result {
	t.Helper()
	k, err := turns.Submit(t.Context(), &turn.Envelope{SessionID: "s", Channel: "test", Content: text, Agent: name})
	if err != nil {
		t.Fatal(err)
	}
	r, err := k.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// onTape is what is on the tape of the session s, as JSON Lines.
func onTape(t *testing.T, store tape.Store) string {
	t.Helper()
	of, err := tape.Lookup(t.Context(), store, "workspace", "s")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := of.Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDatabaseInMemoryStoresNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	turns, _, _, stop := agentsOf(t, "database: memory\n")
	tell(t, turns, "assistant", "hello")
	stop()
	if _, err := os.Stat("data"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// AG-65: whoever answers by a command need not know which of the agents has asked.
func TestACommandAnswersTheAgentOfTheSessionThatAsks(t *testing.T) {
	t.Chdir(t.TempDir())
	turns, _, store, stop := agentsOf(t, twoAgents)
	defer stop()
	asked := make(chan agent.Question, 1)
	submit := func(name, content string) *turn.Ticket {
		k, err := turns.Submit(t.Context(), &turn.Envelope{
			SessionID: "s", Channel: "test", Content: content, Sender: turn.Sender{Role: tool.Admin}, Agent: name,
		}, turn.WithSink(func(e turn.Event, _ error) {
			var q agent.Question
			if e.Kind == agent.ApprovalRequiredEvent && json.Unmarshal(e.Value, &q) == nil {
				asked <- q
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for _, decision := range []string{"approve", "deny"} {
		k := submit("careful", "What does tape info say?")
		q := <-asked
		if r, err := submit("assistant", ","+decision+" "+q.ID).Wait(t.Context()); err != nil || strings.HasPrefix(r.Outbound[0].Content, "No question") {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := k.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := onTape(t, store); !strings.Contains(text, `"decision":"`+decision+`"`) {
			t.Error(text)
		}
	}
}

// AG-64, AG-65: one agent has the tools of a server and need not be asked, another must be, a third has none.
func TestAgentsHaveTheToolsOfMCPServersAsConfigured(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "greet", Description: "Greets."}, func(context.Context, *sdk.CallToolRequest, in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello from far away"}}}, nil, nil
	})
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
	defer site.Close()
	t.Chdir(t.TempDir())
	turns, c, _, stop := agentsOf(t, `
mcp:
  far: {url: "`+site.URL+`", authorization: "Bearer sesame"}
  gone: {command: this-program-is-not-there}
agents:
  assistant: {ask_never: [mcp.far.*]}
  careful: {}
  bare: {tools: [mcp.other.*]}
`)
	defer stop()
	for deadline := time.Now().Add(patient); ; time.Sleep(5 * time.Millisecond) {
		if _, ok := c.Agent("assistant").Tools().Find("mcp.far.greet"); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server's tool never came")
		}
	}
	if _, ok := c.Agent("bare").Tools().Find("mcp.far.greet"); ok {
		t.Error("an agent has a tool that it should not have")
	}
	const question = `What does greet say to "Anna"?`
	if r := tell(t, turns, "assistant", question); !strings.Contains(r.Output, "hello from far away") {
		t.Error(r.Output)
	}
	if r := tell(t, turns, "careful", question); strings.Contains(r.Output, "hello from far away") || !strings.Contains(r.Output, "this conversation has no approver") {
		t.Error(r.Output)
	}
}

func TestTurnsAreAsConfigured(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, tt := range map[string]struct {
		args        []string
		timeout     time.Duration
		concurrency int
	}{
		"by default": {nil, 0, 256},
		"turns":      {[]string{"LINGSERVE_TURN_TIMEOUT=90s", "LINGSERVE_TURN_CONCURRENCY=3"}, 90 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c, err := config.Load(nil, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if o := turnOptions(c, nil, log); o.Timeout != tt.timeout || o.Concurrency != tt.concurrency {
				t.Errorf("%+v", o)
			}
		})
	}
}

// AG-63: an agent is offered the skills that it is configured to have, and can read no others.
func TestAnAgentHasTheSkillsThatItIsToHave(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"invoices", "travel"} {
		dir := filepath.Join("workspace", ".agents", "skills", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "---\nname: " + name + "\ndescription: About " + name + ".\n---\nAll of " + name + ".\n"
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	turns, _, _, stop := agentsOf(t, "agents:\n  clerk: {skills: [invoices, not-there-yet]}\n")
	defer stop()
	if r := tell(t, turns, "assistant", ",skill"); !strings.Contains(r.Output, "invoices") || !strings.Contains(r.Output, "travel") {
		t.Error(r.Output)
	}
	if r := tell(t, turns, "clerk", ",skill"); !strings.Contains(r.Output, "invoices") || strings.Contains(r.Output, "travel") {
		t.Error(r.Output)
	}
	if r := tell(t, turns, "clerk", ",skill invoices"); !strings.Contains(r.Output, "All of invoices") {
		t.Error(r.Output)
	}
	if k, err := turns.Submit(t.Context(), &turn.Envelope{SessionID: "s", Channel: "test", Content: ",skill travel", Agent: "clerk"}); err != nil {
		t.Error(err)
	} else if r, err := k.Wait(t.Context()); err == nil && strings.Contains(r.Output, "All of travel") {
		t.Error(r.Output)
	}
}

func TestAnAgentIsAnsweredForByTheWorkflowThatItNames(t *testing.T) {
	t.Chdir(t.TempDir())
	workflows := new(flow.Registry)
	_, c, _, stop := agentsWith(t, workflows, "agents:\n  writer: {workflow: essay}\n  broken: {workflow: nothing-there}\n")
	defer stop()
	if c.Workflow("writer") != "essay" || c.Workflow("assistant") != "" {
		t.Errorf("%q %q", c.Workflow("writer"), c.Workflow("assistant"))
	}
	var said strings.Builder
	workflows.Register(flow.Func("essay", "", nil, nil))
	c.WarnOfMissingWorkflows(slog.New(slog.NewTextHandler(&said, nil)))
	if got := said.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "agent=broken workflow=nothing-there") {
		t.Error(got)
	}
}
