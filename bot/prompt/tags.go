package prompt

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flosch/pongo2/v6"
)

// templates is the set that all prompts belong to. It has no files, and it bans the tags that could read one, although the parser
// lets none of pongo2's own tags through.
var templates = newSet()

type noFiles struct{}

func (noFiles) Abs(_, name string) string { return name }
func (noFiles) Get(string) (io.Reader, error) {
	return nil, errors.New("templates cannot read files")
}

func newSet() *pongo2.TemplateSet {
	set := pongo2.NewSet("prompts", noFiles{})
	for _, tag := range []string{"ssi", "include", "import", "extends", "macro", "lorem", "block"} {
		must(set.BanTag(tag))
	}
	for name := range tagRules {
		must(pongo2.RegisterTag(prefix+name, parseNode))
	}
	for name, filter := range filters {
		if filter != nil {
			must(pongo2.RegisterFilter(prefix+name, filter))
		}
	}
	return set
}

// must panics on a mistake in this package.
func must(err error) {
	if err != nil {
		panic("prompt: " + err.Error())
	}
}

// node is a tag in pongo2's tree: an element and, if it is a block, the elements that divide it, each with its body.
type node []branch

type branch struct {
	element  int
	operands []pongo2.IEvaluator
	body     *pongo2.NodeWrapper
}

// elementError is pongo2's error in an element's expressions.
type elementError struct {
	element int
	error
}

func parseNode(doc *pongo2.Parser, start *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	tag := strings.TrimPrefix(start.Val, prefix)
	rule, end := tagRules[tag], "end"+tag
	var n node
	for {
		b, err := parseBranch(arguments, rule.list)
		if err != nil {
			return nil, err
		}
		if rule.block {
			if b.body, arguments, err = doc.WrapUntilTag(append(rule.middles, end)...); err != nil {
				return nil, err
			}
		}
		if n = append(n, b); !rule.block || b.body.Endtag == end {
			return n, nil
		}
	}
}

// parseBranch reads the number of an element and its expressions. In a list, they follow each other.
func parseBranch(arguments *pongo2.Parser, list bool) (b branch, err *pongo2.Error) {
	b.element, _ = strconv.Atoi(arguments.MatchType(pongo2.TokenNumber).Val) // the parser of this package wrote it
	for arguments.Remaining() > 0 {
		operand, err := arguments.ParseExpression()
		if err != nil {
			err.OrigError = elementError{b.element, err.OrigError}
			return b, err
		}
		b.operands = append(b.operands, operand)
		if t := arguments.Current(); t != nil && arguments.Match(pongo2.TokenSymbol, ",") == nil && !list {
			return b, &pongo2.Error{OrigError: elementError{b.element, fmt.Errorf("unexpected %q after the expression", t.Val)}}
		}
	}
	return b, nil
}

func runOf(ctx *pongo2.ExecutionContext) *run { return ctx.Public[runKey].(*run) }

// Execute executes the element.
func (n node) Execute(ctx *pongo2.ExecutionContext, w pongo2.TemplateWriter) *pongo2.Error {
	r := runOf(ctx)
	e := r.begin(ctx, n[0])
	if e.condition != nil {
		return n.executeIf(r, ctx, w)
	}
	values := make([]any, len(n[0].operands))
	for i, operand := range n[0].operands {
		v, err := operand.Evaluate(ctx)
		if err != nil {
			return err
		}
		if values[i] = plain(v); e.tag == "firstof" && v.IsTrue() {
			return r.print(w, values[i])
		}
	}
	switch e.tag {
	case "print":
		return r.print(w, values[0])
	case "text":
		w.WriteString(e.text)
	case "set":
		r.give(ctx, e, values)
	case "with":
		inner := pongo2.NewChildExecutionContext(ctx)
		r.give(inner, e, values)
		return n[0].body.Execute(inner, w)
	case "cycle":
		value := values[r.cycles[n[0].element]%len(values)]
		r.cycles[n[0].element]++
		r.give(ctx, e, []any{value})
		if !e.silent {
			return r.print(w, value)
		}
	case "now":
		layout, _ := values[0].(string)
		w.WriteString(time.Now().Format(layout))
	case "for":
		return n.executeFor(r, e, pongo2.NewChildExecutionContext(ctx), values[0], w)
	}
	return nil
}

