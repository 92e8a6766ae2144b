package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	misfit "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// anyObject is the schema of a workflow that names none.
var anyObject = json.RawMessage(`{"type":"object"}`)

// Prepare checks input (JSON text) against w's schema and returns it decoded; numbers are [json.Number], so that none loses
// a digit. A JSON string becomes the property of a schema with exactly one required property that is a string; nothing and
// null become an empty object. Properties that are missing get the default of their schema. Errors are *[InputError].
func Prepare(w Workflow, input json.RawMessage) (map[string]any, error) {
	if c, ok := w.(interface{ schema() *inputSchema }); ok {
		return c.schema().prepare(input)
	}
	text := w.Info().Input
	if text == nil {
		text = anyObject
	}
	s, err := compileInput(text)
	if err != nil {
		return nil, fmt.Errorf("workflow %s: input schema: %w", w.Info().Name, err)
	}
	return s.prepare(input)
}

// inputSchema is what a workflow takes.
type inputSchema struct {
	compiled   *jsonschema.Schema
	properties map[string]any    // of the schema text: name → schema
	defaults   map[string][]byte // JSON text, so that no run gets what another may change
	shortcut   string            // the property that a plain string becomes
	open       bool              // other properties may come too
}

// names lists the properties of the input; closed says that there can be no others as far as the schema's text shows.
func (s *inputSchema) names() (names []string, closed bool) {
	return slices.Sorted(maps.Keys(s.properties)), !s.open && len(s.properties) > 0
}

// schemaError is a problem at a place (JSON Pointer segments) of a schema.
type schemaError struct {
	at      []string
	message string
}

func (e *schemaError) Error() string {
	if len(e.at) == 0 {
		return e.message
	}
	return pointer(e.at) + ": " + e.message
}

// compileInput compiles the schema of an input.
func compileInput(text []byte) (*inputSchema, error) {
	compiled, doc, err := compileSchema(text)
	if err != nil {
		return nil, err
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, &schemaError{nil, "expected a mapping, as in {type: object, properties: …}"}
	}
	if t, ok := root["type"]; ok && !slices.Contains(types(t), "object") {
		return nil, &schemaError{[]string{"type"}, "the input of a workflow is an object: expected type: object"}
	}
	s := &inputSchema{compiled: compiled}
	s.properties, _ = root["properties"].(map[string]any)
	additional, has := root["additionalProperties"]
	_, patterns := root["patternProperties"]
	_, ref := root["$ref"]
	_, allOf := root["allOf"]
	_, anyOf := root["anyOf"]
	_, oneOf := root["oneOf"]
	s.open = has && additional != false || patterns || ref || allOf || anyOf || oneOf
	if required, ok := root["required"].([]any); ok && len(required) == 1 {
		name, _ := required[0].(string)
		if p, ok := s.properties[name].(map[string]any); ok && slices.Equal(types(p["type"]), []string{"string"}) {
			s.shortcut = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.properties)) {
		p, _ := s.properties[name].(map[string]any)
		value, ok := p["default"]
		if !ok {
			continue
		}
		if sub := compiled.Properties[name]; sub != nil {
			if err := sub.Validate(value); err != nil {
				return nil, &schemaError{[]string{"properties", name, "default"}, "the default does not fit its own schema: " + problems(err)[0].Detail}
			}
		}
		if s.defaults == nil {
			s.defaults = map[string][]byte{}
		}
		s.defaults[name] = encode(value)
	}
	return s, nil
}

func types(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, t := range v {
			s, _ := t.(string)
			out = append(out, s)
		}
		return out
	}
	return nil
}

// schemaName stands for the schema in the compiler; nothing is loaded from there.
const schemaName = "schema:///schema.json"

// closedLoader refuses references out of the schema: they could read any file or reach any server.
type closedLoader struct{}

var errClosed = errors.New("a schema may only refer to itself")

func (closedLoader) Load(string) (any, error) { return nil, errClosed }

