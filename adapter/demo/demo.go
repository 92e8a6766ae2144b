// Package demo is a scripted, deterministic model that needs no network and no account. Every answer says that it is scripted.
//
// The script knows one article ("Why is the sky blue?"). Its other answers are:
//   - for a JSON Schema, a document that fits it;
//   - for a prompt with an example of JSON, the same shape with other text;
//   - for other JSON, {"answer": …};
//   - for a prompt that asks for an HTML document, page or fragment, a page in a code fence, as models write it;
//   - otherwise, some sentences that repeat the question.
//
// It calls the tools that the user's last message names: by all words of a tool's name in order, or by a word that no other tool has
// in its name ("What time is it?" calls the tool time, or clock.time). Arguments fit the tool's schema. Strings are texts in quotes or
// after a preposition ("weather in Rome"); numbers are those of the message. It calls at most three tools at once and each tool once
// per question, and then reports their results.
//
// The same request always gets the same answer. One answer, the outline of an article, has an extra comma, as models write it, to
// show the repair.
package demo

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/backoff"
)

// defaultPace is typical for a real model, in tokens per second.
const defaultPace = 50

// Models of the provider.
const (
	Paced = "demo" // writes at the pace of a real model
	Fast  = "fast" // the same without pauses
)

// Options are the settings of the demo model.
type Options struct {
	Pace float64 // tokens per second, default 50; negative: as fast as it can
}

// Provider provides the demo models. It is safe for concurrent use.
type Provider struct{ pace float64 }

// New returns the provider of the models "demo", the default, and "fast". o may be nil.
func New(o *Options) *Provider {
	if o == nil || o.Pace == 0 {
		return &Provider{defaultPace}
	}
	return &Provider{o.Pace}
}

// Model returns the model "demo" or "fast"; "" is "demo".
func (p *Provider) Model(name string) (adapter.Model, error) {
	switch name {
	case "", Paced:
		return &model{Paced, p.pace}, nil
	case Fast:
		return &model{Fast, -1}, nil
	}
	return nil, fmt.Errorf("the demo has no model %q; it has demo and fast", name)
}

// Names lists the models.
func (p *Provider) Names() []string { return []string{Paced, Fast} }

// model implements [adapter.Model].
type model struct {
	name string
	pace float64 // tokens per second; negative: no pauses
}

// Stream answers the request. Tool calls come without pauses.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		answer := reply(&req)
		answer[0].Model = "demo:" + m.name
		start, sent := time.Now(), 0
		for _, chunk := range answer {
			if m.pace > 0 {
				// Pauses count from the start, so that a late token does not delay the rest.
				due := start.Add(time.Duration(float64(sent) * float64(time.Second) / m.pace))
				_ = backoff.Sleep(ctx, time.Until(due))
			}
			if err := context.Cause(ctx); err != nil {
				yield(adapter.Chunk{}, err)
				return
			}
			if !yield(chunk, nil) {
				return
			}
			if chunk.Text != "" {
				sent++
			}
		}
	}
}

// token matches a token: four characters, typical for English text.
var token = regexp.MustCompile(`(?s).{1,4}`)

func countTokens(text string) int { return (utf8.RuneCountInString(text) + 3) / 4 }

// reply answers a request, token by token.
func reply(req *adapter.Request) (answer []adapter.Chunk) {
	p := readPrompt(req)
	finish, calls := adapter.FinishStop, p.callTools(req.Tools)
	for i, call := range calls {
		finish = adapter.FinishToolCalls
		for _, arguments := range token.FindAllString(call.Arguments, -1) {
			answer = append(answer, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: call.ID, Name: call.Name, Arguments: arguments}})
			call.ID, call.Name = "", ""
		}
	}
	if len(calls) == 0 {
		tokens := token.FindAllString(p.text(), -1)
		if limit := req.MaxTokens; limit != nil && 0 < *limit && *limit < len(tokens) {
			tokens, finish = tokens[:*limit], adapter.FinishLength
		}
		for _, text := range tokens {
			answer = append(answer, adapter.Chunk{Text: text})
		}
	}
	used := len(answer)
	usage := &adapter.Usage{PromptTokens: p.tokens, CompletionTokens: used, TotalTokens: p.tokens + used}
	return append(answer, adapter.Chunk{Usage: usage, Finish: finish})
}
