package adapter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
)

// Misfit is a mistake in options that were read.
type Misfit struct {
	At     []string // names of members, or indices, from the options down to what is wrong; empty is the whole
	Name   bool     // the last name itself is wrong, not its value
	Detail string
}

// Efforts and Verbosities are the words that options can have.
var (
	Efforts     = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	Verbosities = []string{"low", "medium", "high"}
)

// Sizes of what options may have. They only have to be larger than anything sensible.
const (
	maxStops = 16
	maxWord  = 256 // bytes of a text
)

const wholeNumber = "a whole number"

// optionRule says which values an option takes.
type optionRule struct {
	kind      string   // as rawjson.Kind names it
	expected  string   // in errors; "" is kind
	low, high int      // of a number
	words     []string // that a string may be; nil is any of 1 to maxWord bytes
	members   map[string]optionRule
}

var optionRules = optionRule{kind: "an object", members: map[string]optionRule{
	"temperature":       {kind: "a number", low: 0, high: 2},
	"top_p":             {kind: "a number", low: 0, high: 1},
	"frequency_penalty": {kind: "a number", low: -2, high: 2},
	"presence_penalty":  {kind: "a number", low: -2, high: 2},
	"max_tokens":        {kind: "a number", expected: wholeNumber, low: 1, high: math.MaxInt32},
	"seed":              {kind: "a number", expected: wholeNumber, low: math.MinInt, high: math.MaxInt},
	"stop":              {kind: "an array", expected: "a string or an array of strings"},
	"reasoning": {kind: "an object", members: map[string]optionRule{
		"effort": {kind: "a string", words: Efforts},
		"budget": {kind: "a number", expected: wholeNumber, low: 0, high: math.MaxInt32},
		"show":   {kind: "a boolean", expected: "true or false"},
	}},
	"verbosity":           {kind: "a string", words: Verbosities},
	"tool_choice":         {kind: "a string"},
	"parallel_tool_calls": {kind: "a boolean", expected: "true or false"},
	"service_tier":        {kind: "a string"},
	"extra_body":          {kind: "an object"},
}}

// ReadOptions reads options from JSON text, or returns all that is wrong with them. The JSON is valid, and has no member twice. Where trusted is
// false, as it is for what callers send, extra_body is refused: it could name another model, or change what is counted.
func ReadOptions(text []byte, trusted bool) (Options, []Misfit) {
	r := &optionsReader{trusted: trusted}
	r.check(nil, text, optionRules)
	var o struct {
		Options
		Stop stringOrList `json:"stop"`
	}
	if len(r.misfits) > 0 {
		return Options{}, r.misfits
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return Options{}, []Misfit{{Detail: "expected JSON"}}
	}
	o.Options.Stop = o.Stop
	return o.Options, nil
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

// optionsReader collects what is wrong.
type optionsReader struct {
	trusted bool
	misfits []Misfit
}

func (r *optionsReader) fail(at []string, format string, args ...any) {
	r.misfits = append(r.misfits, Misfit{At: at, Detail: fmt.Sprintf(format, args...)})
}

// check checks a value.
func (r *optionsReader) check(at []string, raw json.RawMessage, rule optionRule) {
	found := rawjson.Kind(raw)
	if rule.kind == "an array" && found == "a string" { // a list of one
		rule = optionRule{kind: found}
	}
	switch {
	case found != rule.kind:
		r.fail(at, "expected %s, found %s", cmp.Or(rule.expected, rule.kind), found)
	case found == "a number":
		r.checkNumber(at, string(bytes.TrimSpace(raw)), rule)
	case found == "a string":
		r.checkString(at, raw, rule.words)
	case found == "an array":
		var items []json.RawMessage
		json.Unmarshal(raw, &items)
		if len(items) > maxStops {
			r.fail(at, "expected at most %d strings, found %d", maxStops, len(items))
			return
		}
		for i, item := range items {
			r.check(append(slices.Clone(at), strconv.Itoa(i)), item, optionRule{kind: "a string"})
		}
	case rule.members != nil:
		r.checkMembers(at, raw, rule.members)
	}
}

// checkMembers checks the members of an object, in the order of their names.
func (r *optionsReader) checkMembers(at []string, raw json.RawMessage, rules map[string]optionRule) {
	var members map[string]json.RawMessage
	json.Unmarshal(raw, &members)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		below := append(slices.Clone(at), name)
		rule, known := rules[name]
		if known && (name != "extra_body" || r.trusted) {
			r.check(below, members[name], rule)
			continue
		}
		detail := "this option works only in the server's configuration and in workflow files"
		if !known {
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(rules)), func(name string) bool { return name == "extra_body" && !r.trusted })
			detail = "unknown option; expected one of " + strings.Join(names, ", ")
			if near := edits.Nearest(name, names); near != "" {
				detail = "unknown option; did you mean " + near + "?"
			}
		}
		r.misfits = append(r.misfits, Misfit{At: below, Name: true, Detail: detail})
	}
}

func (r *optionsReader) checkNumber(at []string, text string, rule optionRule) {
	kind := "a number"
	f, err := strconv.ParseFloat(text, 64)
	fits := err == nil && float64(rule.low) <= f && f <= float64(rule.high)
	if rule.expected == wholeNumber {
		kind = wholeNumber
		n, err := strconv.Atoi(text)
		fits = err == nil && rule.low <= n && n <= rule.high
	}
	if !fits {
		r.fail(at, "expected %s from %d to %d, found %s", kind, rule.low, rule.high, cut(text, 60))
	}
}

func (r *optionsReader) checkString(at []string, raw json.RawMessage, words []string) {
	var s string
	json.Unmarshal(raw, &s)
	switch {
	case words != nil && !slices.Contains(words, s):
		r.fail(at, "expected %s, found %q", wording.Alternatives(words), cut(s, 60))
	case s == "" || len(s) > maxWord:
		r.fail(at, "expected a string of 1 to %d bytes, found %d", maxWord, len(s))
	}
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
