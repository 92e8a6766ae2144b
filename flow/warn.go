package flow

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/jsonuri"
)

// Codes of the workflow's "warning" events.
const (
	codeNotComparable   = "not_comparable"
	codeNeverStarted    = "never_started"
	codeFilterUnmatched = "filter_unmatched"
)

// warning is the data of a "warning" event.
type warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Bot     string `json:"bot,omitempty"`
}

// warn sends a "warning" event; it does the run no harm.
func (r *run) warn(w warning) {
	_ = r.manager.SendEvent("warning", w) // fails only where the run has ended
}

// warnOfCondition warns, once for each bot and event, that a condition does not hold because a comparison in it cannot be made.
func (r *run) warnOfCondition(what, of, doubt string) {
	if doubt == "" {
		return
	}
	r.mu.Lock()
	said := r.warned[of]
	r.warned[of] = true
	r.mu.Unlock()
	if said {
		return
	}
	w := warning{Code: codeNotComparable, Message: fmt.Sprintf("%s: its condition is false, because %s", what, doubt)}
	for _, b := range r.spec.bots {
		if b.name == of {
			w.Bot = of
		}
	}
	r.warn(w)
}

// conclude warns, once nothing can start any more, of patterns that matched nothing although bots ended that could have written it: the
// patterns may be misspelt. They are those of filters, and of bots and events that wait for values. If one of these bots failed or was not
// started, that is the reason, and there is no warning.
func (r *run) conclude() {
	var warnings []warning
	result := sync.OnceValue(func() *jsonuri.Document {
		document := new(jsonuri.Document)
		_ = document.Set(nil, r.manager.Peek(true).Result) // it is JSON
		return document
	})
	add := func(name, what string, on triggers, hit bool) {
		if hit || !r.vain(on) {
			return
		}
		document := result()
		reason := ""
		for i, t := range on {
			if i > 0 {
				reason += ", and "
			}
			reason += t.unwritten(document)
		}
		warnings = append(warnings, warning{Code: codeNeverStarted, Message: what + ": " + reason, Bot: name})
	}
	r.mu.Lock()
	for _, p := range r.bots {
		if p.active() {
			r.mu.Unlock()
			return
		}
	}
	first := !r.settled
	r.settled = true
	// An event of an end that another goroutine has settled may be about to be sent.
	hits := slices.Clone(r.hits)
	r.mu.Unlock()
	if !first {
		return
	}
	for i, b := range r.spec.bots {
		add(b.name, fmt.Sprintf("bot %s never started", b.name), b.on, hits[i])
	}
	for i, e := range r.spec.events {
		add("", fmt.Sprintf("event %s was never sent", e.name), e.on, hits[len(r.bots)+i])
	}
	for _, w := range append(warnings, r.unmatchedFilters(result)...) {
		r.warn(w)
	}
}

// vain says whether all of on are patterns, and bots have ended well that could have fired them. Nothing runs any more.
func (r *run) vain(on triggers) bool {
	wrote := false
	for _, t := range on {
		if t.pattern == nil {
			return false
		}
		for _, source := range t.sources {
			p := &r.bots[source]
			if p.failed > 0 {
				return false
			}
			wrote = wrote || p.finished > 0
		}
	}
	return wrote
}

// unwritten says what the trigger has missed in the document.
func (t *trigger) unwritten(document *jsonuri.Document) string {
	other := false
	document.Walk(func(uri string, _ []byte) bool {
		other = other || t.pattern.Match([]byte(uri))
		return !other
	})
	switch {
	case other && t.kind == onString:
		return fmt.Sprintf("the value at %s is not text; {value: %s} fires for any value", t.text, t.text)
	case other:
		return fmt.Sprintf("the value at %s is not an object or list; {value: %s} fires for any value", t.text, t.text)
	}
	return fmt.Sprintf("no bot wrote to %s", t.text)
}
