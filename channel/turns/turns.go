// Package turns answers the turns of channels by package turn: what a channel knows of a message becomes an envelope, and what goes
// out becomes blocks of the turn's sink.
//
// # Guarantees
//   - A turn has one id, in the kernel of channels and in package turn.
//   - What leaves a turn goes to the conversation that it came from, and nowhere else.
//   - Words of others than the sender reach the model as data, in blocks that no text can end.
package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Options of [New]. The zero value is good.
type Options struct {
	// Answer gives a decision to a call that waits for approval: calls that no one can be asked about are denied by it. Without it
	// they wait until they expire.
	Answer func(context.Context, agent.Answer) error
	// Tape finds the tape of a session, for turns that go on after a crash; nil: they begin anew. It is [tape.ErrNotFound] if it is missing.
	Tape func(_ context.Context, session string) (*tape.Tape, error)
	// Read reads a local file of a message, which the kernel has checked; nil: messages have no local files.
	Read func(context.Context, string) ([]byte, error)
	// Timezone returns the time zone of an agent, as Europe/Berlin, for conversations that have none of their own; "", and nil, is UTC.
	Timezone func(agent string) string
	Log      *slog.Logger // nil is silent
}

// Agent answers turns of channels. It is also the plugin of the framework that takes what goes out of them.
type Agent struct {
	turns *turn.Framework
	o     Options
}

// New returns an agent over a framework, and registers with it, as "channels".
func New(f *turn.Framework, o *Options) (*Agent, error) {
	a := &Agent{turns: f, o: *cmp.Or(o, &Options{})}
	a.o.Log = cmp.Or(a.o.Log, slog.New(slog.DiscardHandler))
	if a.o.Answer == nil {
		a.o.Answer = func(context.Context, agent.Answer) error { return agent.ErrNoQuestion }
	}
	return a, f.Register("channels", &plugin{a})
}

// Dispatch implements [channel.Agent]: it gives the turn to the lane of its session and returns when it has ended. Errors are those
// of [turn.Framework.Submit] and of the turn.
func (a *Agent) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	r := &reply{agent: a, turn: t, ctx: ctx, denied: map[string]string{}}
	if t.Resumed && a.o.Tape != nil {
		if over, err := r.resume(); over || err != nil {
			return channel.DispatchResult{Deferred: over}, err
		}
	}
	ticket, err := a.turns.Submit(context.WithValue(ctx, replyKey{}, r), a.envelope(t), turn.WithID(t.ID),
		turn.WithPolicy(turn.Policy(t.Policy)), turn.WithSink(r.onEvent))
	if err != nil {
		return channel.DispatchResult{}, err
	}
	if t.Queued != nil {
		t.Queued() // it has its place
	}
	// The context ends the turn, and the turn is waited for all the same: nothing of it goes on behind the kernel's back.
	_, err = ticket.Wait(context.WithoutCancel(ctx))
	if ticket.Status().Turn != t.ID { // it was told to the turn that ran, which says what came of it
		return channel.DispatchResult{Deferred: true}, nil
	}
	return channel.DispatchResult{}, err
}

// resume takes the turn over from another process. over reports that another turn has used its message.
func (r *reply) resume() (over bool, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, resumeWait)
	defer cancel()
	err = r.agent.turns.Alone(ctx, r.turn.SessionKey, turn.Queue, func(ctx context.Context) error {
		t, err := r.agent.o.Tape(ctx, r.turn.SessionKey)
		if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrDeleted) {
			return nil // the turn had not begun
		}
		if err != nil {
			return err
		}
		told, err := agent.TakeTurn(ctx, t, r.turn.ID)
		if err != nil {
			return err
		}
		if !told.Begun {
			id := r.turn.Context.MessageID
			if over, err = agent.WasSteered(ctx, t, r.turn.Arrived, func(m tape.Meta) bool { return m.Message == id }); err != nil {
				return err
			}
		}
		r.text.WriteString(told.Text)
		r.past, r.sent = len(told.Text), min(r.turn.Shown, len(told.Text))
		return nil
	})
	return over, err
}

// resumeWait bounds how long it may take to find out what a turn has done.
const resumeWait = 10 * time.Second

type replyKey struct{}

