package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/htmlpath"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// A model that goes on after its document is complete is listened to a little longer, since a good one still sends what it
// has used, and breaking off costs the connection. A bad one is cut off after this much text or time.
const (
	maxRest     = 256 // bytes
	maxRestTime = time.Second
	// maxRestThoughts holds where prose came before the document: both may be thoughts, and the answer's document stands behind them.
	maxRestThoughts = 64 << 10 // bytes
)

// run is the goroutine of a bot.
func (b *ChatBot) run(ctx context.Context, m Message) {
	ctx = b.trace(ctx)
	var i *inference
	err := b.guard(func() (err error) {
		i, err = b.ask(ctx, m)
		return i.end(err)
	})
	if err == nil {
		err = b.guard(func() error { return b.finish(i.Response) })
	}
	b.thoughts = b.thoughts || i != nil && i.out.thoughts
	b.endTrace(err)
	b.end(err)
}

// ask asks the model until an answer stays: again with what came of the tools that it calls, and once more where the answer does not fit.
// It returns the inference whose answer is the bot's.
func (b *ChatBot) ask(ctx context.Context, m Message) (*inference, error) {
	i := b.infer(nil)
	var failure error
	for round := 1; ; round++ {
		i.offer(round)
		failure = i.run(ctx, m, failure)
		if failure == nil && i.waiting {
			i, failure = i.useTools(ctx)
			continue
		}
		if i, failure = i.finalAnswer(failure); !i.worthRetry(failure) {
			return i, failure
		}
		i, failure = i.retry(failure), nil
	}
}

// infer makes the inference after previous, or the first one if that is nil. Text goes on where it was; every other document is a new one,
// which replaces the one before when it begins, and not before.
func (b *ChatBot) infer(previous *inference) *inference {
	i := &inference{bot: b}
	thoughts := b.thoughts
	if previous != nil {
		i.after, i.kept, i.retried, thoughts = previous.after, previous.kept, previous.retried, previous.out.thoughts
		if b.config.format() == Text {
			i.out = previous.out
		} else if previous.out.started {
			i.kept = previous
		}
	}
	if i.out == nil {
		i.out = newOutput(b)
		i.out.begin = b.onBegin(i.out, i.kept)
	}
	i.out.thoughts, i.out.pause = thoughts, thoughts
	i.calls.out = i.out
	return i
}

// onBegin returns the function that retracts the answer that out's document replaces; nil if there is no such answer.
func (b *ChatBot) onBegin(out *output, kept *inference) func() {
	again, left := b.chats > 1, b.left
	switch {
	case kept != nil:
		return func() { out.clear(kept.Value) }
	case again && left != nil:
		return func() { out.clear(left) }
	case again && b.root != "", !again && b.config.Instead:
		return out.replace
	}
	return nil
}

// finalAnswer returns the answer that stays, with its failure: this one, or the one before if this one wrote no document and the reason is not a
// failure of the chat.
func (i *inference) finalAnswer(failure error) (*inference, error) {
	unmet := errors.Is(failure, errUnmet)
	chatGoesOn := failure == nil || unmet || noDocument(failure) || i.retried
	if i.kept == nil || i.out.started || !chatGoesOn || i.bot.env.Context.Err() != nil {
		return i, failure
	}
	if failure != nil && (unmet || i.retried) {
		i.bot.report(explain(failure, i.finish))
	}
	i.kept.retried = i.retried
	return i.kept, nil
}

// guard calls f and makes a panic its error.
func (b *ChatBot) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(b.traced(b.env.Context), b.log, "bot "+b.name, p)
		}
	}()
	return f()
}

// finish tells everyone that a bot is well and done.
func (b *ChatBot) finish(answer Response) error {
	b.note(func(r *Response) { *r = answer })
	b.remember(answer)
	if err := b.To(InferenceDone); err != nil {
		return err
	}
	for _, call := range []func(Response){b.listener.InferenceDone, b.listener.Response} {
		if call != nil {
			call(answer)
		}
	}
	return b.To(Finished)
}

