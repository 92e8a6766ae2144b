package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
)

// inputs collects what --input says: one whole input, or properties.
type inputs struct {
	whole      json.RawMessage // JSON text
	stdin      bool
	properties [][2]string
}

// property is NAME=TEXT; text that begins otherwise is an input of its own.
var property = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)=(.*)$`)

// maxInput bounds what is read from stdin.
const maxInput = 16 << 20

func (i *inputs) String() string { return "" }

func (i *inputs) Set(s string) error {
	trimmed := strings.TrimSpace(s)
	m := property.FindStringSubmatch(s)
	if m != nil {
		i.properties = append(i.properties, [2]string{m[1], m[2]})
	}
	if m == nil && (i.whole != nil || i.stdin) || len(i.properties) > 0 && (m == nil || i.whole != nil || i.stdin) {
		return errors.New("either one whole input or NAME=TEXT for each property")
	}
	switch {
	case m != nil:
	case s == "-":
		i.stdin = true
	case strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "["):
		if err := checkJSON(trimmed); err != nil {
			return err
		}
		i.whole = json.RawMessage(trimmed)
	default:
		i.whole = quoted(s)
	}
	return nil
}

func (i *inputs) readStdin(stdin io.Reader) error {
	if !i.stdin {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
	if err != nil {
		return fmt.Errorf("--input -: stdin cannot be read: %w", err)
	}
	if len(text) > maxInput {
		return errors.New("--input -: stdin has more than 16 MiB")
	}
	i.stdin = false
	s := strings.TrimRight(string(text), "\n")
	if property.MatchString(s) { // from stdin it is only text
		i.whole = quoted(s)
		return nil
	}
	if err := i.Set(s); err != nil {
		return fmt.Errorf("--input -: %w", err)
	}
	return nil
}

// text makes the input's JSON. The schema says which properties are not text.
func (i *inputs) text(schema json.RawMessage) json.RawMessage {
	if len(i.properties) == 0 {
		return i.whole
	}
	var s struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(schema, &s)
	object := map[string]json.RawMessage{}
	for _, p := range i.properties {
		name, value := p[0], p[1]
		if t, ok := s.Properties[name]; ok && !takesText(t.Type) && json.Valid([]byte(value)) {
			object[name] = json.RawMessage(value)
			continue
		}
		object[name] = quoted(value)
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic("run: " + err.Error()) // the members are valid JSON
	}
	return text
}

func takesText(t any) bool {
	switch t := t.(type) {
	case string:
		return t == "string"
	case []any:
		return slices.Contains(t, any("string"))
	}
	return true
}

func quoted(s string) json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic("run: " + err.Error()) // a string is always encoded
	}
	return text
}

func checkJSON(s string) error {
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return fmt.Errorf("not JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// pair reads NAME=TEXT.
func pair(s string, into map[string]any) error {
	m := property.FindStringSubmatch(s)
	if m == nil {
		return fmt.Errorf("%q is not NAME=TEXT", s)
	}
	into[m[1]] = m[2]
	return nil
}

// runOptions are what is asked of the model.
type runOptions struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *int     `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

func (o *runOptions) set(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q is not NAME=VALUE", s)
	}
	var err error
	switch name {
	case "temperature":
		o.Temperature, err = number64(text, 0, 2)
	case "top_p":
		o.TopP, err = number64(text, 0, 1)
	case "max_tokens":
		o.MaxTokens, err = whole(text, 1)
	case "seed":
		o.Seed, err = whole(text, math.MinInt)
	case "stop":
		o.Stop = append(o.Stop, text)
	default:
		return fmt.Errorf("%q is none of temperature, top_p, max_tokens, seed, stop", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func number64(text string, least, most float64) (*float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= least && f <= most) {
		return nil, fmt.Errorf("%q is not a number from %g to %g", text, least, most)
	}
	return &f, nil
}

func whole(text string, least int) (*int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return nil, fmt.Errorf("%q is not a whole number that fits", text)
	}
	return &n, nil
}

// apply sets the options on the defaults of a run's bots.
func (o *runOptions) apply(c *bot.Config) {
	c.Temperature, c.TopP, c.MaxTokens, c.Seed, c.Stop = o.Temperature, o.TopP, o.MaxTokens, o.Seed, o.Stop
}

// inputError says what does not fit, a line for each.
func inputError(err error) error {
	e, ok := errors.AsType[*flow.InputError](err)
	if !ok {
		return err
	}
	var all []error
	for _, p := range e.Problems {
		where := strings.ReplaceAll(strings.TrimPrefix(p.Pointer, "/"), "/", ".")
		if where != "" {
			where = " " + where
		}
		all = append(all, fmt.Errorf("input%s: %s", where, p.Detail))
	}
	return errors.Join(all...)
}
