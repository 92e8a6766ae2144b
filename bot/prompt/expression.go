package prompt

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flosch/pongo2/v6"

	"github.com/lingserve/lingserve/internal/edits"
)

// expression is what pongo2 evaluates: one value, or a list of them.
type expression struct {
	offset     int // of its element
	code       *pongo2.Template
	required   []path // what it reads that must be supplied
	calculates bool
}

const (
	prefix    = "lingserve_"      // of this package's tags and filters in pongo2
	valueTag  = prefix + "value"  // pongo2's tag for one value
	valuesTag = prefix + "values" // pongo2's tag for a list of them
	sinkKey   = prefix + "sink"   // the name, which no template can read, of the *[]any that gets them
)

// templates is the set that all expressions belong to. It has no files, and it bans the tags that could read one, although the parser
// lets none of pongo2's own tags through.
var templates = newSet()

type noFiles struct{}

func (noFiles) Abs(_, name string) string { return name }
func (noFiles) Get(string) (io.Reader, error) {
	return nil, errors.New("templates cannot read files")
}

func newSet() *pongo2.TemplateSet {
	set := pongo2.NewSet("prompts", noFiles{})
	err := errors.Join(pongo2.RegisterTag(valueTag, parseValues), pongo2.RegisterTag(valuesTag, parseValues))
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

// valuesNode is the only node of pongo2's template.
type valuesNode []pongo2.IEvaluator

func parseValues(_ *pongo2.Parser, start *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	var n valuesNode
	for arguments.Remaining() > 0 {
		if start.Val == valueTag && len(n) > 0 {
			return nil, &pongo2.Error{OrigError: fmt.Errorf("unexpected %q after the expression", arguments.Current().Val)}
		}
		v, err := arguments.ParseExpression()
		if err != nil {
			return nil, err
		}
		n = append(n, v)
	}
	return n, nil
}

func (n valuesNode) Execute(ctx *pongo2.ExecutionContext, _ pongo2.TemplateWriter) *pongo2.Error {
	sink := ctx.Public[sinkKey].(*[]any)
	for _, evaluator := range n {
		v, err := evaluator.Evaluate(ctx)
		if err != nil {
			return err
		}
		*sink = append(*sink, plain(v))
	}
	return nil
}

// expression reads an expression, or a list of them, in the element at offset.
func (p *parser) expression(offset int, tokens []token, list bool) (*expression, error) {
	x := &expression{offset: offset}
	words := []string{"{%", valueTag}
	if list {
		words[1] = valuesTag
	}
	for i, t := range tokens {
		word := t.text
		filter, isFilter := filters[word]
		switch {
		case t.is(",", "="):
			return nil, p.fail(t.offset, "unexpected %q", t.text)
		case i > 0 && t.is("-", "*", "/", "%", "^"):
			x.calculates = true
		case i > 0 && tokens[i-1].is("|"):
			if !isFilter {
				return nil, p.fail(t.offset, "unknown filter %q%s", word, edits.DidYouMean(word, slices.Sorted(maps.Keys(filters)), ""))
			}
			if filter != nil {
				word = prefix + word
			}
		}
		words = append(words, word)
	}
	if err := p.paths(x, tokens); err != nil {
		return nil, err
	}
	var err error
	if x.code, err = templates.FromString(strings.Join(append(words, "%}"), " ")); err != nil {
		return nil, p.fail(offset, "%s", tidy(err))
	}
	return x, nil
}

var loopMembers = []string{"counter", "counter0", "revcounter", "revcounter0", "first", "last", "parentloop"}

// paths notes the paths that tokens read; those that have no default must be supplied.
func (p *parser) paths(x *expression, tokens []token) error {
	for i := 0; i < len(tokens); i++ {
		if !tokens[i].name() || i > 0 && tokens[i-1].is("|", ".") {
			continue
		}
		read := path{segments: []string{tokens[i].text}, offset: tokens[i].offset}
		for ; i+2 < len(tokens) && tokens[i+1].is(".") && tokens[i+2].word(); i += 2 {
			read.segments = append(read.segments, tokens[i+2].text)
		}
		read.filtered = i+1 < len(tokens) && tokens[i+1].is("|")
		root := read.segments[0]
		if root == "forloop" && len(read.segments) > 1 && p.bound(root) && !slices.Contains(loopMembers, read.segments[1]) {
			return p.fail(read.offset, "forloop has no %q; expected one of %s", read.segments[1], strings.Join(loopMembers, ", "))
		}
		p.roots[root] = true
		if _, ok := p.reads[read.String()]; !ok && !p.bound(root) {
			p.reads[read.String()] = read
		}
		if !hasDefault(tokens[i+1:]) {
			x.required = append(x.required, read)
		}
	}
	return nil
}

// hasDefault reports whether the filters that tokens begin with supply a value themselves.
func hasDefault(tokens []token) bool {
	for i := 0; i+1 < len(tokens) && tokens[i].is("|", ":", "."); i += 2 {
		if tokens[i].is("|") && tokens[i+1].is("default", "default_if_none") {
			return true
		}
	}
	return false
}

// evaluate returns the values of an expression, one if it is no list. It is strict if all that the expression requires must be supplied.
func (r *run) evaluate(x *expression, strict bool) (values []any, err error) {
	for _, p := range x.required {
		if _, problem, missing := r.valueAt(p); problem != "" && (strict || !missing) {
			return nil, r.template.fail(p.offset, "%s", problem)
		}
	}
	defer func() {
		if p := recover(); p != nil { // pongo2 panics itself
			err = r.template.fail(x.offset, "%s", panicMessage(fmt.Sprint(p)))
		}
	}()
	r.vars[sinkKey] = &values
	if err := x.code.ExecuteWriterUnbuffered(r.vars, io.Discard); err != nil {
		return nil, r.template.fail(x.offset, "%s", tidy(err))
	}
	return values, nil
}

// valueAt returns the value at a path. If it has no value, problem says why, and missing reports whether the path could have been supplied.
func (r *run) valueAt(p path) (value any, problem string, missing bool) {
	value, ok := r.vars[p.segments[0]]
	if !ok {
		return nil, fmt.Sprintf("variable %q is not supplied", p), true
	}
	for i, segment := range p.segments[1:] {
		parent := strings.Join(p.segments[:i+1], ".")
		problem := fmt.Sprintf("variable %q is not supplied: %q", p, parent)
		switch v := value.(type) {
		case map[string]any:
			if value, ok = v[segment]; !ok {
				return nil, fmt.Sprintf("%s has no member %q", problem, segment), true
			}
		case []any:
			index, err := strconv.Atoi(segment)
			if err != nil {
				return nil, problem + " is a list", false
			}
			if index >= len(v) {
				return nil, fmt.Sprintf("%s has %d elements", problem, len(v)), true
			}
			value = v[index]
		default:
			return nil, fmt.Sprintf("unknown variable %q: %q is not a list or object", p, parent), v == nil
		}
	}
	return value, "", false
}

// plain unwraps pongo2's values.
func plain(value any) any {
	if v, ok := value.(*pongo2.Value); ok {
		return v.Interface()
	}
	return value
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

// tidy brings pongo2's errors into the form of ours.
func tidy(err error) string {
	for e, ok := err.(*pongo2.Error); ok; e, ok = err.(*pongo2.Error) {
		err = e.OrigError
	}
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
