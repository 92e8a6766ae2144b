package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// Answer is what a workflow says in one turn. It is used once.
type Answer struct {
	Workflow flow.Workflow
	Input    map[string]any // as [flow.Prepare] has made it

	// Manager belongs to a run whose only task is the turn: the owner of the run reads its tube, and closes it. Without one, the answer
	// makes a manager of Bot and Run.
	Manager *ling.Manager
	// Stop ends the work of Manager where the turn ends before; nil is its own Stop.
	Stop func(cause error)

	Bot bot.Config
	Run ling.Options

	turn     *turn.Turn
	made     ling.Result // of the work
	text     string      // the document, as far as there is one
	failed   error       // of the workflow
	canceled bool        // the work was canceled
}

// Told says whether err, which the turn has ended with, is what the workflow has failed of: then its run has told it already.
// It may be asked when the turn has ended.
func (a *Answer) Told(err error) bool { return a.failed != nil && errors.Is(err, a.failed) }

// Stream runs the workflow. When it is over and on the tape, it yields "usage" of each bot, "error" for each failure, and "final" with
// the document, which no reader sees grow: the owner of a Manager reads its tube. The error of the workflow is that of the stream; a
// final event before it has the document so far.
func (a *Answer) Stream(ctx context.Context, state turn.State) turn.Stream {
	return func(yield func(turn.Event, error) bool) {
		if a.turn = turn.FromContext(ctx); a.turn == nil {
			yield(turn.Event{}, errNoTurn)
			return
		}
		err := a.inTurn(ctx, state)
		for _, e := range a.events(err) {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(turn.Event{}, err)
		}
	}
}

// events are those of a turn that has ended with err.
func (a *Answer) events(err error) (list []turn.Event) {
	for _, name := range slices.Sorted(maps.Keys(a.made.Usage)) {
		u := &turn.Usage{Usage: a.made.Usage[name]}
		if models := a.made.Models[name]; len(models) > 0 {
			u.Model = models[len(models)-1]
		}
		list = append(list, turn.Event{Kind: turn.UsageEvent, Usage: u})
	}
	for _, e := range a.made.Errors {
		list = append(list, turn.Event{Kind: turn.ErrorEvent, Err: &turn.EventError{Code: e.Code, Message: e.Message}})
	}
	if err == nil || a.text != "" && !errors.Is(err, turn.ErrHandedOver) {
		list = append(list, turn.Event{Kind: turn.FinalEvent, Final: &turn.Final{OK: err == nil, Text: a.text}})
	}
	return list
}

// inTurn runs the workflow with the messages on the session's tape, and writes the new ones to the tape.
func (a *Answer) inTurn(ctx context.Context, state turn.State) error {
	if inbox := a.turn.Inbox(); inbox != nil {
		inbox.CloseIfEmpty() // a workflow reads no steering, so messages had better wait for a turn of their own
	}
	t, err := agent.OpenTape(ctx, a.turn.Framework(), a.turn.Session())
	if err != nil {
		return err
	}
	var past agent.Told
	if a.turn.Envelope().Resumed {
		if past, err = agent.ReadTurn(ctx, t, a.turn.ID()); err != nil {
			return err
		}
		if past.Ended {
			a.text = past.Text
			return past.Failure
		}
	}
	history, err := a.begin(ctx, t, state, past.Begun)
	if err != nil {
		return err
	}
	failure := a.work(ctx, history)
	if cause := context.Cause(ctx); errors.Is(cause, turn.ErrHandedOver) {
		return cause
	}
	return errors.Join(failure, a.end(ctx, t, failure))
}

// begin reads the messages before the turn, and writes the turn's first entries unless another process has begun it.
func (a *Answer) begin(ctx context.Context, t *tape.Tape, state turn.State, begun bool) ([]adapter.Message, error) {
	selector, err := a.turn.Selector(ctx, state)
	if err != nil {
		return nil, err
	}
	if begun {
		selector = tape.Without(selector, func(e tape.Entry) bool { return tape.MetaOf(e).Turn == a.turn.ID() })
	}
	history, err := history(ctx, t, selector)
	if err != nil || begun {
		return history, err
	}
	entries, err := agent.Aborted(ctx, t)
	if err != nil {
		return nil, err
	}
	entries = append(entries,
		agent.StartEntry(map[string]string{"workflow": a.Workflow.Info().Name}, a.turn.Envelope()),
		tape.NewMessage(adapter.User, a.turn.Envelope().Content))
	for i, e := range entries {
		entries[i] = e.With(tape.Meta{Turn: a.turn.ID()})
	}
	_, err = t.Append(ctx, entries...)
	return history, err
}

// end writes what was said, and how the turn has ended.
func (a *Answer) end(ctx context.Context, t *tape.Tape, failure error) error {
	mark := tape.Meta{Turn: a.turn.ID()}
	var entries []tape.Entry
	if a.text != "" {
		entries = append(entries, tape.NewMessage(adapter.Assistant, a.text).With(tape.Meta{Turn: mark.Turn, Partial: failure != nil}))
	}
	status := agent.StatusOK
	switch {
	case failure != nil && a.canceled:
		status = agent.StatusCanceled
	case failure != nil:
		status = agent.StatusError
		f, _ := bot.Describe(failure)
		entries = append(entries, tape.NewError(f.Code, f.Message).With(mark))
	}
	var used adapter.Usage
	for _, u := range a.made.Usage {
		used.Add(u)
	}
	entries = append(entries, agent.EndEntry(agent.Ended{Status: status}, used).With(mark))
	_, err := t.AppendPatiently(ctx, entries...)
	return err
}

// work runs the workflow to its end.
func (a *Answer) work(ctx context.Context, history []adapter.Message) error {
	m, stop := a.Manager, a.Stop
	// What is stopped comes to its end, and no bot is left behind: neither way of waiting heeds the turn's context.
	wait := func() error { return m.Settle(context.WithoutCancel(ctx)) }
	if m == nil {
		m = ling.New(ctx, a.Bot, &a.Run)
		wait = m.Close
	}
	if stop == nil {
		stop = func(cause error) { m.Stop(cause) }
	}
	m.SetHistory(history...)
	m.Trace(ctx)
	if err := m.Go(func(ctx context.Context) error { return a.Workflow.Run(ctx, m, a.Input) }); err != nil {
		if a.Manager == nil {
			m.Close()
		}
		a.canceled = errors.Is(err, ling.ErrEnded) // before the work could begin
		return err
	}
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	a.failed = wait()
	a.made = m.Peek(false)
	a.text = textOf(a.made.Result)
	_, failure := errors.AsType[*bot.Failure](a.failed) // such as a limit, which ends the run's context, too
	a.canceled = !failure && (ctx.Err() != nil || a.Manager != nil && m.Context().Err() != nil)
	return a.failed
}

// textOf is the text of a document that is one, and nothing of one that is empty.
func textOf(document json.RawMessage) (text string) {
	if json.Unmarshal(document, &text) != nil && string(document) != "{}" {
		return string(document)
	}
	return text
}

// history is what was said in the session, as its last anchor and what follows it, or what a plugin has chosen. Calls of an agent's
// tools, and what came of them, are left out: a workflow has other tools, or none.
func history(ctx context.Context, t *tape.Tape, selector tape.Selector) (list []adapter.Message, err error) {
	view, err := t.View(ctx, selector)
	if err != nil {
		return nil, err
	}
	for _, v := range view.Messages {
		if v.Starts() {
			continue
		}
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
