package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
)

// Misfit is a mistake in options that were read.
type Misfit struct {
	At     []string // names of members, or indices, from the options down to what is wrong; empty is the options themselves
	Name   bool     // the last name itself is wrong, not its value
	Detail string
}

// optionsSchema says which values options take. Sizes only have to be larger than anything sensible.
const optionsSchema = `{
	"type": "object",
	"properties": {
		"temperature": {"type": "number", "minimum": 0, "maximum": 2},
		"top_p": {"type": "number", "minimum": 0, "maximum": 1},
		"frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
		"presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
		"max_tokens": {"type": "integer", "minimum": 1, "maximum": 2147483647},
		"seed": {"type": "integer"},
		"stop": {"type": ["string", "array"], "minLength": 1, "maxLength": 256, "maxItems": 16, "items": {"$ref": "#/$defs/word"}},
		"reasoning": {
			"type": "object",
			"properties": {
				"effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]},
				"budget": {"type": "integer", "minimum": 0, "maximum": 2147483647},
				"show": {"type": "boolean"}
			},
			"additionalProperties": false
		},
		"verbosity": {"enum": ["low", "medium", "high"]},
		"tool_choice": {"$ref": "#/$defs/word"},
		"parallel_tool_calls": {"type": "boolean"},
		"service_tier": {"$ref": "#/$defs/word"},
		"extra_body": {"type": "object"}
	},
	"additionalProperties": false,
	"$defs": {"word": {"type": "string", "minLength": 1, "maxLength": 256}}
}`

// maxMisfits is how many mistakes are reported at once.
const maxMisfits = 100

var compiledOptions = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile([]byte(optionsSchema)) })

// ReadOptions reads options from JSON text, or returns what is wrong with them. Where trusted is false, as it is for what callers send, extra_body
// is refused: it could name another model, or change what is counted.
func ReadOptions(text []byte, trusted bool) (Options, []Misfit) {
	compiled, err := compiledOptions()
	if err != nil {
		panic("adapter: the schema of options: " + err.Error())
	}
	var misfits []Misfit
	for _, found := range compiled.CheckText(text, maxMisfits) {
		m := Misfit{At: found.At, Detail: found.Message}
		if found.Message == schema.Unknown && len(m.At) > 0 {
			name, known := m.At[len(m.At)-1], optionNames(compiled.Doc(), m.At[:len(m.At)-1])
			known = slices.DeleteFunc(known, func(name string) bool { return name == "extra_body" && !trusted })
			m.Name, m.Detail = true, "unknown option; "+wording.Expected(name, known)
		}
		misfits = append(misfits, m)
	}
	var o struct {
		Options
		Stop stringOrList `json:"stop"`
	}
	if err := json.Unmarshal(text, &o); err != nil && misfits == nil {
		misfits = []Misfit{{Detail: "expected numbers in the range of their types"}}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // such as 1e30, which is a whole number
			misfits = []Misfit{{At: strings.Split(strings.TrimPrefix(wrong.Field, "Options."), "."), Detail: "expected a whole number of 64 bits, got " + wrong.Value}}
		}
	}
	if o.ExtraBody != nil && !trusted {
		at := []string{"extra_body"}
		misfits = append(misfits, Misfit{At: at, Name: true, Detail: "this option works only in the server's configuration and in workflow files"})
	}
	if misfits != nil {
		return Options{}, misfits
	}
	o.Options.Stop = o.Stop
	return o.Options, nil
}

// optionNames returns the names that an object in the options can have. object is the way to it.
func optionNames(doc any, object []string) []string {
	properties, _ := doc.(map[string]any)["properties"].(map[string]any)
	if len(object) > 0 {
		return optionNames(properties[object[0]], object[1:])
	}
	return slices.Sorted(maps.Keys(properties))
}

// stringOrList is a list of strings, for which JSON may have one string.
type stringOrList []string

func (l *stringOrList) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = []string{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// lacks has, by the kind of a provider as the configuration calls it, the options that its wire has no place for. A model may take
// fewer; then its server says so.
var lacks = map[string][]string{
	"anthropic": {"frequency_penalty", "presence_penalty", "seed", "verbosity"},
	"bedrock":   {"frequency_penalty", "presence_penalty", "seed", "verbosity"},
	"coze": {
		"frequency_penalty", "max_tokens", "parallel_tool_calls", "presence_penalty", "reasoning.budget", "reasoning.effort", "reasoning.show",
		"seed", "service_tier", "stop", "temperature", "tool_choice", "top_p", "verbosity",
	},
	"gemini":          {"parallel_tool_calls", "verbosity"},
	"ollama":          {"parallel_tool_calls", "reasoning.show", "service_tier", "tool_choice", "verbosity"},
	"responses":       {"frequency_penalty", "presence_penalty", "reasoning.budget", "seed", "stop"},
	"vertex":          {"parallel_tool_calls", "verbosity"},
	"azure-responses": {"frequency_penalty", "presence_penalty", "reasoning.budget", "seed", "stop"},
}

// Lacking lists the options among o that providers of a kind cannot be asked for, "reasoning.budget" for one below another.
func Lacking(kind string, o Options) (names []string) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil // ExtraBody is no JSON, which no reader lets through
	}
	add := func(name string) {
		if slices.Contains(lacks[kind], name) {
			names = append(names, name)
		}
	}
	for name, value := range rawjson.Members(text) {
		add(name)
		if name == "reasoning" {
			for below := range rawjson.Members(value) {
				add(name + "." + below)
			}
		}
	}
	return names
}

// chooseTool makes the tool choice one that a provider can take: none without tools, which most refuse, and a tool by the name that it has
// for models. A choice that demands a call holds for the first answer to a message: an agent that always has to call never ends.
func (r *Request) chooseTool() error {
	if len(r.Tools) == 0 {
		r.ToolChoice, r.ParallelToolCalls = "", nil
		return nil
	}
	switch r.ToolChoice {
	case "", "auto", "none":
		return nil
	}
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == ToolRole {
		r.ToolChoice = ""
		return nil
	}
	if r.ToolChoice == "required" {
		return nil
	}
	for _, t := range r.Tools {
		if t.Name == r.ToolChoice || t.Name == strings.ReplaceAll(r.ToolChoice, ".", "_") {
			r.ToolChoice = t.Name
			return nil
		}
	}
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf("tool_choice: unknown tool %q; expected auto, none, required, or one of %s", r.ToolChoice, cut(strings.Join(names, ", "), 500))}
}
