package adapter

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// step is one thing that a fake model does: wait, then yield, or fail.
type step struct {
	wait  time.Duration
	chunk Chunk
	err   error
}

func text(s string) Chunk { return Chunk{Text: s} }

// fake follows a script for each attempt; the last one is repeated.
type fake struct {
	scripts [][]step
	asked   []time.Duration // since start, of each attempt
	start   time.Time
	open    int
	// blind makes it hide the cause of its context in an error of its own, as HTTP libraries do.
	blind bool
}

func newFake(scripts ...[]step) *fake { return &fake{scripts: scripts, start: time.Now()} }

func (f *fake) Stream(ctx context.Context, _ Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		script := f.scripts[min(len(f.asked), len(f.scripts)-1)]
		f.asked = append(f.asked, time.Since(f.start))
		f.open++
		defer func() { f.open-- }()
		for _, s := range script {
			if err := backoff.Sleep(ctx, s.wait); err != nil {
				if f.blind {
					err = errors.New("request canceled")
				}
				yield(Chunk{}, err)
				return
			}
			if !yield(s.chunk, s.err) || s.err != nil {
				return
			}
		}
	}
}

// provider has one model for each name.
type provider map[string]Model

func (p provider) Model(name string) (Model, error) {
	if m := p[name]; m != nil {
		return m, nil
	}
	return nil, errors.New("there is no such model")
}

func (p provider) Names() []string {
	var names []string
	for name := range p {
		names = append(names, name)
	}
	return names
}

// collect reads a stream to its end.
func collect(stream iter.Seq2[Chunk, error]) (all string, err error) {
	for c, e := range stream {
		all += c.Text
		err = e
	}
	return all, err
}
