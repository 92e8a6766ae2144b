package flow

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
