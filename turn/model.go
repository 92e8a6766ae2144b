package turn

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
)

// runModel asks the model and reads what it says to the end, for callers who stream and for those who do not.
func (t *Turn) runModel(ctx context.Context) error {
	r := &reading{turn: t, ctx: ctx}
	var err error
	if r.stream, r.plugin, err = t.ask(ctx); err != nil {
		return err
	}
	for e, err := range t.handedOn(ctx, r) {
		if t.options.sink != nil {
			t.hand(ctx, e, err)
		}
	}
	t.outcome.Output = r.output()
	if r.err != nil {
		t.outcome.Partial = true
		return &StageError{StageModel, r.plugin, r.err}
	}
	return nil
}

// ask returns the stream of the first plugin that accepts; one without events where none does. Of a plugin with both hooks the one
// of the caller's mode is used.
func (t *Turn) ask(ctx context.Context) (Stream, string, error) {
	o := &t.outcome
	stream, plugin, ok, err := first(ctx, t, StageModel, func(plugin any) (Stream, bool, error) {
		runner, runs := plugin.(ModelRunner)
		if streamer, streams := plugin.(ModelStreamer); streams && (t.options.streaming || !runs) {
			stream, ok, err := streamer.RunModelStream(ctx, o.Prompt, o.Session, o.State)
			return stream, ok && stream != nil, err
		}
		if !runs {
			return nil, false, nil
		}
		text, ok, err := runner.RunModel(ctx, o.Prompt, o.Session, o.State)
		return textStream(text), ok, err
	})
	if !ok && err == nil {
		stream = func(func(Event, error) bool) {}
	}
	return stream, plugin, err
}

// textStream is a whole answer as a stream.
func textStream(text string) Stream {
	return func(yield func(Event, error) bool) {
		if text == "" || yield(Text(text), nil) {
			yield(Event{Kind: FinalEvent, Final: &Final{OK: true, Text: text}}, nil)
		}
	}
}

// reading is the model's stream as it is read, and what came of it.
type reading struct {
	turn   *Turn
	ctx    context.Context
	stream Stream
	plugin string
	events int
	text   strings.Builder
	final  string
	err    error
}

// output is the text so far: that of the text events or, where there was none, that of the final one.
func (r *reading) output() string {
	if r.text.Len() > 0 {
		return r.text.String()
	}
	return r.final
}

// collect reads the model's stream and passes it on. What is collected here no wrapper can change. The end of the context, and a
// panic of its producer, are errors of the stream.
func (r *reading) collect(yield func(Event, error) bool) {
	left := false
	defer func() {
		if p := recover(); p != nil {
			err := r.turn.panicked(r.ctx, StageModel, r.plugin, p)
			r.err = join(r.err, err)
			if !left {
				yield(Event{}, err)
			}
		}
	}()
	for e, err := range r.stream {
		if err == nil && r.ctx.Err() != nil {
			err = context.Cause(r.ctx)
		}
		if err != nil {
			r.err, left = err, true
			yield(Event{}, err)
			return
		}
		r.record(&e)
		if !yield(e, nil) {
			left = true
			return
		}
	}
}

func (r *reading) record(e *Event) {
	r.events++
	switch e.Kind {
	case TextEvent:
		r.text.WriteString(e.Delta)
	case RetractEvent:
		text := strings.TrimSuffix(r.text.String(), e.Delta)
		r.text.Reset()
		r.text.WriteString(text)
	case UsageEvent:
		if e.Usage != nil {
			r.turn.outcome.Usage.add(*e.Usage)
		}
	case ErrorEvent:
		if e.Err == nil {
			e.Err = &EventError{Code: CodeInternal, Message: "the model stage reported an error"}
		}
		r.turn.notify(r.ctx, StageModel, e.Err)
	case FinalEvent:
		if e.Final == nil {
			e.Final = &Final{OK: true}
		}
		r.final = e.Final.Text
	}
}

// answered is the collected stream and, where it has no event at all, the prompt's text in its place.
func (r *reading) answered(yield func(Event, error) bool) {
	for e, err := range r.collect {
		if !yield(e, err) {
			return
		}
	}
	if r.events > 0 || r.err != nil {
		return
	}
	r.turn.notify(r.ctx, StageModel, ErrNoOutput)
	text := r.turn.outcome.Prompt.Text
	if len(r.turn.outcome.Prompt.Parts) > 0 {
		text = r.turn.outcome.Envelope.Content
	}
	for e, err := range textStream(text) {
		r.record(&e)
		if !yield(e, err) {
			return
		}
	}
}

// hand sends an event to the reader of the turn. One that panics gets no further events.
func (t *Turn) hand(ctx context.Context, e Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.options.sink = nil
			t.log(ctx, slog.LevelError, "panic in a turn's reader", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	t.options.sink(e, err)
}
