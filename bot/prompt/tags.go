package prompt

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"

	"github.com/flosch/pongo2/v6"
)

// templates is the set that all prompts belong to. Its loader has no files, and what could read one, recurse or multiply
// memory is banned besides being refused by the scanner: two locks on one door.
var templates = newSet()

// errNoFiles is what the loader says.
var errNoFiles = errors.New("templates cannot read files")

type noFiles struct{}

func (noFiles) Abs(_, name string) string          { return name }
func (noFiles) Get(name string) (io.Reader, error) { return nil, errNoFiles }

func newSet() *pongo2.TemplateSet {
	for name, parser := range map[string]pongo2.TagParser{
		"check": parseCheck, "size": parseSize, "print": parsePrint, "for": parseFor, "if": parseIf,
	} {
		must(pongo2.RegisterTag(ownPrefix+name, parser))
	}
	for name, filter := range filterRules {
		if filter != nil {
			must(pongo2.RegisterFilter(ownPrefix+name, filter))
		}
	}
	set := pongo2.NewSet("prompts", noFiles{})
	for _, tag := range []string{
		"ssi", "include", "import", "extends", "macro", "lorem", // files, recursion, text without bound
		"block",                            // hands out the execution context
		"filter", "spaceless", "ifchanged", // collect output where no limit sees it
		"for", // ours keeps maps in order and looks at the clock
		"if",  // ours compares only what can be compared
	} {
		must(set.BanTag(tag))
	}
	for _, filter := range []string{
		"center", "ljust", "rjust", "stringformat", "floatformat", "join", "add", // as long as an argument says
		"addslashes", "escapejs", // double and more with each use
		"truncatechars_html", "truncatewords_html", "removetags", "urlize", "urlizetrunc", // slow on long text
		"linebreaks", "linebreaksbr", "safe", "iriencode", "phone2numeric", // make no sense in a prompt
		"date", "time", "get_digit", "make_list", "random",
	} {
		must(set.BanFilter(filter))
	}
	return set
}

// must reports a mistake in this file.
func must(err error) {
	if err != nil {
		panic("prompt: " + err.Error())
	}
}

func runOf(ctx *pongo2.ExecutionContext) *run { return ctx.Public[runKey].(*run) }

// node is what all tags of this package have: the number of their element.
type node struct{ element int }

// parseNode reads the number that the scanner put first.
func parseNode(arguments *pongo2.Parser) (node, *pongo2.Error) {
	t := arguments.MatchType(pongo2.TokenNumber)
	if t == nil {
		return node{}, arguments.Error("the number of the element is missing", nil)
	}
	n, err := strconv.Atoi(t.Val)
	if err != nil {
		return node{}, arguments.Error("the number of the element is wrong", t)
	}
	return node{n}, nil
}

// begin is called when an element is executed: it looks at the clock and whether everything that is read was supplied.
func (n node) begin(ctx *pongo2.ExecutionContext) *pongo2.Error {
	r := runOf(ctx)
	r.element = n.element
	r.checkTime()
	for _, p := range r.template.elements[n.element].needs {
		if message := missing(ctx, p); message != "" {
			e := &Error{Template: r.template.name, Message: message}
			e.Line, e.Column = r.template.position(p.offset)
			return ctx.OrigError(e, nil)
		}
	}
	return nil
}

// missing says what of a path is not there.
func missing(ctx *pongo2.ExecutionContext, p path) string {
	_, why := lookup(ctx, p)
	return why
}

// lookup returns the value at a path, or says what of it is not there.
func lookup(ctx *pongo2.ExecutionContext, p path) (value any, why string) {
	ok := false
	if p.bound {
		value, ok = ctx.Private[p.segments[0]]
	}
	if !ok {
		value, ok = ctx.Public[p.segments[0]]
	}
	if !ok {
		return nil, fmt.Sprintf("variable %q is not supplied", p)
	}
	for i, segment := range p.segments[1:] {
		here := path{segments: p.segments[:i+1]}
		switch v := plain(value).(type) {
		case map[string]any:
			if value, ok = v[segment]; !ok {
				return nil, fmt.Sprintf("variable %q is not supplied: %q has no member %q", p, here, segment)
			}
		case []any:
			index, err := strconv.Atoi(segment)
			if err != nil {
				return nil, fmt.Sprintf("variable %q is not supplied: %q is a list", p, here)
			}
			if index >= len(v) {
				return nil, fmt.Sprintf("variable %q is not supplied: %q has %d elements", p, here, len(v))
			}
			value = v[index]
		default:
			return nil, fmt.Sprintf("unknown variable %q: %q is not a list or object", p, here)
		}
	}
	return plain(value), ""
}

// plain takes what pongo2 wraps around values out.
func plain(value any) any {
	for {
		v, ok := value.(*pongo2.Value)
		if !ok {
			return value
		}
		value = v.Interface()
	}
}

// checkNode stands in front of a tag.
type checkNode struct{ node }

func parseCheck(_ *pongo2.Parser, _ *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	n, err := parseNode(arguments)
	return &checkNode{n}, err
}

func (n *checkNode) Execute(ctx *pongo2.ExecutionContext, _ pongo2.TemplateWriter) *pongo2.Error {
	return n.begin(ctx)
}

// sizeNode stands behind set and with, whose values could otherwise double with each turn of a loop.
type sizeNode struct{ node }

func parseSize(_ *pongo2.Parser, _ *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	n, err := parseNode(arguments)
	return &sizeNode{n}, err
}

func (n *sizeNode) Execute(ctx *pongo2.ExecutionContext, _ pongo2.TemplateWriter) *pongo2.Error {
	for _, name := range runOf(ctx).template.elements[n.element].sized {
		if text, ok := plain(ctx.Private[name]).(string); ok && len(text) > maxOutput {
			panic(stopped{fmt.Sprintf("the value of %q would be longer than 1 MiB", name)})
		}
	}
	return nil
}

