package bot

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
)

const (
	// defaultRounds is how often a model is asked for one answer: one that has called tools this often goes round in circles.
	defaultRounds = 16
	// maxEchoResult is how much of a tool's result a model gets to read, in bytes; the run's readers get all of it.
	maxEchoResult = 64 << 10
)

// offer gives the inference the tools, except in the last round, and behind an answer that did not fit.
func (i *inference) offer(round int) {
	c := &i.bot.config
	if c.Tools == nil || i.retried {
		return
	}
	if i.last = round >= cmp.Or(max(c.ToolRounds, 0), defaultRounds); !i.last {
		i.tools = c.Tools.Tools()
	}
}

// useTools runs the tools that the answer calls, and makes the inference that tells the model what came of them.
func (i *inference) useTools(ctx context.Context) (next *inference, failure error) {
	results, failure := i.answer(ctx)
	next = i.bot.infer(i)
	next.after = append(i.after, results...)
	return next, failure
}

// waits says whether the answer ends with calls that are to be run.
func (i *inference) waits() bool {
	return len(i.tools) > 0 && i.finish == adapter.FinishToolCalls && !i.bot.byHand.Load() && len(i.calls.pending()) > 0
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
	messages := make([]adapter.Message, 1+len(run))
	messages[0] = asked
	for n, r := range runner.Run(ctx, i.tools, run) {
		result := adapter.Message{Role: adapter.ToolRole, ToolCallID: run[n].ID, Content: shorten([]byte(r.Text()), maxEchoResult)}
		for _, p := range r.Parts {
			if p.Image != "" || p.File != "" {
				result.Parts = append(result.Parts, adapter.Part{Type: p.Type, Image: p.Image, File: p.File, Name: p.Name})
			}
		}
		messages[1+n] = result
		if err := i.calls.sendResult(pending[n], r); err != nil {
			return nil, err
		}
	}
	return adapter.MediaBehindResults(messages), nil
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

// sendResult sends what came of a call that the bot has run. What a turn's end has kept from running is not sent.
func (c *calls) sendResult(call *call, r tool.Result) error {
	switch {
	case r.Err != nil && r.Err.Kind == tool.KindInterrupted:
		call.answered = true
		return c.out.failure
	case r.Err != nil:
		return c.putResult(call, nil, broken(call, r.Err))
	}
	value := r.Value()
	if !c.out.admit(string(value)) {
		return c.out.failure
	}
	if value[0] == '"' {
		value = quote(r.Text())
	}
	return c.putResult(call, value, nil)
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
