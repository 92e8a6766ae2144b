package flow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
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
	warn := doubt != "" && r.firstTime("condition of step "+strconv.Itoa(i))
	r.mu.Unlock()
	if warn {
		r.warn(w)
	}
}

// conclude returns what warns, once nothing can start any more, of patterns that matched nothing although bots ended that could have
// written it: the patterns may be misspelt. They are those of filters, and of bots and events that wait for values. If a bot failed,
// that may be the reason, and there is no warning. It is called with mu held.
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
	for _, pattern := range r.unmatchedFilters(ended) {
		warnings = append(warnings, warning{Code: codeFilterUnmatched, Message: fmt.Sprintf("the filter's pattern %s matched nothing", short(pattern))})
	}
	return func() {
		for _, w := range warnings {
			r.warn(w)
		}
	}
}

// unmatchedFilters lists the patterns of the filters of the workflow and of the request that match nothing in the document, although a
// bot has ended that could have written it, or no bot could.
func (r *run) unmatchedFilters(ended func(bot int) bool) (patterns []string) {
	document := r.manager.Tube().Document(true)
	check := func(m tube.Matcher) {
		text := ""
		switch m := m.(type) {
		case *filterPattern:
			text = m.text
		case *jsonuri.Pattern:
			text = m.String()
		}
		found, possible, ran := text == "" || jsonuri.Reserved(text), false, false
		document.Walk(func(uri string, _ []byte) bool {
			found = found || m.Match([]byte(uri))
			return !found
		})
		for i, b := range r.spec.bots {
			if b.mayWrite(append(splitURI(text), many)) {
				possible, ran = true, ran || ended(i)
			}
		}
		if !found && (ran || !possible) {
			patterns = append(patterns, text)
		}
	}
	for _, f := range r.manager.Tube().Filters() {
		for _, m := range slices.Concat(f.Exclude, f.Include) {
			check(m)
		}
	}
	return patterns
}
