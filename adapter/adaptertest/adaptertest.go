// Package adaptertest is the test that every adapter passes. It holds them to what package adapter promises, whatever their
// provider's wire format: the stand-in of internal/fakeproviders speaks each format, and so one script is a test of all of them.
//
// An adapter describes itself by a [Subject], and runs everything:
//
//	var subject = adaptertest.Subject{
//		Prefix: "openai",
//		New:    func(t testing.TB, o adaptertest.Options) adapter.Provider { … },
//		Wire:   adaptertest.Wire{ContentType: "text/event-stream", Text: func(text string) string { … }, … },
//	}
//
//	func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }
//
// What only one wire format can do is tested beside its adapter; [Recorded] and [Fuzz] are the means for that.
package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// Key is the key that every provider under test is given. It must never be seen but in a request's header.
const Key = "sk-CANARY-0123456789abcdef"

// Options are what a provider under test is made of. What is zero is left to the adapter's defaults.
type Options struct {
	BaseURL   string // scheme and host of the server: an adapter whose base URLs have a path adds it
	Key       string
	Transport http.RoundTripper
	MaxEvent  int // bytes of one event or line
}

// Wire writes pieces of a provider's stream by hand, for what no well-behaved server sends. Open, any number of Text and
// Reasoning, Finish and Done are, in this order, a whole answer.
type Wire struct {
	ContentType string                   // of a stream
	Open        string                   // what comes before content; it is no token
	Text        func(text string) string // an event of text; of an empty one too
	Inside      func(raw string) string  // an event of text with these bytes between the quotes; nil puts them into the bytes of Text
	Reasoning   func(text string) string // nil with NoReasoning
	Finish      string                   // what says that the answer is complete: what comes after it can be missed
	Done        string                   // what marks the end of the stream after that, if anything does
	Ping        string                   // bytes that mean nothing; "" where the format has none
	Error       string                   // an event that reports a failure in mid-stream; it may have Key in its words
	ErrorCode   string                   // that it is to become; default [adapter.CodeUnavailable]
}

// Subject is an adapter under test.
type Subject struct {
	Prefix  string
	Model   string // of its models, one to ask; default "m"
	KeyName string // that errors about keys name; "" where the provider wants no key
	New     func(t testing.TB, o Options) adapter.Provider
	Wire    Wire

	// What the provider's wire cannot say.
	NoReasoning     bool
	NoTools         bool
	NoUsage         bool
	NoLength        bool // a finish reason "length"
	NoContentFilter bool // a finish reason "content_filter"
	OwnToolIDs      bool // calls have no ids on the wire: the adapter makes them
}

// Run holds an adapter to all that adapters promise.
func Run(t *testing.T, s Subject) {
	if s.Model == "" {
		s.Model = "m"
	}
	if s.Wire.ErrorCode == "" {
		s.Wire.ErrorCode = adapter.CodeUnavailable
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"answers", testAnswers},
		{"requests", testRequests},
		{"finish reasons", testFinish},
		{"behaviours", testBehaviours},
		{"a slow reader is not the provider's fault (AD-07)", testSlowReader},
		{"refusals", testRefusals},
		{"words of the provider (AD-06, SE-06)", testWords},
		{"a key is not known by its looks (SE-06)", testKeys},
		{"printing shows no key (SE-06)", testPrinting},
		{"an answer cut off anywhere is no answer (AD-02, FT-06, FT-07, FT-08)", testCuts},
		{"an answer is the same however it arrives (FT-15)", testPieces},
		{"an answer that was damaged (FT-09)", testDamaged},
		{"huge events (FT-12)", testHuge},
		{"many streams at once", testMany},
		{"connecting has a limit of its own (AD-07, FT-03)", testConnect},
		{"a server that cannot be reached (FT-03)", testUnreachable},
		{"redirects are not followed (SE-01)", testRedirects},
		{"TLS is verified (SE-24)", testTLS},
		{"connections are used again (AD-09)", testConnections},
		{"a post on a dying connection is repeated (FT-16)", testDying},
		{"an answer that comes before the request was read (FT-17)", testEarlyAnswer},
		{"the list of models", testList},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, s) })
	}
}

// Any holds any provider to what can be seen without a script: its model answers a question of a few words, with usage. It is
// for those that have no server of their own to be scripted. open is called for each test; name is "provider:model".
func Any(t *testing.T, name string, open func(t testing.TB) adapter.Provider) {
	prefix, model, _ := strings.Cut(name, ":")
	for _, part := range []struct {
		name string
		run  func(*testing.T, string, func(testing.TB) adapter.Model)
	}{
		{"a whole answer (AD-01)", testWhole},
		{"leaving the loop and ending the context end it (AD-01)", testLeaving},
		{"answers at once are not mixed up", testAtOnce},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.run(t, name, func(t testing.TB) adapter.Model { return guarded(t, prefix, model, open(t), nil) })
		})
	}
}

// host is where the stand-in is in this process; it must not be seen in an error.
const host = "model.test"

