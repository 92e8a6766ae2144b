package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// A model that goes on after its document is complete is listened to a little longer, since a good one still sends what it
// has used, and breaking off costs the connection. A bad one is cut off after this much text or time.
const (
	maxRest     = 256 // bytes
	maxRestTime = time.Second
)

// run is the goroutine of a bot.
func (b *ChatBot) run(ctx context.Context, cancel context.CancelCauseFunc, m Message) {
	var answer Response
	err := b.guard(func() error {
		request, err := b.request(m)
		if err != nil {
			return err
		}
		answer, err = b.infer(ctx, cancel, request)
		return err
	})
	if err == nil {
		err = b.guard(func() error { return b.finish(answer) })
	}
	b.end(err)
}

// guard calls f and makes a panic its error.
func (b *ChatBot) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(b.log, "bot "+b.name, p)
		}
	}()
	return f()
}

// finish tells everyone that a bot is well and done.
func (b *ChatBot) finish(answer Response) error {
	b.note(func(r *Response) { *r = answer })
	if err := b.To(InferenceDone); err != nil {
		return err
	}
	for _, l := range b.listeners {
		if l.InferenceDone != nil {
			l.InferenceDone(answer)
		}
	}
	for _, l := range b.listeners {
		if l.Response != nil {
			l.Response(answer)
		}
	}
	return b.To(Finished)
}

// end is the last thing that a bot does; err is nil where it has finished.
func (b *ChatBot) end(err error) {
	defer close(b.done)
	if err == nil {
		return
	}
	b.guard(func() error { return b.Fail(err) })
	for _, l := range b.listeners {
		if l.Error != nil {
			b.guard(func() error { l.Error(err); return nil })
		}
	}
}

// infer asks the model and sends what it says.
func (b *ChatBot) infer(ctx context.Context, cancel context.CancelCauseFunc, request adapter.Request) (Response, error) {
	answer := Response{Model: b.config.Model}
	model, err := b.env.Models.Model(b.config.Model)
	if err != nil {
		if _, known := Describe(err); !known {
			err = &Failure{Code: CodeInvalid, Message: fmt.Sprintf("the model %q cannot be used", b.config.Model), Cause: err}
		}
		return answer, err
	}
	out := newOutput(b)
	defer out.writes.close()
	var (
		finish  string
		used    bool
		failure error
		rest    int // bytes after the end of the document
		late    *time.Timer
	)
	for chunk, err := range model.Stream(ctx, request) {
		if err != nil {
			failure = err
			break
		}
		if chunk.Model != "" {
			answer.Model = chunk.Model
		}
		if chunk.Usage != nil {
			answer.Usage, used = *chunk.Usage, true
		}
		if chunk.Finish != "" {
			finish = chunk.Finish
		}
		if chunk.Reasoning != "" {
			out.reason(chunk.Reasoning)
		}
		if chunk.Text != "" {
			if late != nil {
				if rest += len(chunk.Text); rest > maxRest {
					break
				}
			}
			if failure = out.write(chunk.Text); failure != nil {
				break
			}
		}
		if failure = out.failure; failure != nil || b.byHand.Load() {
			break
		}
		if late == nil && out.mayStop() {
			if !out.complete() {
				break // nothing but white space comes
			}
			late = time.AfterFunc(maxRestTime, func() { cancel(errEnough) })
			defer late.Stop()
		}
	}
	if cause := context.Cause(ctx); b.byHand.Load() || failure != nil && errors.Is(cause, errEnough) {
		failure = nil
	} else if failure != nil && cause != nil && b.env.Context.Err() != nil {
		failure = cause // whatever the model made of it
	}
	if failure == nil && finish == adapter.FinishContentFilter {
		failure = &Failure{Code: CodeOutputInvalid, Message: "the provider's content filter stopped the answer"}
	}
	if failure == nil {
		failure = out.close()
		if errors.Is(failure, jsonuri.ErrNoDocument) && b.byHand.Load() {
			failure = nil
		}
	}
	answer.Repairs = out.repairs()
	if used {
		b.sendUsage(answer)
	}
	if failure != nil {
		b.note(func(r *Response) { *r = answer })
		return answer, b.explain(failure, finish)
	}
	answer.Value = out.value()
	if finish == adapter.FinishLength {
		answer.Truncated = true
		b.report(&Failure{Code: CodeOutputInvalid, Message: "the answer was cut off where the model reached its limit of tokens",
			Pointer: Pointer(string(out.last))})
	}
	if b.config.Schema != nil && b.config.format() == JSON {
		for _, f := range validate(b.config.Schema, answer.Value, Pointer(b.root)) {
			b.report(f)
		}
	}
	if b.config.NoValue {
		answer.Value = nil
	}
	return answer, nil
}

// explain says what a parser's error means for users.
func (b *ChatBot) explain(err error, finish string) error {
	switch {
	case errors.Is(err, jsonuri.ErrNoDocument):
		message := "the model's output holds no JSON document"
		if finish == adapter.FinishLength {
			message += ": it reached its limit of tokens before one began"
		}
		return &Failure{Code: CodeOutputInvalid, Message: message, Retryable: true, Cause: err}
	case errors.Is(err, tube.ErrEnded):
		return ErrOver
	}
	if e, ok := errors.AsType[*jsonuri.LimitError](err); ok {
		return &Failure{Code: CodeOutputInvalid, Cause: err,
			Message: fmt.Sprintf("the model's output went over the limit of a %s, %d", e.Limit, e.Max)}
	}
	if e, ok := errors.AsType[*jsonuri.SyntaxError](err); ok {
		return &Failure{Code: CodeOutputInvalid, Cause: err, Retryable: true,
			Message: fmt.Sprintf("the model's output is not JSON at line %d, column %d", e.Line, e.Column)}
	}
	return err
}

// report tells of what does not end the bot.
func (b *ChatBot) report(err error) {
	if b.env.Report != nil {
		b.env.Report(b, err)
	}
}

// sendUsage sends what an inference has used.
func (b *ChatBot) sendUsage(answer Response) {
	data, err := json.Marshal(struct {
		Bot   string `json:"bot"`
		Model string `json:"model"`
		adapter.Usage
	}{b.name, answer.Model, answer.Usage})
	if err != nil {
		return // strings and numbers: cannot be
	}
	b.env.Tube.Send(tube.Event{Kind: tube.Named, Name: "usage", Value: data, Hidden: b.config.Quiet})
}
