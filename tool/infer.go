package tool

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// schemaOf writes the schema of a struct: what it takes is what encoding/json writes of the struct, and reads.
func schemaOf(in reflect.Type) (json.RawMessage, error) {
	if in.Kind() != reflect.Struct {
		return nil, fmt.Errorf("expected a struct as input, got %s", in)
	}
	i := inference{types: map[reflect.Type]*jsonschema.Schema{}, seen: map[reflect.Type]bool{}}
	if own(in) != nil {
		return nil, fmt.Errorf("expected a struct as input, but %s writes its own JSON", in)
	}
	err := i.look(in)
	if err == nil {
		var s *jsonschema.Schema
		if s, err = jsonschema.ForType(in, &jsonschema.ForOptions{TypeSchemas: i.types}); err == nil {
			nullable(s)
			return rawjson.Marshal(s)
		}
	}
	return nil, fmt.Errorf("no schema can be made of %s: %w", in, err)
}

// inference goes through a type before the library does, which goes by a type's kind: it does not know what encoding/json makes of
// bytes, of types with methods of their own, and of some tags.
type inference struct {
	types map[reflect.Type]*jsonschema.Schema
	seen  map[reflect.Type]bool
}

func (i *inference) look(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if i.seen[t] {
		return nil
	}
	i.seen[t] = true
	if s := own(t); s != nil {
		i.types[t] = s
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return i.look(t.Elem())
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("nothing can be read into a %s", t)
		}
	case reflect.Struct:
		names := map[string]bool{}
		for _, f := range reflect.VisibleFields(t) {
			if err := i.field(f, names); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
	}
	return nil
}

func (i *inference) field(f reflect.StructField, names map[string]bool) error {
	name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" && !tagged {
		return nil
	}
	if f.Anonymous {
		if f.Type.Kind() != reflect.Struct || name != "" {
			return errors.New("embed structs themselves, without a name in the tag")
		}
		return nil // its fields follow
	}
	if !f.IsExported() {
		return nil
	}
	if name == "" {
		name = f.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		if option == "string" {
			return errors.New("the tag's option string is not known here")
		}
	}
	switch {
	case strings.IndexFunc(name, func(r rune) bool { return !nameRune(r) && r != '.' }) >= 0:
		return fmt.Errorf("expected a name of letters, digits, _, - and dots, got %q", name)
	case names[name]:
		return fmt.Errorf("there is already a member called %q", name)
	}
	names[name] = true
	return i.look(f.Type)
}

var (
	marshaler       = reflect.TypeFor[json.Marshaler]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// own returns the schema of a type that is not written as its kind is, nil for others.
func own(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[big.Int]():
		return &jsonschema.Schema{Type: "integer"}
	}
	if t.Kind() == reflect.Interface {
		return nil
	}
	p := reflect.PointerTo(t)
	writes, reads := p.Implements(marshaler), p.Implements(unmarshaler)
	text := p.Implements(textMarshaler) && p.Implements(textUnmarshaler)
	known := strings.HasPrefix(t.PkgPath(), "time") || strings.HasPrefix(t.PkgPath(), "math/big") || t.PkgPath() == "log/slog"
	switch {
	case text && (known || !writes && !reads):
		return &jsonschema.Schema{Type: "string"}
	case writes || reads:
		// Whatever it likes; the list, since the library makes nothing but null of a pointer to a schema without types.
		return &jsonschema.Schema{Types: []string{"null", "boolean", "number", "string", "array", "object"}}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
	}
	return nil
}

// nullable lets a map be null, as encoding/json writes it where it is nil. The library does so for slices.
func nullable(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" && s.Properties == nil && s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		s.Type, s.Types = "", []string{"null", "object"}
	}
	for _, p := range s.Properties {
		nullable(p)
	}
	nullable(s.Items)
	nullable(s.AdditionalProperties)
}

// misread says what encoding/json could not read, though it fits the schema: a number too large for its type, or a text that is not
// what it should be.
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
