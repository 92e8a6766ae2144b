// Package prompt renders the operator's templates: Django-style, as pongo2 reads them, without its dangers. Templates cannot
// read files, call methods, run without end or bring the server down; nothing is escaped for HTML.
//
// # What a template can do
//   - {{ input.question }} prints a value: text as it is, numbers as they were written, lists and objects as JSON. Numbers with
//     a fraction are joined to text with the filter add.
//   - Conditions of if and elif: and, or, not and parentheses, ==, !=, <, <=, >, >= between two numbers or two texts, in, not in.
//     A comparison with a value that is missing, or of two types, is neither true nor false, and so is its opposite with not: the
//     condition does not hold.
//   - Members by name and number, {{ list.0.title }}, and computed ones, {{ list[i] }}.
//   - Tags: if/elif/else, for/empty, with, set, firstof, cycle, now, comment and verbatim. {# … #} is a comment on one line.
//   - Most of pongo2's filters; json gives the JSON text of any value.
//   - In a loop there are forloop.counter, counter0, revcounter, revcounter0, first, last and parentloop.
//
// # What it cannot
//   - Read a value that was not supplied: that is an error, except where the template asks for it (the condition of an if, an
//     argument of firstof, or in front of the filter default or default_if_none).
//   - Be longer than 64 KiB, give more than 1 MiB, take longer than 2 s (or the rest of their [Budget]), or nest deeper than 32.
//   - Use a tag or filter that is not listed here, or call anything.
package prompt

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flosch/pongo2/v6"
)

// Limits of a template. They are far above what a prompt needs and far below what would hurt.
const (
	maxTemplate = 64 << 10
	maxOutput   = 1 << 20
	maxData     = 32 << 20 // text of the values supplied
	maxTime     = 2 * time.Second
)

// Template is a checked template. It is safe for concurrent use.
type Template struct {
	name, text string
	elements   []*element // tags and variables, in order
	variables  []Variable // that must come from outside
	supplied   []string   // first segments of all paths
	compiled   *pongo2.Template
	time       time.Duration
}

const notCompiled = "the template cannot be compiled"

// Parse checks the text of a template; its errors, which are *[Error], have the name.
func Parse(name, text string) (_ *Template, err error) {
	defer func() {
		if recover() != nil {
			err = &Error{Template: name, Message: notCompiled}
		}
	}()
	t := &Template{name: name, text: text, time: maxTime}
	if len(text) > maxTemplate {
		return nil, &Error{Template: name, Message: fmt.Sprintf("the template has %d bytes, more than 64 KiB", len(text))}
	}
	source, failure := t.parse()
	if failure != nil {
		return nil, failure
	}
	compiled, err := templates.FromString(source)
	if err != nil {
		if e, ok := errors.AsType[elementError](unwrap(err)); ok {
			return nil, t.fail(t.elements[e.element].offset, "%s", tidy(e.error))
		}
		return nil, &Error{Template: name, Message: tidy(unwrap(err))}
	}
	t.compiled = compiled
	return t, nil
}

// Budget is the time that several renderings may take together. It is safe for concurrent use; nil is no bound.
type Budget struct {
	total time.Duration
	spent atomic.Int64
}

// NewBudget returns a budget of this time.
func NewBudget(total time.Duration) *Budget { return &Budget{total: total} }

// spend takes a time from the budget. It returns false if less is left.
func (b *Budget) spend(d time.Duration) bool {
	return b == nil || b.spent.Add(int64(d)) <= int64(b.total)
}

// Render renders the template with vars. Values may be strings, numbers, bools, nil, maps and slices of such, and
// json.RawMessage; anything else is an error. A variable that is not supplied is an error.
func (t *Template) Render(vars map[string]any) (text string, err error) {
	return t.RenderWithin(nil, vars)
}

// RenderWithin is Render that takes its time from a budget.
func (t *Template) RenderWithin(b *Budget, vars map[string]any) (text string, err error) {
	text, _, err = t.render(b, vars)
	return text, err
}

// Test renders a template that prints something where a condition holds. doubt names the first comparison whose
// sides could not be compared, "" for none: a value is missing, or the two are of different types. Such a comparison is neither true nor
// false.
func (t *Template) Test(b *Budget, vars map[string]any) (holds bool, doubt string, err error) {
	text, doubt, err := t.render(b, vars)
	return text != "", doubt, err
}

