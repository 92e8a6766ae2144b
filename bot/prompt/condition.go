package prompt

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flosch/pongo2/v6"
)

// pongo2 takes a missing value, and text that is no number, for 0 in a comparison, gives "and" and "or" one precedence, and reads
// "not a == b" as "(not a) == b". So the conditions of if and elif are parsed and evaluated here; pongo2 evaluates only the operands.
//
// A comparison whose sides cannot be compared is neither true nor false. "not" does not change that, "and" and "or" ignore it where
// the other side decides, and a condition that is unclear in the end does not hold.

// truth is the outcome of a condition.
type truth int8

const (
	no truth = iota
	unclear
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// condition is a node of a parsed condition.
type condition struct {
	op          string // "and", "or", "not", a comparison, or "" for an operand
	left, right *condition
	operand     operand
	text        string // of a comparison, as it is written
}

// operand is a part of a condition that pongo2 evaluates.
type operand struct {
	index   int
	tokens  []token
	needs   []path // that must be there where it is compared
	numbers []path // of them, those that it calculates with
}

// comparisons are the operators between two operands.
var comparisons = []string{"==", "!=", "<>", "<", "<=", ">", ">="}

// conditionParser reads the tokens of a condition.
type conditionParser struct {
	scanner  *scanner
	tokens   []token
	pos      int
	end      int // offset after the condition
	operands []*condition
}

// condition parses the arguments of an if or elif that end at offset end.
func (s *scanner) condition(tokens []token, at token, end int) (*conditionParser, *Error) {
	p := &conditionParser{scanner: s, tokens: tokens, end: end}
	if len(tokens) == 0 {
		return nil, s.fail(at.offset, "%s needs a condition", at.text)
	}
	for _, t := range tokens {
		if t.is("=") {
			return nil, s.fail(t.offset, `unexpected "=" in the condition; did you mean "=="?`)
		}
	}
	c, failure := p.or()
	if failure == nil && p.pos < len(tokens) {
		failure = s.fail(tokens[p.pos].offset, "unexpected %q in the condition", tokens[p.pos].text)
	}
	if failure != nil {
		return nil, failure
	}
	p.needs()
	s.elements[len(s.elements)-1].condition = c
	return p, nil
}

// next says whether the next token is one of words, keywords or symbols.
func (p *conditionParser) next(words ...string) bool {
	if p.pos >= len(p.tokens) {
		return false
	}
	t := p.tokens[p.pos]
	return (t.kind == keyword || t.kind == symbol) && slices.Contains(words, t.text)
}

func (p *conditionParser) or() (*condition, *Error) { return p.chain(p.and, "or", "||") }

func (p *conditionParser) and() (*condition, *Error) { return p.chain(p.not, "and", "&&") }

// chain reads one or more conditions that an operator, which has two spellings, joins.
func (p *conditionParser) chain(each func() (*condition, *Error), op, sign string) (*condition, *Error) {
	left, failure := each()
	for failure == nil && p.next(op, sign) {
		p.pos++
		var right *condition
		right, failure = each()
		left = &condition{op: op, left: left, right: right}
	}
	return left, failure
}

func (p *conditionParser) not() (*condition, *Error) {
	if !p.next("not", "!") {
		return p.comparison()
	}
	p.pos++
	c, failure := p.not()
	return &condition{op: "not", left: c}, failure
}

func (p *conditionParser) comparison() (*condition, *Error) {
	first := p.pos
	left, failure := p.value()
	if failure != nil {
		return nil, failure
	}
	op, negated := "", false
	switch {
	case p.next(comparisons...):
		op = p.tokens[p.pos].text
	case p.next("in"):
		op = "in"
	case p.next("not") && p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].kind == keyword && p.tokens[p.pos+1].text == "in":
		op, negated = "in", true
		p.pos++
	default:
		return left, nil
	}
	p.pos++
	right, failure := p.value()
	if failure != nil {
		return nil, failure
	}
	c := &condition{op: op, left: left, right: right}
	c.text = strings.TrimSpace(p.scanner.text[p.tokens[first].offset:p.offset(p.pos)])
	if p.next(comparisons...) || p.next("in") {
		return nil, p.scanner.fail(p.tokens[p.pos].offset, "a comparison has two sides; join two comparisons with and")
	}
	if negated {
		c = &condition{op: "not", left: c}
	}
	return c, nil
}

// offset is where token i begins, or the condition ends.
func (p *conditionParser) offset(i int) int {
	if i < len(p.tokens) {
		return p.tokens[i].offset
	}
	return p.end
}

