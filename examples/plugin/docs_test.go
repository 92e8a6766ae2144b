package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// with makes a framework of the built-in agent, on the demo, with plugins above it.
func with(t *testing.T, plugins ...any) (*turn.Framework, *agent.Agent, options) {
	t.Helper()
	models := &adapter.Registry{Default: "demo:fast"}
	models.Register("demo", demo.New(nil))
	store := tapetest.NewMemory(nil)
	tools, err := tool.NewSet(tool.Must(tool.New("shop.price", "says what something costs", func(_ context.Context, in struct {
		Of string `json:"of"`
	},
	) (string, error) {
		return "It costs 7 gold.", nil
	})))
	if err != nil {
		t.Fatal(err)
	}
	builtin, err := agent.New(agent.Options{Models: models, Store: store, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	framework := turn.New(turn.Options{Workspace: t.TempDir()})
	for i, plugin := range append([]any{builtin}, plugins...) {
		if err := framework.Register(fmt.Sprintf("%s%d", agent.Name, i), plugin); err != nil {
			t.Fatal(err)
		}
	}
	return framework, builtin, options{models, store}
}

type options struct {
	models *adapter.Registry
	store  tape.Store
}

func TestWhatTheGuideShowsIsCompiled(t *testing.T) {
	code := ""
	for _, file := range []string{"main.go", "docs_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code += unindented(string(text))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(guide(t), -1)
	for _, b := range blocks {
		if !strings.Contains(code, unindented(b[1])) {
			t.Errorf("this is in no file of examples/plugin:\n%s", b[1])
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks of code", len(blocks))
	}
}

func unindented(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}

// signed adds an envelope to the one that the agent renders.
type signed struct{}

func (signed) RenderOutbound(_ context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	if o.Output == "" {
		return nil, nil // nothing to add
	}
	return []*turn.Envelope{o.Envelope.Reply("Written by a machine.")}, nil
}

func TestARendererAddsToWhatTheAgentRenders(t *testing.T) {
	f, _, _ := with(t, signed{})
	r, err := f.Process(t.Context(), &turn.Envelope{SessionID: "s", Content: "hello"})
	if err != nil || len(r.Outbound) != 2 || r.Outbound[0].Content != "Written by a machine." || r.Outbound[1].Content != r.Output {
		t.Errorf("%+v, %v", r, err)
	}
}

type customer struct{}

func (customer) LoadState(_ context.Context, e *turn.Envelope, _ turn.SessionID) (turn.State, error) {
	return turn.State{"customer": e.Sender.ID}, nil
}

func (customer) SystemPrompt(_ context.Context, _ turn.Prompt, s turn.State) (string, error) {
	return fmt.Sprintf("You talk to customer %v.", s["customer"]), nil
}

func (customer) BeforeTool(_ context.Context, t *tool.Tool, c tool.Call) (agent.Verdict, error) {
	if t.Name == "shop.price" && strings.Contains(string(c.Arguments), "secret") {
		return agent.Verdict{Deny: "that is not for sale"}, nil
	}
	return agent.Verdict{}, nil
}

func (customer) BeforeModel(_ context.Context, r *adapter.Request, s turn.State) (*agent.Reply, error) {
	if s["customer"] == "" {
		return &agent.Reply{Text: "Who are you?"}, nil // no model is asked
	}
	return nil, nil
}

func TestHooksOfTheLoopAnswerAndDeny(t *testing.T) {
	f, _, _ := with(t, customer{})
	ask := func(sender, content string) string {
		r, err := f.Process(t.Context(), &turn.Envelope{SessionID: "s", Content: content, Sender: turn.Sender{ID: sender}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Output
	}
	if got := ask("", "hello"); got != "Who are you?" {
		t.Error(got)
	}
	if got := ask("7", `What is the shop price of "bread"?`); !strings.Contains(got, "7 gold") {
		t.Error(got)
	}
	if got := ask("7", `What is the shop price of "secret"?`); !strings.Contains(got, "not for sale") {
		t.Error(got)
	}
}

func TestAReaderSeesTheEvents(t *testing.T) {
	framework, _, _ := with(t)
	ctx, message := t.Context(), &turn.Envelope{SessionID: "s", Content: `What is the shop price of "bread"?`}
	var text strings.Builder
	var calls []string
	ticket, err := framework.Submit(ctx, message, turn.WithPolicy(turn.Queue), turn.WithSink(func(e turn.Event, err error) {
		switch {
		case err != nil: // the last one
		case e.Kind == turn.TextEvent:
			text.WriteString(e.Delta)
		case e.Kind == turn.ToolCallEvent:
			calls = append(calls, e.Calls[0].Name)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	result, err := ticket.Wait(ctx)
	if err != nil || result.Output != text.String() || !slices.Equal(calls, []string{"shop_price"}) {
		t.Errorf("%+v, %v: %q, %q", result, err, text.String(), calls)
	}
}

// agents are those that runs may ask for.
type agents struct{ *agent.Agent }

func (agents) Names() []string { return []string{"assistant"} }

func (agents) Workflow(string) string { return "" }

func (a agents) Remembered(ctx context.Context, _ string, session *tape.Tape) ([]string, error) {
	return a.Agent.Remembered(ctx, session)
}

func TestPluginsInAServer(t *testing.T) {
	framework, builtin, o := with(t, brief{})
	models, store := o.models, o.store
	server, err := web.New(web.Options{Options: run.Options{
		Workflows: new(flow.Registry), Models: models, Tapes: store, Workspace: framework.Workspace(),
		Turns: framework, Agents: agents{builtin},
	}})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(server.Handler())
	resp, err := http.Post(site.URL+"/v1/runs?format=json", "application/json", strings.NewReader(`{"agent":"assistant","session":"s","input":"How far?"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	site.Close()
	err = errors.Join(err, server.Close(), framework.Drain(t.Context()))
	var answer struct {
		Status string
		Result any
	}
	if json.Unmarshal(body, &answer) != nil || answer.Status != "completed" || !strings.Contains(fmt.Sprint(answer.Result), "“Briefly: How far?”") || err != nil {
		t.Errorf("%s %s, %v", resp.Status, body, err)
	}
}
