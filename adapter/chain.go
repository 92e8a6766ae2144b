package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
)

// Chain asks its models one after the other until one answers. This is the one rule for when another model is asked, of workflows and agents:
//   - The next model is asked where one has failed and nothing of its answer was shown: no text, no thought, no call. What it failed of does
//     not matter (see [Replaceable] for the exceptions): its server is away, overloaded, has refused the key or the request, does not know the
//     model, its filter has stopped the answer, the request is too long for it, the answer was cut off.
//   - An answer that says nothing but thoughts, or not even that, and which ends as if it were complete, is a failure, too. A [Registry]'s models
//     have tried once more by then, where no thought was shown.
//   - Once something but thoughts was shown, there is no other: two answers would be mixed.
//   - What answers took that others take the place of is in the usage of the one that is passed on.
type Chain struct {
	// Failed is called for each model that the next one replaces; it may be nil.
	Failed func(ctx context.Context, name, next string, err error)
	// WholeCalls says that who reads shows a call when it is complete: the pieces of the first one are held back until then.
	WholeCalls bool

	links []link
}

// link is a model of a chain, or the error of one that cannot be asked.
type link struct {
	name  string
	model Model
	err   error
}

// NewChain makes a chain of the models with these names, one at least. find finds a model; one that is not found fails when its turn comes.
func NewChain(names []string, find func(name string) (Model, error)) *Chain {
	c := &Chain{links: make([]link, len(names))}
	for i, name := range names {
		c.links[i].name = name
		c.links[i].model, c.links[i].err = find(name)
	}
	return c
}

// Replaceable says whether another model may answer where one has failed with err before anything was shown. It may not where the request
// itself is wrong, as we have found out without a server, or where we have no memory for an answer.
func Replaceable(err error) bool {
	switch e := AsError(err); e.Code {
	case CodeInvalid:
		return e.ContextLength || e.OfModel || e.Status != 0
	case CodeTooLarge:
		return false
	}
	return true
}

// ErrEmpty is the cause of the error of an answer that says nothing.
var ErrEmpty = errors.New("no text, no thought and no call")

// empty is the error of an answer that says nothing, which ended as finish says.
func empty(finish string, retryable bool) *Error {
	e := &Error{Code: CodeProtocol, Message: "the model's answer was empty", Retryable: retryable, Cause: ErrEmpty}
	if finish == FinishLength {
		e.Retryable = false
		e.Message = "the model's answer reached its limit of tokens before it said anything: raise max_tokens, or let the model think less"
	}
	return e
}

// Stream passes on the answer of the first model that begins one.
func (c *Chain) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		var failed []error
		h := held{wholeCalls: c.WholeCalls, yield: yield}
		for i, l := range c.links {
			last := i == len(c.links)-1
			h.begin(l.name)
			err := l.err
			if err == nil {
				err = h.pass(l.model.Stream(context.WithValue(ctx, orElse{}, c.links[i+1:]), req))
			}
			if err == nil {
				return
			}
			if h.shown && !(errors.Is(err, ErrEmpty) && !h.said && !last) || ctx.Err() != nil || !Replaceable(err) {
				h.fail(err)
				return
			}
			failed = append(failed, err)
			if !last && c.Failed != nil {
				c.Failed(ctx, l.name, c.links[i+1].name, err)
			}
		}
		h.fail(c.none(failed))
	}
}

// maxTold bounds how many models of a chain an error names, and the bytes of each one's error.
const (
	maxTold = 8
	maxSaid = 200
)

