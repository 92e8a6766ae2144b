// Package agent is the built-in plugin of a turn: it keeps a session's memory on a tape, asks the model, runs the tools that the
// model calls, and asks again, until there is an answer.
//
// A *step* is one call of the model and what follows from it. The *loop* makes steps until a reply has no calls and no message
// has been added meanwhile. A *handoff* leaves the past behind an anchor; the loop does one by itself where the context does not
// fit the model.
//
// # Guarantees
//   - What happens goes to the tape when it happens: a crash loses the step that was running and nothing before it.
//   - Every call that a model makes has one result, on the tape and in the next request, also if the tool or the turn fails.
//   - What goes wrong with a tool is something that the model reads; it never fails the turn.
//   - A tool that asks for approval runs after it was given, with the arguments that were shown, or not at all.
//   - The number of model calls of a turn is bounded, and so is what one of them may say.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Name is what the plugin is registered as, first of all: so every other comes before it.
const Name = "builtin"

// DefaultMaxSteps bounds the model calls of a turn.
const DefaultMaxSteps = 50

// Models finds models by "provider:name"; [adapter.Registry] does.
type Models interface {
	Model(name string) (adapter.Model, error)
}

// Options say what an agent is. Models is required; the zero value of everything else is its default.
type Options struct {
	Name   string // of the agent, for state and log
	Models Models
	// Model answers; "" is the default of Models. The session's own choice (see [command.Session]) goes before it.
	Model    string
	Fallback []string // are tried in this order where it fails before it has said anything
	// Choices are the models that a person may choose with ",model", beside Model and Fallback.
	Choices []string

	// Options are asked of each model that the turn asks, where its plugins say nothing else.
	Options      adapter.Options
	Instructions string // in place of the default prompt
	// Tools of the agent, beside the default ones. Bare leaves those out.
	Tools *tool.Set
	Bare  bool
	// Approvals override what tools ask for, by name or by pattern ("fs.*").
	Approvals map[string]tool.Approval
	// AskUnknown asks a person whether a call runs again that was running when the server stopped, unless its tool is idempotent. Otherwise the
	// model reads that its outcome is unknown.
	AskUnknown bool
	Skills     *skill.Library // nil for none

	MaxSteps        int           // model calls of a turn, 50
	ToolTimeout     time.Duration // 60 s
	ApprovalTimeout time.Duration // 5 min; it is that at most for a turn that is no run
	// Summarize lets a model sum up what an automatic handoff leaves behind.
	Summarize bool
	// AwaitTools waits until the tools are there that are still being connected to, and returns the names of what it has waited for in vain when ctx
	// ends. Nil is nothing to wait for.
	AwaitTools func(ctx context.Context) (missing []string)
	// MaxReply is how many bytes a reply of a model may have, calls and reasoning included; 0 is 1 MiB.
	MaxReply int
	// MaxContext bounds the tokens of a request, which are estimated: a handoff comes before a larger one. 0 leaves the limit to the models.
	MaxContext int

	Store tape.Store   // has the tapes; nil leaves that to another plugin
	Log   *slog.Logger // nil is nowhere

	// Host does what commands ask for that only the program around the agent can do; nil for nothing of it.
	Host Host
}

// Host is what the program around an agent does for its commands.
type Host interface {
	// Servers lists the MCP servers.
	Servers(ctx context.Context) ([]command.Server, error)
	// Export writes a tape to a new file.
	Export(ctx context.Context, t *tape.Tape) (command.Exported, error)
}

// Agent is the plugin. Make it with [New]; it is safe for concurrent use.
type Agent struct {
	turn.Notices // a turn that has failed

	options   Options
	log       *slog.Logger
	tools     *tool.Set // the default tools, and those of the options
	commands  command.Set
	questions *questions

	framework atomic.Pointer[turn.Framework] // in which the agent is registered
}

