package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// ask makes the model call of a step, a second time behind an anchor where the context does not fit. A reply that is cut off is
// on the tape when it returns.
func (r *run) ask(last bool) (*reply, error) {
	for {
		if err := r.steer(); err != nil {
			return nil, err
		}
		req, err := r.request(last)
		if err != nil {
			return nil, err
		}
		if n := req.Tokens(); r.exceedsLimit(&req, n) {
			if err := r.autoHandoff(anchorLimit, map[string]any{"reason": "context_limit", "tokens": n, "limit": r.agent.options.MaxContext}); err != nil {
				return nil, err
			}
			continue
		}
		rep, err := r.call(req)
		if err == nil {
			return rep, nil
		}
		if r.ctx.Err() == nil && !rep.shown() && overflows(err) {
			if r.handoffs == maxAutoHandoffRetries {
				return nil, errors.Join(r.cutOff(rep, ErrTooLong), fmt.Errorf("%w: %w", ErrTooLong, err))
			}
			r.handoffs++
			if err := r.autoHandoff(anchorOverflow, overflowState(err)); err != nil {
				return nil, err
			}
			continue
		}
		return nil, errors.Join(r.cutOff(rep, err), err)
	}
}

// call asks the models: see [adapter.Chain].
func (r *run) call(req adapter.Request) (*reply, error) {
	answer := r.beforeModel(&req)
	rep := &reply{most: r.agent.options.MaxReply}
	r.before, r.gap = r.paragraphs, ""
	defer func() {
		if p := recover(); p != nil { // what was said until then stays; the pipeline makes an error of the rest
			r.left = true
			_ = r.cutOff(rep, errPanic)
			panic(p)
		}
	}()
	if answer != nil {
		return rep, r.read(rep, answer.chunks)
	}
	chain := adapter.NewChain(r.models, r.agent.options.Models.Model)
	chain.WholeCalls = true
	chain.Failed = adapter.LogFailed(r.agent.log, slog.String("session", string(r.session)), slog.String("turn", r.id))
	return rep, r.read(rep, chain.Stream(r.emitRetries(r.ctx), req))
}

// emitRetries returns a context for a request to a model: the turn's reader gets an event before each pause of the request.
func (r *run) emitRetries(ctx context.Context) context.Context {
	return adapter.OnRetry(ctx, func(retry adapter.Retry) {
		value := encode(struct {
			Bot string `json:"bot"`
			adapter.Retry
		}{r.agent.options.Name, retry})
		r.emit(turn.Event{Kind: RetryingEvent, Value: value})
	})
}

var errPanic = errors.New("agent: a model has broken down")

// read reads an answer and hands it on as it comes.
func (r *run) read(rep *reply, chunks func(func(adapter.Chunk, error) bool)) error {
	for c, err := range chunks {
		if err != nil {
			return err
		}
		if c.Restart {
			// What was the text of this step so far are thoughts.
			r.emit(turn.Event{Kind: turn.RetractEvent, Delta: r.gap + string(rep.text)})
			r.emit(turn.Event{Kind: turn.ReasoningEvent, Delta: string(rep.text)})
			r.paragraphs, r.gap = r.before, ""
		}
		complete, err := rep.add(&c)
		if err != nil {
			return err
		}
		if c.Text != "" {
			gap := r.add(r.steps, c.Text)
			r.gap += gap
			r.emit(turn.Text(gap + c.Text))
		}
		if c.Reasoning != "" {
			r.emit(turn.Event{Kind: turn.ReasoningEvent, Delta: c.Reasoning})
		}
		r.addExtras(rep, &c)
		for _, call := range rep.calls {
			if call == complete || c.ToolResult != nil && call.made != nil {
				r.announceCall(rep, call)
			}
		}
		if r.left {
			return errLeft
		}
	}
	if rep.finish == "" {
		return &adapter.Error{Code: adapter.CodeProtocol, Message: "the model's answer ended too early"}
	}
	for _, c := range rep.calls {
		r.announceCall(rep, c)
	}
	r.count(rep)
	if rep.finish == adapter.FinishRefusal {
		r.emit(turn.Event{Kind: turn.ErrorEvent, Err: &turn.EventError{Code: turn.CodeRefused, Message: "the model refused to answer"}})
	}
	if r.left {
		return errLeft
	}
	return nil
}

