package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/yaml"
)

// value is the text of a setting, before it is parsed.
type value struct {
	text string
	list []string // of a list; text is then empty
	from Source

	variable string // the environment variable that it is from, also by {env: …}
	file     string // the file that it is from, by {file: …}
}

// items are those of a list, however it was written.
func (v *value) items() []string {
	if v.list != nil {
		return v.list
	}
	var list []string
	for item := range strings.SplitSeq(v.text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// kind describes a type of values.
type kind struct {
	name     string // for people
	expected string // for errors
	text     bool
	list     bool
	secret   bool
	parse    func(v value) (any, error)
}

// parsed returns the function that parses the text of a value.
func parsed[T any](parse func(text string) (T, error)) func(value) (any, error) {
	return func(v value) (any, error) { return parse(v.text) }
}

// kindOf returns the kind of a type. A pointer is nil for a value that is not set.
func kindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[slog.Level]():
		return kind{name: "text", expected: "text", text: true, parse: parsed(func(text string) (l slog.Level, err error) {
			return l, l.UnmarshalText([]byte(text))
		})}
	case reflect.TypeFor[Secret]():
		return kind{name: "secret text", expected: "text, {env: NAME} or {file: PATH}", text: true, secret: true, parse: parsed(parseSecret)}
	case reflect.TypeFor[time.Duration]():
		return kind{name: "duration", expected: "a duration, such as 30s or 5m", parse: parsed(time.ParseDuration)}
	case reflect.TypeFor[Size]():
		return kind{name: "size", expected: "a size, such as 512KiB or 8MiB", parse: parsed(parseSize)}
	case reflect.TypeFor[[]Secret]():
		return kind{name: "secret list", expected: "a secret list", list: true, secret: true, parse: parseList}
	case reflect.TypeFor[adapter.Options]():
		return kind{name: "options", expected: "options", parse: parsed(func(text string) (adapter.Options, error) {
			o, _ := adapter.ReadOptions([]byte(text), true) // the reader of the file has reported what is wrong
			return o, nil
		})}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Slice:
		return kind{name: "list", expected: "a list", list: true, parse: parseList}
	case reflect.Bool:
		return kind{name: "true or false", expected: "true or false", parse: parsed(strconv.ParseBool)}
	case reflect.Int:
		return kind{name: "whole number", expected: "a whole number", parse: parsed(strconv.Atoi)}
	case reflect.Float64:
		return kind{name: "number", expected: "a number", parse: parsed(parseFloat)}
	case reflect.String:
		return kind{name: "text", expected: "text", text: true, parse: func(v value) (any, error) { return v.text, nil }}
	}
	panic("config: a setting cannot be a " + t.String())
}

func parseList(v value) (any, error) { return v.items(), nil }

// errControl is the error of a secret that no header can have.
var errControl = errors.New("contains a control character or a line break; remove it")

func parseSecret(text string) (Secret, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errControl
	}
	return Secret(text), nil
}

func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, strconv.ErrRange
	}
	return f, err
}

// Kind names what is expected of the value, for people.
func (s Setting) Kind() string {
	if len(s.OneOf) > 0 {
		return strings.Join(s.OneOf, ", ")
	}
	return s.kind.name
}

// expected says what may be written for the setting.
func (s Setting) expected() string {
	if len(s.OneOf) > 0 && !s.kind.list {
		return "one of " + strings.Join(s.OneOf, ", ")
	}
	return s.kind.expected
}

// IsBool reports whether the flag needs no value.
func (s Setting) IsBool() bool { return s.field.Kind() == reflect.Bool }

// set parses v and stores it.
func (s Setting) set(v value) error {
	if s.store != nil {
		return s.store(v)
	}
	return s.parse(v)
}

// parse parses v, and stores it in the field.
func (s Setting) parse(v value) error {
	if v.text == "" && v.list == nil && s.required {
		return errors.New("is empty; expected a value")
	}
	if len(s.OneOf) > 0 && !s.kind.list && !slices.Contains(s.OneOf, v.text) {
		return noneOf(v.text, s.OneOf)
	}
	if check := checks[s.check]; check != nil && v.text != "" {
		if err := check(v.text); err != nil {
			return err
		}
	}
	result, err := s.kind.parse(v)
	n := number(result)
	_, isDuration := result.(time.Duration)
	switch {
	case errors.Is(err, errControl):
		return err
	case err != nil:
		return fmt.Errorf("%q is invalid; expected %s", v.text, s.kind.expected)
	case isDuration && n < 0:
		return fmt.Errorf("%s is negative; expected 0 or more", v.text)
	case s.Min != "" && n < s.limit(s.Min):
		return fmt.Errorf("%s is too small; expected at least %s", v.text, s.Min)
	case s.max != "" && n > s.limit(s.max):
		return fmt.Errorf("expected at most %s, got %s", s.max, v.text)
	}
	setField(s.field, reflect.ValueOf(result))
	return nil
}

// setField sets a field, which may be a pointer to the type of the value, or a type derived from it.
func setField(field, v reflect.Value) {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		field.Elem().Set(v)
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			field.Index(i).Set(v.Index(i).Convert(field.Type().Elem()))
		}
	default:
		field.Set(v.Convert(field.Type()))
	}
}

// limit returns the smallest or largest value, which the tag of a field has.
func (s Setting) limit(text string) float64 {
	result, _ := s.kind.parse(value{text: text})
	return number(result)
}

// number returns the value of a kind that has an order, for comparing; 0 for any other.
func number(result any) float64 {
	switch v := reflect.ValueOf(result); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanFloat():
		return v.Float()
	}
	return 0
}

func noneOf(text string, known []string) error {
	return fmt.Errorf("%q is invalid; expected one of %s%s", text, strings.Join(known, ", "), didYouMean(text, known))
}

// text returns the value as the file could have it, the items of a list joined with commas. Secrets are stars.
func (s Setting) text() string {
	switch v := reflect.Indirect(s.field); {
	case s.store != nil && s.field.IsZero(): // what is not set has its default
		return s.Default
	case s.Secret && v.Len() == 0:
		return ""
	case s.Secret:
		return stars
	case s.kind.list:
		return strings.Join(s.items(), ", ")
	default:
		return textOf(v.Interface())
	}
}

// items returns the items of a list.
func (s Setting) items() (items []string) {
	if s.store != nil && s.field.IsNil() {
		return (&value{text: s.Default}).items()
	}
	for i := range s.field.Len() {
		items = append(items, s.field.Index(i).String())
	}
	return items
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		if u, err := url.Parse(v); err == nil && u.User != nil {
			return u.Redacted()
		}
		return v
	case time.Duration:
		return yaml.FormatDuration(v)
	case slog.Level:
		return strings.ToLower(v.String())
	case adapter.Options:
		text, _ := json.Marshal(v)
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}

// sizeUnits has each unit before those that are a suffix of it.
var sizeUnits = []struct {
	name   string
	bytes  int64
	binary bool
}{
	{"GiB", 1 << 30, true},
	{"MiB", 1 << 20, true},
	{"KiB", 1 << 10, true},
	{"GB", 1e9, false},
	{"MB", 1e6, false},
	{"KB", 1e3, false},
	{"B", 1, false},
}

func parseSize(text string) (Size, error) {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = strings.TrimSpace(d), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, strconv.ErrSyntax
	}
	return Size(n * unit), nil
}