// compileSchema compiles a JSON Schema, of draft 2020-12 unless it says otherwise.
func compileSchema(text []byte) (s *jsonschema.Schema, doc any, err error) {
	// A schema may come with a request; whatever the library makes of a strange one, it stays an error of that schema.
	defer func() {
		if recover() != nil {
			s, doc, err = nil, nil, &schemaError{nil, "this JSON Schema cannot be read"}
		}
	}()
	doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, nil, &schemaError{nil, "this is not JSON: " + err.Error()}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closedLoader{})
	if err := c.AddResource(schemaName, doc); err != nil {
		return nil, nil, schemaProblem(err)
	}
	s, err = c.Compile(schemaName)
	if err != nil {
		return nil, nil, schemaProblem(err)
	}
	return s, doc, nil
}

// schemaProblem says what is wrong with a schema in the words of its author.
func schemaProblem(err error) error {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
			// The alternatives of the meta schema all fail; the deepest place is where the author's mistake is.
			deepest := v
			var walk func(*jsonschema.ValidationError)
			walk = func(v *jsonschema.ValidationError) {
				if len(v.Causes) == 0 && (len(deepest.Causes) > 0 || len(v.InstanceLocation) > len(deepest.InstanceLocation)) {
					deepest = v
				}
				for _, c := range v.Causes {
					walk(c)
				}
			}
			walk(v)
			return &schemaError{deepest.InstanceLocation, "not a JSON Schema (2020-12): " + detail(deepest.ErrorKind)}
		}
	}
	if e, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return &schemaError{nil, fmt.Sprintf("it refers to %q, but a schema may only refer to itself (#/…)", strings.TrimPrefix(e.URL, "schema:///"))}
	}
	if e, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		return &schemaError{fragment(e.URL), fmt.Sprintf("the regular expression %q does not compile", e.Regex)}
	}
	if e, ok := errors.AsType[*jsonschema.JSONPointerNotFoundError](err); ok {
		_, at, _ := strings.Cut(e.URL, "#")
		return &schemaError{nil, fmt.Sprintf("it refers to #%s, which is not there", at)}
	}
	if e, ok := errors.AsType[*jsonschema.AnchorNotFoundError](err); ok {
		return &schemaError{nil, fmt.Sprintf("it refers to %q, which is not there", strings.TrimPrefix(e.Reference, schemaName))}
	}
	return &schemaError{nil, "not a JSON Schema (2020-12): " + strings.ReplaceAll(firstLine(err.Error()), schemaName, "")}
}

// fragment returns the segments of the JSON Pointer in a URL.
func fragment(url string) []string {
	_, p, _ := strings.Cut(url, "#")
	var out []string
	for s := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		out = append(out, strings.NewReplacer("~1", "/", "~0", "~").Replace(s))
	}
	return out
}

func pointer(segments []string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
	}
	return b.String()
}

func (s *inputSchema) prepare(input json.RawMessage) (map[string]any, error) {
	wrong := func(format string, args ...any) (map[string]any, error) {
		return nil, &InputError{[]Problem{{"", fmt.Sprintf(format, args...)}}}
	}
	var v any
	if len(bytes.TrimSpace(input)) > 0 {
		d := json.NewDecoder(bytes.NewReader(input))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return wrong("not JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if _, err := d.Token(); err != io.EOF {
			return wrong("not JSON: something comes after the first value")
		}
	}
	var object map[string]any
	switch v := v.(type) {
	case nil:
		object = map[string]any{}
	case map[string]any:
		object = v
	case string:
		if s.shortcut == "" {
			return wrong("got a string, expected an object%s; a plain string is taken only where exactly one property is required and that is a string", s.shape())
		}
		object = map[string]any{s.shortcut: v}
	default:
		return wrong("got %s, expected an object%s", article(typeOf(v)), s.shape())
	}
	for name, text := range s.defaults {
		if _, ok := object[name]; ok {
			continue
		}
		value, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("default of %s: %w", name, err)
		}
		object[name] = value
	}
	if err := s.compiled.Validate(object); err != nil {
		found := problems(err)
		names, _ := s.names()
		for i, p := range found {
			if name, ok := strings.CutPrefix(p.Pointer, "/"); ok && p.Detail == unknownProperty {
				found[i].Detail += strings.TrimSuffix(suggest(name, names), ",")
			}
		}
		return nil, &InputError{found}
	}
	return object, nil
}

// shape says what the object has, for those who sent something else.
func (s *inputSchema) shape() string {
	names, _ := s.names()
	if len(names) == 0 {
		return ""
	}
	return " with " + list(names)
}

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