// chunks yields what a hook has answered as a model would.
func (answer *Reply) chunks(yield func(adapter.Chunk, error) bool) {
	yield(adapter.Chunk{Model: answer.Model, Text: answer.Text, Finish: adapter.FinishStop}, nil)
}

// announceCall hands on a call that is complete, with the result where the model's server has made it itself.
func (r *run) announceCall(rep *reply, c *replyCall) {
	if !c.announced {
		c.announced = true
		// Every call needs a unique id, by which its result is found.
		taken := func(id string) bool {
			return id == "" || slices.ContainsFunc(rep.calls, func(o *replyCall) bool { return o != c && o.id == id })
		}
		for n := c.index; taken(c.id); n++ {
			c.id = fmt.Sprintf("call_%d_%d", r.steps, n)
		}
		r.emit(turn.Event{Kind: turn.ToolCallEvent, Calls: []tool.Call{c.call()}})
	}
	if c.made != nil && !c.answered {
		c.answered = true
		r.emit(turn.Event{Kind: turn.ToolResultEvent, Results: []tool.Result{c.result()}})
	}
}

// call is the call as tools are called, and as an event of it has it: arguments that are no JSON are text.
func (c *replyCall) call() tool.Call {
	arguments := json.RawMessage(bytes.TrimSpace(c.arguments))
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return tool.Call{ID: c.id, Name: c.name, Arguments: arguments}
}

// openCalls returns the calls that the model's server has not made itself.
func openCalls(calls []*replyCall) (open []tool.Call) {
	for _, c := range calls {
		if c.made == nil {
			open = append(open, c.call())
		}
	}
	return open
}

// result is what the model's server made of a call.
func (c *replyCall) result() tool.Result {
	if c.failed {
		return tool.Result{ID: c.id, Name: c.name, Err: &tool.Error{Kind: tool.KindFailed, Message: "a tool of the model's server failed"}}
	}
	res := tool.Text(*c.made)
	res.ID, res.Name = c.id, c.name
	return res
}

// count tells what a model call took.
func (r *run) count(rep *reply) {
	if rep.usage == nil {
		return
	}
	u := turn.Usage{Model: rep.model, Usage: *rep.usage}
	r.usage.Add(u.Usage)
	rep.usage = nil // once
	r.emit(turn.Event{Kind: turn.UsageEvent, Usage: &u})
}

// cutOff stores the part of a reply that ended with an error: the calls that the reader has seen get error results.
func (r *run) cutOff(rep *reply, failure error) error {
	r.count(rep)
	if r.handedOver() {
		return nil
	}
	var shown []*replyCall
	for _, c := range rep.calls {
		if c.announced {
			shown = append(shown, c)
		}
	}
	open := openCalls(shown)
	entries := append(replyEntries(string(rep.text), string(rep.reasoning), shown), rep.extraEntries()...)
	for i, e := range entries {
		entries[i] = e.With(tape.Meta{Partial: true})
	}
	if len(open) > 0 {
		entries = append(entries, r.failCalls(open, tool.KindInterrupted, "the answer was cut off before the tool ran"))
	}
	if !r.left && r.ctx.Err() == nil {
		if len(entries) == 0 {
			entries = append(entries, r.refusal(failure))
		} else {
			entries = append(entries, errorEntry(failure))
		}
	}
	return r.append(entries...)
}

