package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of a value, and of a schema as a value. They are far beyond what models write, and keep what is found of the worst value
// within some hundred megabytes.
const (
	maxValues = 100_000
	maxPaths  = 1_000_000 // of the depths of all values together: each misfit has the path to its place
	maxDigits = 1_000     // of a number, and its exponent: the library computes with all of them
	maxSteps  = 200_000   // of all regular expressions of a schema, compiled, which a few bytes can make a thousand of
)

var (
	tooLarge = Misfit{Message: fmt.Sprintf("it cannot be checked: it has more than %d values, or too large a number", maxValues), Unchecked: true}
	tooMuch  = Misfit{Message: "it cannot be checked: its schema is too complex", Unchecked: true}
)

// size is how much there is of a value.
type size struct{ values, paths, bytes int }

// add counts v, which is at a depth, and all in it; false where that is too much.
func (s *size) add(v any, depth int) bool {
	s.values++
	s.paths += depth
	switch v := v.(type) {
	case string:
		s.bytes += len(v)
	case json.Number:
		s.bytes += len(v)
		if len(v) > maxDigits || !small(string(v)) {
			return false
		}
	case []any:
		for _, item := range v {
			if !s.add(item, depth+1) {
				return false
			}
		}
	case map[string]any:
		for key, member := range v {
			s.bytes += len(key)
			if !s.add(member, depth+1) {
				return false
			}
		}
	}
	return s.values <= maxValues && s.paths <= maxPaths
}

// small says whether a number's exponent is no larger than numbers that are meant.
func small(number string) bool {
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return true
	}
	e, err := strconv.Atoi(strings.TrimPrefix(number[i+1:], "+"))
	return err == nil && -maxDigits <= e && e <= maxDigits
}

// budget is how much work a value may make: several times what an ordinary schema needs.
func (s *size) budget() int { return 1<<17 + 8*s.values + s.bytes/16 }

// errSpent is what a meter panics with, since the library cannot be stopped otherwise.
var errSpent = errors.New("schema: the budget is spent")

// meter counts work. A schema of a few lines can ask for more than anybody can wait for: references that lead twice to what leads
// twice to something else, and so on.
type meter struct {
	left  int
	steps int // of all regular expressions
}

func (m *meter) charge(n int) {
	if m.left -= n; m.left < 0 {
		panic(errSpent)
	}
}

// install makes a schema charge the meter before it looks into a value: formats are checked at that time.
func (m *meter) install(s *jsonschema.Schema) {
	cost := 1 + len(s.Required)/16
	if s.Enum != nil {
		cost += len(s.Enum.Values) / 16
	}
	before := s.Format
	metered := &jsonschema.Format{}
	if before != nil {
		metered.Name = before.Name
	}
	metered.Validate = func(v any) error {
		n := cost
		switch v := v.(type) {
		case map[string]any:
			n += len(v)
		case []any:
			n += len(v)
		}
		m.charge(n)
		if before != nil {
			return before.Validate(v)
		}
		return nil
	}
	s.Format = metered
}

// pattern is a regular expression that tells its meter how long it may take, which is the product of its size and the text's.
type pattern struct {
	*regexp.Regexp
	meter *meter
	steps int
}

func (p *pattern) MatchString(s string) bool {
	p.meter.charge(1 + len(s)*p.steps/1024)
	return p.Regexp.MatchString(s)
}

var errSteps = errors.New("schema: the regular expressions are too large")

// unreadable is a regular expression that does not compile here.
type unreadable string

func (u unreadable) String() string { return string(u) }

func (unreadable) MatchString(string) bool { return false }

// compile compiles a regular expression; one that the schema repeats is counted again. A foreign one may be [unreadable].
func (m *meter) compile(text string, foreign bool) (jsonschema.Regexp, error) {
	if m.steps > maxSteps {
		return nil, errSteps
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		if foreign {
			return unreadable(text), nil
		}
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	steps := len(program.Inst)
	if m.steps += steps; m.steps > maxSteps {
		return nil, errSteps
	}
	return &pattern{regexp.MustCompile(text), m, steps}, nil
}
