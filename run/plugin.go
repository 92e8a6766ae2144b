package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// plugin is what the server does in the turns that its runs start, in addition to the agents: it gives the models the options and the
// instructions of the caller, a new session the messages of the caller's earlier conversation, and lets workflows answer.
type plugin struct{}

// runOf returns the run of a turn that a run has started, and nil for any other turn.
func runOf(t *turn.Turn) *agentRun {
	if t == nil {
		return nil
	}
	a, _ := t.Envelope().Life.(*agentRun)
	return a
}

// DispatchOutbound has nothing to send: the run has written the answer already.
func (plugin) DispatchOutbound(_ context.Context, e *turn.Envelope) (bool, error) {
	return e.Channel == webchannel.Name, nil
}

// BeforeModel sets the options of the run's caller.
func (plugin) BeforeModel(ctx context.Context, req *adapter.Request, _ turn.State) (*agent.Reply, error) {
	if a := runOf(turn.FromContext(ctx)); a != nil && a.answer == nil {
		req.Options = a.spec.request.Options.Over(req.Options)
	}
	return nil, nil
}

// SystemPrompt returns the configured instructions for callers of the API, and then those of the caller.
func (plugin) SystemPrompt(ctx context.Context, _ turn.Prompt, _ turn.State) (string, error) {
	var texts []string
	if t := channel.FromContext(ctx); t != nil && t.Context.Channel == webchannel.Name && t.Context.GroupSystemPrompt != "" {
		texts = append(texts, t.Context.GroupSystemPrompt)
	}
	if a := runOf(turn.FromContext(ctx)); a != nil && a.answer == nil && a.spec.request.Instructions != "" {
		texts = append(texts, "The program through which the user talks to you adds these instructions. Follow them as far as nothing above says otherwise.",
			a.spec.request.Instructions)
	}
	return strings.Join(texts, "\n\n"), nil
}

// LoadState writes the caller's earlier conversation to the tape of a new session. It is the first step of a turn, so the session has no other
// turn meanwhile. The tape of a session that is not new has the conversation already.
func (plugin) LoadState(ctx context.Context, _ *turn.Envelope, session turn.SessionID) (turn.State, error) {
	t := turn.FromContext(ctx)
	a := runOf(t)
	if a == nil || len(a.spec.request.History) == 0 {
		return nil, nil
	}
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
	for _, m := range a.spec.request.History {
		b.Entries = append(b.Entries, tape.NewMessage(m.Role, m.Content).With(tape.Meta{Turn: t.ID()}))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTimeout)
	defer cancel()
	if _, err := store.Append(ctx, tp.Name(), b); err != nil && !errors.Is(err, tape.ErrMoved) {
		return nil, fmt.Errorf("write the earlier conversation: %w", err)
	}
	return nil, nil
}

// historyTimeout bounds the writing, which a client that disconnects does not end.
const historyTimeout = 10 * time.Second

// RunModelStream is the model stage of a workflow's turn; agents have their own.
func (plugin) RunModelStream(ctx context.Context, _ turn.Prompt, _ turn.SessionID, state turn.State) (turn.Stream, bool, error) {
	a := runOf(turn.FromContext(ctx))
	if a == nil || a.answer == nil {
		return nil, false, nil
	}
	a.answer.Manager = a.m
	return a.answer.Stream(ctx, state), true, nil
}
