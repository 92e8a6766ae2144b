package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// New makes a tool of a function. The arguments' schema is that of In, a struct: its members are called as encoding/json calls them,
// a `jsonschema` tag describes one, each is required unless it may be left out (`omitempty`, `omitzero`), and there are no others.
// Of what fn returns, a [Result] is the result, a string is text, and anything else is written as JSON.
func New[In, Out any](name, description string, fn func(context.Context, In) (Out, error), opts ...Option) (*Tool, error) {
	text, err := schemaOf(reflect.TypeFor[In]())
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	t := &Tool{Name: name, Description: description, Schema: text}
	t.Run = func(ctx context.Context, c Call) (Result, error) {
		var in In
		if err := json.Unmarshal(c.Arguments, &in); err != nil {
			return Result{}, misread(err)
		}
		out, err := fn(ctx, in)
		if err != nil {
			return Result{}, err
		}
		return resultOf(out)
	}
	for _, o := range opts {
		o(t)
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t, nil
}

// Must is for tools that are part of a program: it panics where New failed.
func Must(t *Tool, err error) *Tool {
	if err != nil {
		panic("tool: " + err.Error())
	}
	return t
}

func resultOf(out any) (Result, error) {
	switch out := out.(type) {
	case Result:
		return out, nil
	case string:
		return Text(out), nil
	}
	text, err := rawjson.Marshal(out)
	if err != nil {
		return Result{}, fmt.Errorf("cannot write the result as JSON: %w", err)
	}
	return Result{Content: text}, nil
}