// failCalls sends the reader the errors of calls that are not run, and returns their entry.
func (r *run) failCalls(calls []tool.Call, kind, message string) tape.Entry {
	ids, results := make([]string, len(calls)), make([]any, len(calls))
	for i, c := range calls {
		res := tool.Result{ID: c.ID, Name: c.Name, Err: &tool.Error{Kind: kind, Message: message}}
		r.emit(turn.Event{Kind: turn.ToolResultEvent, Results: []tool.Result{res}})
		ids[i], results[i] = c.ID, res.Value()
	}
	return tape.NewToolResult(ids, results...)
}

// refusal is errorEntry of a call that has no reply. Where it failed of what the model was asked, the next one is not asked that again.
func (r *run) refusal(failure error) tape.Entry {
	kind, message := describe(failure)
	e, ok := errors.AsType[*adapter.Error](failure)
	switch {
	case errors.Is(failure, ErrTooLong), ok && e.Filtered:
		return tape.NewRefusal(kind, message, false)
	case ok && e.Refused:
		return tape.NewRefusal(kind, message, r.withMedia)
	}
	return tape.NewError(kind, message)
}

// errorEntry says on the tape what went wrong: its code, and what of its text may be read.
func errorEntry(err error) tape.Entry { return tape.NewError(describe(err)) }

func describe(err error) (kind, message string) {
	kind, message = turn.CodeInternal, "something went wrong"
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		kind, message = e.Code, e.Message
	} else if c, ok := errors.AsType[turn.Coded](err); ok {
		kind, message = c.ErrorCode(), strings.TrimPrefix(strings.TrimPrefix(c.Error(), "agent: "), "turn: ")
	}
	return kind, wording.ClipChars(adapter.Redact(message), maxErrorText)
}

// maxErrorText is how much of an error's text lies on a tape, in characters; with the ellipsis behind it these are 500.
const maxErrorText = 499

// replyEntries returns the entries of what a model has said: what it thought, the calls that its server has made itself with their results,
// and the text, with the calls that are to be made.
func replyEntries(text, reasoning string, calls []*replyCall) (entries []tape.Entry) {
	if reasoning != "" {
		entries = append(entries, tape.NewReasoning(reasoning))
	}
	var made, open []tape.Call
	var ids []string
	var results []any
	for _, c := range calls {
		call := tape.Call{ID: c.id, Function: tape.FunctionCall{Name: c.name, Arguments: string(c.call().Arguments)}}
		if c.made == nil {
			open = append(open, call)
			continue
		}
		made = append(made, call)
		ids = append(ids, c.id)
		results = append(results, c.result().Value())
	}
	if len(made) > 0 {
		entries = append(entries, tape.NewToolCall("", made...), tape.NewToolResult(ids, results...))
	}
	switch {
	case len(open) > 0:
		entries = append(entries, tape.NewToolCall(text, open...))
	case text != "":
		entries = append(entries, tape.NewMessage(adapter.Assistant, text))
	}
	return entries
}

