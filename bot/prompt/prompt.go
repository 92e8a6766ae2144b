// Package prompt renders the operator's templates: Django-style, as pongo2 reads them, without its dangers. Templates cannot
// read files, call methods, run without end or bring the server down; nothing is escaped for HTML.
//
// # What a template can do
//   - {{ input.question }} prints a value: text as it is, numbers as they were written, lists and objects as JSON. Numbers with
//     a fraction are joined to text with the filter add.
//   - Conditions of if and elif: and, or, not and parentheses, ==, !=, <, <=, >, >= between two numbers or two texts, in, not in.
//     A comparison with a value that is missing, or of two types, is neither true nor false, and so is its opposite with not: the
//     condition does not hold.
//   - Members by name and number, {{ list.0.title }}, and one computed one at the end, {{ list[i] }}.
//   - Tags: if/elif/else, ifequal, ifnotequal, for/empty, with, set, firstof, cycle, now, widthratio, templatetag, comment and
//     verbatim. {# … #} is a comment on one line.
//   - Filters: those of [Filters]; json gives the JSON text of any value.
//   - In a loop there are forloop.counter, counter0, revcounter, revcounter0, first, last and parentloop.
//
// # What it cannot
//   - Read a value that was not supplied: that is an error, except where the template asks for it (the condition of an if, an
//     argument of firstof, or in front of the filter default or default_if_none).
//   - Be longer than 64 KiB, give more than 1 MiB, take longer than 2 s (or the rest of their [Budget]), or nest deeper than 32.
//   - Use a tag or filter that is not listed here, or call anything.
package prompt

import (
	"fmt"
	"io"
	"slices"
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
	source
	compiled *pongo2.Template
	time     time.Duration
}

// Parse checks the text of a template; name stands in its errors, which are *[Error].
func Parse(name, text string) (*Template, error) {
	src, failure := scan(name, text)
	if failure != nil {
		return nil, failure
	}
	t := &Template{source: *src, time: maxTime}
	if failure := t.compile(); failure != nil {
		return nil, failure
	}
	return t, nil
}

func (t *Template) compile() (failure *Error) {
	defer func() {
		if p := recover(); p != nil {
			failure = &Error{Template: t.name, Message: "the template cannot be compiled"}
		}
	}()
	compiled, err := templates.FromString(t.rewritten)
	if err != nil {
		return t.translate(err)
	}
	t.compiled = compiled
	return nil
}

// Budget is the time that several renderings may take together. It is safe for concurrent use; nil is no bound.
type Budget struct {
	total time.Duration
	spent atomic.Int64
}

// NewBudget returns a budget of this time.
func NewBudget(total time.Duration) *Budget { return &Budget{total: total} }

// spend takes a time from the budget; false if there is not so much.
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
	return (&run{template: t, budget: b}).with(vars)
}

// with renders the run's template with vars.
func (r *run) with(vars map[string]any) (text string, err error) {
	t := r.template
	defer r.forget()
	r.checked = time.Now()
	r.deadline = r.checked.Add(t.time)
	c := converter{run: r}
	context := pongo2.Context{runKey: r}
	for _, root := range t.roots {
		value, ok := vars[root]
		if !ok {
			continue
		}
		converted, err := c.convert(value, 0)
		if err != nil {
			return "", &Error{Template: t.name, Message: fmt.Sprintf("variable %q: %v", root, err)}
		}
		context[root] = converted
	}
	return r.render(context)
}

// Test renders a template that prints something where a condition holds. doubt names the comparison, "" if there is none, whose
// sides could not be compared: a value is missing, or the two are of different types. Such a comparison is neither true nor false.
func (t *Template) Test(vars map[string]any) (holds bool, doubt string, err error) {
	return t.TestWithin(nil, vars)
}

// TestWithin is Test that takes its time from a budget.
func (t *Template) TestWithin(b *Budget, vars map[string]any) (holds bool, doubt string, err error) {
	r := &run{template: t, budget: b}
	text, err := r.with(vars)
	return text != "", r.doubt, err
}

// Variables lists the paths that the template reads, as "input.question", sorted. Names that the template itself gives
// (in for, with, set and the like) are left out, and a path ends where it is computed: of a.b[c].d it is a.b.
func (t *Template) Variables() []string { return slices.Clone(t.free) }

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

