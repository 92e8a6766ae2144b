package turn

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
)

// runModel asks the model and reads its stream to the end. The turn's reader gets the events, and then one final event or the error. Without
// any output the prompt's text is the output.
func (t *Turn) runModel(ctx context.Context) error {
	stream, plugin, err := t.modelStream(ctx)
	if err != nil {
		return err
	}
	r := &reading{turn: t, ctx: ctx, plugin: plugin, sink: t.options.sink}
	err = r.read(stream)
	if err == nil && r.events == 0 {
		t.notify(ctx, StageModel, ErrNoOutput)
		text := t.result.Prompt.Text
		if len(t.result.Prompt.Parts) > 0 {
			text = t.result.Envelope.Content
		}
		err = r.read(textStream(text))
	}
	t.result.Output = r.output()
	if err != nil {
		t.result.Partial = true
		return &StageError{StageModel, plugin, err}
	}
	if r.last.Kind != FinalEvent {
		r.last = Event{Kind: FinalEvent, Final: &Final{OK: true, Text: r.output()}}
	}
	r.emit(r.last, nil)
	return nil
}

// modelStream returns the stream of the first plugin that accepts; one without events if none does. Of a plugin with both hooks the one
// of the caller's mode is used.
func (t *Turn) modelStream(ctx context.Context) (Stream, string, error) {
	o := &t.result.Outcome
	stream, plugin, ok, err := first(ctx, t, StageModel, func(plugin any) (Stream, bool, error) {
		runner, runs := plugin.(ModelRunner)
		if streamer, streams := plugin.(ModelStreamer); streams && (t.Streaming() || !runs) {
			stream, ok, err := streamer.RunModelStream(ctx, o.Prompt, o.Session, o.State)
			return stream, ok && stream != nil, err
		}
		if !runs {
			return nil, false, nil
		}
		text, ok, err := runner.RunModel(ctx, o.Prompt, o.Session, o.State)
		return textStream(text), ok, err
	})
	if !ok {
		stream = func(func(Event, error) bool) {}
	}
	return stream, plugin, err
}

// textStream is a complete answer as a stream.
func textStream(text string) Stream {
	return func(yield func(Event, error) bool) {
		if text == "" || yield(Text(text), nil) {
			yield(Event{Kind: FinalEvent, Final: &Final{OK: true, Text: text}}, nil)
		}
	}
}

// reading collects the output of the model's stream.
type reading struct {
	turn   *Turn
	ctx    context.Context
	plugin string
	sink   func(Event, error) // nil if the turn has no reader
	events int
	text   strings.Builder
	final  string
	last   Event
}

// output is the text so far: that of the text events or, without any, that of the final one.
func (r *reading) output() string {
	if r.text.Len() > 0 {
		return r.text.String()
	}
	return r.final
}

// read reads a stream to its end or its error. The end of the context, and a panic of the producer, are errors of the stream.
func (r *reading) read(stream Stream) (err error) {
	defer func() {
		if p := recover(); p != nil {
			panicked := r.turn.panicked(r.ctx, StageModel, r.plugin, p)
			if err == nil {
				r.emit(Event{}, panicked)
			}
			err = join(err, panicked)
		}
	}()
	for e, failed := range stream {
		if failed == nil && r.ctx.Err() != nil {
			failed = context.Cause(r.ctx)
		}
		if err = failed; err != nil {
			r.emit(Event{}, err)
			return err
		}
		r.add(e)
	}
	return nil
}

// add takes an event of the stream. A final event is only emitted if it is the last one.
func (r *reading) add(e Event) {
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
			r.turn.result.Usage.add(*e.Usage)
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
	if r.last = e; e.Kind != FinalEvent {
		r.emit(e, nil)
	}
}

// emit hands an event to the reader of the turn. A reader that panics gets no further events.
func (r *reading) emit(e Event, err error) {
	if r.sink == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.sink = nil
			r.turn.log(r.ctx, slog.LevelError, "panic in a turn's reader", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	r.sink(e, err)
}