// printNode is {{ expression }}.
type printNode struct {
	node
	expression pongo2.IEvaluator
}

func parsePrint(_ *pongo2.Parser, _ *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	n, err := parseNode(arguments)
	if err != nil {
		return nil, err
	}
	expression, err := arguments.ParseExpression()
	if err != nil {
		return nil, err
	}
	if t := arguments.Current(); t != nil {
		return nil, arguments.Error(fmt.Sprintf("unexpected %q after the expression", t.Val), t)
	}
	return &printNode{n, expression}, nil
}

func (n *printNode) Execute(ctx *pongo2.ExecutionContext, w pongo2.TemplateWriter) *pongo2.Error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	value, err := n.expression.Evaluate(ctx)
	if err != nil {
		return err
	}
	text, problem := textOf(value.Interface())
	if problem != nil {
		return ctx.OrigError(problem, n.expression.GetPositionToken())
	}
	w.WriteString(text)
	return nil
}

// forNode is {% for name in list %}: pongo2's, but with the members of a map in order and an eye on the clock.
type forNode struct {
	node
	first, second    string // names; second only for maps
	list             pongo2.IEvaluator
	reversed, sorted bool
	body, empty      *pongo2.NodeWrapper
}

func parseFor(doc *pongo2.Parser, start *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	n, err := parseNode(arguments)
	if err != nil {
		return nil, err
	}
	loop := &forNode{node: n}
	name := arguments.MatchType(pongo2.TokenIdentifier)
	if name == nil {
		return nil, arguments.Error("for needs the form: for NAME in LIST", nil)
	}
	loop.first = name.Val
	if arguments.Match(pongo2.TokenSymbol, ",") != nil {
		if name = arguments.MatchType(pongo2.TokenIdentifier); name == nil {
			return nil, arguments.Error("a second name is expected after the comma", nil)
		}
		loop.second = name.Val
	}
	if arguments.Match(pongo2.TokenKeyword, "in") == nil {
		return nil, arguments.Error("for needs the form: for NAME in LIST", nil)
	}
	if loop.list, err = arguments.ParseExpression(); err != nil {
		return nil, err
	}
	loop.reversed = arguments.Match(pongo2.TokenIdentifier, "reversed") != nil
	loop.sorted = arguments.Match(pongo2.TokenIdentifier, "sorted") != nil
	if t := arguments.Current(); t != nil {
		return nil, arguments.Error(fmt.Sprintf("unexpected %q in for", t.Val), t)
	}
	if loop.body, _, err = doc.WrapUntilTag("empty", "endfor"); err != nil {
		return nil, err
	}
	if loop.body.Endtag == "empty" {
		if loop.empty, _, err = doc.WrapUntilTag("endfor"); err != nil {
			return nil, err
		}
	}
	return loop, nil
}

func (n *forNode) Execute(ctx *pongo2.ExecutionContext, w pongo2.TemplateWriter) *pongo2.Error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	inner := pongo2.NewChildExecutionContext(ctx)
	value, err := n.list.Evaluate(inner)
	if err != nil {
		return err
	}
	firsts, seconds, problem := items(value.Interface(), n.sorted)
	if problem != nil {
		return ctx.OrigError(problem, n.list.GetPositionToken())
	}
	if len(firsts) == 0 {
		if n.empty != nil {
			return n.empty.Execute(inner, w)
		}
		return nil
	}
	if n.reversed {
		slices.Reverse(firsts)
		slices.Reverse(seconds)
	}
	r := runOf(ctx)
	loop := map[string]any{}
	if outer, ok := ctx.Private["forloop"]; ok {
		loop["parentloop"], loop["Parentloop"] = outer, outer
	}
	inner.Private["forloop"] = loop
	for i := range firsts {
		r.element = n.element
		r.checkTime()
		inner.Private[n.first] = firsts[i]
		if seconds != nil && n.second != "" {
			inner.Private[n.second] = seconds[i]
		}
		// Both Django's names and pongo2's.
		loop["counter"], loop["Counter"] = i+1, i+1
		loop["counter0"], loop["Counter0"] = i, i
		loop["revcounter"], loop["Revcounter"] = len(firsts)-i, len(firsts)-i
		loop["revcounter0"], loop["Revcounter0"] = len(firsts)-i-1, len(firsts)-i-1
		loop["first"], loop["First"] = i == 0, i == 0
		loop["last"], loop["Last"] = i == len(firsts)-1, i == len(firsts)-1
		if err := n.body.Execute(inner, w); err != nil {
			return err
		}
	}
	return nil
}

// items lists what a loop goes over: the elements of a list, the members of an object by name, the characters of a text.
func items(value any, sorted bool) (firsts, seconds []any, err error) {
	switch v := value.(type) {
	case nil:
	case []any:
		firsts = slices.Clone(v)
	case []string:
		for _, s := range v {
			firsts = append(firsts, s)
		}
	case string:
		for _, r := range v {
			firsts = append(firsts, string(r))
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			firsts, seconds = append(firsts, name), append(seconds, v[name])
		}
		return firsts, seconds, nil
	default:
		return nil, nil, errors.New("for needs a list, an object or a text")
	}
	if sorted {
		sort.SliceStable(firsts, func(i, j int) bool { return less(firsts[i], firsts[j]) })
	}
	return firsts, nil, nil
}

func less(a, b any) bool {
	x, xOK := float(a)
	y, yOK := float(b)
	if xOK && yOK {
		return x < y
	}
	s, _ := textOf(a)
	t, _ := textOf(b)
	return s < t
}
