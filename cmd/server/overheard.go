package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/textview"
)

// overheard are models of which say is told what their servers said when they failed. It is for a terminal: whoever sits there operates the
// server, and may read more than its callers do.
type overheard struct {
	bot.Models
	say func(model, words string)
}

// Model implements [bot.Models].
func (o overheard) Model(name string) (adapter.Model, error) {
	m, err := o.Models.Model(name)
	if err != nil {
		return nil, err
	}
	return overheardModel{m, name, o.say}, nil
}

type overheardModel struct {
	adapter.Model
	name string
	say  func(model, words string)
}

func (m overheardModel) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for chunk, err := range m.Model.Stream(ctx, req) {
			if words := serverWords(err); words != "" && ctx.Err() == nil {
				m.say(m.name, words)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// serverWords is what the model's server, or the network, said about an error, on one line and without secrets; "" where it said nothing.
func serverWords(err error) string {
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok || e.Cause == nil {
		return ""
	}
	words := strings.Join(strings.Fields(textview.Clean(adapter.Redact(e.Cause.Error()))), " ")
	if strings.Contains(e.Message, words) {
		return "" // it is our own sentence
	}
	return words
}

// words are what models' servers said during a run, each once.
type words struct {
	mu   sync.Mutex
	list []string
}

func (w *words) add(model, said string) {
	line := model + ": " + said
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.list {
		if known == line {
			return
		}
	}
	if len(w.list) < maxProblems {
		w.list = append(w.list, line)
	}
}

func (w *words) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list
}
