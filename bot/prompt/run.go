package prompt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flosch/pongo2/v6"
)

// run is one rendering.
type run struct {
	template *Template
	strict   bool // a missing value is an error
	vars     pongo2.Context
	deadline time.Time
	budget   *Budget
	checked  time.Time        // the budget is charged until then
	cycles   map[*element]int // how often each cycle was executed
	out      strings.Builder
	doubt    string // why a comparison is neither true nor false: the first such
}

func (t *Template) render(r *run, vars map[string]any) (text, doubt string, err error) {
	now := time.Now()
	r.template, r.checked, r.deadline = t, now, now.Add(t.time)
	r.vars, r.cycles = pongo2.Context{}, map[*element]int{}
	c := converter{}
	defer c.close()
	for _, name := range t.supplied {
		value, ok := vars[name]
		if !ok {
			continue
		}
		if r.vars[name], err = c.convert(value, 0); err != nil {
			return "", "", &Error{Template: t.name, Message: fmt.Sprintf("variable %q: %v", name, err)}
		}
	}
	if err := r.execute(t.body); err != nil {
		return "", "", err
	}
	return strings.ToValidUTF8(r.out.String(), "\uFFFD"), r.doubt, nil
}

func (r *run) execute(body []*element) error {
	for _, e := range body {
		if err := r.checkTime(e); err != nil {
			return err
		}
		if err := r.element(e); err != nil {
			return err
		}
	}
	return nil
}

// checkTime fails if the run has taken too long, or has no time left in its budget. It is called for each element and each turn of a loop.
func (r *run) checkTime(e *element) error {
	now := time.Now()
	if now.After(r.deadline) {
		return r.fail(e, "rendering took longer than %v", r.template.time)
	}
	if !r.budget.spend(now.Sub(r.checked)) {
		return r.fail(e, "the templates of this run took longer than %v together", r.budget.total)
	}
	r.checked = now
	return nil
}

func (r *run) fail(e *element, format string, args ...any) error {
	return r.template.fail(e.offset, format, args...)
}

func (r *run) element(e *element) error {
	switch e.tag {
	case "text":
		return r.write(e, e.text)
	case "if":
		return r.executeIf(e)
	}
	var values []any
	for _, x := range e.values {
		more, err := r.evaluate(x, r.strict && e.tag != "firstof")
		if err != nil {
			return err
		}
		values = append(values, more...)
	}
	switch e.tag {
	case "print":
		return r.print(e, values[0])
	case "firstof":
		if i := slices.IndexFunc(values, isTrue); i >= 0 {
			return r.print(e, values[i])
		}
	case "set":
		return r.set(e, values)
	case "cycle":
		value := values[r.cycles[e]%len(values)]
		r.cycles[e]++
		if err := r.set(e, []any{value}); err != nil || e.silent {
			return err
		}
		return r.print(e, value)
	case "now":
		layout, _ := values[0].(string)
		return r.write(e, time.Now().Format(layout))
	case "with":
		defer r.leave(r.enter())
		if err := r.set(e, values); err != nil {
			return err
		}
		return r.execute(e.branches[0].body)
	case "for":
		return r.executeFor(e, values[0])
	}
	return nil
}

// enter begins a scope and returns the variables of the one around it.
func (r *run) enter() (outer pongo2.Context) {
	outer = r.vars
	r.vars = maps.Clone(outer)
	return outer
}

func (r *run) leave(outer pongo2.Context) { r.vars = outer }

func (r *run) write(e *element, text string) error {
	if r.out.Len()+len(text) > maxOutput {
		return r.fail(e, "the text would be longer than 1 MiB")
	}
	r.out.WriteString(text)
	return nil
}

func (r *run) print(e *element, value any) error {
	text, err := textOf(value)
	if err != nil {
		return r.fail(e, "%s", err)
	}
	return r.write(e, text)
}

// set gives the element's names to values, which could otherwise double with each turn of a loop.
func (r *run) set(e *element, values []any) error {
	for i, name := range e.names {
		if text, ok := values[i].(string); ok && len(text) > maxOutput {
			return r.fail(e, "the value of %q would be longer than 1 MiB", name)
		}
		r.vars[name] = values[i]
	}
	return nil
}

// executeIf executes the first branch whose condition holds.
func (r *run) executeIf(e *element) error {
	for _, b := range e.branches {
		holds, err := r.condition(b.condition)
		if err != nil {
			return err
		}
		if holds == yes {
			return r.execute(b.body)
		}
	}
	return nil
}

// executeFor executes a loop over a list, the members of an object in order, or the characters of a text.
func (r *run) executeFor(e *element, list any) error {
	items, ok := itemsOf(list, e.sorted)
	if !ok {
		return r.fail(e, "for needs a list, an object or a text")
	}
	defer r.leave(r.enter())
	if len(items) == 0 && len(e.branches) > 1 {
		return r.execute(e.branches[1].body)
	}
	if e.reversed {
		slices.Reverse(items)
	}
	loop := map[string]any{"parentloop": r.vars["forloop"]}
	r.vars["forloop"] = loop
	for i, item := range items {
		if err := r.checkTime(e); err != nil {
			return err
		}
		r.vars[e.names[0]] = item
		if object, ok := list.(map[string]any); ok && len(e.names) > 1 {
			r.vars[e.names[1]] = object[item.(string)]
		}
		loop["counter"], loop["counter0"] = i+1, i
		loop["revcounter"], loop["revcounter0"] = len(items)-i, len(items)-i-1
		loop["first"], loop["last"] = i == 0, i == len(items)-1
		if err := r.execute(e.branches[0].body); err != nil {
			return err
		}
	}
	return nil
}

// itemsOf lists the elements of a list, the names of an object's members in order, or the characters of a text.
func itemsOf(list any, sorted bool) (items []any, ok bool) {
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
	if sorted {
		slices.SortStableFunc(items, func(a, b any) int {
			if kindOf(a) == "a number" && kindOf(b) == "a number" {
				return compareNumbers(a, b)
			}
			s, _ := textOf(a)
			t, _ := textOf(b)
			return strings.Compare(s, t)
		})
	}
	return items, true
}