// run is one rendering. It travels in the public context, where the tags of this package find it.
type run struct {
	template *Template
	deadline time.Time
	budget   *Budget
	checked  time.Time  // up to when the budget is charged
	element  int        // the one that is being executed, for the position of a panic
	literals []*decimal // to be forgotten at the end
	out      []byte
	doubt    string // why a comparison is neither true nor false: the first such
}

// runKey is a name that no template can read: the scanner refuses the prefix.
const runKey = ownPrefix + "run"

// stopped is what a run panics with to leave pongo2, which ignores the errors of its writer.
type stopped struct{ message string }

func (r *run) render(context pongo2.Context) (text string, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			text, err = "", r.errorAt(p.message)
		case error:
			text, err = "", r.errorAt(panicMessage(p.Error()))
		default:
			text, err = "", r.errorAt(panicMessage(fmt.Sprint(p)))
		}
	}()
	if err := r.template.compiled.ExecuteWriterUnbuffered(context, (*output)(r)); err != nil {
		return "", r.template.translate(err)
	}
	return strings.ToValidUTF8(string(r.out), "\uFFFD"), nil
}

// panicMessage keeps what the author of a template can use of a panic's text.
func panicMessage(text string) string {
	if strings.Contains(text, "divide by zero") {
		return "division by zero"
	}
	if strings.Contains(text, "comparing uncomparable type") || strings.Contains(text, "hash of unhashable type") {
		return "lists and objects cannot be compared"
	}
	if strings.Contains(text, "out of range") {
		return "an index or length is out of range"
	}
	return "the expression cannot be evaluated"
}

func (r *run) errorAt(message string) *Error {
	e := &Error{Template: r.template.name, Message: message}
	if r.element < len(r.template.elements) {
		e.Line, e.Column = r.template.position(r.template.elements[r.element].offset)
	}
	return e
}

// checkTime ends a run that has taken too long, or has no time left in its budget. It is called for each element and each turn of a loop: there is no other way
// to stop pongo2, which knows no context.
func (r *run) checkTime() {
	now := time.Now()
	if now.After(r.deadline) {
		panic(stopped{fmt.Sprintf("rendering took longer than %v", r.template.time)})
	}
	if !r.budget.spend(now.Sub(r.checked)) {
		panic(stopped{fmt.Sprintf("the templates of this run took longer than %v together", r.budget.total)})
	}
	r.checked = now
}

// output is the run as the writer of its text.
type output run

var _ io.Writer = (*output)(nil)

func (o *output) Write(p []byte) (int, error) {
	if len(o.out)+len(p) > maxOutput {
		panic(stopped{"the text would be longer than 1 MiB"})
	}
	(*run)(o).checkTime()
	o.out = append(o.out, p...)
	return len(p), nil
}

// translate makes an *Error of pongo2's, with the place in the text that the author wrote.
func (s *source) translate(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	e, ok := err.(*pongo2.Error)
	if !ok {
		return &Error{Template: s.name, Message: tidy(err.Error())}
	}
	var own *Error
	if wrapped, ok := e.OrigError.(*Error); ok {
		own = wrapped // made by a tag of ours, which knows better
		if own.Line > 0 {
			return own
		}
	}
	out := &Error{Template: s.name}
	if own != nil {
		out.Message = own.Message
	} else {
		out.Message = tidy(e.OrigError.Error())
	}
	if e.Line > 0 {
		out.Line, out.Column = s.position(s.original(e.Line, e.Column))
	}
	return out
}

// tidy brings pongo2's sentences into the form of ours.
func tidy(message string) string {
	message = strings.ReplaceAll(message, ownPrefix, "")
	// An error that a function wrapped in another one begins with pongo2's own idea of the place.
	if _, rest, ok := strings.Cut(message, "] "); ok && strings.HasPrefix(message, "[Error") {
		message = rest
	}
	message = strings.TrimSuffix(message, ".")
	if message != "" && message[0] >= 'A' && message[0] <= 'Z' && !strings.HasPrefix(message, "EOF") {
		message = strings.ToLower(message[:1]) + message[1:]
	}
	return message
}