// replyOf is the reply of the turn that a context belongs to; nil for turns of others.
func replyOf(ctx context.Context) *reply {
	r, _ := ctx.Value(replyKey{}).(*reply)
	return r
}

// reply is what goes out of one turn.
type reply struct {
	agent *Agent
	turn  *channel.Turn
	ctx   context.Context

	began    atomic.Bool // the turn runs in its lane: what goes out before is the answer to a command
	rendered atomic.Bool // the answer is complete: what goes out from now on is a part of it
	notRun   atomic.Bool // the person was told that a call is not run

	mu     sync.Mutex        // guards what follows: tools send by themselves, from goroutines of their own
	denied map[string]string // why a question was denied that no one has answered, by its id
	text   strings.Builder   // of the model, as far as it has come
	past   int               // bytes of text that another process has received, before the turn was resumed
	sent   int               // bytes of text that are in blocks; the rest is previewed
}

// onEvent shows what happens in the turn while the model speaks.
func (r *reply) onEvent(e turn.Event, err error) {
	if err != nil {
		return // the turn's end says what it failed of
	}
	switch e.Kind {
	case turn.TextEvent:
		if e.Delta == "" {
			return
		}
		r.mu.Lock()
		r.text.WriteString(e.Delta)
		text := r.text.String()[r.sent:] // shares the builder's memory
		r.mu.Unlock()
		r.turn.Sink.Preview(channel.Payload{Text: text})
	case turn.RetractEvent:
		r.retract(e.Delta)
	case turn.ToolCallEvent:
		r.flush()
	case agent.ApprovalRequiredEvent:
		r.ask(e.Value)
	case agent.ApprovalResolvedEvent:
		r.resolved(e)
	}
}

// resolved shows what became of a question. If no one could approve a call, a notice says why it was not run: once a turn, since a model may try again.
func (r *reply) resolved(e turn.Event) {
	var d struct{ ID, Decision, Remember, By, Reason string }
	if json.Unmarshal(e.Value, &d) != nil {
		return
	}
	if d.Reason == agent.ReasonUnattended && len(e.Calls) > 0 && !r.notRun.Swap(true) {
		r.mu.Lock()
		why := cmp.Or(r.denied[d.ID], "it needs approval, but nobody in this conversation may approve it. The operator of this server can change that")
		r.mu.Unlock()
		r.flush() // the notice stands below what the model said before; its failure is logged
		_ = r.emit(r.ctx, channel.ReplyTool, channel.Payload{Text: "The tool `" + e.Calls[0].Name + "` was not run: " + why + "."})
	}
	_ = r.emit(r.ctx, channel.ReplyTool, channel.Payload{Decided: &channel.Decided{
		ID: d.ID, Approved: d.Decision == "approve", Remember: d.Remember != "", By: d.By, Why: undecided[d.Reason],
	}})
}

// undecided says why no one has decided a question, by the reason that its event has.
var undecided = map[string]string{
	agent.ReasonTimeout: "no answer came in time", agent.ReasonUnattended: "this conversation has no approver", agent.ReasonEnded: "the turn has ended",
}

// retract removes the end of the text, unless it is in a block.
func (r *reply) retract(end string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text, ok := strings.CutSuffix(r.text.String(), end); ok && len(text) >= r.sent {
		r.text.Reset()
		r.text.WriteString(text)
	}
}

// flush sends what the model said before it calls a tool as a block: an answer that no one sees until all is over is no conversation.
func (r *reply) flush() {
	r.mu.Lock()
	text, upto := r.text.String()[r.sent:], r.text.Len()
	isBlank := strings.TrimSpace(text) == ""
	if !isBlank {
		r.sent = upto
	}
	r.mu.Unlock()
	if !isBlank {
		_ = r.emit(r.ctx, channel.ReplyBlock, channel.Payload{Text: text, Upto: upto}) // it is logged
	}
}

// rest returns the part of an answer that is in no block yet, and the length of the turn's text up to its end. answer is the output of this process.
func (r *reply) rest(answer string) (text string, upto int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.text.String()
	if r.past > 0 && r.past == len(all) { // the model has said nothing since the turn was resumed
		answer = ""
	}
	text = all[:r.past] + answer
	upto = len(text)
	if rest, ok := strings.CutPrefix(text, all[:r.sent]); ok {
		text, r.past, r.sent = rest, 0, 0
		r.text.Reset()
	}
	return text, upto
}

