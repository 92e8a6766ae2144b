package flow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/internal/edits"
)

// template is text with variables, checked when it was loaded.
type template struct {
	*prompt.Template
	result bool // it reads the run's result, which costs something to have
}

// scope says which variables a template may read.
type scope struct {
	schema  *inputSchema
	on      triggers // any of which may have fired
	all     bool     // what is read must be there whichever has: a root has no place for what is empty
	refused bool     // or one was refused: what it gives is not known
	roots   []string // first segments of what bots write; nil when not known
}

// check says what is wrong with reading path in this scope, or "".
func (s *scope) check(path []string) string {
	members := map[string][]string{"input": nil, "params": nil, "result": s.roots} // nil: any
	if known, closed := s.schema.names(); closed {
		members["input"] = known
	}
	stars := 0
	if len(s.on) > 0 {
		members["event"], stars = s.event()
	}
	if slices.ContainsFunc(s.on, func(t *trigger) bool { return t.kind == onError }) {
		members["error"] = []string{"code", "message", "bot"}
	}
	name := path[0]
	known, ok := members[name]
	switch {
	case s.refused && (name == "event" || name == "error"):
		return ""
	case !ok && name == "event":
		return "the variable event exists only in bots and events with on:"
	case !ok && name == "error":
		return "the variable error exists only with on: {error: bot}"
	case !ok:
		return notOneOf("unknown variable", name, slices.Sorted(maps.Keys(members)))
	case len(path) == 1 || known == nil:
		return ""
	case !slices.Contains(known, path[1]):
		return notOneOf(name+" has no", path[1], known)
	case name == "event" && path[1] == "match" && len(path) > 2:
		if i, err := strconv.Atoi(path[2]); err != nil || i < 0 || i >= stars {
			return fmt.Sprintf("event.match.%s: the number of stars in the pattern is %d, and they count from 0", path[2], stars)
		}
	}
	return ""
}

// event lists the members of the event, and how many stars its pattern has. Of several triggers, what one of them gives may be read,
// except in a root: it is empty where another has fired.
func (s *scope) event() (members []string, stars int) {
	all := true
	for i, t := range s.on {
		n := len(starsOf(t.segments))
		if i == 0 || s.all == (n < stars) {
			stars = n
		}
		all = all && t.pattern != nil
	}
	if all || !s.all && slices.ContainsFunc(s.on, func(t *trigger) bool { return t.pattern != nil }) {
		return []string{"uri", "value", "match", "bot"}, stars
	}
	return []string{"bot"}, stars
}

// notOneOf says that a name is none of the known ones, and returns "" if it is one.
func notOneOf(what, name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	return fmt.Sprintf("%s %q%s expected one of %s", what, short(name), edits.DidYouMean(name, known, ";"), list(known))
}

// compile checks text as a template, or as the condition of an {% if %}. It calls report with each problem and its place inside the text;
// both numbers are 0 if that is not known.
func compile(name, text string, condition bool, s *scope, report func(line, col int, message string)) *template {
	source, shift := text, 0
	if condition {
		for _, mark := range []string{"{{", "}}", "{%", "%}", "{#", "#}", "\n"} {
			if strings.Contains(strings.TrimSpace(text), mark) {
				report(0, 0, conditionForm)
				return nil
			}
		}
		if strings.TrimSpace(text) == "" {
			report(0, 0, `the condition is empty; expected one such as: input.level == "expert"`)
			return nil
		}
		source, shift = "{% if "+strings.TrimRight(text, "\n")+" %}1{% endif %}", len("{% if ")
	}
	parsed, err := prompt.Parse(name, source)
	if err != nil {
		if e, ok := errors.AsType[*prompt.Error](err); ok {
			report(e.Line, max(e.Column-shift, min(e.Column, 1)), e.Message)
		} else {
			report(0, 0, err.Error())
		}
		return nil
	}
	t := &template{Template: parsed}
	for _, v := range parsed.Variables() {
		if message := s.check(v.Path); message != "" {
			report(v.Line, max(v.Column-shift, 1), message)
		}
		t.result = t.result || v.Path[0] == "result"
	}
	return t
}