// New makes an agent. Errors are those of a program or a configuration: no models, tools whose names clash.
func New(o Options) (*Agent, error) {
	if o.Models == nil {
		return nil, errors.New("agent: expected models to ask")
	}
	o.MaxSteps = cmp.Or(max(o.MaxSteps, 0), DefaultMaxSteps)
	a := &Agent{options: o, commands: command.New(), tools: new(tool.Set), questions: new(questions)}
	a.log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a.options.Approvals = maps.Clone(o.Approvals)
	for pattern, asks := range o.Approvals {
		if asks != tool.Always && asks != tool.Never {
			return nil, fmt.Errorf("agent: approvals: %s: expected always or never, got %q", pattern, asks)
		}
	}
	if err := a.addTools(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return a, nil
}

// AttachFramework is called when the agent is registered, which may be once: it makes the hooks of the loop known.
func (a *Agent) AttachFramework(f *turn.Framework) error {
	if !a.framework.CompareAndSwap(nil, f) {
		return errors.New("agent: it is registered already")
	}
	if err := a.addFiles(f.Workspace()); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	turn.Declare[BeforeModel](f, "before_model")
	turn.Declare[AfterModel](f, "after_model")
	turn.Declare[BeforeTool](f, "before_tool")
	turn.Declare[AfterTool](f, "after_tool")
	return nil
}

// Tools are those that the agent may call.
func (a *Agent) Tools() *tool.Set { return a.tools }

// Keys of the state that the agent adds.
const (
	KeySession  = "session_id"
	KeyAgent    = "agent"    // its name
	KeySettings = "settings" // map[string]json.RawMessage: what was set in the session
	keyLife     = "_runtime_lifespan"
)

// ResolveSession takes the envelope's session id as it is, unless it is blank.
func (a *Agent) ResolveSession(_ context.Context, e *turn.Envelope) (turn.SessionID, bool, error) {
	if strings.TrimSpace(e.SessionID) == "" {
		return "", true, nil // the session of the channel and the chat
	}
	return e.SessionID, true, nil
}

// LoadState enters the envelope's lifespan and looks up what was set in the session. It writes nothing.
func (a *Agent) LoadState(ctx context.Context, e *turn.Envelope, id turn.SessionID) (turn.State, error) {
	s := turn.State{KeySession: id, KeyAgent: a.options.Name}
	settings, settingsErr := a.settings(ctx, id)
	if settingsErr != nil {
		return s, settingsErr // nothing was entered
	}
	if settings != nil {
		s[KeySettings] = settings
	}
	if e.Life != nil {
		if err := e.Life.Enter(ctx); err != nil {
			return nil, fmt.Errorf("enter the lifespan: %w", err)
		}
		s[keyLife] = e.Life
	}
	return s, nil
}

// SaveState leaves the lifespan that was entered.
func (a *Agent) SaveState(ctx context.Context, o *turn.Outcome) error {
	if life, ok := o.State[keyLife].(turn.Lifespan); ok {
		if err := life.Exit(ctx, o.Err); err != nil {
			return fmt.Errorf("leave the lifespan: %w", err)
		}
	}
	return nil
}

// RenderOutbound makes one envelope of the output, for where the message came from.
func (a *Agent) RenderOutbound(_ context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	if o.Output == "" {
		return nil, nil
	}
	return []*turn.Envelope{o.Envelope.Reply(o.Output)}, nil
}

// ProvideTapeStore provides the store of the options.
func (a *Agent) ProvideTapeStore(context.Context) (tape.Store, bool, error) {
	return a.options.Store, a.options.Store != nil, nil
}

// SystemPrompt is the instructions and the workspace's AGENTS.md.
func (a *Agent) SystemPrompt(context.Context, turn.Prompt, turn.State) (string, error) {
	text := cmp.Or(strings.TrimSpace(a.options.Instructions), defaultInstructions)
	if more := readAgentsFile(a.framework.Load().Workspace()); more != "" {
		text += "\n\n" + more
	}
	return text, nil
}

// OpenTape opens the tape of a session of f, and creates it if it does not exist.
func OpenTape(ctx context.Context, f *turn.Framework, id turn.SessionID) (*tape.Tape, error) {
	store, err := storeOf(ctx, f)
	if err != nil {
		return nil, err
	}
	return tape.Open(ctx, store, f.Workspace(), id)
}

// lookupTape returns the tape of a session, or [tape.ErrNotFound].
func (a *Agent) lookupTape(ctx context.Context, id turn.SessionID) (*tape.Tape, error) {
	f := a.framework.Load()
	store, err := storeOf(ctx, f)
	if err != nil {
		return nil, err
	}
	return tape.Lookup(ctx, store, f.Workspace(), id)
}

// storeOf returns the store of the tapes.
func storeOf(ctx context.Context, f *turn.Framework) (tape.Store, error) {
	s, err := f.Store(ctx)
	if err == nil && s == nil {
		err = errors.New("agent: no plugin provides a store of tapes")
	}
	return s, err
}
