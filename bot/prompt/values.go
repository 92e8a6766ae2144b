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

// maxNesting bounds supplied values.
const maxNesting = 512

// decimal is a number whose text is not the shortest form: 1.10, or one with more digits than a float64 has. pongo2 calculates with
// any pointer to a float64, and such a type has no room for the text; so the text is stored here for the time of a run.
type decimal float64

var literals sync.Map // *decimal → string

func (d *decimal) String() string {
	if text, ok := literals.Load(d); ok {
		return text.(string)
	}
	return formatFloat(float64(*d))
}

func (d *decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// converter makes the values that templates may see of those that were supplied.
type converter struct{ decimals []*decimal }

func (c *converter) close() {
	for _, d := range c.decimals {
		literals.Delete(d)
	}
}

func (c *converter) convert(value any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("is nested deeper than %d", maxNesting)
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		d := json.NewDecoder(bytes.NewReader(v))
		d.UseNumber()
		var decoded any
		if err := d.Decode(&decoded); err != nil {
			return nil, errors.New("is not JSON")
		}
		return c.convert(decoded, depth)
	case json.Number:
		return c.number(string(v)), nil
	}
	v := reflect.ValueOf(value)
	switch kind := v.Kind(); {
	case kind == reflect.String:
		return v.String(), nil
	case kind == reflect.Bool:
		return v.Bool(), nil
	case v.CanInt():
		return int(v.Int()), nil
	case v.CanUint():
		return c.number(strconv.FormatUint(v.Uint(), 10)), nil
	case v.CanFloat():
		return v.Float(), nil
	case kind == reflect.Map && v.Type().Key().Kind() == reflect.String:
		out := make(map[string]any, v.Len())
		for members := v.MapRange(); members.Next(); {
			member, err := c.convert(members.Value().Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[members.Key().String()] = member
		}
		return out, nil
	case (kind == reflect.Slice || kind == reflect.Array) && v.Type().Elem().Kind() != reflect.Uint8: // bytes are no list of numbers
		out := make([]any, v.Len())
		for i := range out {
			element, err := c.convert(v.Index(i).Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = element
		}
		return out, nil
	}
	return nil, fmt.Errorf("a template cannot use a value of type %T", value)
}

// number gives a number the type that pongo2 needs to calculate with it and that prints as it was written.
func (c *converter) number(literal string) any {
	if i, err := strconv.Atoi(literal); err == nil && strconv.Itoa(i) == literal {
		return i
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(f, 0) {
		return literal // 1e400: nothing can be calculated with it, but it can be printed
	}
	if formatFloat(f) == literal {
		return f
	}
	d := new(decimal(f))
	literals.Store(d, literal)
	c.decimals = append(c.decimals, d)
	return d
}

func formatFloat(f float64) string {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// float returns the value of a number of any type.
func float(value any) (float64, bool) {
	switch v := value.(type) {
	case *decimal:
		return float64(*v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// textOf is what a value prints as: text as it is, and JSON for everything else.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
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
