package flow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Codes of the workflow's "warning" events.
const (
	codeNotComparable = "not_comparable"
	codeNeverStarted  = "never_started"
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
	warn := doubt != "" && r.firstTime("condition of step "+strconv.Itoa(i))
	r.mu.Unlock()
	if warn {
		r.warn(w)
	}
}

// conclude returns what warns, once nothing can start any more, of bots and events that wait for values and whose patterns matched nothing
// although bots ended that could have written it: the patterns may be misspelt. If a bot failed, that may be the reason, and there is no
// warning. It is called with mu held.
func (r *run) conclude() (act func()) {
	if r.settled || slices.ContainsFunc(r.bots, func(p progress) bool { return p.active() }) {
		return nothing
	}
	r.settled = true
	if slices.ContainsFunc(r.bots, func(p progress) bool { return p.failed > 0 }) {
		return nothing
	}
	ended := func(i int) bool { return r.bots[i].finished > 0 }
	var warnings []warning
	for i, st := range r.spec.steps {
		var patterns []string
		possible := false
		for _, t := range st.on {
			if t.pattern != nil {
				patterns = append(patterns, t.text)
				possible = possible || slices.ContainsFunc(t.sources, ended)
			}
		}
		if r.hits[i] || !possible || len(patterns) < len(st.on) {
			continue
		}
		w := warning{Code: codeNeverStarted, Message: fmt.Sprintf("bot %s never started", st.name), Bot: st.name}
		if r.spec.event(i) != nil {
			w.Message, w.Bot = fmt.Sprintf("event %s was never sent", st.name), ""
		}
		w.Message += ": nothing matched " + strings.Join(patterns, " or ")
		warnings = append(warnings, w)
	}
	return func() {
		for _, w := range warnings {
			r.warn(w)
		}
	}
}