// none makes the error of a chain of which no model has answered. It has the errors of all. As for what to do about it, it is the last
// one that is worth another attempt; or else one for which the request was too long, since a shorter one may be answered; or else the last.
func (c *Chain) none(failed []error) error {
	if len(failed) == 1 {
		return failed[0]
	}
	said := make([]string, 0, len(failed))
	causes := make([]error, len(failed))
	var of *Error
	for i, err := range failed {
		e := AsError(err)
		if of == nil || e.Retryable || !of.Retryable && !(of.ContextLength && !e.ContextLength) {
			of = e
		}
		if i < maxTold {
			said = append(said, c.links[i].name+": "+cut(e.Message, maxSaid))
		}
		causes[i] = fmt.Errorf("%s: %w", c.links[i].name, err)
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

// LogFailed returns a [Chain]'s Failed that writes a line, with what the provider said. attrs are added to it.
func LogFailed(log *slog.Logger, attrs ...slog.Attr) func(context.Context, string, string, error) {
	return func(ctx context.Context, name, next string, err error) {
		log.LogAttrs(ctx, slog.LevelWarn, "model failed; asking the next one",
			append(attrs[:len(attrs):len(attrs)], slog.String("model", name), slog.String("next", next), slog.String("error", Explain(err)))...)
	}
}

// maxHeld is how many chunks of an answer are held back at most, and maxHeldCall how many pieces of a call. What shows nothing is a few chunks; a
// call that is longer is no longer taken back.
const (
	maxHeld     = 64
	maxHeldCall = 4096
)

// held holds back what comes of an answer before anything of it is shown, so that another answer can take its place.
type held struct {
	yield      func(Chunk, error) bool
	left       bool // the reader has left, and gets nothing more
	wholeCalls bool
	name       string // of the model, for an answer that does not say it
	chunks     []Chunk
	shown      bool
	said       bool // more than thoughts was shown, or is held back
	call       int  // the first call, from 1
	finish     string
	usage      Usage // of this answer
	spent      Usage // of those before it
}

// begin begins another answer.
func (h *held) begin(name string) {
	h.spent.Add(h.usage)
	*h = held{yield: h.yield, wholeCalls: h.wholeCalls, name: name, chunks: h.chunks[:0], spent: h.spent}
}

// pass passes on an answer from where something is shown.
func (h *held) pass(stream iter.Seq2[Chunk, error]) error {
	for chunk, err := range stream {
		if err != nil {
			return err
		}
		if h.forward(&chunk); h.left {
			return nil
		}
	}
	return h.end(false)
}

// forward passes on a chunk behind what is held, or holds it.
func (h *held) forward(c *Chunk) {
	h.said = h.said && !c.Restart || c.hasContent()
	if (!h.shown || c.Usage != nil || c.Finish != "") && !h.add(c) { // most chunks have nothing that must be stored
		return
	}
	if len(h.chunks) > 0 {
		h.flush()
	}
	h.send(c, nil)
}

func (h *held) send(c *Chunk, err error) {
	if !h.left {
		h.left = !h.yield(*c, err)
	}
}

// end ends an answer that is complete. It is an error, retryable or not, if it says nothing.
func (h *held) end(retryable bool) error {
	if !h.said && (h.finish == FinishStop || h.finish == FinishLength) { // as if it were complete
		return empty(h.finish, retryable)
	}
	h.flush()
	return nil
}

// hasContent reports whether a chunk has more than reasoning.
func (c *Chunk) hasContent() bool {
	return strings.TrimSpace(c.Text) != "" || c.ToolCall != nil || c.ToolResult != nil || c.Citation != nil || c.Media != nil
}

// add holds a chunk, or reports that it may be passed on now, after what is held.
func (h *held) add(c *Chunk) (pass bool) {
	if c.Usage != nil {
		h.usage = *c.Usage
		if h.spent != (Usage{}) {
			u := h.usage
			u.Add(h.spent)
			c.Usage = &u
		}
	}
	if c.Finish != "" {
		h.finish = c.Finish
	}
	if h.shown {
		return true
	}
	if c.Model == "" && len(h.chunks) == 0 {
		c.Model = h.name
	}
	h.name = cmp.Or(c.Model, h.name)
	most := maxHeld
	if h.wholeCalls {
		most = maxHeldCall
	}
	if h.shown = h.shows(c) || len(h.chunks) == most; !h.shown {
		h.chunks = append(h.chunks, *c)
	}
	return h.shown
}

// shows says whether there is something in a chunk that a reader may show.
func (h *held) shows(c *Chunk) bool {
	if c.Restart || c.Text != "" || c.Reasoning != "" || c.ToolResult != nil || c.Citation != nil || c.Media != nil {
		return true
	}
	if c.ToolCall == nil || !h.wholeCalls {
		return c.ToolCall != nil
	}
	if h.call == 0 {
		h.call = 1 + c.ToolCall.Index
	}
	return h.call != 1+c.ToolCall.Index
}

// flush passes on what is held.
func (h *held) flush() {
	for i := range h.chunks {
		h.send(&h.chunks[i], nil)
	}
	h.chunks = nil
}

// fail passes on an error, behind what the answers took of which nothing was passed on.
func (h *held) fail(err error) {
	h.spent.Add(h.usage)
	if !h.shown && h.spent != (Usage{}) {
		h.send(&Chunk{Usage: &h.spent, Model: h.name}, nil)
	}
	h.send(new(Chunk), err)
}
