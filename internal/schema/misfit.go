package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/santhosh-tekuri/jsonschema/v6"
	misfit "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Unknown is the message of a property that the schema does not allow.
const Unknown = "unknown property"

// Bounds of a misfit.
const (
	maxMessage = 512     // bytes
	maxPath    = 1 << 10 // bytes
	maxEnum    = 12      // values
)

// Misfit is a place where a value does not fit.
type Misfit struct {
	At      []string // keys and indices from the value's root; the place around it, where the way is very long
	Message string   // what was expected
	// Unchecked says that nothing is known: the value, or what the schema makes of it, is too much.
	Unchecked bool
}

// misfits lists what a value violates: the innermost causes, by place.
func misfits(err error, most int) []Misfit {
	if err == nil {
		return nil
	}
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Misfit{{Message: "it cannot be checked", Unchecked: true}}
	}
	out := innermost(v)
	slices.SortStableFunc(out, func(a, b Misfit) int { return slices.Compare(a.At, b.At) })
	out = slices.CompactFunc(out, func(a, b Misfit) bool { return a.Message == b.Message && slices.Equal(a.At, b.At) })
	if len(out) > most {
		out = slices.Clone(out[:most])
	}
	for i, m := range out {
		out[i] = Misfit{At: within(m.At), Message: wording.ClipTo(m.Message, maxMessage)}
	}
	return out
}

// innermost returns what has no other cause.
func innermost(v *jsonschema.ValidationError) (out []Misfit) {
	put := func(message string, name ...string) {
		out = append(out, Misfit{At: slices.Concat(v.InstanceLocation, name), Message: message})
	}
	switch k := v.ErrorKind.(type) {
	case *misfit.AnyOf, *misfit.OneOf, *misfit.Contains, *misfit.PropertyNames:
		// All alternatives or items failed, each for its own reason; which one was meant is not known. Say so at the value.
		put(detail(k))
		return out
	case *misfit.AdditionalProperties:
		for _, name := range k.Properties {
			put(Unknown, name)
		}
	case *misfit.Required:
		for _, name := range k.Missing {
			put("this property is required", name)
		}
	default:
		if len(v.Causes) == 0 {
			put(detail(k))
		}
	}
	for _, cause := range v.Causes {
		out = append(out, innermost(cause)...)
	}
	return out
}

// within shortens the way to a place, to that of a value around it.
func within(at []string) []string {
	room := maxPath
	for i, s := range at {
		if room -= len(s) + 1; room < 0 {
			return at[:i]
		}
	}
	return at
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
	case *misfit.MinLength:
		if k.Want == 1 {
			return "expected text, got an empty string"
		}
		return bound("least", k.Want, k.Got, "character")
	case *misfit.MaxLength:
		return bound("most", k.Want, k.Got, "character")
	case *misfit.MaxItems:
		return bound("most", k.Want, k.Got, "item")
	case *misfit.MinItems:
		return bound("least", k.Want, k.Got, "item")
	case *misfit.MinProperties:
		return bound("least", k.Want, k.Got, "property")
	case *misfit.MaxProperties:
		return bound("most", k.Want, k.Got, "property")
	case *misfit.Maximum:
		return "expected at most " + number(k.Want)
	case *misfit.Minimum:
		return "expected at least " + number(k.Want)
	case *misfit.ExclusiveMaximum:
		return "expected less than " + number(k.Want)
	case *misfit.ExclusiveMinimum:
		return "expected more than " + number(k.Want)
	case *misfit.MultipleOf:
		return "expected a multiple of " + number(k.Want)
	case *misfit.Enum:
		var want []string
		for _, w := range k.Want[:min(len(k.Want), maxEnum)] {
			want = append(want, clipJSON(w))
		}
		if len(k.Want) > maxEnum {
			want = append(want, "…")
		}
		return "expected one of " + strings.Join(want, ", ")
	case *misfit.Const:
		return "expected " + clipJSON(k.Want)
	case *misfit.Pattern:
		return fmt.Sprintf("expected text that matches %s", wording.Clip(k.Want))
	case *misfit.Format:
		return fmt.Sprintf("expected text of the format %s", k.Want)
	case *misfit.AnyOf, *misfit.OneOf:
		return "expected a value that matches one of the schema's alternatives"
	case *misfit.FalseSchema, *misfit.Not:
		return "this value is not allowed here"
	case *misfit.UniqueItems:
		return fmt.Sprintf("expected different items, but items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *misfit.DependentRequired:
		return fmt.Sprintf("%q requires %s too", k.Prop, List(k.Missing))
	case *misfit.PropertyNames:
		return fmt.Sprintf("%q is not allowed as a name", wording.Clip(k.Property))
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return fmt.Sprintf("it does not match %q of the schema", path[0])
	}
	return "it does not match the schema"
}

// clipJSON returns a short form of a value of the schema.
func clipJSON(value any) string {
	text, _ := json.Marshal(value) // it was decoded from JSON
	return wording.Clip(string(text))
}

// bound describes the size that a value should have had.
func bound(side string, want, got int, what string) string {
	size := strings.Replace(wording.Plural(int64(want), what), "propertys", "properties", 1)
	return fmt.Sprintf("expected at %s %s, got %d", side, size, got)
}

func number(r *big.Rat) string {
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// article puts the article before the name of a type.
func article(what string) string {
	switch what {
	case "null":
		return what
	case "object", "array", "integer":
		return "an " + what
	}
	return "a " + what
}

// List writes words as `a, b and c`.
func List(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