// end is the last thing that a bot does; err is nil where it has finished.
func (b *ChatBot) end(err error) {
	defer func() {
		b.mu.Lock()
		x := b.current
		x.err, x.ended = err, true
		b.mu.Unlock()
		close(x.done)
	}()
	if err == nil {
		return
	}
	b.left = nil
	b.guard(func() error { return b.Fail(err) })
	if b.listener.Error != nil {
		b.guard(func() error { b.listener.Error(err); return nil })
	}
}

// open puts the question and returns the answer to come. It is a separate function so that what only the question needs is not on
// the stack while the answer is read, for as long as that takes and for thousands of bots.
func (i *inference) open(ctx context.Context, m Message) (iter.Seq2[adapter.Chunk, error], error) {
	b := i.bot
	request, err := b.request(m)
	if err != nil {
		return nil, err
	}
	request.Messages = append(request.Messages, i.after...)
	for _, t := range i.tools {
		request.Tools = append(request.Tools, adapter.Tool{Name: t.Wire(), Description: t.Description, Parameters: t.Parameters()})
	}
	model, err := b.env.Models.Model(b.config.Model)
	if err != nil {
		if _, known := Describe(err); !known {
			err = &Failure{Code: CodeInvalid, Message: fmt.Sprintf("cannot use the model %q", b.config.Model), Cause: err}
		}
		return nil, err
	}
	return model.Stream(adapter.OnRetry(ctx, b.sendRetry), request), nil
}

// run asks the model, reads the answer and sends what it says. Nothing is asked where the chat has failed or ended already. What run returns
// is not yet explained: end does that.
func (i *inference) run(ctx context.Context, m Message, failure error) error {
	ctx, i.cancel = context.WithCancelCause(ctx)
	defer i.cancel(nil)
	if failure = cmp.Or(failure, context.Cause(ctx)); failure == nil {
		chunks, err := i.open(ctx, m)
		if err != nil {
			return err
		}
		defer func() { i.out.writes.close() }()
		defer i.stopTimer()
		failure = i.listen(chunks)
	}
	return i.complete(i.judge(ctx, failure))
}

// complete ends what was read.
func (i *inference) complete(failure error) error {
	if failure == nil {
		failure = i.close()
	}
	if i.answered {
		i.bot.sendUsage(i)
	}
	i.bot.note(i.addTo)
	if failure == nil {
		i.Truncated = i.finish == adapter.FinishLength
		i.Value = i.out.value()
		if schema := i.bot.config.Schema; schema != nil && !i.without && i.bot.config.format() == JSON {
			i.invalid = validate(schema, i.Value)
		}
	}
	return failure
}

// addTo adds what the inference took to what the bot's inferences took before.
func (i *inference) addTo(r *Response) {
	if i.answered {
		r.Model = i.Model
	}
	r.Usage.Add(i.Usage)
	r.Repairs = AddRepairs(r.Repairs, i.out.reader.Repairs())
}

// close ends the output of an answer that is well so far.
func (i *inference) close() error {
	if err := i.calls.close(); err != nil {
		return err
	}
	if i.waiting = i.waits(); i.waiting { // asked once: Finish may come at any time
		return i.hold()
	}
	unmet := i.unmet()
	if unmet != nil && i.bot.config.format() == Text && !i.out.wrote {
		return unmet
	}
	err := i.out.close()
	switch {
	case !noDocument(err):
		if err == nil && unmet != nil {
			i.bot.report(unmet)
		}
		return err
	case i.bot.byHand.Load():
		i.without = true
		return nil
	case unmet != nil:
		return unmet
	}
	return err
}

// hold ends the output of an answer that waits for tools. It needs no document.
func (i *inference) hold() error {
	if text, ok := i.out.reader.(*textReader); ok {
		text.hold()
		return i.out.failure
	}
	if err := i.out.close(); !noDocument(err) {
		return err
	}
	i.without = true
	return nil
}

