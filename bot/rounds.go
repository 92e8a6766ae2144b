package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

const (
	// defaultRounds is how often a model is asked for one answer: one that has called tools this often goes round in circles.
	defaultRounds = 16
	// maxEchoResult is how much of a tool's result a model gets to read, in bytes; the run's readers get all of it.
	maxEchoResult = 64 << 10
)

// rounds asks the model, runs the tools that it calls, and asks again with what came of them, until it calls none. What it returns is
// the inference whose answer is the bot's.
func (b *ChatBot) rounds(ctx context.Context, cancel context.CancelCauseFunc, m Message) (*inference, error) {
	i := b.infer(cancel)
	i.out.thoughts, i.out.pause = b.thoughts, b.thoughts
	if b.config.Tools != nil {
		return b.toolRounds(ctx, i, cancel, m)
	}
	return i, i.run(ctx, m)
}

// toolRounds is rounds for a bot with tools, beginning with the inference i. It is a separate function because it takes much of the stack.
func (b *ChatBot) toolRounds(ctx context.Context, i *inference, cancel context.CancelCauseFunc, m Message) (*inference, error) {
	most := cmp.Or(max(b.config.ToolRounds, 0), defaultRounds)
	var kept *inference // of those before i, the last that has a document
	for round := 1; ; round++ {
		if i.last = round >= most; !i.last {
			i.tools = b.config.Tools.Tools()
		}
		err := i.run(ctx, m)
		if err != nil || !i.waiting {
			return i.or(kept, err)
		}
		if b.config.format() != Text && !i.without {
			kept = i
		}
		var cancel context.CancelCauseFunc
		ctx, cancel = b.renew()
		defer cancel(nil)
		results, err := i.answer(ctx)
		i = i.next(cancel, kept, results)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil { // the model is not asked any more
			return i.or(kept, i.complete(i.judge(ctx, err)))
		}
	}
}

// waits says whether the answer ends with calls that are to be run.
func (i *inference) waits() bool {
	return len(i.tools) > 0 && i.finish == adapter.FinishToolCalls && !i.bot.byHand.Load() && len(i.calls.pending()) > 0
}

// next begins the inference after this one. Text goes on where it was; every other document is a new one, which replaces
// the one before when it begins, and not before.
func (i *inference) next(cancel context.CancelCauseFunc, kept *inference, results []adapter.Message) *inference {
	next := i.bot.infer(cancel)
	next.after = append(i.after, results...)
	if i.bot.config.format() == Text {
		next.out, next.calls.out = i.out, i.out
	}
	next.out.thoughts, next.out.pause = i.out.thoughts, i.out.thoughts
	if kept != nil {
		next.out.begin = func() { next.out.clear(kept.Value) }
	}
	return next
}

// or returns the inference, with what it failed of, or the one before that has a document where this one has none.
func (i *inference) or(kept *inference, failure error) (*inference, error) {
	unmet := errors.Is(failure, errUnmet)
	if kept == nil || failure == nil && !i.without || failure != nil && !unmet && !noDocument(failure) {
		return i, failure
	}
	if unmet {
		i.bot.report(failure)
	}
	return kept, nil
}

