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
}

var settingKinds = map[reflect.Type]kind{
	reflect.TypeFor[string]():          {name: "text", expected: "text", text: true},
	reflect.TypeFor[slog.Level]():      {name: "text", expected: "text", text: true},
	reflect.TypeFor[unquoted]():        {name: "text", expected: "text"},
	reflect.TypeFor[Secret]():          {name: "secret text", expected: "text, {env: NAME} or {file: PATH}", text: true},
	reflect.TypeFor[bool]():            {name: "true or false", expected: "true or false"},
	reflect.TypeFor[int]():             {name: "whole number", expected: "a whole number"},
	reflect.TypeFor[float64]():         {name: "number", expected: "a number"},
	reflect.TypeFor[time.Duration]():   {name: "duration", expected: "a duration, such as 30s or 5m"},
	reflect.TypeFor[Size]():            {name: "size", expected: "a size, such as 512KiB or 8MiB"},
	reflect.TypeFor[[]string]():        {name: "list", expected: "a list", list: true},
	reflect.TypeFor[[]Secret]():        {name: "secret list", expected: "a secret list", list: true},
	reflect.TypeFor[adapter.Options](): {name: "options", expected: "options"},
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
	switch p := s.field(c).(type) {
	case *string:
		*p = v.text
	case *Secret:
		if strings.ContainsFunc(v.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("contains a control character or a line break; remove it")
		}
		*p = Secret(v.text)
	case *bool:
		b, err := strconv.ParseBool(v.text)
		if err != nil {
			return fmt.Errorf("%q is invalid; expected true or false", v.text)
		}
		*p = b
	case *[]string:
		*p = v.items()
	case *[]Secret:
		*p = nil
		for _, item := range v.items() {
			*p = append(*p, Secret(item))
		}
	case *slog.Level:
		return p.UnmarshalText([]byte(v.text))
	case *adapter.Options:
		*p, _ = adapter.ReadOptions([]byte(v.text), true) // the reader of the file has reported what is wrong
	default:
		n, err := parseNumber(p, v.text)
		if err != nil {
			return err
		}
		limit := reflect.New(reflect.TypeOf(p).Elem()).Interface()
		if low, err := parseNumber(limit, s.Min); err == nil && n < low {
			return fmt.Errorf("%s is too small; expected at least %s", v.text, s.Min)
		}
		if high, err := parseNumber(limit, s.max); err == nil && n > high {
			return fmt.Errorf("expected at most %s, got %s", s.max, v.text)
		}
	}
	return nil
}

func noneOf(text string, known []string) error {
	return fmt.Errorf("%q is invalid; expected one of %s%s", text, strings.Join(known, ", "), didYouMean(text, known))
}

// parseNumber understands the kinds that have an order, stores the value in p, and returns it for comparing.
func parseNumber(p any, text string) (float64, error) {
	switch p := p.(type) {
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%q is invalid; expected a whole number", text)
		}
		*p = n
		return float64(n), nil
	case *float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, fmt.Errorf("%q is invalid; expected a number", text)
		}
		*p = f
		return f, nil
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is invalid; expected a duration, such as 30s or 5m", text)
		}
		if d < 0 {
			return 0, fmt.Errorf("%s is negative; expected 0 or more", text)
		}
		*p = d
		return float64(d), nil
	case *Size:
		n, err := parseSize(text)
		if err != nil {
			return 0, err
		}
		*p = n
		return float64(n), nil
	}
	panic(fmt.Sprintf("config: a setting of type %T", p))
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
		return 0, fmt.Errorf("%q is invalid; expected a size, such as 512KiB or 8MiB", text)
	}
	return Size(n * unit), nil
}
