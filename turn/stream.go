package turn

import (
	"context"
	"errors"
	"iter"
)

// errLeftEarly is the error for observers if a wrapper stops before its stream has ended.
var errLeftEarly = errors.New("turn: the wrapper stopped before the end of the stream")

// handedOn is the stream as it leaves the pipeline: with one final event at its end, or an error; in a streaming turn through
// the router.
func (t *Turn) handedOn(ctx context.Context, r *reading) Stream {
	stream := finished(r.answered, r.output)
	if t.plugins.router == nil || !t.options.streaming {
		return stream
	}
	// The text of a final event that is added above the wrapper would tell what the wrapper may have taken out.
	return finished(t.wrapped(ctx, stream), func() string { return "" })
}

// finished passes on a stream, of the final events only one that is the last. It adds a missing one, with the text.
func finished(stream Stream, text func() string) Stream {
	return func(yield func(Event, error) bool) {
		var final Event
		held := false
		for e, err := range stream {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if held = e.Kind == FinalEvent; held {
				final = e
			} else if !yield(e, nil) {
				return
			}
		}
		if !held {
			final = Event{Kind: FinalEvent, Final: &Final{OK: true, Text: text()}}
		}
		yield(final, nil)
	}
}

// wrapped reads a stream through the router's wrapper, and without it from where that fails. Nothing of the stream is lost but
// what the wrapper took, and its error neither.
func (t *Turn) wrapped(ctx context.Context, stream Stream) Stream {
	return func(yield func(Event, error) bool) {
		next, stop := iter.Pull2(stream)
		defer stop()
		var ended bool   // the stream has
		var failed error // the stream with this
		source := func(yield func(Event, error) bool) {
			for !ended {
				e, err, ok := next()
				ended, failed = !ok || err != nil, err
				if !ok || !yield(e, err) {
					return
				}
			}
		}
		left := false // the reader has
		err := t.through(ctx, source, func(e Event) bool {
			left = !yield(e, nil)
			return !left
		})
		if left {
			return
		}
		if failed != nil && errors.Is(err, failed) { // the wrapper has passed it on
			yield(Event{}, err)
			return
		}
		if err != nil {
			t.notify(ctx, StageWrap, err)
		}
		if failed != nil {
			yield(Event{}, failed)
			return
		}
		for e, rest := range source {
			if err == nil { // it left without a word, and there is more
				err = errLeftEarly
				t.notify(ctx, StageWrap, err)
			}
			if !yield(e, rest) {
				return
			}
		}
	}
}

// through loops over the router's wrapper of a stream until put has enough. It returns what the wrapper failed of: an error of its
// own, or a panic.
func (t *Turn) through(ctx context.Context, source Stream, put func(Event) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.panicked(ctx, StageWrap, "", p)
		}
	}()
	stream := t.plugins.router.WrapStream(ctx, t.outcome.Envelope, source)
	if stream == nil { // it does not want to
		stream = source
	}
	for e, err := range stream {
		if err != nil || !put(e) {
			return err
		}
	}
	return nil
}
