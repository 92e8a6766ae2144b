package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	var i *inference
	err := b.guard(func() (err error) {
		chunks, err := b.ask(ctx, m)
		if err != nil {
			return err
		}
		i = b.infer(cancel)
		return i.run(ctx, chunks)
	})
	if err == nil {
		err = b.guard(func() error { return b.finish(i.Response) })
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

// ask puts the question and returns the answer to come. It is a function of its own so that what only the question needs is not on
// the stack while the answer is read, for as long as that takes and for thousands of bots.
func (b *ChatBot) ask(ctx context.Context, m Message) (iter.Seq2[adapter.Chunk, error], error) {
	request, err := b.request(m)
	if err != nil {
		return nil, err
	}
	model, err := b.env.Models.Model(b.config.Model)
	if err != nil {
		if _, known := Describe(err); !known {
			err = &Failure{Code: CodeInvalid, Message: fmt.Sprintf("the model %q cannot be used", b.config.Model), Cause: err}
		}
		b.note(func(r *Response) { r.Model = b.config.Model })
		return nil, err
	}
	return model.Stream(ctx, request), nil
}

// infer begins an inference.
func (b *ChatBot) infer(cancel context.CancelCauseFunc) *inference {
	return &inference{Response: Response{Model: b.config.Model}, bot: b, out: newOutput(b), cancel: cancel}
}

// run reads the answer and sends what it says.
func (i *inference) run(ctx context.Context, chunks iter.Seq2[adapter.Chunk, error]) error {
	defer i.out.writes.close()
	defer i.stopTimer()
	return i.end(i.judge(ctx, i.listen(chunks)))
}

// end completes an answer, or says what it failed of.
func (i *inference) end(failure error) error {
	if failure == nil {
		failure = i.out.close()
		if errors.Is(failure, jsonuri.ErrNoDocument) && i.bot.byHand.Load() {
			failure = nil
		}
	}
	i.Repairs = i.out.repairs()
	if i.used {
		i.bot.sendUsage(i.Response)
	}
	if failure != nil {
		i.bot.note(func(r *Response) { *r = i.Response })
		return explain(failure, i.finish)
	}
	i.conclude()
	return nil
}

// inference is one answer as it comes.
type inference struct {
	Response
	bot    *ChatBot
	out    *output
	cancel context.CancelCauseFunc
	finish string
	used   bool        // the provider has said what was used
	rest   int         // bytes after the end of the document
	late   *time.Timer // runs since the end of the document
}

// listen reads the answer as far as it is of use.
func (i *inference) listen(chunks iter.Seq2[adapter.Chunk, error]) error {
	for chunk, err := range chunks {
		if err != nil {
			return err
		}
		if chunk.Model != "" {
			i.Model = chunk.Model
		}
		if chunk.Usage != nil {
			i.Usage, i.used = *chunk.Usage, true
		}
		if chunk.Finish != "" {
			i.finish = chunk.Finish
		}
		if chunk.Reasoning != "" {
			i.out.reason(chunk.Reasoning)
		}
		if chunk.Text != "" {
			if i.late != nil {
				if i.rest += len(chunk.Text); i.rest > maxRest {
					return nil
				}
			}
			if err := i.out.write(chunk.Text); err != nil {
				return err
			}
		}
		if i.out.failure != nil {
			return i.out.failure
		}
		if i.bot.byHand.Load() {
			return nil
		}
		if i.late == nil && i.out.mayStop() {
			if !i.out.complete() {
				return nil // nothing but white space comes
			}
			i.late = time.AfterFunc(maxRestTime, func() { i.cancel(errEnough) })
		}
	}
	return nil
}

func (i *inference) stopTimer() {
	if i.late != nil {
		i.late.Stop()
	}
}

// judge says whether the way in which the answer has ended is a failure.
func (i *inference) judge(ctx context.Context, failure error) error {
	cause := context.Cause(ctx)
	switch {
	case i.bot.byHand.Load(), failure != nil && errors.Is(cause, errEnough):
		return nil
	case failure != nil && i.bot.env.Context.Err() != nil:
		return cause // whatever the model made of it
	case failure == nil && i.finish == adapter.FinishContentFilter:
		return &Failure{Code: CodeOutputInvalid, Message: "the provider's content filter stopped the answer"}
	}
	return failure
}

// conclude completes an answer that is well, and reports what could be better.
func (i *inference) conclude() {
	b := i.bot
	i.Value = i.out.value()
	if i.finish == adapter.FinishLength {
		i.Truncated = true
		b.report(&Failure{
			Code: CodeOutputInvalid, Pointer: Pointer(string(i.out.last)),
			Message: "the answer was cut off where the model reached its limit of tokens",
		})
	}
	if b.config.Schema != nil && b.config.format() == JSON {
		for _, f := range validate(b.config.Schema, i.Value, Pointer(b.root)) {
			b.report(f)
		}
	}
	if b.config.NoValue {
		i.Value = nil
	}
}

// explain says what a parser's error means for users.
func explain(err error, finish string) error {
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
		return &Failure{
			Code: CodeOutputInvalid, Cause: err,
			Message: fmt.Sprintf("the model's output went over the limit of a %s, %d", e.Limit, e.Max),
		}
	}
	if e, ok := errors.AsType[*jsonuri.SyntaxError](err); ok {
		return &Failure{
			Code: CodeOutputInvalid, Cause: err, Retryable: true,
			Message: fmt.Sprintf("the model's output is not JSON at line %d, column %d", e.Line, e.Column),
		}
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
