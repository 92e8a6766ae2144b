package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/schema"
)

// inputs collects the values of --input: one complete input, or properties.
type inputs struct {
	whole      json.RawMessage // JSON text
	stdin      bool
	properties [][2]string
}

// property is NAME=TEXT. Other text is a complete input.
var property = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)=(.*)$`)

// maxInput bounds what is read from stdin.
const maxInput = 16 << 20

// set reads a flag --input.
func (i *inputs) set(s string) error {
	trimmed := strings.TrimSpace(s)
	m := property.FindStringSubmatch(s)
	if m != nil {
		i.properties = append(i.properties, [2]string{m[1], m[2]})
	}
	if m == nil && (i.whole != nil || i.stdin) || len(i.properties) > 0 && (m == nil || i.whole != nil || i.stdin) {
		return errors.New("expected one whole input, or NAME=TEXT for each property; do not mix them")
	}
	switch {
	case m != nil:
	case s == "-":
		i.stdin = true
	case strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "["):
		if err := json.Unmarshal([]byte(trimmed), &i.whole); err != nil {
			return fmt.Errorf("invalid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
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
		return fmt.Errorf("--input -: cannot read standard input: %w", err)
	}
	if len(text) > maxInput {
		return errors.New("--input -: standard input is larger than 16 MiB")
	}
	i.stdin = false
	s := strings.TrimRight(string(text), "\n")
	if property.MatchString(s) { // from stdin it is only text
		i.whole = quoted(s)
		return nil
	}
	if err := i.set(s); err != nil {
		return fmt.Errorf("--input -: %w", err)
	}
	return nil
}

// text returns the input as JSON. The schema has the types of the properties.
func (i *inputs) text(of json.RawMessage) json.RawMessage {
	if len(i.properties) == 0 {
		return i.whole
	}
	object, read := map[string]json.RawMessage{}, schema.PropertyReader(of)
	for _, p := range i.properties {
		object[p[0]] = read(p[0], p[1])
	}
	text, _ := json.Marshal(object) // the members are valid JSON
	return text
}

func quoted(s string) json.RawMessage {
	text, _ := json.Marshal(s) // a string can be encoded
	return text
}

// pair reads NAME=TEXT.
func pair(s string, into map[string]any) error {
	m := property.FindStringSubmatch(s)
	if m == nil {
		return fmt.Errorf("%q is invalid; expected NAME=TEXT", s)
	}
	into[m[1]] = m[2]
	return nil
}

// runOptions are the options of the model.
type runOptions struct {
	adapter.Options
	read map[string]any // what was given, by name
}

// set takes NAME=VALUE; the name of an option below another is "reasoning.effort", and stop may be given more than once.
func (o *runOptions) set(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q is invalid; expected NAME=VALUE", s)
	}
	if o.read == nil {
		o.read = map[string]any{}
	}
	var value any = text
	if name == "stop" {
		stops, _ := o.read[name].([]string)
		value = append(stops, text)
	} else if json.Valid([]byte(text)) {
		value = json.RawMessage(text)
	}
	into := o.read
	if below, ok := strings.CutPrefix(name, "reasoning."); ok {
		into, _ = o.read["reasoning"].(map[string]any)
		if into == nil {
			into = map[string]any{}
			o.read["reasoning"] = into
		}
		name = below
	}
	into[name] = value
	all, err := json.Marshal(o.read)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var misfits []adapter.Misfit
	if o.Options, misfits = adapter.ReadOptions(all, true); len(misfits) > 0 {
		return fmt.Errorf("%s: %s", strings.Join(misfits[0].At, "."), misfits[0].Detail)
	}
	return nil
}

// inputError returns an error with a line for each value that does not match the schema.
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
