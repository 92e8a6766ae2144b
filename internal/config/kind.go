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
	at   string // the position for errors: a flag, a variable, file:line:column

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

// unquoted is the text of a value that is printed without quotes.
type unquoted string

// kind describes a type of values.
type kind struct {
	name     string // for people
	expected string // for errors
	text     bool
	list     bool
	parse    func(v value) (any, error)
}

// parsed returns the function that parses the text of a value.
func parsed[T any](parse func(text string) (T, error)) func(value) (any, error) {
	return func(v value) (any, error) { return parse(v.text) }
}

var settingKinds = map[reflect.Type]kind{
	reflect.TypeFor[string](): {name: "text", expected: "text", text: true, parse: func(v value) (any, error) { return v.text, nil }},
	reflect.TypeFor[slog.Level](): {name: "text", expected: "text", text: true, parse: parsed(func(text string) (l slog.Level, err error) {
		return l, l.UnmarshalText([]byte(text))
	})},
	reflect.TypeFor[unquoted]():      {name: "text", expected: "text"},
	reflect.TypeFor[Secret]():        {name: "secret text", expected: "text, {env: NAME} or {file: PATH}", text: true, parse: parsed(parseSecret)},
	reflect.TypeFor[bool]():          {name: "true or false", expected: "true or false", parse: parsed(strconv.ParseBool)},
	reflect.TypeFor[int]():           {name: "whole number", expected: "a whole number", parse: parsed(strconv.Atoi)},
	reflect.TypeFor[float64]():       {name: "number", expected: "a number", parse: parsed(parseFloat)},
	reflect.TypeFor[time.Duration](): {name: "duration", expected: "a duration, such as 30s or 5m", parse: parsed(time.ParseDuration)},
	reflect.TypeFor[Size]():          {name: "size", expected: "a size, such as 512KiB or 8MiB", parse: parsed(parseSize)},
	reflect.TypeFor[[]string]():      {name: "list", expected: "a list", list: true, parse: func(v value) (any, error) { return v.items(), nil }},
	reflect.TypeFor[[]Secret](): {name: "secret list", expected: "a secret list", list: true, parse: func(v value) (any, error) {
		var list []Secret
		for _, item := range v.items() {
			list = append(list, Secret(item))
		}
		return list, nil
	}},
	reflect.TypeFor[adapter.Options](): {name: "options", expected: "options", parse: parsed(func(text string) (adapter.Options, error) {
		o, _ := adapter.ReadOptions([]byte(text), true) // the reader of the file has reported what is wrong
		return o, nil
	})},
}

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
	return settingKinds[s.typ].name
}

// expected says what may be written for the setting.
func (s Setting) expected() string {
	if len(s.OneOf) > 0 {
		return "one of " + strings.Join(s.OneOf, ", ")
	}
	return settingKinds[s.typ].expected
}

// IsBool reports whether the flag needs no value.
func (s Setting) IsBool() bool { return s.typ == reflect.TypeFor[bool]() }

func (s Setting) isList() bool { return settingKinds[s.typ].list }
func (s Setting) isText() bool { return settingKinds[s.typ].text }

// set parses v and stores it in c.
func (s Setting) set(c *Config, v value) error {
	if s.store != nil {
		return s.store(v)
	}
	if v.text == "" && v.list == nil && s.required {
		return errors.New("is empty; expected a value")
	}
	if len(s.OneOf) > 0 && !slices.Contains(s.OneOf, v.text) {
		return noneOf(v.text, s.OneOf)
	}
	if check := checks[s.check]; check != nil && v.text != "" {
		if err := check(v.text); err != nil {
			return err
		}
	}
	of := settingKinds[s.typ]
	result, err := of.parse(v)
	n := number(result)
	switch {
	case errors.Is(err, errControl):
		return err
	case err != nil:
		return fmt.Errorf("%q is invalid; expected %s", v.text, of.expected)
	case s.typ == reflect.TypeFor[time.Duration]() && n < 0:
		return fmt.Errorf("%s is negative; expected 0 or more", v.text)
	case s.Min != "" && n < s.limit(s.Min):
		return fmt.Errorf("%s is too small; expected at least %s", v.text, s.Min)
	case s.max != "" && n > s.limit(s.max):
		return fmt.Errorf("expected at most %s, got %s", s.max, v.text)
	}
	reflect.ValueOf(s.field(c)).Elem().Set(reflect.ValueOf(result))
	return nil
}

// limit returns the smallest or largest value, which the tag of a field has.
func (s Setting) limit(text string) float64 {
	result, _ := settingKinds[s.typ].parse(value{text: text})
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

// text returns the value as the file could have it. Secrets are stars.
func (s Setting) text(c *Config) string {
	switch p := s.field(c).(type) {
	case *string:
		if u, err := url.Parse(*p); err == nil && u.User != nil {
			return u.Redacted()
		}
		return *p
	case *time.Duration:
		return yaml.FormatDuration(*p)
	case *slog.Level:
		return strings.ToLower(p.String())
	case *adapter.Options:
		text, _ := json.Marshal(p)
		return string(text)
	case *[]string:
		return strings.Join(*p, ", ")
	case *[]Secret:
		if len(*p) == 0 {
			return ""
		}
		return stars
	default:
		return fmt.Sprint(reflect.ValueOf(p).Elem().Interface())
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
