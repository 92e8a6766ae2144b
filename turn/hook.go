package turn

import (
	"context"

	"github.com/lingserve/lingserve/tape"
)

// Stage names a stage, or another occasion at which hooks are called.
type Stage string

// The stages in their order, and what there is beside them.
const (
	StageResolve  Stage = "resolve_session"
	StageLoad     Stage = "load_state"
	StagePrompt   Stage = "build_prompt"
	StageModel    Stage = "run_model" // streaming or not
	StageSave     Stage = "save_state"
	StageRender   Stage = "render_outbound"
	StageDispatch Stage = "dispatch_outbound"

	StageTurn    Stage = "turn" // observers: the turn has failed
	StageSystem  Stage = "system_prompt"
	StageStore   Stage = "provide_tape_store"
	StageContext Stage = "build_tape_context"
	StageAside   Stage = "answer_aside"
)

// The hooks. A plugin implements any of them. Those that return ok decide alone: the first that accepts, with ok true, ends the
// search, and so does an error. Of the others every one runs, also after an error. A hook that panics has failed.
type (
	// SessionResolver says whose turn it is. An accepted "" makes it the session of the channel and the chat.
	SessionResolver interface {
		ResolveSession(context.Context, *Envelope) (SessionID, bool, error)
	}
	// StateLoader adds to the turn's state. No loader sees what another one returns; nil adds nothing.
	StateLoader interface {
		LoadState(context.Context, *Envelope, SessionID) (State, error)
	}
	// PromptBuilder makes the prompt. An accepted empty one stands for the envelope's content.
	PromptBuilder interface {
		BuildPrompt(context.Context, *Envelope, SessionID, State) (Prompt, bool, error)
	}
	// ModelRunner asks a model for the whole answer. Beside a [ModelStreamer] of the same plugin it is used where the caller
	// does not stream.
	ModelRunner interface {
		RunModel(context.Context, Prompt, SessionID, State) (string, bool, error)
	}
	// ModelStreamer asks a model and hands on what it says. An accepted nil stream is a decline.
	ModelStreamer interface {
		RunModelStream(context.Context, Prompt, SessionID, State) (Stream, bool, error)
	}
	// StateSaver keeps what came of the turn. It runs whenever load_state has begun; what failed is in the outcome. Its context
	// survives the turn's cancellation, for 10 s.
	StateSaver interface {
		SaveState(context.Context, *Outcome) error
	}
	// Renderer makes envelopes of the outcome. Where all return none, one is made of the output.
	Renderer interface {
		RenderOutbound(context.Context, *Outcome) ([]*Envelope, error)
	}
	// Dispatcher sends an envelope if it is its own, and says whether it did.
	Dispatcher interface {
		DispatchOutbound(context.Context, *Envelope) (delivered bool, err error)
	}
	// ErrorObserver is notified of errors. Its context survives the turn's cancellation, for 5 s.
	ErrorObserver interface {
		OnError(context.Context, Stage, error, *Envelope)
	}
	// SystemPrompter adds to the system prompt; the plugin registered first stands first. See [Turn.SystemPrompt].
	SystemPrompter interface {
		SystemPrompt(context.Context, Prompt, State) (string, error)
	}
	// StoreProvider provides the store of tapes. It is asked once. See [Framework.Store].
	StoreProvider interface {
		ProvideTapeStore(context.Context) (tape.Store, bool, error)
	}
	// ContextBuilder chooses what of the tape a model sees. See [Turn.Selector].
	ContextBuilder interface {
		BuildTapeContext(context.Context, SessionID, State) (tape.Selector, bool, error)
	}
	// Asider answers a command (see [Envelope.IsCommand]) beside the lane of its session: at once, also while a turn runs there.
	// What it declines goes to the lane. It must not wait for the lane.
	Asider interface {
		AnswerAside(context.Context, *Envelope, SessionID) ([]*Envelope, bool, error)
	}
)

// Outcome is what came of the first stages of a turn: what save_state and render_outbound get. It must not be changed.
type Outcome struct {
	TurnID   string
	Session  SessionID
	Envelope *Envelope
	State    State
	Prompt   Prompt
	Output   string
	Partial  bool // the model ended with an error, and Output is what came before
	Usage    Usage
	Err      error // what the turn failed of so far; nil where it did not
}

// Inbox has the messages that came for a turn while it runs. It is safe for concurrent use.
type Inbox interface {
	// Take returns the messages in order and empties the inbox. They are the turn's now.
	Take() []*Envelope
	// CloseIfEmpty closes the inbox, so that nothing comes any more, unless there is something to take; it says whether it is closed.
	CloseIfEmpty() bool
}

// Named is a hook and the name of the plugin that has it.
type Named[H any] struct {
	Name string
	Hook H
}

// Attacher is a plugin that wants to know where it is registered, before its hooks are looked for: it may [Declare] hooks.
type Attacher interface {
	AttachFramework(*Framework) error
}
