package prompt

import (
	"cmp"
	"fmt"
	"maps"
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

// condition is a node of a parsed condition. A nil condition always holds.
type condition struct {
	op          string // "and", "or", "not", a comparison, or "" for an operand
	left, right *condition
	text        string // of a comparison, as it is written
	operand     *expression
}

// comparisons decide by the order of the two sides: negative where the left one comes first, 0 where they are equal.
var comparisons = map[string]func(order int) bool{
	"==": func(order int) bool { return order == 0 },
	"!=": func(order int) bool { return order != 0 },
	"<>": func(order int) bool { return order != 0 },
	"<":  func(order int) bool { return order < 0 },
	"<=": func(order int) bool { return order <= 0 },
	">":  func(order int) bool { return order > 0 },
	">=": func(order int) bool { return order >= 0 },
}

var operators = slices.AppendSeq([]string{"and", "&&", "or", "||", "not", "!", "in", "as", ","}, maps.Keys(comparisons))

// conditionParser reads the tokens of a condition.
type conditionParser struct {
	*parser
	tag    token // the if or elif
	tokens []token
	next   int
}

// condition parses the arguments of an if or elif.
func (p *parser) condition(tag token, tokens []token) (*condition, error) {
	if len(tokens) == 0 {
		return nil, p.fail(tag.offset, "%s needs a condition", tag.text)
	}
	for _, t := range tokens {
		if t.is("=") {
			return nil, p.fail(t.offset, `unexpected "=" in the condition; did you mean "=="?`)
		}
	}
	return (&conditionParser{parser: p, tag: tag, tokens: tokens}).all()
}

// all reads a condition that takes all tokens.
func (c *conditionParser) all() (*condition, error) {
	out, err := c.or()
	if err == nil && c.next < len(c.tokens) {
		err = c.fail(c.tokens[c.next].offset, "unexpected %q in the condition", c.tokens[c.next].text)
	}
	return out, err
}

// nextIs reports whether the next token is one of texts.
func (c *conditionParser) nextIs(texts ...string) bool {
	return c.next < len(c.tokens) && c.tokens[c.next].is(texts...)
}

// atComparison reports whether the next token compares.
func (c *conditionParser) atComparison() bool {
	return c.next < len(c.tokens) && (c.nextIs("in") || comparisons[c.tokens[c.next].text] != nil)
}

func (c *conditionParser) or() (*condition, error) { return c.chain(c.and, "or", "||") }

func (c *conditionParser) and() (*condition, error) { return c.chain(c.not, "and", "&&") }

// chain reads one or more conditions that an operator, which has two spellings, joins.
func (c *conditionParser) chain(read func() (*condition, error), op, sign string) (*condition, error) {
	left, err := read()
	for err == nil && c.nextIs(op, sign) {
		c.next++
		var right *condition
		right, err = read()
		left = &condition{op: op, left: left, right: right}
	}
	return left, err
}

func (c *conditionParser) not() (*condition, error) {
	negated := false
	for ; c.nextIs("not", "!"); c.next++ {
		negated = !negated
	}
	return c.comparison(negated)
}

func (c *conditionParser) comparison(negated bool) (*condition, error) {
	first := c.next
	out, err := c.value()
	if err != nil {
		return nil, err
	}
	if c.nextIs("not") && c.next+1 < len(c.tokens) && c.tokens[c.next+1].is("in") {
		negated = !negated
		c.next++
	}
	if c.atComparison() {
		out = &condition{op: c.tokens[c.next].text, left: out}
		c.next++
		if out.right, err = c.value(); err != nil {
			return nil, err
		}
		out.text = c.text[c.tokens[first].offset:c.tokens[c.next-1].end()]
		if c.atComparison() {
			return nil, c.fail(c.tokens[c.next].offset, "a comparison has two sides; join two comparisons with and")
		}
	}
	if negated {
		out = &condition{op: "not", left: out}
	}
	return out, nil
}

// value reads an operand, or a condition in parentheses.
func (c *conditionParser) value() (*condition, error) {
	first := c.next
	for ; c.next < len(c.tokens) && !c.nextIs(operators...); c.next++ {
		if c.nextIs("(") {
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
		return (&conditionParser{parser: c.parser, tag: c.tag, tokens: tokens[1 : len(tokens)-1]}).all()
	}
	operand, err := c.expression(c.tag.offset, tokens, false)
	return &condition{operand: operand}, err
}

// matching returns the index of the bracket that closes the one at tokens[i].
func matching(tokens []token, i int) int {
	for depth := 0; i < len(tokens); i++ {
		if tokens[i].is("(") {
			depth++
		} else if tokens[i].is(")") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	return i
}

// condition evaluates a condition.
func (r *run) condition(c *condition) (truth, error) {
	if c == nil {
		return yes, nil
	}
	switch c.op {
	case "":
		values, err := r.evaluate(c.operand, false)
		return truthOf(err == nil && isTrue(values[0])), err
	case "not":
		t, err := r.condition(c.left)
		return yes - t, err
	case "and", "or":
		left, err := r.condition(c.left)
		if err != nil || c.op == "and" && left == no || c.op == "or" && left == yes {
			return left, err
		}
		right, err := r.condition(c.right)
		if c.op == "and" {
			return min(left, right), err
		}
		return max(left, right), err
	}
	left, problem, err := r.side(c.left)
	if err != nil {
		return no, err
	}
	right, rightProblem, err := r.side(c.right)
	if err != nil {
		return no, err
	}
	out := unclear
	if problem = cmp.Or(problem, rightProblem); problem == "" {
		out, problem = compare(c.op, left, right)
	}
	if problem != "" && r.doubt == "" {
		r.doubt = fmt.Sprintf("%q: %s", c.text, problem)
	}
	return out, nil
}

// side evaluates one side of a comparison. problem is "" unless the side has no value to compare.
func (r *run) side(c *condition) (value any, problem string, err error) {
	if c.op != "" {
		t, err := r.condition(c)
		if t == unclear {
			return nil, "one side of it is unclear", err
		}
		return t == yes, "", err
	}
	for _, p := range c.operand.required {
		found, problem, _ := r.valueAt(p)
		if problem != "" || found == nil {
			return nil, fmt.Sprintf("%s is missing", p), nil
		}
		if kind := kindOf(found); c.operand.calculates && !p.filtered && (kind == "text" || kind == "true or false") {
			return nil, fmt.Sprintf("%s is %s and no number", p, kind), nil
		}
	}
	values, err := r.evaluate(c.operand, false)
	switch {
	case err != nil:
		return nil, "", err
	case values[0] == nil:
		return nil, "a value is missing", nil
	}
	return values[0], "", nil
}

func isTrue(value any) bool { return pongo2.AsValue(value).IsTrue() }

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
	switch equality := op == "==" || op == "!=" || op == "<>"; {
	case a != b:
		return unclear, fmt.Sprintf("%s cannot be compared with %s", a, b)
	case a == "a list" || a == "an object":
		return unclear, "lists and objects cannot be compared"
	case a == "true or false" && !equality:
		return unclear, "true and false have no order"
	case a == "true or false" && left != right:
		order = 1
	case a == "text":
		order = strings.Compare(left.(string), right.(string))
	case a == "a number":
		order = compareNumbers(left, right)
	}
	return truthOf(comparisons[op](order)), ""
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
