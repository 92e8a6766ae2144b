package prompt

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flosch/pongo2/v6"
)

// prefix is that of this package's functions and filters in pongo2; no template can have it in a name.
const prefix = "lingserve_"

// templates is the set that all templates belong to. It has no files, and it bans the tags that could read one or have no bound,
// although the scanner lets none of them through.
var templates = newSet()

type noFiles struct{}

func (noFiles) Abs(_, name string) string { return name }
func (noFiles) Get(string) (io.Reader, error) {
	return nil, errors.New("templates cannot read files")
}

func newSet() *pongo2.TemplateSet {
	set := pongo2.NewSet("prompts", noFiles{})
	var err error
	for _, tag := range []string{"ssi", "include", "import", "extends", "macro", "lorem", "block"} {
		err = errors.Join(err, set.BanTag(tag))
	}
	for name, filter := range filters {
		if filter != nil {
			err = errors.Join(err, pongo2.RegisterFilter(prefix+name, filter))
		}
	}
	if err != nil {
		panic("prompt: " + err.Error())
	}
	return set
}

// run is one rendering.
type run struct {
	template *Template
	deadline time.Time
	budget   *Budget
	checked  time.Time // the budget is charged until then
	out      strings.Builder
	full     bool   // the text was too long
	doubt    string // why a comparison is neither true nor false: the first such
}

func (t *Template) render(r *run, vars map[string]any) (text, doubt string, err error) {
	now := time.Now()
	r.template, r.checked, r.deadline = t, now, now.Add(t.time)
	supplied := pongo2.Context{
		prefix + "text":    r.function(r.text),
		prefix + "value":   r.function(r.value),
		prefix + "list":    r.function(r.list),
		prefix + "compare": r.function(r.compare),
	}
	for _, name := range t.supplied {
		value, ok := vars[name]
		if !ok {
			continue
		}
		if supplied[name], err = convert(value, 0); err != nil {
			return "", "", &Error{Template: t.name, Message: fmt.Sprintf("variable %q: %v", name, err)}
		}
	}
	defer func() {
		if recover() != nil { // pongo2 panics itself
			err = t.explain(errors.New("an expression cannot be evaluated"))
		}
	}()
	if err := t.code.ExecuteWriterUnbuffered(supplied, r); err != nil {
		return "", "", t.explain(err)
	}
	if err := r.checkBounds(); err != nil {
		return "", "", t.explain(err)
	}
	return strings.ToValidUTF8(r.out.String(), "\uFFFD"), r.doubt, nil
}

// Write takes the text that pongo2 writes.
func (r *run) Write(text []byte) (int, error) {
	if r.full = r.full || r.out.Len()+len(text) > maxOutput; !r.full {
		r.out.Write(text)
	}
	return len(text), nil
}

// checkBounds fails if the run has taken too long, has no time left in its budget, or has written too much. Each call of a function
// calls it, and so each turn of a loop.
func (r *run) checkBounds() error {
	now := time.Now()
	spent := now.Sub(r.checked)
	r.checked = now
	switch {
	case r.full:
		return errors.New("the text would be longer than 1 MiB")
	case now.After(r.deadline):
		return fmt.Errorf("rendering took longer than %v", r.template.time)
	case !r.budget.spend(spent):
		return fmt.Errorf("the templates of this run took longer than %v together", r.budget.total)
	}
	return nil
}

// explain makes an error of pongo2 one of this package.
func (t *Template) explain(err error) *Error {
	e := &Error{Template: t.name}
	for at, ok := err.(*pongo2.Error); ok; at, ok = err.(*pongo2.Error) {
		err = at.OrigError
		if at.Line > 0 {
			e.Line, e.Column = at.Line, 1
		}
	}
	e.Message = strings.ReplaceAll(strings.TrimSuffix(err.Error(), "."), prefix, "")
	// An error that a function wrapped in another one begins with pongo2's own idea of the place.
	if _, rest, ok := strings.Cut(e.Message, "] "); ok && strings.HasPrefix(e.Message, "[Error") {
		e.Message = rest
	}
	return e
}

// function makes a function that templates call of f.
func (r *run) function(f func(args []any) (any, error)) func(...*pongo2.Value) (*pongo2.Value, error) {
	return func(args ...*pongo2.Value) (*pongo2.Value, error) {
		values := make([]any, len(args))
		for i, arg := range args {
			values[i] = arg.Interface()
		}
		value, err := f(values)
		return pongo2.AsSafeValue(value), cmp.Or(r.checkBounds(), err) // nothing is escaped for HTML
	}
}

// text is what a value prints as.
func (r *run) text(args []any) (any, error) { return textOf(args[0]) }

// value bounds a value that gets a name: it could double with each turn of a loop.
func (r *run) value(args []any) (any, error) {
	if text, ok := args[0].(string); ok && len(text) > maxOutput {
		return nil, errors.New("a value would be longer than 1 MiB")
	}
	return args[0], nil
}

// list is what a loop goes through.
func (r *run) list(args []any) (any, error) {
	items, ok := itemsOf(args[0])
	if !ok {
		return nil, errors.New("for needs a list, an object or a text")
	}
	return items, nil
}

// itemsOf lists the elements of a list, the names of an object's members in order, or the characters of a text.
func itemsOf(list any) (items []any, ok bool) {
	switch v := list.(type) {
	case nil:
	case []any:
		items = slices.Clone(v)
	case []string: // of the filter split
		for _, s := range v {
			items = append(items, s)
		}
	case string:
		for _, r := range v {
			items = append(items, string(r))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			items = append(items, name)
		}
	default:
		return nil, false
	}
	return items, true
}
