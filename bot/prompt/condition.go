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

// truth is the value of a condition.
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
	text        string // of a comparison, as it is written
	operand     int    // index of the expression that pongo2 evaluates
	paths       []path // that must be there where the operand is compared
	calculates  bool   // the operand is a calculation
}

var (
	comparisons = []string{"==", "!=", "<>", "<", "<=", ">", ">="}
	operators   = append([]string{"and", "&&", "or", "||", "not", "!", "in", "as", ","}, comparisons...)
)

// conditionParser reads the tokens of a condition.
type conditionParser struct {
	*parser
	element *element
	tokens  []token
	next    int
}

// condition parses the arguments of an if or elif.
func (p *parser) condition(e *element, name token, tokens []token) (failure *Error) {
	if len(tokens) == 0 {
		return p.fail(name.offset, "%s needs a condition", name.text)
	}
	for _, t := range tokens {
		if t.is("=") {
			return p.fail(t.offset, `unexpected "=" in the condition; did you mean "=="?`)
		}
	}
	e.condition, failure = (&conditionParser{parser: p, element: e, tokens: tokens}).all()
	e.paths = nil // what is missing does not hold
	return failure
}

// all reads a condition that takes all tokens.
func (c *conditionParser) all() (*condition, *Error) {
	out, failure := c.or()
	if failure == nil && c.next < len(c.tokens) {
		failure = c.fail(c.tokens[c.next].offset, "unexpected %q in the condition", c.tokens[c.next].text)
	}
	return out, failure
}

// nextIs reports whether the next token is one of texts.
func (c *conditionParser) nextIs(texts ...string) bool {
	return c.next < len(c.tokens) && c.tokens[c.next].is(texts...)
}

func (c *conditionParser) or() (*condition, *Error) { return c.chain(c.and, "or", "||") }

func (c *conditionParser) and() (*condition, *Error) { return c.chain(c.not, "and", "&&") }

// chain reads one or more conditions that an operator, which has two spellings, joins.
func (c *conditionParser) chain(read func() (*condition, *Error), op, sign string) (*condition, *Error) {
	left, failure := read()
	for failure == nil && c.nextIs(op, sign) {
		c.next++
		var right *condition
		right, failure = read()
		left = &condition{op: op, left: left, right: right}
	}
	return left, failure
}

func (c *conditionParser) not() (*condition, *Error) {
	negated := false
	for ; c.nextIs("not", "!"); c.next++ {
		negated = !negated
	}
	out, failure := c.comparison()
	if negated {
		out = &condition{op: "not", left: out}
	}
	return out, failure
}

func (c *conditionParser) comparison() (*condition, *Error) {
	first := c.next
	left, failure := c.value()
	if failure != nil {
		return nil, failure
	}
	negated := c.nextIs("not") && c.next+1 < len(c.tokens) && c.tokens[c.next+1].is("in")
	if negated {
		c.next++
	}
	if !c.nextIs("in") && !c.nextIs(comparisons...) {
		return left, nil
	}
	out := &condition{op: c.tokens[c.next].text, left: left}
	c.next++
	if out.right, failure = c.value(); failure != nil {
		return nil, failure
	}
	out.text = c.text[c.tokens[first].offset:c.tokens[c.next-1].end()]
	if c.nextIs("in") || c.nextIs(comparisons...) {
		return nil, c.fail(c.tokens[c.next].offset, "a comparison has two sides; join two comparisons with and")
	}
	if negated {
		out = &condition{op: "not", left: out}
	}
	return out, nil
}

// value reads an operand, or a condition in parentheses.
func (c *conditionParser) value() (*condition, *Error) {
	first := c.next
	for ; c.next < len(c.tokens) && !c.nextIs(operators...); c.next++ {
		if c.nextIs("(", "[") {
			c.next = matching(c.tokens, c.next)
		}
	}
	tokens := c.tokens[first:c.next]
	switch {
	case len(tokens) == 0 && first < len(c.tokens):
		return nil, c.fail(c.tokens[first].offset, "expected a value before %q", c.tokens[first].text)
	case len(tokens) == 0:
		return nil, c.fail(c.tokens[first-1].end(), "expected a value at the end of the condition")
	case len(tokens) > 2 && tokens[0].is("(") && matching(tokens, 0) == len(tokens)-1:
		return (&conditionParser{parser: c.parser, element: c.element, tokens: tokens[1 : len(tokens)-1]}).all()
	}
	c.element.paths = nil
	out := &condition{operand: len(c.element.operands)}
	failure := c.parser.operand(c.element, tokens)
	out.paths = c.element.paths
	out.calculates = slices.ContainsFunc(tokens[1:], func(t token) bool { return t.is("-", "*", "/", "%", "^") })
	return out, failure
}

