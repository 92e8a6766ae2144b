package adapter

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// chain asks its models one after the other until one answers.
type chain struct {
	names  []string
	models []Model
}

// Stream passes on the answer of the first model that begins one. Once something was passed on, there is no other.
func (c *chain) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		var failed []error
		for i, m := range c.models {
			passed, err := pass(m.Stream(ctx, req), yield)
			switch {
			case err == nil:
				return
			case passed || ctx.Err() != nil:
				yield(Chunk{}, err)
				return
			}
			failed = append(failed, fmt.Errorf("%s: %w", c.names[i], err))
			if i < len(c.models)-1 {
				continue
			}
			e := *asError(err)
			e.Message = fmt.Sprintf("none of the %d models answered; the last one: %s", len(c.models), e.Message)
			e.Cause = errors.Join(append(failed, e.Cause)...)
			yield(Chunk{}, &e)
		}
	}
}

// pass hands on a stream's chunks, but not its error.
func pass(stream iter.Seq2[Chunk, error], yield func(Chunk, error) bool) (passed bool, err error) {
	for chunk, err := range stream {
		if err != nil {
			return passed, err
		}
		passed = true
		if !yield(chunk, nil) {
			return true, nil
		}
	}
	return passed, nil
}