// provider returns the adapter's provider at a stand-in in this process.
func (s *Subject) provider(t testing.TB, up *fakeproviders.Server) adapter.Provider {
	t.Helper()
	return s.New(t, Options{BaseURL: "http://" + host, Key: Key, Transport: up.Transport()})
}

// bare returns its model, without what the server puts around it.
func (s *Subject) bare(t testing.TB, o Options) adapter.Model {
	t.Helper()
	if o.BaseURL == "" {
		o.BaseURL = "http://" + host
	}
	if o.Key == "" {
		o.Key = Key
	}
	m, err := s.New(t, o).Model(s.Model)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// guarded returns a model with the time limits and retries that the server puts around it.
func guarded(t testing.TB, prefix, model string, p adapter.Provider, r *adapter.Registry) adapter.Model {
	t.Helper()
	if r == nil {
		r = &adapter.Registry{}
	}
	r.Register(prefix, p)
	m, err := r.Model(prefix + ":" + model)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// question is what is asked where it does not matter.
func question() adapter.Request {
	return adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "Why is the sky blue?"}}}
}

// heard is what a reader has got of an answer.
type heard struct {
	Text, Reasoning string
	Calls           []adapter.ToolCall // joined
	Results         []adapter.ToolResult
	Usage           adapter.Usage
	Finish          string
	Model           string
	chunks          int
	err             error
}

// hear reads a stream, holding it to what is true of each. A nil more reads on to the end; where it is false the loop is left.
func hear(t testing.TB, ctx context.Context, stream iter.Seq2[adapter.Chunk, error], more func(heard) bool) heard {
	t.Helper()
	var h heard
	for c, err := range stream {
		switch {
		case h.err != nil:
			t.Errorf("something after the error: %+v %v", c, err)
		case err != nil:
			if c != (adapter.Chunk{}) {
				t.Errorf("a chunk beside an error: %+v", c)
			}
			h.err = err
			checkError(t, ctx, err)
			continue
		}
		if h.Finish != "" {
			t.Errorf("a chunk after the one with the finish: %+v", c)
		}
		if h.chunks == 0 {
			h.Model = c.Model
		} else if c.Model != "" {
			t.Errorf("the model in chunk %d", h.chunks)
		}
		h.take(t, c)
		if more != nil && !more(h) {
			return h
		}
	}
	if h.err == nil && h.Finish == "" {
		t.Error("an answer without a finish")
	}
	return h
}

// take adds a chunk to what was heard.
func (h *heard) take(t testing.TB, c adapter.Chunk) {
	t.Helper()
	h.chunks++
	h.Text += c.Text
	h.Reasoning += c.Reasoning
	h.Finish = c.Finish
	if !utf8.ValidString(c.Text) || !utf8.ValidString(c.Reasoning) {
		t.Errorf("half a character: %q %q", c.Reasoning, c.Text)
	}
	if c.Usage != nil {
		h.Usage = *c.Usage
	}
	if c.ToolResult != nil {
		h.Results = append(h.Results, *c.ToolResult)
	}
	part := c.ToolCall
	if part == nil {
		return
	}
	switch {
	case part.Index == len(h.Calls):
		h.Calls = append(h.Calls, adapter.ToolCall{Index: part.Index})
	case part.Index < 0 || part.Index > len(h.Calls):
		t.Errorf("a part of call %d of %d", part.Index, len(h.Calls))
		return
	}
	call := &h.Calls[part.Index]
	call.ID += part.ID
	call.Name += part.Name
	call.Arguments += part.Arguments
}

// checkError holds an error to what is true of each (AD-06, SE-06).
func checkError(t testing.TB, ctx context.Context, err error) {
	t.Helper()
	noSecret(t, err)
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok {
		if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("neither an error of package adapter nor the context's cause: %T %v", err, err)
		}
		return
	}
	said := e.Message
	if said == "" || len(said) > 400 || strings.ContainsAny(said, "\r\n<{") || strings.Contains(said, "://") || strings.Contains(said, words) {
		t.Errorf("unfit for a user: %q", said)
	}
	if strings.ToLower(said[:min(1, len(said))]) != said[:min(1, len(said))] {
		t.Errorf("not in small letters: %q", said)
	}
	if e.Code == "" || e.Cause == nil {
		t.Errorf("an error without a code or a cause: %+v", e)
	}
}

// noSecret looks for the key in all that an error says, and for an address in what users see of it (SE-06).
func noSecret(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if said := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(said, "CANARY") {
		t.Errorf("the key is in %s", said)
	}
	if e, ok := err.(*adapter.Error); ok && (strings.Contains(e.Message, host) || strings.Contains(e.Message, "127.0.0.1")) {
		t.Errorf("an address is in %s", e.Message)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		noSecret(t, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			noSecret(t, inner)
		}
	}
}

// always is a script that gives one answer.
func always(a fakeproviders.Answer) func(fakeproviders.Request) fakeproviders.Answer {
	return func(fakeproviders.Request) fakeproviders.Answer { return a }
}

// repeat is n steps of the same kind.
func repeat(n int, r fakeproviders.Raw) []fakeproviders.Raw {
	all := make([]fakeproviders.Raw, n)
	for i := range all {
		all[i] = r
	}
	return all
}
