package run

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

// Channel is the channel of envelopes that come from here.
const Channel = webchannel.Name

// Members of an envelope's Extra.
const (
	ExtraAgent   = turn.ExtraAgent
	extraOptions = "options"      // adapter.Options: what is asked of the models
	extraRun     = "answers"      // *agentRun: a workflow is to answer
	extraCaller  = "instructions" // string: what the caller has beside the agent's own
	extraHistory = "said"         // []said: what was said before, for a session that is new
)

// door is the plugin that stands for this server in the turns that it starts.
type door struct{}

// DispatchOutbound has nothing to send: what goes out here, the run has told already.
func (door) DispatchOutbound(_ context.Context, e *turn.Envelope) (bool, error) {
	return e.Channel == Channel, nil
}

// BeforeModel asks of the models what the caller of the run has asked for.
func (door) BeforeModel(ctx context.Context, req *adapter.Request, _ turn.State) (*agent.Reply, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, nil
	}
	if o, ok := t.Envelope().Extra[extraOptions].(adapter.Options); ok {
		req.Options = o.Over(req.Options)
	}
	return nil, nil
}

// SystemPrompt adds what the configuration has for those who come by HTTP, and behind it what the caller says.
func (door) SystemPrompt(ctx context.Context, _ turn.Prompt, _ turn.State) (string, error) {
	var text string
	if t := channel.FromContext(ctx); t != nil && t.Context.Channel == Channel {
		text = t.Context.GroupSystemPrompt
	}
	if t := turn.FromContext(ctx); t != nil {
		caller, _ := t.Envelope().Extra[extraCaller].(string)
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
func (door) LoadState(ctx context.Context, e *turn.Envelope, session turn.SessionID) (turn.State, error) {
	history, _ := e.Extra[extraHistory].([]Said)
	t := turn.FromContext(ctx)
	if len(history) == 0 || t == nil {
		return nil, nil
	}
	delete(e.Extra, extraHistory) // nobody needs it any more
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
		b.Entries = append(b.Entries, tape.NewMessage(s.Role, s.Text).With(tape.Meta{Turn: t.ID()}))
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
func (door) RunModelStream(ctx context.Context, _ turn.Prompt, _ turn.SessionID, state turn.State) (turn.Stream, bool, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, false, nil
	}
	a, ok := t.Envelope().Extra[extraRun].(*agentRun)
	if !ok {
		return nil, false, nil
	}
	a.silent, a.answer.Manager = true, a.m
	return a.answer.Stream(ctx, state), true, nil
}
