package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// maxNesting bounds supplied values.
const maxNesting = 512

// convert makes the value that templates may see of one that was supplied.
func convert(value any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("is nested deeper than %d", maxNesting)
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if v == nil {
			return nil, nil
		}
		d := json.NewDecoder(bytes.NewReader(v))
		d.UseNumber()
		var decoded any
		if err := d.Decode(&decoded); err != nil {
			return nil, errors.New("is not JSON")
		}
		return convert(decoded, depth)
	case json.Number:
		return number(v), nil
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
		return number(json.Number(strconv.FormatUint(v.Uint(), 10))), nil
	case v.CanFloat():
		return v.Float(), nil
	case kind == reflect.Map && v.Type().Key().Kind() == reflect.String:
		out := make(map[string]any, v.Len())
		for members := v.MapRange(); members.Next(); {
			member, err := convert(members.Value().Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[members.Key().String()] = member
		}
		return out, nil
	case (kind == reflect.Slice || kind == reflect.Array) && v.Type().Elem().Kind() != reflect.Uint8: // bytes are no list of numbers
		out := make([]any, v.Len())
		for i := range out {
			element, err := convert(v.Index(i).Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = element
		}
		return out, nil
	}
	return nil, fmt.Errorf("a template cannot use a value of type %T", value)
}

// number gives a number the type that pongo2 needs to calculate with it. Integers that are too large for that keep their digits.
func number(literal json.Number) any {
	if i, err := strconv.Atoi(string(literal)); err == nil {
		return i
	}
	if f, err := literal.Float64(); err == nil && !math.IsInf(f, 0) && strings.ContainsAny(string(literal), ".eE") {
		return f
	}
	return literal
}

// float returns the value of a number of any type.
func float(value any) (f float64, ok bool) {
	switch v := value.(type) {
	case json.Number:
		f, _ = v.Float64()
		return f, true
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
