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
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Error is a problem at a place of a schema.
type Error struct {
	At      []string // keys and indices from the schema's root
	Message string
	// Regexp says that a regular expression does not compile here. Other engines may read it: Go's lacks look-ahead, for example.
	Regexp bool
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
	doc      any
	compiled *jsonschema.Schema

	mu    sync.Mutex
	meter meter // of the value at hand
}

// Compile compiles a JSON Schema, of draft 2020-12 unless it says otherwise. Errors are *[Error].
func Compile(text []byte) (s *Schema, err error) {
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
	made := &Schema{doc: doc}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closedLoader{})
	c.UseRegexpEngine(made.meter.regexp)
	defer func() {
		if made.meter.steps > maxSteps {
			s, err = nil, &Error{Message: "the regular expressions of this JSON Schema are too large"}
		}
	}()
	if err := c.AddResource(name, doc); err != nil {
		return nil, problem(err)
	}
	if made.compiled, err = c.Compile(name); err != nil {
		return nil, problem(err)
	}
	seen := map[*jsonschema.Schema]bool{}
	made.meter.install(made.compiled, seen)
	// What only a dynamic reference leads to is not reached from the root.
	for _, at := range anchored(doc, nil, nil) {
		if sub, err := c.Compile(name + "#" + Pointer(at)); err == nil {
			made.meter.install(sub, seen)
		}
	}
	return made, nil
}

// maxLeft is how many places of a schema are left out before all of it is.
const maxLeft = 32

// CompileLenient compiles a schema that may be of another dialect: what cannot be compiled is left out. left says which places these
// are, and why.
func CompileLenient(text []byte) (s *Schema, left []string) {
	s, left, err := compilePart(text, func(*Error) bool { return true })
	if err != nil {
		s, _ = Compile([]byte("{}"))
		left = append(left, "all of it: "+err.Error())
	}
	return s, left
}

// CompileForeign compiles a schema that may have been written for another engine of regular expressions: those that do not compile here are
// left out, and left says which. Errors are those of [Compile].
func CompileForeign(text []byte) (s *Schema, left []string, err error) {
	return compilePart(text, func(problem *Error) bool { return problem.Regexp })
}

// compilePart compiles a schema without the places that have problems which omit accepts.
func compilePart(text []byte, omit func(*Error) bool) (s *Schema, left []string, err error) {
	for range maxLeft {
		s, err = Compile(text)
		problem, _ := errors.AsType[*Error](err)
		if err == nil || !omit(problem) {
			break
		}
		less := without(text, problem.At)
		if less == nil {
			break
		}
		left, text = append(left, problem.Error()), less
	}
	return s, left, err
}

// without returns a schema without the member at a place, or nil if it has none.
func without(text []byte, at []string) []byte {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	if len(at) == 0 { // the library does not say where a key is that is no regular expression
		if at = badKey(doc, nil); at == nil {
			return nil
		}
	}
	inside := doc
	for _, step := range at[:len(at)-1] {
		switch v := inside.(type) {
		case map[string]any:
			inside = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			inside = v[i]
		}
	}
	object, ok := inside.(map[string]any)
	if _, there := object[at[len(at)-1]]; !ok || !there {
		return nil
	}
	delete(object, at[len(at)-1])
	less, err := json.Marshal(doc)
	if err != nil {
		return nil
	}
	return less
}

// badKey finds a key of patternProperties that is no regular expression here; nil is none.
func badKey(doc any, at []string) []string {
	object, _ := doc.(map[string]any)
	for name, member := range object {
		path := append(at[:len(at):len(at)], name)
		if keys, ok := member.(map[string]any); ok && name == "patternProperties" {
			for key := range keys {
				if _, err := regexp.Compile(key); err != nil {
					return append(path, key)
				}
			}
		}
		if found := badKey(member, path); found != nil && name != "const" && name != "default" {
			return found
		}
	}
	return nil
}

// anchored lists the places of subschemas that have a dynamic anchor.
func anchored(doc any, at []string, found [][]string) [][]string {
	switch doc := doc.(type) {
	case map[string]any:
		_, dynamic := doc["$dynamicAnchor"]
		_, recursive := doc["$recursiveAnchor"]
		if dynamic || recursive {
			found = append(found, append([]string(nil), at...))
		}
		for key, member := range doc {
			found = anchored(member, append(at, key), found)
		}
	case []any:
		for i, item := range doc {
			found = anchored(item, append(at, fmt.Sprint(i)), found)
		}
	}
	return found
}

// Doc returns the schema's JSON, decoded. It must not be changed.
func (s *Schema) Doc() any { return s.doc }

// Check holds a value, decoded with numbers as [json.Number], to the schema. It returns at most most misfits, by place, none
// where the value fits.
func (s *Schema) Check(value any, most int) []Misfit { return s.check(s.compiled, value, most) }

// CheckText is Check for JSON text, which is not even decoded where it has too many values.
func (s *Schema) CheckText(text []byte, most int) []Misfit {
	if tooMany(text) {
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
			format, _ := deepest.ErrorKind.(*kind.Format)
			return &Error{
				At: deepest.InstanceLocation, Regexp: format != nil && format.Want == "regex",
				Message: "invalid JSON Schema (2020-12): " + detail(deepest.ErrorKind),
			}
		}
	}
	if e, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return &Error{Message: fmt.Sprintf("it refers to %q, but a schema may only refer to itself (#/…)", strings.TrimPrefix(e.URL, "schema:///"))}
	}
	if e, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok { // of a key of patternProperties in an old draft; others do not fit the meta schema
		return &Error{Regexp: true, Message: fmt.Sprintf("the regular expression %q does not compile", wording.Clip(e.Regex))}
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
