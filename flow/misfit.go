package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	misfit "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const unknownProperty = "this property is not known"

// problems lists what a value violates: the innermost causes, by pointer.
func problems(err error) []Problem {
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Problem{{"", "it cannot be checked: " + firstLine(err.Error())}}
	}
	var out []Problem
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		switch k := v.ErrorKind.(type) {
		case *misfit.AnyOf, *misfit.OneOf, *misfit.Contains, *misfit.PropertyNames:
			// All alternatives or items failed, each for its own reason; which one was meant is not known. Say so at the value.
			out = append(out, Problem{pointer(v.InstanceLocation), detail(k)})
			return
		case *misfit.AdditionalProperties:
			for _, name := range k.Properties {
				out = append(out, Problem{pointer(append(slices.Clone(v.InstanceLocation), name)), unknownProperty})
			}
		case *misfit.Required:
			for _, name := range k.Missing {
				out = append(out, Problem{pointer(append(slices.Clone(v.InstanceLocation), name)), "this property is required"})
			}
		default:
			if len(v.Causes) == 0 {
				out = append(out, Problem{pointer(v.InstanceLocation), detail(k)})
			}
		}
		for _, c := range v.Causes {
			walk(c)
		}
	}
	walk(v)
	slices.SortStableFunc(out, func(a, b Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	out = slices.Compact(out)
	if len(out) > maxProblems {
		out = out[:maxProblems]
	}
	return out
}

// detail says what was expected of a value.
func detail(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *misfit.Type:
		want := make([]string, len(k.Want))
		for i, w := range k.Want {
			want[i] = article(w)
		}
		return fmt.Sprintf("expected %s, got %s", strings.Join(want, " or "), article(k.Got))
	case *misfit.MaxLength:
		return fmt.Sprintf("expected at most %s, got %d", count(k.Want, "character"), k.Got)
	case *misfit.MinLength:
		if k.Want == 1 {
			return "expected some text, got none"
		}
		return fmt.Sprintf("expected at least %s, got %d", count(k.Want, "character"), k.Got)
	case *misfit.MaxItems:
		return fmt.Sprintf("expected at most %s, got %d", count(k.Want, "item"), k.Got)
	case *misfit.MinItems:
		return fmt.Sprintf("expected at least %s, got %d", count(k.Want, "item"), k.Got)
	case *misfit.Maximum:
		w, _ := k.Want.Float64()
		return fmt.Sprintf("expected at most %s", number64(w))
	case *misfit.Minimum:
		w, _ := k.Want.Float64()
		return fmt.Sprintf("expected at least %s", number64(w))
	case *misfit.Enum:
		var want []string
		for _, w := range k.Want {
			text, err := json.Marshal(w)
			if err != nil {
				continue
			}
			want = append(want, short(string(text)))
			if len(want) == 12 && len(k.Want) > 12 {
				want = append(want, "…")
				break
			}
		}
		return "expected one of " + strings.Join(want, ", ")
	case *misfit.Const:
		text, err := json.Marshal(k.Want)
		if err != nil {
			text = []byte("the constant of the schema")
		}
		return "expected " + short(string(text))
	case *misfit.Pattern:
		return fmt.Sprintf("expected text that matches %s", short(k.Want))
	case *misfit.Format:
		return fmt.Sprintf("expected text of the format %s", k.Want)
	case *misfit.AdditionalProperties:
		return "these properties are not known: " + list(k.Properties)
	case *misfit.Required:
		return "these properties are required: " + list(k.Missing)
	case *misfit.AnyOf, *misfit.OneOf:
		return "expected a value that fits one of the schema's alternatives"
	case *misfit.FalseSchema, *misfit.Not:
		return "this value is not allowed here"
	case *misfit.UniqueItems:
		return fmt.Sprintf("expected items that differ, but items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *misfit.MinProperties:
		return fmt.Sprintf("expected at least %s, got %d", properties(k.Want), k.Got)
	case *misfit.MaxProperties:
		return fmt.Sprintf("expected at most %s, got %d", properties(k.Want), k.Got)
	case *misfit.ExclusiveMaximum:
		w, _ := k.Want.Float64()
		return "expected less than " + number64(w)
	case *misfit.ExclusiveMinimum:
		w, _ := k.Want.Float64()
		return "expected more than " + number64(w)
	case *misfit.MultipleOf:
		w, _ := k.Want.Float64()
		return "expected a multiple of " + number64(w)
	case *misfit.DependentRequired:
		return fmt.Sprintf("with %q there must be %s too", k.Prop, list(k.Missing))
	case *misfit.PropertyNames:
		return fmt.Sprintf("%q is not allowed as a name", short(k.Property))
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return fmt.Sprintf("it does not fit %q of the schema", path[0])
	}
	return "it does not fit the schema"
}

func properties(n int) string {
	if n == 1 {
		return "1 property"
	}
	return strconv.Itoa(n) + " properties"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func number64(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// short keeps what a schema says from filling a page.
func short(s string) string {
	if utf8.RuneCountInString(s) > 80 {
		return string([]rune(s)[:80]) + "…"
	}
	return s
}

func article(what string) string {
	switch what {
	case "null":
		return what
	case "object", "array", "integer":
		return "an " + what
	}
	return "a " + what
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}
