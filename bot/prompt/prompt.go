// Package prompt renders the operator's templates: Django-style, as pongo2 reads them, without its dangers. Templates cannot
// read files, call functions, run without end or bring the server down; nothing is escaped for HTML.
//
// # What a template can do
//   - {{ input.question }} prints a value: text as it is, and everything else as JSON. A value that is not supplied is empty.
//   - Conditions of if and elif: and, or, not and parentheses, ==, !=, <, <=, >, >= between two numbers or two texts, in, not in.
//     A comparison with a value that is missing, or of two types, is neither true nor false, and so is its opposite with not: the
//     condition does not hold.
//   - Tags: if/elif/else, for/empty, set, now, comment and verbatim. {# … #} is a comment on one line.
//   - Most of pongo2's filters; json gives the JSON text of any value.
//   - In a loop there are forloop.counter, counter0, revcounter, revcounter0, first, last and parentloop.
//
// # What it cannot
//   - Be longer than 64 KiB, give more than 1 MiB, take longer than 2 s (or the rest of their [Budget]), or nest deeper than 32.
//   - Use a tag or filter that is not listed here, or call anything.
package prompt

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/flosch/pongo2/v6"
)

// Limits of a template. They are far above what a prompt needs and far below what would hurt.
const (
	maxTemplate = 64 << 10
	maxOutput   = 1 << 20
	maxTime     = 2 * time.Second
)

// Template is a checked template. It is safe for concurrent use.
type Template struct {
	name, text string
	// comparisons are those of the conditions, by the index that the source has.
	comparisons []comparison
	code        *pongo2.Template
	variables   []Variable // that must come from outside
	supplied    []string   // first segments of all paths
	time        time.Duration
}

// Parse checks the text of a template; its errors, which are *[Error], have the name.
func Parse(name, text string) (*Template, error) {
	t := &Template{name: name, text: text, time: maxTime}
	if len(text) > maxTemplate {
		return nil, &Error{Template: name, Message: fmt.Sprintf("the template has %d bytes, more than 64 KiB", len(text))}
	}
	source, err := t.scan()
	if err != nil {
		return nil, err
	}
	if t.code, err = templates.FromString(source); err != nil {
		return nil, t.explain(err)
	}
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

// Render renders the template with vars in a time of the budget. Values may be strings, numbers, bools, nil, maps and slices of such, and
// json.RawMessage; anything else is an error. A variable that is not supplied is empty.
func (t *Template) Render(b *Budget, vars map[string]any) (text string, err error) {
	text, _, err = t.render(&run{budget: b}, vars)
	return text, err
}

// Test is Render of a template that prints something where a condition holds. doubt names the first comparison whose
// sides could not be compared, "" for none: a value is missing, or the two are of different types. Such a comparison is neither true nor
// false.
func (t *Template) Test(b *Budget, vars map[string]any) (holds bool, doubt string, err error) {
	text, doubt, err := t.render(&run{budget: b}, vars)
	return text != "", doubt, err
}

// Variable is a path that a template reads, and where it does so first.
type Variable struct {
	Path         []string // of "input.question", its two names
	Line, Column int
}

// Variables lists the paths that the template reads, sorted. Names that the template itself gives (in for and set) are left out.
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
