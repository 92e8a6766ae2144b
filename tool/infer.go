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
		want := "a value of another form"
		switch e.Type.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			want = fmt.Sprintf("a whole number of %d bits, without a decimal point", e.Type.Bits())
		case reflect.Float32, reflect.Float64:
			want = fmt.Sprintf("a number of %d bits", e.Type.Bits())
		}
		return &Error{KindArguments, fmt.Sprintf("invalid arguments: /%s: expected %s, got %s",
			strings.ReplaceAll(e.Field, ".", "/"), want, e.Value)}
	}
	return &Error{KindArguments, "invalid arguments: " + err.Error()}
}