// ask puts a question to the conversation, or denies the call where no one there can be asked.
func (r *reply) ask(value json.RawMessage) {
	var q agent.Question
	if json.Unmarshal(value, &q) != nil {
		return
	}
	if r.turn.Context.ObserveOnly {
		r.deny(q.ID, "") // without a notice
		return
	}
	text, isText := q.Text()
	if !isText {
		r.deny(q.ID, "its arguments cannot be shown for approval, because they have bytes that are not text")
		return
	}
	arguments, short, _ := q.Shown()
	asked := &channel.Question{Turn: r.turn.ID, ID: q.ID, Tool: q.Tool, Arguments: arguments, Text: short}
	undelivered := "the question for approval could not be delivered"
	if !agent.FitsMessage(arguments) {
		asked.File = "arguments-" + q.ID + ".json"
		asked.Text = fmt.Sprintf("The agent wants to call the tool `%s` with the arguments in the file `%s` (%d characters).",
			q.Tool, asked.File, utf8.RuneCountInString(arguments))
		undelivered = "its arguments are too long for one message, and they could not be sent as a file for approval"
	}
	asked.Failed = func() { r.deny(q.ID, undelivered) }
	r.flush()
	if r.emit(r.ctx, channel.ReplyTool, channel.Payload{Text: text, Question: asked}) != nil {
		asked.Failed()
	}
}

// deny denies a question that no one can answer, for a reason that the model and the person get; "": no one is there.
func (r *reply) deny(id, why string) {
	r.mu.Lock()
	r.denied[id] = why
	r.mu.Unlock()
	err := r.agent.o.Answer(r.ctx, agent.Answer{Turn: r.turn.ID, ID: id, NoPerson: true, Reason: why, Role: tool.Admin})
	if err != nil && !errors.Is(err, agent.ErrAnswered) && !errors.Is(err, agent.ErrNoQuestion) {
		r.agent.log(r.ctx, r.turn, slog.LevelWarn, "cannot deny a call without an approver", slog.Any("error", err))
	}
}

// Decide implements [channel.Decider].
func (a *Agent) Decide(ctx context.Context, t *channel.Turn, p channel.Press) channel.Pressed {
	c := t.Context
	err := a.o.Answer(ctx, agent.Answer{
		Session: t.SessionKey, ID: p.ID, Approve: p.Approve, Remember: p.Remember, By: c.SenderID, Name: c.SenderName, Role: c.Role,
	})
	switch {
	case err == nil && p.Remember:
		return channel.PressRemembered
	case err == nil && p.Approve:
		return channel.PressApproved
	case err == nil:
		return channel.PressDenied
	case errors.Is(err, agent.ErrRole):
		return channel.PressTooLow
	case errors.Is(err, agent.ErrAnswered):
		return channel.PressOver
	case !errors.Is(err, agent.ErrNoQuestion):
		a.log(ctx, t, slog.LevelError, "button press failed", slog.Any("error", err))
	}
	return channel.PressUnknown
}

// emit hands a block to the sink. A sink that takes nothing any more, because the turn was canceled, is not worth a word.
func (r *reply) emit(ctx context.Context, kind channel.ReplyKind, p channel.Payload) error {
	err := r.turn.Sink.Emit(ctx, kind, p)
	if err != nil && ctx.Err() == nil {
		r.agent.log(ctx, r.turn, slog.LevelWarn, "block not delivered", slog.String("kind", string(kind)), slog.Any("error", err))
	}
	return err
}

func (a *Agent) log(ctx context.Context, t *channel.Turn, level slog.Level, what string, attrs ...slog.Attr) {
	a.o.Log.LogAttrs(ctx, level, what, append(attrs, slog.String("turn", t.ID), slog.String("session", t.SessionKey))...)
}

// Channels returns the channels that plugins of a framework bring, by [kernel.Provider], in the order in which the plugins were registered.
func Channels(f *turn.Framework) (list []kernel.Channel) {
	for _, p := range slices.Backward(turn.Implementers[kernel.Provider](f)) {
		list = append(list, p.Hook.Channels()...)
	}
	return list
}