// value reads an operand, or a condition in parentheses.
func (p *conditionParser) value() (*condition, *Error) {
	first := p.pos
	depth, groupEnd := 0, -1
	for ; p.pos < len(p.tokens); p.pos++ {
		t := p.tokens[p.pos]
		if t.is("(", "[") {
			depth++
			continue
		}
		if t.is(")", "]") {
			if depth == 0 {
				break // of the group around
			}
			if depth--; depth == 0 && p.tokens[first].is("(") && groupEnd < 0 {
				groupEnd = p.pos
			}
			continue
		}
		if depth == 0 && (t.is(append([]string{"&&", "||", "!", ","}, comparisons...)...) || t.kind == keyword && t.text != "true" && t.text != "false") {
			break
		}
	}
	if p.pos == first {
		if first < len(p.tokens) {
			return nil, p.scanner.fail(p.tokens[first].offset, "expected a value before %q", p.tokens[first].text)
		}
		return nil, p.scanner.fail(p.end, "expected a value at the end of the condition")
	}
	if groupEnd == p.pos-1 {
		p.pos = first + 1
		c, failure := p.or()
		if failure == nil && p.pos != groupEnd {
			failure = p.scanner.fail(p.tokens[p.pos].offset, "unexpected %q in the condition", p.tokens[p.pos].text)
		}
		p.pos = groupEnd + 1
		return c, failure
	}
	c := &condition{operand: operand{index: len(p.operands), tokens: p.tokens[first:p.pos]}}
	p.operands = append(p.operands, c)
	return c, nil
}

// write writes the operands for pongo2, commas between, and the end of the tag, which ends at offset end.
func (p *conditionParser) write(end int) {
	s := p.scanner
	for i, c := range p.operands {
		if i > 0 {
			s.out.WriteString(", ")
		}
		tokens := c.operand.tokens
		last := tokens[len(tokens)-1]
		after := last.offset + len(last.text)
		if last.kind == text {
			after, _ = s.quoted(last.offset) // it was read before
		}
		s.rename(tokens[0].offset, after, tokens)
	}
	s.insert(" ", p.end)
	s.out.WriteString(s.text[p.end:end])
}

// needs notes what the operands read.
func (p *conditionParser) needs() {
	for _, c := range p.operands {
		o := &c.operand
		calculates := slices.ContainsFunc(o.tokens[1:], func(t token) bool { return t.is("-", "*", "/", "%", "^") })
		for i := 0; i < len(o.tokens); i++ {
			t := o.tokens[i]
			if i > 0 && o.tokens[i-1].is("|", ".") || t.kind != identifier {
				continue
			}
			read, end := readPath(o.tokens, i)
			read.bound = p.scanner.bound(t.text)
			if !hasDefault(o.tokens, end) {
				o.needs = append(o.needs, read)
				if calculates && (end == len(o.tokens) || !o.tokens[end].is("|", "[", ".")) {
					o.numbers = append(o.numbers, read)
				}
			}
			i = end - 1
		}
	}
}

// ifNode is {% if %}.
type ifNode struct {
	branches []branch
	other    *pongo2.NodeWrapper
}

// branch is an if or elif: the element that holds its condition, the operands, and what it guards.
type branch struct {
	node
	operands []pongo2.IEvaluator
	body     *pongo2.NodeWrapper
}

func parseIf(doc *pongo2.Parser, _ *pongo2.Token, arguments *pongo2.Parser) (pongo2.INodeTag, *pongo2.Error) {
	n := &ifNode{}
	for {
		b, err := parseBranch(arguments)
		if err != nil {
			return nil, err
		}
		if b.body, arguments, err = doc.WrapUntilTag("elif", "else", "endif"); err != nil {
			return nil, err
		}
		n.branches = append(n.branches, b)
		switch b.body.Endtag {
		case "endif":
			return n, nil
		case "else":
			n.other, _, err = doc.WrapUntilTag("endif")
			return n, err
		}
	}
}

func parseBranch(arguments *pongo2.Parser) (b branch, err *pongo2.Error) {
	if b.node, err = parseNode(arguments); err != nil {
		return b, err
	}
	for {
		operand, err := arguments.ParseExpression()
		if err != nil {
			return b, err
		}
		b.operands = append(b.operands, operand)
		if t := arguments.Current(); t == nil {
			return b, nil
		} else if arguments.Match(pongo2.TokenSymbol, ",") == nil {
			return b, arguments.Error(fmt.Sprintf("unexpected %q in the condition", t.Val), t)
		}
	}
}

func (n *ifNode) Execute(ctx *pongo2.ExecutionContext, w pongo2.TemplateWriter) *pongo2.Error {
	for _, b := range n.branches {
		if err := b.begin(ctx); err != nil {
			return err
		}
		r := runOf(ctx)
		e := evaluation{ctx: ctx, run: r, operands: b.operands}
		holds, err := e.condition(r.template.elements[b.element].condition)
		if err != nil {
			return err
		}
		if holds == yes {
			return b.body.Execute(ctx, w)
		}
	}
	if n.other != nil {
		return n.other.Execute(ctx, w)
	}
	return nil
}