// end makes an answer the bot's, or says what it failed of.
func (i *inference) end(failure error) error {
	total := i.bot.Response()
	i.Usage, i.Repairs = total.Usage, total.Repairs
	if i.Model == "" {
		i.Model = total.Model
	}
	if failure == nil && i.bot.config.OnInvalid.Fails() && !i.fits() {
		failure = i.misfit()
	}
	if failure != nil {
		i.bot.note(func(r *Response) { *r = i.Response })
		return explain(failure, i.finish)
	}
	if i.out.held && !i.without {
		if err := i.out.emitValues(i.Value); err != nil {
			return err
		}
	}
	i.conclude()
	return nil
}

// inference is one answer as it comes.
type inference struct {
	Response
	bot      *ChatBot
	out      *output
	calls    calls
	cancel   context.CancelCauseFunc
	after    []adapter.Message // what follows the question: calls, results, what was wrong with an answer
	kept     *inference        // the answer before that has a document
	retried  bool              // the answer before did not fit
	tools    []*tool.Tool      // that are offered
	last     bool              // of the rounds with tools: it offers none
	waiting  bool              // it has ended with calls that are to be run
	finish   string
	answered bool        // something has come
	used     bool        // the provider has said what was used
	invalid  []violation // of the schema
	without  bool        // it has no document: it was ended by hand before one began, or waits for tools
	maker    adapter.Maker
	said     []byte      // the beginning of the text, if the model may get it back
	over     bool        // the document has ended
	rest     int         // bytes after its end
	late     *time.Timer // runs since the end of the document
}

// make keeps what the model's provider wants to have back with the calls.
func (i *inference) make(c adapter.Chunk) {
	if len(i.said) > maxEcho {
		c.Text = ""
	}
	if c.Beside != nil && !i.out.admit(string(c.Beside.Data)) {
		return
	}
	i.maker.Take(&c)
}

