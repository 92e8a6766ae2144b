package flow

import (
	"fmt"
	"slices"
	"strings"
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
func (r *run) warnOfCondition(i int, doubt string) {
	name := r.spec.steps[i].name
	w := warning{Code: codeNotComparable, Message: fmt.Sprintf("the event %q is not sent: its condition is false, because %s", name, doubt)}
	if r.spec.event(i) == nil {
		w.Message, w.Bot = fmt.Sprintf("the bot %q is not started: its condition is false, because %s", name, doubt), name
	}
	r.mu.Lock()
	warn := doubt != "" && !r.warned[i]
	r.warned[i] = r.warned[i] || warn
	r.mu.Unlock()
	if warn {
		r.warn(w)
	}
}

// conclude returns what warns, once nothing can start any more, of patterns that matched nothing although bots ended that could have written
// it: the patterns may be misspelt. They are those of filters, and of bots and events that wait for values. If one of these bots failed or was
// not started, that is the reason, and there is no warning. It is called with mu held.
func (r *run) conclude() (act func()) {
	if r.settled || slices.ContainsFunc(r.bots, func(p progress) bool { return p.active() }) {
		return nothing
	}
	r.settled = true
	result := sync.OnceValue(func() *jsonuri.Document {
		document := new(jsonuri.Document)
		_ = document.Set(nil, r.manager.Peek(true).Result) // it is JSON
		return document
	})
	var warnings []warning
	for i, st := range r.spec.steps {
		var sources []int
		var reasons []string
		for _, t := range st.on {
			if t.pattern != nil {
				sources = append(sources, t.sources...)
			}
		}
		if r.hits[i] || slices.ContainsFunc(st.on, func(t *trigger) bool { return t.pattern == nil }) || !r.wrote(sources) {
			continue
		}
		for _, t := range st.on {
			reasons = append(reasons, t.unwritten(result()))
		}
		w := warning{Code: codeNeverStarted, Message: fmt.Sprintf("bot %s never started: ", st.name), Bot: st.name}
		if r.spec.event(i) != nil {
			w.Message, w.Bot = fmt.Sprintf("event %s was never sent: ", st.name), ""
		}
		w.Message += strings.Join(reasons, ", and ")
		warnings = append(warnings, w)
	}
	warnings = append(warnings, r.unmatchedFilters(result)...)
	return func() {
		for _, w := range warnings {
			r.warn(w)
		}
	}
}

// wrote reports whether one of these bots has ended well and none has failed.
func (r *run) wrote(bots []int) bool {
	return !slices.ContainsFunc(bots, func(i int) bool { return r.bots[i].failed > 0 }) &&
		slices.ContainsFunc(bots, func(i int) bool { return r.bots[i].finished > 0 })
}

// unwritten says what the trigger has missed in the document.
func (t *trigger) unwritten(document *jsonuri.Document) string {
	other := matchesAny(t.pattern, document)
	switch {
	case other && t.kind == onString:
		return fmt.Sprintf("the value at %s is not text; {value: %s} fires for any value", t.text, t.text)
	case other:
		return fmt.Sprintf("the value at %s is not an object or list; {value: %s} fires for any value", t.text, t.text)
	}
	return fmt.Sprintf("no bot wrote to %s", t.text)
}