// answer runs the calls of an answer and returns what the model gets of them: its own message, then a result for each.
func (i *inference) answer(ctx context.Context) ([]adapter.Message, error) {
	runner := i.bot.config.ToolRunner
	if runner == nil {
		runner = &tool.Runner{Log: i.bot.log, Redact: func(text string) string { return adapter.Redact(text) }}
	}
	pending := i.calls.pending()
	run := make([]tool.Call, len(pending))
	asked := adapter.Message{Role: adapter.Assistant, Content: shorten(i.said, maxEcho), ToolCalls: make([]adapter.ToolCall, len(pending))}
	seen := map[string]bool{}
	for n, c := range pending {
		id := c.id
		if id == "" || seen[id] { // results are matched by them
			id = "call_" + strconv.Itoa(c.number)
		}
		seen[id] = true
		run[n] = tool.Call{ID: id, Name: c.name, Arguments: c.arguments}
		asked.ToolCalls[n] = adapter.ToolCall{Index: n, ID: id, Name: c.name, Arguments: c.object()}
	}
	asked.Made = i.maker.Made(i.Model, func(index int) string {
		for n, c := range pending {
			if c.index == index {
				return run[n].ID
			}
		}
		return ""
	})
	messages := make([]adapter.Message, 1+len(run), 2+len(run))
	messages[0] = asked
	images := make([][]adapter.Part, len(run))
	for n, r := range runner.Run(ctx, i.tools, run) {
		messages[1+n] = adapter.Message{Role: adapter.ToolRole, ToolCallID: run[n].ID, Content: shorten([]byte(r.Text()), maxEchoResult)}
		for _, p := range r.Parts {
			if p.Image != "" || p.File != "" {
				images[n] = append(images[n], adapter.Part{Type: p.Type, Image: p.Image, File: p.File, Name: p.Name})
			}
		}
		if !i.calls.sendResult(pending[n], r) {
			return nil, i.out.failure
		}
	}
	// The message of a result takes no images and files, a user's does.
	user := adapter.Message{Role: adapter.User}
	for n, list := range images {
		if len(list) > 0 {
			user.Parts = append(user.Parts, adapter.Part{Type: "text", Text: "Images and files of the tool " + pending[n].name + ":"})
			user.Parts = append(user.Parts, list...)
		}
	}
	if len(user.Parts) > 0 {
		messages = append(messages, user)
	}
	return messages, nil
}

// object is the arguments of a call as a JSON object, which is what providers take in a history. A model that wrote something else
// gets to read that in the result.
func (c *call) object() string {
	if text := strings.TrimSpace(string(c.arguments)); strings.HasPrefix(text, "{") && isJSON([]byte(text)) {
		return text
	}
	return "{}"
}

// shorten cuts a text for a model, on the border of a character, and says so.
func shorten(text []byte, most int) string {
	if len(text) <= most {
		return string(text)
	}
	return wording.ClipTo(string(text), most) + fmt.Sprintf(" [cut off: %d bytes in all]", len(text))
}

// sendResult sends what came of a call, false where nothing more can be sent. What a turn's end has kept from running is not sent.
func (c *calls) sendResult(call *call, r tool.Result) bool {
	call.answered = true
	uri := c.uri("$tool_results", call.number)
	if r.Err != nil {
		if r.Err.Kind != tool.KindInterrupted {
			c.out.send(tube.Event{Kind: tube.Set, URI: uri, Value: null})
			c.out.bot.report(broken(call, r.Err))
		}
		return c.out.failure == nil
	}
	value := r.Value()
	if !c.out.admit(string(value)) {
		return false
	}
	if value[0] != '"' {
		c.out.send(tube.Event{Kind: tube.Set, URI: uri, Value: value})
		return c.out.failure == nil
	}
	var e escaper
	c.out.send(tube.Event{Kind: tube.Append, URI: uri, Value: e.close(e.append(nil, r.Text()))})
	return c.out.failure == nil
}

// brokenMessages tell users why a call has failed. The tool's own message is for the model and the log.
var brokenMessages = map[string]Failure{
	tool.KindUnknown:     {Code: CodeOutputInvalid, Message: "the model called an unknown tool"},
	tool.KindArguments:   {Code: CodeOutputInvalid, Message: "the model called a tool with invalid arguments"},
	tool.KindDenied:      {Code: CodeInternal, Message: "a tool was not allowed to run"},
	tool.KindTimeout:     {Code: CodeInternal, Message: "a tool took too long"},
	tool.KindUnavailable: {Code: adapter.CodeUnavailable, Message: "a tool is not available"},
}

func broken(call *call, err *tool.Error) *Failure {
	f, ok := brokenMessages[err.Kind]
	if !ok {
		f = Failure{Code: CodeInternal, Message: "a tool failed"}
	}
	f.Message += named(call)
	f.Cause = err
	return &f
}