// begin is called when an element is executed: it checks the clock, and that all that is read was supplied.
func (r *run) begin(ctx *pongo2.ExecutionContext, b branch) *element {
	r.element = b.element
	r.checkTime()
	e := r.template.elements[b.element]
	if !tagRules[e.tag].lenient {
		for _, p := range e.paths {
			if _, why := valueAt(ctx, p); why != "" {
				panic(r.template.fail(p.offset, "%s", why))
			}
		}
	}
	return e
}

func (r *run) print(w pongo2.TemplateWriter, value any) *pongo2.Error {
	text, err := textOf(value)
	if err != nil {
		panic(r.fail(err.Error()))
	}
	w.WriteString(text)
	return nil
}

// give gives the element's names to values, which could otherwise double with each turn of a loop.
func (r *run) give(ctx *pongo2.ExecutionContext, e *element, values []any) {
	for i, name := range e.names {
		if text, ok := values[i].(string); ok && len(text) > maxOutput {
			panic(r.fail(fmt.Sprintf("the value of %q would be longer than 1 MiB", name)))
		}
		ctx.Private[name] = values[i]
	}
}

// executeIf executes the first branch whose condition holds.
func (n node) executeIf(r *run, ctx *pongo2.ExecutionContext, w pongo2.TemplateWriter) *pongo2.Error {
	for _, b := range n {
		holds := yes
		if e := r.begin(ctx, b); e.condition != nil {
			var err *pongo2.Error
			if holds, err = (&evaluation{ctx, r, b.operands}).condition(e.condition); err != nil {
				return err
			}
		}
		if holds == yes {
			return b.body.Execute(ctx, w)
		}
	}
	return nil
}

// executeFor executes a loop: pongo2's, but with the members of an object in order and an eye on the clock.
func (n node) executeFor(r *run, e *element, ctx *pongo2.ExecutionContext, list any, w pongo2.TemplateWriter) *pongo2.Error {
	items, ok := itemsOf(list, e.sorted)
	if !ok {
		panic(r.fail("for needs a list, an object or a text"))
	}
	if len(items) == 0 && len(n) > 1 {
		return n[1].body.Execute(ctx, w)
	}
	if e.reversed {
		slices.Reverse(items)
	}
	loop := map[string]any{"parentloop": ctx.Private["forloop"]}
	ctx.Private["forloop"] = loop
	for i, item := range items {
		r.element = n[0].element
		r.checkTime()
		ctx.Private[e.names[0]] = item
		if object, ok := list.(map[string]any); ok && len(e.names) > 1 {
			ctx.Private[e.names[1]] = object[item.(string)]
		}
		loop["counter"], loop["counter0"] = i+1, i
		loop["revcounter"], loop["revcounter0"] = len(items)-i, len(items)-i-1
		loop["first"], loop["last"] = i == 0, i == len(items)-1
		if err := n[0].body.Execute(ctx, w); err != nil {
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

// valueAt returns the value at a path, or says what of it is not there.
func valueAt(ctx *pongo2.ExecutionContext, p path) (value any, why string) {
	value, ok := ctx.Private[p.segments[0]]
	if !ok {
		if value, ok = ctx.Public[p.segments[0]]; !ok {
			return nil, fmt.Sprintf("variable %q is not supplied", p)
		}
	}
	for i, segment := range p.segments[1:] {
		parent := strings.Join(p.segments[:i+1], ".")
		switch v := plain(value).(type) {
		case map[string]any:
			if value, ok = v[segment]; !ok {
				return nil, fmt.Sprintf("variable %q is not supplied: %q has no member %q", p, parent, segment)
			}
		case []any:
			index, err := strconv.Atoi(segment)
			if err != nil {
				return nil, fmt.Sprintf("variable %q is not supplied: %q is a list", p, parent)
			}
			if index >= len(v) {
				return nil, fmt.Sprintf("variable %q is not supplied: %q has %d elements", p, parent, len(v))
			}
			value = v[index]
		default:
			return nil, fmt.Sprintf("unknown variable %q: %q is not a list or object", p, parent)
		}
	}
	return plain(value), ""
}

// plain unwraps pongo2's values.
func plain(value any) any {
	if v, ok := value.(*pongo2.Value); ok {
		return v.Interface()
	}
	return value
}
