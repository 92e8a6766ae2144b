package prompt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flosch/pongo2/v6"
)

// filters are those that prompts can use: pongo2's where there is nil, and those of this package, which are new or replace one of
// pongo2's that could fill the memory.
var filters = map[string]pongo2.FilterFunction{
	"json":        filterJSON,
	"add":         filterAdd,
	"floatformat": filterFloatformat,
	"join":        filterJoin,

	"capfirst": nil, "cut": nil, "default": nil, "default_if_none": nil, "divisibleby": nil, "e": nil, "escape": nil,
	"first": nil, "float": nil, "integer": nil, "last": nil, "length": nil, "length_is": nil, "linenumbers": nil,
	"lower": nil, "pluralize": nil, "slice": nil, "split": nil, "striptags": nil, "title": nil, "truncatechars": nil,
	"truncatewords": nil, "upper": nil, "urlencode": nil, "wordcount": nil, "wordwrap": nil, "yesno": nil,
}

func filterError(name string, err error) *pongo2.Error {
	return &pongo2.Error{Sender: "filter:" + name, OrigError: err}
}

// filterJSON gives the compact JSON text of any value.
func filterJSON(in, _ *pongo2.Value) (*pongo2.Value, *pongo2.Error) {
	text, err := jsonOf(in.Interface())
	if err != nil {
		return nil, filterError("json", err)
	}
	return pongo2.AsValue(text), nil
}

// filterAdd adds numbers and joins everything else.
func filterAdd(in, param *pongo2.Value) (*pongo2.Value, *pongo2.Error) {
	if in.IsNumber() && param.IsNumber() {
		if in.IsFloat() || param.IsFloat() {
			return pongo2.AsValue(in.Float() + param.Float()), nil
		}
		return pongo2.AsValue(in.Integer() + param.Integer()), nil
	}
	return joined("add", []any{in.Interface(), param.Interface()}, "")
}

// filterJoin joins the elements of a list.
func filterJoin(in, param *pongo2.Value) (*pongo2.Value, *pongo2.Error) {
	elements, ok := itemsOf(in.Interface())
	if !ok {
		return nil, filterError("join", errors.New("join needs a list"))
	}
	return joined("join", elements, param.String())
}

// joined joins the texts of values.
func joined(filter string, values []any, separator string) (*pongo2.Value, *pongo2.Error) {
	var b strings.Builder
	for i, value := range values {
		if i > 0 {
			b.WriteString(separator)
		}
		text, err := textOf(value)
		if err != nil {
			return nil, filterError(filter, err)
		}
		if b.WriteString(text); b.Len() > maxOutput {
			return nil, filterError(filter, errors.New("the text would be longer than 1 MiB"))
		}
	}
	return pongo2.AsValue(b.String()), nil
}

// maxDecimals is more than a float64 has.
const maxDecimals = 30

// filterFloatformat is pongo2's with a bound.
func filterFloatformat(in, param *pongo2.Value) (*pongo2.Value, *pongo2.Error) {
	if decimals := param.Integer(); decimals > maxDecimals || decimals < -maxDecimals {
		return nil, filterError("floatformat", fmt.Errorf("more than %d decimals", maxDecimals))
	}
	return pongo2.ApplyFilter("floatformat", in, param)
}