// Variable is a path that a template reads, and where it does so first.
type Variable struct {
	Path         []string // of "input.question", its two names
	Line, Column int
}

// Variables lists the paths that the template reads, sorted. Names that the template itself gives
// (in for, with, set and the like) are left out, and a path ends where it is computed: of a.b[c].d it is a.b.
func (t *Template) Variables() []Variable { return t.variables }

// Error says where a template is wrong.
type Error struct {
	Template     string
	Line, Column int // from 1, the column counts bytes; 0 when not known
	Message      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Template, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Template, e.Line, e.Column, e.Message)
}

// run is one rendering. It travels in pongo2's context, where the tags of this package find it.
type run struct {
	template *Template
	deadline time.Time
	budget   *Budget
	checked  time.Time   // the budget is charged until then
	element  int         // the one that is being executed
	cycles   map[int]int // how often each cycle was executed
	out      []byte
	doubt    string // why a comparison is neither true nor false: the first such
}

// runKey is a name that no template can read.
const runKey = prefix + "run"

func (t *Template) render(budget *Budget, vars map[string]any) (text, doubt string, err error) {
	now := time.Now()
	r := &run{template: t, budget: budget, checked: now, deadline: now.Add(t.time), cycles: map[int]int{}}
	c := converter{}
	defer c.close()
	context := pongo2.Context{runKey: r}
	for _, name := range t.supplied {
		value, ok := vars[name]
		if !ok {
			continue
		}
		if context[name], err = c.convert(value, 0); err != nil {
			return "", "", &Error{Template: t.name, Message: fmt.Sprintf("variable %q: %v", name, err)}
		}
	}
	// A panic is the only way out of pongo2, which knows no context and ignores the errors of its writer. It also panics itself.
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Error:
			text, err = "", p
		default:
			text, err = "", r.fail(panicMessage(fmt.Sprint(p)))
		}
	}()
	if err := t.compiled.ExecuteWriterUnbuffered(context, r); err != nil {
		return "", "", r.fail(tidy(unwrap(err)))
	}
	return strings.ToValidUTF8(string(r.out), "\uFFFD"), r.doubt, nil
}

// fail returns an error at the element that is being executed.
func (r *run) fail(message string) *Error {
	if r.element >= len(r.template.elements) {
		return &Error{Template: r.template.name, Message: message}
	}
	return r.template.fail(r.template.elements[r.element].offset, "%s", message)
}

// checkTime ends a run that has taken too long, or has no time left in its budget. It is called for each element and each turn of a loop.
func (r *run) checkTime() {
	now := time.Now()
	if now.After(r.deadline) {
		panic(r.fail(fmt.Sprintf("rendering took longer than %v", r.template.time)))
	}
	if !r.budget.spend(now.Sub(r.checked)) {
		panic(r.fail(fmt.Sprintf("the templates of this run took longer than %v together", r.budget.total)))
	}
	r.checked = now
}

// Write takes the text that the run makes.
func (r *run) Write(p []byte) (int, error) {
	if len(r.out)+len(p) > maxOutput {
		panic(r.fail("the text would be longer than 1 MiB"))
	}
	r.out = append(r.out, p...)
	return len(p), nil
}

// panicMessage keeps what the author of a template can use of a panic's text.
func panicMessage(text string) string {
	switch {
	case strings.Contains(text, "divide by zero"):
		return "division by zero"
	case strings.Contains(text, "comparing uncomparable type"), strings.Contains(text, "hash of unhashable type"):
		return "lists and objects cannot be compared"
	case strings.Contains(text, "out of range"):
		return "an index or length is out of range"
	}
	return "the expression cannot be evaluated"
}

// unwrap returns the cause of pongo2's error.
func unwrap(err error) error {
	for {
		e, ok := err.(*pongo2.Error)
		if !ok {
			return err
		}
		err = e.OrigError
	}
}

// tidy brings pongo2's sentences into the form of ours.
func tidy(err error) string {
	message := strings.ReplaceAll(strings.TrimSuffix(err.Error(), "."), prefix, "")
	// An error that a function wrapped in another one begins with pongo2's own idea of the place.
	if _, rest, ok := strings.Cut(message, "] "); ok && strings.HasPrefix(message, "[Error") {
		message = rest
	}
	if message != "" && message[0] >= 'A' && message[0] <= 'Z' {
		message = strings.ToLower(message[:1]) + message[1:]
	}
	return message
}