// step does what a reply asks for; more says that the model is to read what came of it.
func (r *run) step(rep *reply, last bool) (more bool, err error) {
	calls := openCalls(rep.calls)
	said := Reply{Text: string(rep.text), Reasoning: string(rep.reasoning), Calls: calls, Finish: rep.finish, Model: rep.model}
	r.afterModel(&said)
	r.text, r.finish = said.Text, rep.finish
	entries := replyEntries(said.Text, said.Reasoning, rep.calls)
	if said.Text == string(rep.text) { // else it is not what the model made
		entries = rep.keep(entries)
	}
	entries = append(entries, rep.extraEntries()...)
	if len(calls) == 0 {
		return false, r.append(append(entries, r.stepEntry(rep, StatusOK))...)
	}
	if last {
		entries = append(entries, r.failCalls(calls, tool.KindDenied, "the turn reached its limit of tool calls"),
			r.stepEntry(rep, StatusError), errorEntry(ErrMaxSteps))
		return false, cmp.Or(r.append(entries...), ErrMaxSteps)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i := range entries {
		entries[i].Date = now
	}
	if err := r.append(entries...); err != nil {
		return false, err
	}
	for i := range calls {
		calls[i].Key, calls[i].Asked = r.callKey(i), now
	}
	return true, r.finishStep(rep, r.tools(), calls)
}

// finishStep runs the calls of a step and writes its end.
func (r *run) finishStep(rep *reply, tools []*tool.Tool, calls []tool.Call) error {
	if err := r.runTools(tools, calls); err != nil {
		return err
	}
	if err := r.writeHandoff(); err != nil {
		return err
	}
	return r.append(r.stepEntry(rep, StatusOK))
}

// stepEntry is the event that ends a step.
func (r *run) stepEntry(rep *reply, status string) tape.Entry {
	data := stepped{Step: r.steps, Status: status}
	if rep != nil {
		data.Model, data.Finish = rep.model, rep.finish
	}
	if r.usage != (adapter.Usage{}) {
		data.Usage = &r.usage
	}
	return tape.NewEvent(entryStep, data)
}

// runTools runs the calls of a step. Each result is on the tape before the reader gets it. If the reader leaves or the turn ends, the
// calls are ended, and their results written all the same.
func (r *run) runTools(tools []*tool.Tool, calls []tool.Call) (err error) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(context.Canceled)
	for i, res := range r.runner().Run(context.WithValue(ctx, runKey{}, r), tools, calls) {
		if res.Err != nil {
			if r.handedOver() && (res.Err.Kind == tool.KindInterrupted || res.Err.Kind == tool.KindDenied) {
				continue // it did not end: the other process runs or denies it
			}
			if r.asks[calls[i].Key] != "" && res.Err.Kind == tool.KindDenied {
				res.Err = unknownOutcome()
			}
		}
		shown, failure := r.writeResult(res)
		if failure != nil {
			err = errors.Join(err, failure)
			cancel(failure)
		}
		r.emit(turn.Event{Kind: turn.ToolResultEvent, Results: []tool.Result{shown}})
	}
	return err
}

// runner returns what runs the calls of a step.
func (r *run) runner() *tool.Runner {
	a := r.agent
	approval := cmp.Or(a.options.ApprovalTimeout, tool.DefaultApprovalTimeout)
	if r.turn.Envelope().Run == "" { // a question must not hold up a chat for a day
		approval = min(approval, tool.DefaultApprovalTimeout)
	}
	return &tool.Runner{
		Timeout: a.options.ToolTimeout, ApprovalTimeout: approval, Log: a.log,
		Redact: func(s string) string { return adapter.Redact(s) },
		Before: a.beforeTool, After: a.afterTool, Approve: a.approve,
		NeedsApproval: func(t *tool.Tool, c tool.Call) bool { return r.asks[c.Key] != "" || a.needsApproval(t) },
	}
}

// emitFromTool sends an event of the tool that runs in ctx to the reader of the turn's stream.
func (r *run) emitFromTool(ctx context.Context, e turn.Event) {
	tool.Interrupt(ctx, func() {
		if e.Usage != nil { // of a subagent
			r.usage.Add(e.Usage.Usage)
		}
		r.emit(e)
	})
}

// writeResult puts a result on the tape. It returns it as the reader gets it: what was too large for the tape is for him, too.
func (r *run) writeResult(res tool.Result) (tool.Result, error) {
	value, kept := r.spill(res)
	meta := tape.Meta{Spill: kept, SearchHidden: res.Name == "tape.search"}
	err := r.appendAlways(tape.NewToolResult([]string{res.ID}, value).With(meta))
	if errors.Is(err, tape.ErrTooLarge) { // of parts that are small each
		res = tool.Result{ID: res.ID, Name: res.Name, Err: &tool.Error{Kind: tool.KindFailed, Message: "the result is too large to store"}}
		return res, r.appendAlways(tape.NewToolResult([]string{res.ID}, res.Value()))
	}
	if len(kept) > 0 || len(value) < len(res.Content) {
		res = tool.Result{ID: res.ID, Name: res.Name, Content: value}
	}
	return res, err
}
