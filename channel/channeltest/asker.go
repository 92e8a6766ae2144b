package channeltest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tool"
)

// Asker is an agent whose turns ask whether a call may run, wait five minutes for the answer, and say what was decided. It is for tests of
// channels with buttons. Its fields are set before the first turn.
type Asker struct {
	Role      tool.Role // that an answer needs
	Arguments string    // of the call; "" is {"cmd":"ls"}

	mu      sync.Mutex
	asked   int
	open    map[string]*asking
	over    map[string]bool
	Answers []string // what was decided, by whom, in order
}

type asking struct {
	session string
	answer  chan channel.Decided
}

// QuestionID is the id of the n-th question, from 1.
func QuestionID(n int) string { return fmt.Sprintf("mq3v5c2xkz7tdhw4ybnae6rp%02d", n) }

// Dispatch implements [channel.Agent].
func (a *Asker) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	a.mu.Lock()
	a.asked++
	id, q := QuestionID(a.asked), &asking{t.SessionKey, make(chan channel.Decided, 1)}
	if a.open == nil {
		a.open, a.over = map[string]*asking{}, map[string]bool{}
	}
	a.open[id] = q
	a.mu.Unlock()
	arguments := a.Arguments
	if arguments == "" {
		arguments = `{"cmd":"ls"}`
	}
	text := "The agent wants to call the tool `shell` with\n\n```json\n" + arguments + "\n```"
	asked := &channel.Question{Turn: t.ID, ID: id, Tool: "shell", Arguments: arguments, Text: text}
	if len(arguments) > 3000 {
		asked.File = "arguments-" + id + ".json"
		asked.Text = "The agent wants to call the tool `shell` with the arguments in the file `" + asked.File + "`."
	}
	asked.Failed = func() { q.answer <- channel.Decided{ID: id, Why: "the question could not be delivered"} }
	err := t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{
		Text: text + "\n\nWrite `,approve " + id + "` to let it run, or `,deny " + id + "`.", Question: asked,
	})
	if err != nil {
		return channel.DispatchResult{}, err
	}
	d := channel.Decided{ID: id}
	timer := time.NewTimer(5 * time.Minute)
	defer timer.Stop()
	select {
	case d = <-q.answer:
	case <-timer.C:
		d.Why = "no answer came in time"
	case <-ctx.Done():
		return channel.DispatchResult{}, context.Cause(ctx)
	}
	a.mu.Lock()
	delete(a.open, id)
	a.over[id] = true
	a.mu.Unlock()
	said := "It did not run."
	if d.Why != "" {
		said = "It did not run: " + d.Why + "."
	}
	if d.Approved {
		said = "It ran."
	}
	if err := t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Decided: &d}); err != nil {
		return channel.DispatchResult{}, err
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: said})
}

// Decide implements [channel.Decider].
func (a *Asker) Decide(_ context.Context, t *channel.Turn, p channel.Press) channel.Pressed {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over[p.ID] {
		return channel.PressOver
	}
	q := a.open[p.ID]
	switch {
	case q == nil || q.session != t.SessionKey:
		return channel.PressUnknown
	case t.Context.Role < a.Role:
		return channel.PressTooLow
	}
	delete(a.open, p.ID)
	a.over[p.ID] = true
	by := t.Context.SenderName
	if by == "" {
		by = t.Context.SenderID
	}
	q.answer <- channel.Decided{ID: p.ID, Approved: p.Approve, Remember: p.Remember, By: by}
	switch {
	case p.Remember:
		a.Answers = append(a.Answers, "remembered by "+by)
		return channel.PressRemembered
	case p.Approve:
		a.Answers = append(a.Answers, "approved by "+by)
		return channel.PressApproved
	}
	a.Answers = append(a.Answers, "denied by "+by)
	return channel.PressDenied
}
