// Package schema holds values to JSON Schemas, in words that people understand.
//
// # Guarantees
//   - A schema refers to nothing but itself: no file and no server is read.
//   - Time and memory for each schema and each value are bounded; what takes more is refused.
//   - What is found is bounded, and so is the text of each finding.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Error is a problem at a place of a schema.
type Error struct {
	At      []string // keys and indices from the schema's root
	Message string
}

func (e *Error) Error() string {
	if len(e.At) == 0 {
		return e.Message
	}
	return Pointer(e.At) + ": " + e.Message
}

// name stands for the schema in the compiler; nothing is loaded from there.
const name = "schema:///schema.json"

// closedLoader refuses references out of the schema: they could read any file or reach any server.
type closedLoader struct{}

var errClosed = errors.New("a schema may only refer to itself")

func (closedLoader) Load(string) (any, error) { return nil, errClosed }

// Schema is a compiled JSON Schema. It is safe for concurrent use, by one after the other.
type Schema struct {
	// Left says what was left out: see [CompileForeign] and [CompileLenient].
	Left []string

	doc      any
	compiled *jsonschema.Schema

	mu    sync.Mutex
	meter meter // of the value at hand
}

// Compile compiles a JSON Schema, of draft 2020-12 unless it says otherwise. Errors are *[Error].
func Compile(text []byte) (*Schema, error) { return compile(text, false) }

// CompileForeign compiles a schema that may have been written for another engine of regular expressions: those that do not compile here are
// left out. Go's engine lacks look-ahead, for example. Errors are those of [Compile].
func CompileForeign(text []byte) (*Schema, error) { return compile(text, true) }

// CompileLenient is [CompileForeign] for a schema that may be of another dialect: if it cannot be compiled, all of it is left out.
func CompileLenient(text []byte) *Schema {
	s, err := CompileForeign(text)
	if err != nil {
		s, _ = Compile([]byte("{}"))
		s.Left = []string{"all of it: " + err.Error()}
	}
	return s
}

func compile(text []byte, foreign bool) (s *Schema, err error) {
	// A schema may come with a request: a panic of the library becomes an error.
	defer func() {
		if recover() != nil {
			s, err = nil, &Error{Message: "invalid JSON Schema"}
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, &Error{Message: "invalid JSON: " + err.Error()}
	}
	var size size
	if !size.add(doc, 0) {
		return nil, &Error{Message: "this JSON Schema is too large, or has too large a number"}
	}
	s = &Schema{doc: doc}
	var all []*jsonschema.Schema // those in it, and what they refer to
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closedLoader{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return s.meter.compile(text, foreign) })
	c.AssertVocabs()
	c.RegisterVocabulary(&jsonschema.Vocabulary{Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
		all = append(all, ctx.Enqueue(nil))
		return nil, nil
	}})
	if err = c.AddResource(name, doc); err == nil {
		s.compiled, err = c.Compile(name)
	}
	if s.meter.steps > maxSteps {
		return nil, &Error{Message: "the regular expressions of this JSON Schema are too large"}
	}
	if err != nil {
		return nil, problem(err)
	}
	for _, one := range all {
		s.Left = append(s.Left, removeUnreadable(one)...)
		s.meter.install(one)
	}
	return s, nil
}

// removeUnreadable removes the regular expressions of a schema that do not compile here, and says which.
func removeUnreadable(s *jsonschema.Schema) (left []string) {
	_, place, _ := strings.Cut(s.Location, "#")
	if re, ok := s.Pattern.(unreadable); ok {
		left = append(left, fmt.Sprintf("%s/pattern: the regular expression %q does not compile", place, wording.Clip(string(re))))
		s.Pattern = nil
	}
	for re := range s.PatternProperties {
		if re, ok := re.(unreadable); ok {
			left = append(left, fmt.Sprintf("%s/patternProperties: the regular expression %q does not compile", place, wording.Clip(string(re))))
			delete(s.PatternProperties, re)
		}
	}
	return left
}

// Doc returns the schema's JSON, decoded. It must not be changed.
func (s *Schema) Doc() any { return s.doc }

// Check holds a value, decoded with numbers as [json.Number], to the schema. It returns at most most misfits, by place, none
// where the value fits.
func (s *Schema) Check(value any, most int) []Misfit { return s.check(s.compiled, value, most) }

// CheckText is Check for JSON text, which is not even decoded where it may have far too many values.
func (s *Schema) CheckText(text []byte, most int) []Misfit {
	if bytes.Count(text, []byte(",")) > 4*maxValues { // some are in strings
		return []Misfit{tooLarge}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return []Misfit{{Message: "invalid JSON"}}
	}
	return s.Check(value, most)
}

// CheckProperty checks a value against the schema of the property called name.
func (s *Schema) CheckProperty(name string, value any, most int) []Misfit {
	if sub := s.compiled.Properties[name]; sub != nil {
		return s.check(sub, value, most)
	}
	return nil
}

func (s *Schema) check(compiled *jsonschema.Schema, value any, most int) (found []Misfit) {
	var size size
	if !size.add(value, 0) {
		return []Misfit{tooLarge}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			if p != any(errSpent) {
				panic(p)
			}
			found = []Misfit{tooMuch}
		}
	}()
	s.meter.left = size.budget()
	return misfits(compiled.Validate(value), most)
}

// problem says what is wrong with a schema in the words of its author.
func problem(err error) error {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
			v = deepest(v)
			return &Error{At: v.InstanceLocation, Message: "invalid JSON Schema (2020-12): " + detail(v.ErrorKind)}
		}
	}
	if e, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return &Error{Message: fmt.Sprintf("it refers to %q, but a schema may only refer to itself (#/…)", strings.TrimPrefix(e.URL, "schema:///"))}
	}
	if e, ok := errors.AsType[*jsonschema.JSONPointerNotFoundError](err); ok {
		_, at, _ := strings.Cut(e.URL, "#")
		return &Error{Message: fmt.Sprintf("it refers to #%s, which does not exist", at)}
	}
	if e, ok := errors.AsType[*jsonschema.AnchorNotFoundError](err); ok {
		return &Error{Message: fmt.Sprintf("it refers to %q, which does not exist", strings.TrimPrefix(e.Reference, name))}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return &Error{Message: "invalid JSON Schema (2020-12): " + wording.ClipTo(strings.ReplaceAll(first, name, ""), maxMessage)}
}

// deepest returns the cause at the deepest place: the alternatives of the meta schema all fail, and the author's mistake is there.
func deepest(v *jsonschema.ValidationError) *jsonschema.ValidationError {
	found := v
	for _, cause := range v.Causes {
		if c := deepest(cause); len(found.Causes) > 0 || len(c.InstanceLocation) > len(found.InstanceLocation) {
			found = c
		}
	}
	return found
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer writes keys and indices as a JSON Pointer (RFC 6901).
func Pointer(at []string) string {
	var b strings.Builder
	for _, s := range at {
		b.WriteByte('/')
		escapes.WriteString(&b, s)
	}
	return b.String()
}
