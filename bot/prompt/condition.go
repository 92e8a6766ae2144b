package prompt

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// pongo2 takes a missing value, and text that is no number, for 0 in a comparison, gives "and" and "or" one precedence, and reads
// "not a == b" as "(not a) == b". So the conditions of if and elif are parsed here, and their comparisons are calls of [run.compare].
//
// A comparison whose sides cannot be compared is neither true nor false, and so is its opposite. So "not" is moved from "and" and "or" to
// the comparisons in them, and each that cannot be made is false.

// comparison is a comparison in a template.
type comparison struct {
	op       string
	negated  bool
	text     string   // as it is written
	required []string // paths without whose values it cannot be made
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

// condition returns the source of a condition, or of its opposite.
func (s *scanner) condition(tokens []token, negated bool) (string, error) {
	join := []string{" or ", " and "}
	if negated {
		slices.Reverse(join)
	}
	for level, operators := range [][]string{{"or", "||"}, {"and", "&&"}} {
		parts := split(tokens, operators...)
		if len(parts) == 1 {
			continue
		}
		var conditions []string
		for _, part := range parts {
			if len(part) == 0 {
				return "", s.fail(tokens[0].offset, "%q needs a condition on both sides", operators[0])
			}
			c, err := s.condition(part, negated)
			if err != nil {
				return "", err
			}
			conditions = append(conditions, c)
		}
		return "(" + strings.Join(conditions, join[level]) + ")", nil
	}
	last := len(tokens) - 1
	switch {
	case last > 0 && tokens[0].is("not", "!"):
		return s.condition(tokens[1:], !negated)
	case len(split(tokens, comparisonOperators...)) > 1:
		return s.comparison(tokens, negated)
	case last > 1 && tokens[0].is("(") && matching(tokens) == last:
		return s.condition(tokens[1:last], negated)
	}
	value, err := s.expression(tokens)
	if negated {
		value = "not (" + value + ")"
	}
	return "(" + value + ")", err
}

var comparisonOperators = slices.AppendSeq([]string{"in"}, maps.Keys(comparisons))

// comparison returns the source of a comparison, or of its opposite.
func (s *scanner) comparison(tokens []token, negated bool) (string, error) {
	sides := split(tokens, comparisonOperators...)
	left, op := sides[0], tokens[len(sides[0])]
	if n := len(left); op.is("in") && n > 0 && left[n-1].is("not") {
		left, negated = left[:n-1], !negated
	}
	right := sides[1]
	switch {
	case len(sides) > 2:
		return "", s.fail(op.offset, "a comparison has two sides; join two comparisons with and")
	case len(left) == 0 || len(right) == 0:
		return "", s.fail(op.offset, "%q needs a value on both sides", op.text)
	}
	first, last := tokens[0], tokens[len(tokens)-1]
	c := comparison{op: op.text, negated: negated, text: s.text[first.offset : last.offset+len(last.text)], required: s.paths(tokens)}
	args := make([]string, 2)
	for i, side := range [][]token{left, right} {
		var err error
		if n := len(side) - 1; n > 1 && side[0].is("(") && matching(side) == n {
			args[i], err = s.condition(side, false)
		} else {
			args[i], err = s.expression(side)
		}
		if err != nil {
			return "", err
		}
	}
	s.comparisons = append(s.comparisons, c)
	args = append([]string{strconv.Itoa(len(s.comparisons) - 1)}, args...)
	return call("compare", append(args, c.required...)...), nil
}

// split splits tokens at those of separators that are in no brackets.
func split(tokens []token, separators ...string) (parts [][]token) {
	depth, start := 0, 0
	for i, t := range tokens {
		switch {
		case t.is("(", "["):
			depth++
		case t.is(")", "]"):
			depth--
		case depth == 0 && t.is(separators...):
			parts = append(parts, tokens[start:i])
			start = i + 1
		}
	}
	return append(parts, tokens[start:])
}

// matching returns the index of the bracket that closes the first token.
func matching(tokens []token) int {
	depth := 0
	for i, t := range tokens {
		if t.is("(") {
			depth++
		} else if t.is(")") {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// compare makes a comparison. Its arguments are its index, the two sides, and the values that are required.
func (r *run) compare(args []any) (any, error) {
	c := r.template.comparisons[args[0].(int)]
	holds, problem := compare(c.op, args[1], args[2])
	for i, value := range args[3:] {
		if value == nil {
			holds, problem = false, c.required[i]+" is missing"
			break
		}
	}
	if problem == "" {
		return holds != c.negated, nil
	}
	if r.doubt == "" {
		r.doubt = fmt.Sprintf("%q: %s", c.text, problem)
	}
	return false, nil
}

// kindOf names the type of a value.
func kindOf(value any) string {
	if _, ok := float(value); ok {
		return "a number"
	}
	switch reflect.ValueOf(value).Kind() {
	case reflect.Invalid:
		return "nothing"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// compare compares two values. problem says why they cannot be compared.
func compare(op string, left, right any) (holds bool, problem string) {
	a, b := kindOf(left), kindOf(right)
	if op == "in" {
		switch {
		case b == "a list":
			list := reflect.ValueOf(right)
			for i := range list.Len() {
				if equal, _ := compare("==", left, list.Index(i).Interface()); equal {
					return true, ""
				}
			}
			return false, ""
		case a == "text" && b == "text":
			return strings.Contains(right.(string), left.(string)), ""
		case a == "text" && b == "an object":
			return reflect.ValueOf(right).MapIndex(reflect.ValueOf(left)).IsValid(), ""
		}
		return false, fmt.Sprintf("%s cannot be in %s", a, b)
	}
	order := 0
	switch equality := op == "==" || op == "!=" || op == "<>"; {
	case a == "nothing" || b == "nothing":
		return false, "a value is missing"
	case a != b:
		return false, fmt.Sprintf("%s cannot be compared with %s", a, b)
	case a == "a list" || a == "an object":
		return false, "lists and objects cannot be compared"
	case a == "true or false" && !equality:
		return false, "true and false have no order"
	case a == "true or false" && left != right:
		order = 1
	case a == "text":
		order = strings.Compare(left.(string), right.(string))
	case a == "a number":
		x, _ := float(left)
		y, _ := float(right)
		order = cmp.Compare(x, y)
	}
	return comparisons[op](order), ""
}
