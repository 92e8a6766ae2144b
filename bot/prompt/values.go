package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// maxNesting is how deep supplied values may be: what they are made of is followed by recursion.
const maxNesting = 512

// valueSize is about what a value takes beside its text.
const valueSize = 16

// decimal is a number that prints as it was written, where that is not the shortest form: 1.10, or more digits than a
// float64 has. pongo2 calculates with anything of the kind float64 behind a pointer, and such a type has no room for the text;
// so that is kept beside it, for the time of a run.
type decimal float64

var literals sync.Map // *decimal → string

func (d *decimal) String() string {
	if text, ok := literals.Load(d); ok {
		return text.(string)
	}
	return formatFloat(float64(*d))
}

func (d *decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

func (r *run) forget() {
	for _, d := range r.literals {
		literals.Delete(d)
	}
}

// converter makes the values that templates may see of those that were supplied.
type converter struct {
	run  *run
	size int
}

var (
	errTooDeep  = fmt.Errorf("is nested deeper than %d", maxNesting)
	errTooLarge = fmt.Errorf("is larger than %d MiB", maxData>>20)
)

func (c *converter) convert(value any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, errTooDeep
	}
	if err := c.take(valueSize); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return c.decode(v, depth)
	case json.Number:
		return c.number(string(v))
	case string:
		return c.text(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			converted, err := c.convert(member, depth+1)
			if err != nil {
				return nil, err
			}
			if err := c.take(len(name)); err != nil {
				return nil, err
			}
			out[name] = converted
		}
		return out, nil
	case []any:
		if err := c.room(len(v)); err != nil {
			return nil, err
		}
		out := make([]any, len(v))
		for i, element := range v {
			converted, err := c.convert(element, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = converted
		}
		return out, nil
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		return c.text(v.String())
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return c.number(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		out := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			converted, err := c.convert(v.MapIndex(key).Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[key.String()] = converted
		}
		return out, nil
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break // bytes are no list of numbers
		}
		if err := c.room(v.Len()); err != nil {
			return nil, err
		}
		out := make([]any, v.Len())
		for i := range out {
			converted, err := c.convert(v.Index(i).Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = converted
		}
		return out, nil
	}
	return nil, fmt.Errorf("a template cannot use a value of type %T", value)
}

func (c *converter) text(s string) (any, error) { return s, c.take(len(s)) }

// take counts what is supplied.
func (c *converter) take(bytes int) error {
	c.size += bytes
	return c.room(0)
}

// room says whether so many values more are too many.
func (c *converter) room(values int) error {
	if c.size+valueSize*values > maxData {
		return errTooLarge
	}
	return nil
}

func (c *converter) decode(raw json.RawMessage, depth int) (any, error) {
	if c.size+len(raw) > maxData {
		return nil, errTooLarge
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, errors.New("is not JSON")
	}
	return c.convert(value, depth)
}

// number gives a number the type that pongo2 needs to calculate with it and that prints as it was written.
func (c *converter) number(literal string) (any, error) {
	if i, err := strconv.Atoi(literal); err == nil && strconv.Itoa(i) == literal {
		return i, nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(f, 0) {
		return literal, nil // 1e400: nothing can be calculated with it, but it can be printed
	}
	if formatFloat(f) == literal {
		return f, nil
	}
	d := new(decimal(f))
	literals.Store(d, literal)
	c.run.literals = append(c.run.literals, d)
	return d, nil
}

func formatFloat(f float64) string {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// float gives the value of a number of any type.
func float(value any) (float64, bool) {
	if d, ok := value.(*decimal); ok {
		return float64(*d), true
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return float64(v.Int()), true
	case reflect.Float32, reflect.Float64:
		return v.Float(), true
	}
	return 0, false
}

// textOf is what a value prints as.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case fmt.Stringer:
		return v.String(), nil
	case float64:
		return formatFloat(v), nil
	}
	return jsonOf(value)
}

// jsonOf is the compact JSON text of a value.
func jsonOf(value any) (string, error) {
	text, err := rawjson.Marshal(value)
	if err != nil {
		return "", errors.New("the value has no JSON form")
	}
	return string(text), nil
}
