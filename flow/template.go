package flow

import (
	"errors"
	"fmt"
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

// names lists the variables of a scope.
func (s *scope) names() []string {
	names := []string{"input", "params", "result"}
	if len(s.on) > 0 {
		names = append(names, "event")
		if slices.ContainsFunc(s.on, func(t *trigger) bool { return t.kind == onError }) {
			names = append(names, "error")
		}
	}
	return names
}

// check says what is wrong with reading path in this scope, or "".
func (s *scope) check(path []string) string {
	names := s.names()
	if s.refused && (path[0] == "event" || path[0] == "error") {
		return ""
	}
	if !slices.Contains(names, path[0]) {
		switch path[0] {
		case "event":
			return "the variable event exists only in bots and events with on:"
		case "error":
			return "the variable error exists only with on: {error: bot}"
		}
		return notOneOf("unknown variable", path[0], names)
	}
	if len(path) == 1 {
		return ""
	}
	member := path[1]
	switch path[0] {
	case "input":
		if known, closed := s.schema.names(); closed {
			return notOneOf("the input has no property", member, known)
		}
	case "event":
		// What one of several triggers gives may be read; it is empty where another has fired.
		problem := ""
		for _, t := range s.on {
			found := t.check(path)
			if found == "" && !s.all {
				return ""
			}
			if found != "" && (problem == "" || t.pattern != nil && member == "match") {
				problem = found
			}
		}
		return problem
	case "error":
		return notOneOf("error has no", member, []string{"code", "message", "bot"})
	case "result":
		if s.roots != nil {
			return notOneOf("no bot writes below", member, s.roots)
		}
	}
	return ""
}

// notOneOf says that a name is none of the known ones, and returns "" if it is one.
func notOneOf(what, name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	return fmt.Sprintf("%s %q%s expected one of %s", what, short(name), edits.DidYouMean(name, known, ";"), list(known))
}

// check says what is wrong with reading a member of the event of this trigger, or "".
func (t *trigger) check(path []string) string {
	known := []string{"bot"}
	if t.pattern != nil {
		known = []string{"uri", "value", "match", "bot"}
	}
	if path[1] != "match" || len(path) == 2 || t.pattern == nil {
		return notOneOf("event has no", path[1], known)
	}
	stars := t.stars()
	if i, err := strconv.Atoi(path[2]); err == nil && 0 <= i && i < len(stars) {
		return ""
	}
	return fmt.Sprintf("event.match.%s: the number of stars in %q is %d, and they count from 0", path[2], t.text, len(stars))
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