// evaluation evaluates the condition of one element.
type evaluation struct {
	ctx      *pongo2.ExecutionContext
	run      *run
	operands []pongo2.IEvaluator
}

func (e *evaluation) condition(c *condition) (truth, *pongo2.Error) {
	switch c.op {
	case "":
		v, err := e.operands[c.operand].Evaluate(e.ctx)
		if err != nil {
			return no, err
		}
		return truthOf(v.IsTrue()), nil
	case "not":
		t, err := e.condition(c.left)
		return yes - t, err
	case "and":
		left, err := e.condition(c.left)
		if err != nil || left == no {
			return left, err
		}
		right, err := e.condition(c.right)
		return min(left, right), err
	case "or":
		left, err := e.condition(c.left)
		if err != nil || left == yes {
			return left, err
		}
		right, err := e.condition(c.right)
		return max(left, right), err
	}
	left, why, err := e.value(c.left)
	if err != nil {
		return no, err
	}
	right, whyRight, err := e.value(c.right)
	if err != nil {
		return no, err
	}
	out := unclear
	if why = cmp.Or(why, whyRight); why == "" {
		out, why = compare(c.op, left, right)
	}
	if why != "" && e.run.doubt == "" {
		e.run.doubt = fmt.Sprintf("%q: %s", c.text, why)
	}
	return out, nil
}

// value evaluates one side of a comparison. why is "" unless the side has no value to compare.
func (e *evaluation) value(c *condition) (value any, why string, err *pongo2.Error) {
	if c.op != "" {
		t, err := e.condition(c)
		if t == unclear {
			return nil, "one side of it is unclear", err
		}
		return t == yes, "", err
	}
	for _, p := range c.paths {
		found, missing := valueAt(e.ctx, p)
		if missing != "" || found == nil {
			return nil, fmt.Sprintf("%s is missing", p), nil
		}
		if kind := kindOf(found); c.calculates && (kind == "text" || kind == "true or false") {
			return nil, fmt.Sprintf("%s is %s and no number", p, kind), nil
		}
	}
	v, err := e.operands[c.operand].Evaluate(e.ctx)
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
	}
	return "an object"
}

// compare compares two values. why says why they cannot be compared.
func compare(op string, left, right any) (out truth, why string) {
	a, b := kindOf(left), kindOf(right)
	if op == "in" {
		switch {
		case b == "a list":
			list := reflect.ValueOf(right)
			for i := range list.Len() {
				if t, why := compare("==", left, list.Index(i).Interface()); why == "" && t == yes {
					return yes, ""
				}
			}
			return no, ""
		case a == "text" && b == "text":
			return truthOf(strings.Contains(right.(string), left.(string))), ""
		case a == "text" && b == "an object":
			return truthOf(reflect.ValueOf(right).MapIndex(reflect.ValueOf(left)).IsValid()), ""
		}
		return unclear, fmt.Sprintf("%s cannot be in %s", a, b)
	}
	order := 0
	switch {
	case a != b:
		return unclear, fmt.Sprintf("%s cannot be compared with %s", a, b)
	case a == "a list" || a == "an object":
		return unclear, "lists and objects cannot be compared"
	case a == "true or false":
		if op != "==" && op != "!=" && op != "<>" {
			return unclear, "true and false have no order"
		}
		if left != right {
			order = 1
		}
	case a == "text":
		order = strings.Compare(left.(string), right.(string))
	default:
		order = compareNumbers(left, right)
	}
	switch op {
	case "==":
		return truthOf(order == 0), ""
	case "<":
		return truthOf(order < 0), ""
	case "<=":
		return truthOf(order <= 0), ""
	case ">":
		return truthOf(order > 0), ""
	case ">=":
		return truthOf(order >= 0), ""
	}
	return truthOf(order != 0), ""
}

func compareNumbers(a, b any) int {
	x, isInt := a.(int)
	y, isIntToo := b.(int)
	if isInt && isIntToo {
		return cmp.Compare(x, y)
	}
	f, _ := float(a)
	g, _ := float(b)
	return cmp.Compare(f, g)
}
