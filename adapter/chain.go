package adapter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
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
			passed, err := pass(m.Stream(OrElse(ctx, c.names[i+1:]...), req), yield)
			switch {
			case err == nil:
				return
			case passed || ctx.Err() != nil:
				yield(Chunk{}, err)
				return
			}
			failed = append(failed, err)
		}
		yield(Chunk{}, c.none(failed))
	}
}

// maxTold is how many models of a chain are told of, and how long what is said of each can be, in bytes.
const (
	maxTold = 8
	maxSaid = 200
)

// none makes the error of a chain of which no model has answered. It says of each why. As for what to do about it, it is the last
// one that is worth another attempt, or else the last.
func (c *chain) none(failed []error) *Error {
	said := make([]string, 0, len(failed))
	causes := make([]error, len(failed))
	var of *Error
	for i, err := range failed {
		e := asError(err)
		if of == nil || e.Retryable || !of.Retryable {
			of = e
		}
		if i < maxTold {
			said = append(said, c.names[i]+": "+cut(e.Message, maxSaid))
		}
		causes[i] = fmt.Errorf("%s: %w", c.names[i], err)
		if e.Cause != nil {
			causes[i] = fmt.Errorf("%w (%v)", causes[i], e.Cause)
		}
	}
	if more := len(failed) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	e := *of
	e.Message = fmt.Sprintf("none of the %d models answered: %s", len(failed), strings.Join(said, "; "))
	e.Cause = errors.Join(causes...)
	return &e
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
