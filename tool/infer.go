package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// jsonTypes are the schemas of types that encoding/json does not write as jsonschema expects.
var jsonTypes = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {Types: []string{"null", "boolean", "number", "string", "array", "object"}},
	reflect.TypeFor[json.Number]():     {Type: "number"},
	reflect.TypeFor[big.Int]():         {Type: "integer"},
	reflect.TypeFor[[]byte]():          {Types: []string{"null", "string"}, ContentEncoding: "base64"},
}

// schemaOf returns the schema of a struct as encoding/json reads and writes it.
func schemaOf(in reflect.Type) (json.RawMessage, error) {
	s, err := jsonschema.ForType(in, &jsonschema.ForOptions{TypeSchemas: jsonTypes})
	if err != nil {
		return nil, fmt.Errorf("no schema can be made of %s: %w", in, err)
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("expected a struct as input, got %s", in)
	}
	return rawjson.Marshal(s)
}

// misread describes what encoding/json could not read, though it fits the schema, such as a number too large for its type.
func misread(err error) *Error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return &Error{KindArguments, fmt.Sprintf("invalid arguments: /%s: expected a value that fits %s, got %s",
			strings.ReplaceAll(e.Field, ".", "/"), e.Type, e.Value)}
	}
	return &Error{KindArguments, "invalid arguments: " + err.Error()}
}