// listen reads the answer as far as it is of use.
func (i *inference) listen(chunks iter.Seq2[adapter.Chunk, error]) error {
	for chunk, err := range chunks {
		if err != nil {
			return err
		}
		if !i.answered {
			i.answered, i.Model = true, i.bot.config.Model
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
		if chunk.Restart {
			if err := i.restart(); err != nil {
				return err
			}
		}
		if chunk.Reasoning != "" {
			i.out.reason(chunk.Reasoning)
		}
		if len(i.tools) > 0 { // it may be for the next round
			i.make(chunk)
		}
		if chunk.Text != "" {
			if i.over {
				if i.rest += len(chunk.Text); i.rest > maxRest && (!i.out.preamble || i.rest > maxRestThoughts) {
					return nil
				}
			}
			if err := i.out.write(chunk.Text); err != nil {
				return err
			}
			switch {
			case len(i.tools) > 0: // it may be what the model says before it calls one
				if len(i.said) <= maxEcho {
					i.said = append(i.said, chunk.Text...)
				}
			case !i.out.wrote && len(i.said) <= maxEchoText: // no document has begun
				i.said = append(i.said, chunk.Text[:min(len(chunk.Text), maxEchoText+1)]...)
			}
		}
		if chunk.Citation != nil || chunk.Media != nil {
			if err := i.sendExtras(&chunk); err != nil {
				return err
			}
		}
		if chunk.ToolCall != nil || chunk.ToolResult != nil {
			if err := i.calls.addPart(chunk.ToolCall, chunk.ToolResult); err != nil {
				return err
			}
		}
		if i.out.failure != nil {
			return i.out.failure
		}
		if i.bot.byHand.Load() {
			return nil
		}
		if !i.over && len(i.tools) == 0 && i.out.reader.MayStop() { // calls may come behind a document
			if !i.out.reader.Complete() {
				return nil // nothing but white space comes
			}
			if i.over = true; !i.out.preamble {
				i.late = time.AfterFunc(maxRestTime, func() { i.cancel(errEnough) })
			}
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
		return cause // regardless of what the model did
	case failure == nil && i.finish == adapter.FinishContentFilter:
		return &Failure{Code: CodeOutputInvalid, Filtered: true, Message: "the provider's content filter stopped the answer"}
	case failure == nil && i.finish == adapter.FinishRefusal && i.bot.config.format() != Text:
		return i.refusal()
	}
	return failure
}

// refusal is the error of an answer that the model refuses, with its words.
func (i *inference) refusal() *Failure {
	f := &Failure{Code: CodeOutputRefused, Message: "the model refused to answer"}
	if said := strings.TrimSpace(string(i.said)); said != "" && i.bot.config.format() != Text { // else it is the answer's text already
		f.Message += ": " + strings.ToValidUTF8(said[:min(len(said), maxEchoText)], "")
	}
	return f
}

// truncatedMessage is the message for an answer that was cut off.
const truncatedMessage = "the answer is incomplete, because the model reached its token limit"

// conclude completes an answer that is well, and reports what could be better.
func (i *inference) conclude() {
	b := i.bot
	switch {
	case i.Truncated && !i.fits():
		f := i.misfit()
		f.Pointer = Pointer(string(i.out.last))
		b.report(f)
	case i.Truncated:
		b.report(&Failure{Code: CodeOutputInvalid, Pointer: Pointer(string(i.out.last)), Message: truncatedMessage})
	}
	if i.finish == adapter.FinishRefusal {
		b.report(i.refusal())
	}
	for _, v := range i.invalid {
		if !i.Truncated || v.Unchecked {
			b.report(v.failure(b.root))
		}
	}
	if b.config.NoValue {
		i.Value = nil
	}
}

// noDocument says that an answer holds nothing of what was asked for.
func noDocument(err error) bool {
	return errors.Is(err, jsonuri.ErrNoDocument) || errors.Is(err, htmlpath.ErrNoDocument)
}

// explain says what a parser's error means for users.
func explain(err error, finish string) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	switch {
	case noDocument(err):
		message := "the model's output contains no JSON document"
		if errors.Is(err, htmlpath.ErrNoDocument) {
			message = "the model's output contains no HTML"
		}
		if finish == adapter.FinishLength {
			message += ": it reached its token limit first"
		}
		return &Failure{Code: CodeOutputInvalid, Message: message, Retryable: true, Cause: err}
	case errors.Is(err, tube.ErrEnded):
		return ErrOver
	}
	if _, ok := errors.AsType[*jsonuri.LimitError](err); ok { // of either parser
		return &Failure{Code: CodeOutputInvalid, Message: "the model's output exceeds a limit: " + err.Error(), Cause: err}
	}
	if e, ok := errors.AsType[*jsonuri.SyntaxError](err); ok {
		return &Failure{
			Code: CodeOutputInvalid, Cause: err, Retryable: true,
			Message: fmt.Sprintf("the model's output is not valid JSON at line %d, column %d", e.Line, e.Column),
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

// sendRetry reports that the bot pauses before it asks its model once more.
func (b *ChatBot) sendRetry(r adapter.Retry) {
	b.sendNamed("retrying", struct {
		Bot string `json:"bot"`
		adapter.Retry
	}{b.name, r})
}

// sendUsage says which model has answered and, where its provider has counted, what that took.
func (b *ChatBot) sendUsage(i *inference) {
	var counts *adapter.Usage
	if i.used {
		counts = &i.Usage
	}
	b.sendNamed("usage", UsageData{b.name, i.Model, counts})
}

// UsageData is the data of a "usage" event; Usage is nil where the provider has not counted.
type UsageData struct {
	Bot   string `json:"bot"`
	Model string `json:"model"`
	*adapter.Usage
}

// sendNamed sends an event about the bot, which clients do not see if the bot is quiet.
func (b *ChatBot) sendNamed(name string, data any) {
	// A run that has ended takes no more.
	_, _ = b.env.Tube.Send(tube.Event{Kind: tube.Named, Name: name, Value: rawjson.MustMarshal(data), Hidden: b.config.Quiet})
}
