package config

import (
	"cmp"
	"encoding"
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
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/edits"
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

// kindNames name the kinds of values for people, and say what may be written.
var kindNames = map[any]struct{ name, expected string }{
	reflect.TypeFor[Secret]():          {"secret text", "text, {env: NAME} or {file: PATH}"},
	reflect.TypeFor[[]Secret]():        {"secret list", "a secret list"},
	reflect.TypeFor[time.Duration]():   {"duration", "a duration, such as 30s or 5m"},
	reflect.TypeFor[Size]():            {"size", "a size, such as 512KiB or 8MiB"},
	reflect.TypeFor[adapter.Options](): {"options", "options"},
	reflect.TypeFor[slog.Level]():      {"text", "text"},
	reflect.Slice:                      {"list", "a list"},
	reflect.Bool:                       {"true or false", "true or false"},
	reflect.Int:                        {"whole number", "a whole number"},
	reflect.Int64:                      {"size", "a size, such as 512KiB or 8MiB"},
	reflect.Float64:                    {"number", "a number"},
	reflect.String:                     {"text", "text"},
}

// valueType is the type of the value, which the field may point to: nil is then a value that is not set.
func (s Setting) valueType() reflect.Type {
	if t := s.field.Type(); t.Kind() != reflect.Pointer {
		return t
	}
	return s.field.Type().Elem()
}

func (s Setting) isList() bool    { return s.field.Kind() == reflect.Slice }
func (s Setting) isOptions() bool { return s.field.Type() == reflect.TypeFor[adapter.Options]() }
func (s Setting) isText() bool {
	return s.valueType().Kind() == reflect.String || s.valueType() == reflect.TypeFor[slog.Level]()
}

// IsBool reports whether the flag needs no value.
func (s Setting) IsBool() bool { return s.field.Kind() == reflect.Bool }

// Kind names what is expected of the value, for people.
func (s Setting) Kind() string {
	if len(s.OneOf) > 0 && !s.isList() {
		return strings.Join(s.OneOf, ", ")
	}
	return cmp.Or(kindNames[s.valueType()], kindNames[s.valueType().Kind()]).name
}

// expected says what may be written for the setting.
func (s Setting) expected() string {
	if len(s.OneOf) > 0 && !s.isList() {
		return "one of " + strings.Join(s.OneOf, ", ")
	}
	return cmp.Or(kindNames[s.valueType()], kindNames[s.valueType().Kind()]).expected
}

// set parses v and stores it in the field.
func (s Setting) set(v value) error {
	if v.text == "" && v.list == nil && s.required {
		return errors.New("is empty; expected a value")
	}
	parsed := reflect.New(s.valueType()).Elem()
	if !s.isList() {
		if err := s.parse(parsed, v.text); err != nil {
			return err
		}
	}
	if s.isList() {
		parsed.Set(reflect.MakeSlice(parsed.Type(), 0, 0))
		for i, item := range v.items() {
			one := reflect.New(parsed.Type().Elem()).Elem()
			if err := s.parse(one, item); err != nil && s.Secret { // the error does not repeat it
				return fmt.Errorf("entry %d: %w", i+1, err)
			} else if err != nil {
				return err
			}
			parsed.Set(reflect.Append(parsed, one))
		}
	}
	if s.field.Kind() == reflect.Pointer {
		parsed = parsed.Addr()
	}
	s.field.Set(parsed)
	if s.verify != nil {
		return s.verify()
	}
	return nil
}

// parse parses and checks a text, which is an entry if the setting is a list.
func (s Setting) parse(to reflect.Value, text string) error {
	if len(s.OneOf) > 0 && !slices.Contains(s.OneOf, text) {
		return noneOf(text, s.OneOf)
	}
	if check := checks[s.check]; check != nil && text != "" {
		if err := check(text); err != nil {
			return err
		}
	}
	err := parse(to, text)
	_, isDuration := to.Interface().(time.Duration)
	switch {
	case errors.Is(err, platform.ErrControl):
		return err
	case err != nil:
		return fmt.Errorf("%q is invalid; expected %s", text, s.expected())
	case isDuration && to.Int() < 0:
		return fmt.Errorf("%s is negative; expected 0 or more", text)
	case s.Min != "" && number(to) < s.limit(s.Min):
		return fmt.Errorf("%s is too small; expected at least %s", text, s.Min)
	case s.max != "" && number(to) > s.limit(s.max):
		return fmt.Errorf("expected at most %s, got %s", s.max, text)
	}
	return nil
}

// parse parses a text into a value.
func parse(v reflect.Value, text string) (err error) {
	switch to := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler: // such as a secret, a size, a level
		return to.UnmarshalText([]byte(text))
	case *time.Duration:
		*to, err = time.ParseDuration(text)
	case *int64: // a number of bytes
		return (*Size)(to).UnmarshalText([]byte(text))
	case *int:
		*to, err = strconv.Atoi(text)
	case *bool:
		*to, err = strconv.ParseBool(text)
	case *float64:
		if *to, err = strconv.ParseFloat(text, 64); math.IsNaN(*to) || math.IsInf(*to, 0) {
			return strconv.ErrRange
		}
	case *adapter.Options:
		*to, _ = adapter.ReadOptions([]byte(text), true) // the reader of the file has reported what is wrong
	default:
		v.SetString(text)
	}
	return err
}

// limit returns the smallest or largest value, which the tag of a field has.
func (s Setting) limit(text string) float64 {
	v := reflect.New(s.valueType()).Elem()
	_ = parse(v, text) // it is ours
	return number(v)
}

// number returns a value that has an order, for comparing.
func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

func noneOf(text string, known []string) error {
	return fmt.Errorf("%q is invalid; expected one of %s%s", text, strings.Join(known, ", "), edits.Suggest(text, known, ""))
}

// text returns the value as the file could have it, the items of a list joined with commas. Secrets are stars.
func (s Setting) text() string {
	switch v := reflect.Indirect(s.field); {
	case s.verify != nil && s.field.IsZero(): // what is not set has its default
		return s.Default
	case s.Secret && v.Len() == 0:
		return ""
	case s.Secret:
		return stars
	case s.isList():
		return strings.Join(s.items(), ", ")
	default:
		return textOf(v.Interface())
	}
}

// items returns the items of a list.
func (s Setting) items() (items []string) {
	if s.verify != nil && s.field.IsNil() {
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
	case int64:
		return Size(v).String()
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

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = strings.TrimSpace(d), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return strconv.ErrSyntax
	}
	*s = Size(n * unit)
	return nil
}