// evaluation evaluates one condition.
type evaluation struct {
	ctx      *pongo2.ExecutionContext
	run      *run
	operands []pongo2.IEvaluator
}

func (e *evaluation) condition(c *condition) (truth, *pongo2.Error) {
	switch c.op {
	case "":
		v, err := e.operands[c.operand.index].Evaluate(e.ctx)
		if err != nil {
			return no, err
		}
		return truthOf(v.IsTrue()), nil
	case "not":
		t, err := e.condition(c.left)
		return yes - t, err
	case "and", "or":
		left, err := e.condition(c.left)
		decided := no
		if c.op == "or" {
			decided = yes
		}
		if err != nil || left == decided {
			return left, err
		}
		right, err := e.condition(c.right)
		if c.op == "or" {
			return max(left, right), err
		}
		return min(left, right), err
	}
	left, missing, err := e.value(c.left)
	if err != nil {
		return no, err
	}
	right, absent, err := e.value(c.right)
	if err != nil {
		return no, err
	}
	for _, why := range []string{missing, absent} {
		if why != "" {
			return e.doubt(c, why), nil
		}
	}
	return e.compare(c, left, right)
}

// doubt notes why a comparison is neither true nor false; the first is kept.
func (e *evaluation) doubt(c *condition, why string) truth {
	if e.run.doubt == "" {
		e.run.doubt = fmt.Sprintf("%q: %s", c.text, why)
	}
	return unclear
}

// value evaluates one side of a comparison. why is "" unless something is missing for it.
func (e *evaluation) value(c *condition) (value any, why string, err *pongo2.Error) {
	if c.op != "" {
		t, err := e.condition(c)
		if t == unclear {
			return nil, "one side of it is unclear", err
		}
		return t == yes, "", err
	}
	for _, p := range c.operand.needs {
		found, why := lookup(e.ctx, p)
		switch {
		case why != "" || found == nil:
			return nil, fmt.Sprintf("%s is missing", p), nil
		case slices.ContainsFunc(c.operand.numbers, func(q path) bool { return q.offset == p.offset }) && kindOf(found) != "a number":
			return nil, fmt.Sprintf("%s is %s and no number", p, kindOf(found)), nil
		}
	}
	v, err := e.operands[c.operand.index].Evaluate(e.ctx)
	if err != nil {
		return nil, "", err
	}
	if value = plain(v); value == nil {
		return nil, "a value is missing", nil
	}
	return value, "", nil
}

// kindOf names the type of a value.
func kindOf(value any) string {
	if _, ok := float(value); ok {
		return "a number"
	}
	switch reflect.ValueOf(value).Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "an object"
	}
	return "something else"
}

func (e *evaluation) compare(c *condition, left, right any) (truth, *pongo2.Error) {
	a, b := kindOf(left), kindOf(right)
	if c.op == "in" {
		switch {
		case b == "a list":
			list := reflect.ValueOf(right)
			for i := range list.Len() {
				element := list.Index(i).Interface()
				if simple(a) && kindOf(element) == a && order(left, element) == 0 {
					return yes, nil
				}
			}
			return no, nil
		case b == "text" && a == "text":
			return truthOf(strings.Contains(right.(string), left.(string))), nil
		case b == "an object" && a == "text":
			return truthOf(reflect.ValueOf(right).MapIndex(reflect.ValueOf(left)).IsValid()), nil
		}
		return e.doubt(c, fmt.Sprintf("%s cannot be in %s", a, b)), nil
	}
	if a != b {
		return e.doubt(c, fmt.Sprintf("%s cannot be compared with %s", a, b)), nil
	}
	if !simple(a) {
		return no, e.ctx.OrigError(e.run.errorAt("lists and objects cannot be compared"), nil)
	}
	o := order(left, right)
	switch c.op {
	case "==":
		return truthOf(o == 0), nil
	case "!=", "<>":
		return truthOf(o != 0), nil
	}
	if a == "true or false" {
		return e.doubt(c, "true and false have no order"), nil
	}
	switch c.op {
	case "<":
		return truthOf(o < 0), nil
	case "<=":
		return truthOf(o <= 0), nil
	case ">":
		return truthOf(o > 0), nil
	default:
		return truthOf(o >= 0), nil
	}
}

// simple says whether values of the kind can be compared.
func simple(kind string) bool {
	return kind == "a number" || kind == "text" || kind == "true or false"
}

// order compares two simple values of one kind.
func order(a, b any) int {
	switch x := a.(type) {
	case string:
		return strings.Compare(x, b.(string))
	case bool:
		if x == b.(bool) {
			return 0
		}
		return 1
	case int:
		if y, ok := b.(int); ok {
			return cmp.Compare(x, y)
		}
	}
	x, _ := float(a)
	y, _ := float(b)
	return cmp.Compare(x, y)
}
