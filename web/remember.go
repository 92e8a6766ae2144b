package web

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// inSession makes a run of a workflow a turn of a session: its bots know what was said before, and what is said now is kept.
func (s *Server) inSession(sp *spec, session string, policy turn.Policy, input json.RawMessage) {
	text := string(input)
	var plain string
	if json.Unmarshal(input, &plain) == nil {
		text = plain
	}
	workflow, prepared := sp.workflow, sp.input
	a := &agentRun{s: s, name: workflow.Info().Name, id: newRunID(), policy: policy, ready: make(chan struct{})}
	a.work = func(ctx context.Context, m *ling.Manager) error { return workflow.Run(ctx, m, prepared) }
	a.envelope = &turn.Envelope{
		ID: a.id, SessionID: session, Channel: Channel, Content: text, Life: a,
		Sender: turn.Sender{NoCommands: true}, // a workflow's input is what its schema says, commas included
		Extra:  map[string]any{extraRun: a},
	}
	sp.agent, sp.session = a, session
	sp.workflow = flow.Func(a.name, "", nil, func(ctx context.Context, m *ling.Manager, _ map[string]any) error { return a.run(ctx, m) })
}

// RunModelStream is the model stage of a workflow's turn; agents have their own.
func (door) RunModelStream(ctx context.Context, _ turn.Prompt, session turn.SessionID, _ turn.State) (turn.Stream, bool, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, false, nil
	}
	a, ok := t.Envelope().Extra[extraRun].(*agentRun)
	if !ok {
		return nil, false, nil
	}
	return func(yield func(turn.Event, error) bool) {
		text, err := a.remember(ctx, t.Framework(), session)
		if err != nil {
			yield(turn.Event{}, err)
			return
		}
		yield(turn.Event{Kind: turn.FinalEvent, Final: &turn.Final{OK: true, Text: text}}, nil)
	}, true, nil
}

// writing bounds the writing of a turn's last entries, which happens after its cancellation, too.
const writing = 10 * time.Second

// remember runs the workflow with what the session's tape says, and writes to the tape what was said now. It returns the
// document, as text where it is a text.
func (a *agentRun) remember(ctx context.Context, turns *turn.Framework, session string) (text string, err error) {
	store, err := turns.Store(ctx)
	if err != nil {
		return "", err
	}
	if store == nil {
		return "", errors.New("web: no plugin provides a store of tapes")
	}
	t, err := tape.Open(ctx, store, turns.Workspace(), session)
	if err != nil {
		return "", err
	}
	history, err := history(ctx, t)
	if err != nil {
		return "", err
	}
	first, err := agent.Aborted(ctx, t)
	if err != nil {
		return "", err
	}
	mark := tape.Meta{Turn: a.id}
	first = append(first, tape.NewEvent("turn.start", map[string]string{"workflow": a.name}), tape.NewMessage(adapter.User, a.envelope.Content))
	for i := range first {
		first[i] = first[i].With(mark)
	}
	if _, err = t.Append(ctx, first...); err != nil {
		return "", err
	}
	text, err = a.answer(ctx, history)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	var last []tape.Entry
	status := "ok"
	if text != "" {
		last = append(last, tape.NewMessage(adapter.Assistant, text).With(tape.Meta{Turn: a.id, Partial: err != nil}))
	}
	if err != nil {
		status = "error"
		if a.m.Context().Err() != nil {
			status = "canceled"
		} else {
			f, _ := bot.Describe(err)
			last = append(last, tape.NewError(f.Code, f.Message).With(mark))
		}
	}
	last = append(last, tape.NewEvent("turn.end", map[string]string{"status": status}).With(mark))
	if _, writeErr := t.Append(ctx, last...); writeErr != nil {
		return "", errors.Join(err, writeErr)
	}
	if s, ok := store.(tape.Syncer); ok {
		err = errors.Join(err, s.TurnEnded(ctx, t.Name()))
	}
	return text, err
}

// answer lets the workflow write its document to the run's tube, and returns it when all bots have ended.
func (a *agentRun) answer(ctx context.Context, history []adapter.Message) (string, error) {
	m := a.m
	m.SetHistory(history...)
	ended := context.AfterFunc(ctx, func() { // by a later message, or by who erases the session
		if cause := context.Cause(ctx); !a.stop(cause) {
			m.Stop(cause)
		}
	})
	defer ended()
	if err := m.Go(func(ctx context.Context) error { return a.work(ctx, m) }); err != nil {
		return "", err
	}
	a.failed = m.Settle(context.WithoutCancel(ctx)) // what is stopped comes to its end, and a bot is not left behind
	document := m.Peek(false).Result
	var text string
	switch {
	case empty(document):
	case json.Unmarshal(document, &text) != nil:
		text = string(document)
	}
	return text, a.failed
}

// history is what was said in the session, as its last anchor and what follows it. Calls of an agent's tools, and what came of
// them, are left out: a workflow has other tools, or none.
func history(ctx context.Context, t *tape.Tape) (list []adapter.Message, err error) {
	view, err := t.View(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, v := range view.Messages {
		var m struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		if json.Unmarshal(v.JSON, &m) == nil && m.Content != "" && (m.Role == adapter.User || m.Role == adapter.Assistant) {
			list = append(list, adapter.Message{Role: m.Role, Content: m.Content})
		}
	}
	return list, nil
}
