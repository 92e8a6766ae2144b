// Package hooks has what the server does in the turns that its runs start, beside the agents: it gives the models the options and the
// instructions of the caller, a new session the messages of the caller's earlier conversation, and lets workflows answer.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// Members of an envelope's Extra.
const (
	Options      = "options"      // adapter.Options: what is asked of the models
	Run          = "answers"      // Answers: a workflow is to answer
	Instructions = "instructions" // string: what the caller has beside the agent's own
	History      = "said"         // []adapter.Message: what was said before, for a session that is new
)

// Instructed tells a model what the caller's program wants, and that the words are the program's.
func Instructed(text string) string {
	if text == "" {
		return ""
	}
	return "The program through which the user talks to you adds these instructions. Follow them as far as nothing above says otherwise.\n\n" + text
}

// Plugin stands for the server in the turns that its runs start.
type Plugin struct{}

// Answers is a run whose workflow answers in the place of an agent.
type Answers interface {
	// Stream is the model stage of the turn.
	Stream(context.Context, turn.State) turn.Stream
}

// DispatchOutbound has nothing to send: what goes out here, the run has told already.
func (Plugin) DispatchOutbound(_ context.Context, e *turn.Envelope) (bool, error) {
	return e.Channel == webchannel.Name, nil
}

// BeforeModel asks of the models what the caller of the run has asked for.
func (Plugin) BeforeModel(ctx context.Context, req *adapter.Request, _ turn.State) (*agent.Reply, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, nil
	}
	if o, ok := t.Envelope().Extra[Options].(adapter.Options); ok {
		req.Options = o.Over(req.Options)
	}
	return nil, nil
}

// SystemPrompt adds what the configuration has for those who come by HTTP, and behind it what the caller says.
func (Plugin) SystemPrompt(ctx context.Context, _ turn.Prompt, _ turn.State) (string, error) {
	var text string
	if t := channel.FromContext(ctx); t != nil && t.Context.Channel == webchannel.Name {
		text = t.Context.GroupSystemPrompt
	}
	if t := turn.FromContext(ctx); t != nil {
		caller, _ := t.Envelope().Extra[Instructions].(string)
		if more := Instructed(caller); more != "" && text != "" {
			text += "\n\n" + more
		} else {
			text += more
		}
	}
	return text, nil
}

// LoadState writes what was said before to the tape of a session that has none yet. It is the first thing of a turn, so the
// session has no other turn meanwhile; one that has a tape remembers by itself, and its tape is the truth.
func (Plugin) LoadState(ctx context.Context, e *turn.Envelope, session turn.SessionID) (turn.State, error) {
	history, _ := e.Extra[History].([]adapter.Message)
	t := turn.FromContext(ctx)
	if len(history) == 0 || t == nil {
		return nil, nil
	}
	delete(e.Extra, History) // nobody needs it any more
	f := t.Framework()
	store, err := f.Store(ctx)
	if err != nil || store == nil {
		return nil, err
	}
	tp, err := tape.Open(ctx, store, f.Workspace(), session)
	if err != nil {
		return nil, err
	}
	info, err := tp.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Entries > 1 { // more than the anchor that each tape begins with
		return nil, nil
	}
	b := tape.Batch{IfLast: info.LastID, Born: info.Created}
	for _, s := range history {
		b.Entries = append(b.Entries, tape.NewMessage(s.Role, s.Content).With(tape.Meta{Turn: t.ID()}))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTimeout)
	defer cancel()
	if _, err := store.Append(ctx, tp.Name(), b); err != nil && !errors.Is(err, tape.ErrMoved) {
		return nil, fmt.Errorf("write what was said before: %w", err)
	}
	return nil, nil
}

// historyTimeout bounds the writing, which is not left half way when a client goes away.
const historyTimeout = 10 * time.Second

// RunModelStream is the model stage of a workflow's turn; agents have their own.
func (Plugin) RunModelStream(ctx context.Context, _ turn.Prompt, _ turn.SessionID, state turn.State) (turn.Stream, bool, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, false, nil
	}
	a, ok := t.Envelope().Extra[Run].(Answers)
	if !ok {
		return nil, false, nil
	}
	return a.Stream(ctx, state), true, nil
}
