package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/rawjson"
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

// ReadOptions reads options from JSON text, and says all that is wrong with them. The JSON is valid, and has no member twice. Where
// trusted is false, as it is for what callers send, extra_body is refused: it could name another model, or change what is counted.
func ReadOptions(text []byte, trusted bool) (o Options, misfits []Misfit) {
	r := &optionsReader{trusted: trusted}
	number := func(into **float64, low, high float64) readMember {
		return func(at []string, raw json.RawMessage) { *into = r.number(at, raw, low, high) }
	}
	whole := func(into **int, low, high int) readMember {
		return func(at []string, raw json.RawMessage) { *into = r.whole(at, raw, low, high) }
	}
	yes := func(into **bool) readMember {
		return func(at []string, raw json.RawMessage) {
			if b := new(bool); r.as(at, raw, "a boolean", "true or false", b) {
				*into = b
			}
		}
	}
	word := func(into *string, known ...string) readMember {
		return func(at []string, raw json.RawMessage) { *into = r.word(at, raw, known) }
	}
	r.object(nil, text, map[string]readMember{
		"temperature":       number(&o.Temperature, 0, 2),
		"top_p":             number(&o.TopP, 0, 1),
		"max_tokens":        whole(&o.MaxTokens, 1, math.MaxInt32),
		"seed":              whole(&o.Seed, math.MinInt, math.MaxInt),
		"frequency_penalty": number(&o.FrequencyPenalty, -2, 2),
		"presence_penalty":  number(&o.PresencePenalty, -2, 2),
		"stop":              func(at []string, raw json.RawMessage) { o.Stop = r.stops(at, raw) },
		"reasoning": func(at []string, raw json.RawMessage) {
			r.object(at, raw, map[string]readMember{
				"effort": word(&o.Reasoning.Effort, Efforts...),
				"budget": whole(&o.Reasoning.Budget, 0, math.MaxInt32),
				"show":   yes(&o.Reasoning.Show),
			})
		},
		"verbosity":           word(&o.Verbosity, Verbosities...),
		"tool_choice":         word(&o.ToolChoice),
		"parallel_tool_calls": yes(&o.ParallelToolCalls),
		"service_tier":        word(&o.ServiceTier),
		"extra_body": func(at []string, raw json.RawMessage) {
			if !trusted {
				r.name(at, "this option works only in the server's configuration and in workflow files")
				return
			}
			r.as(at, raw, "an object", "an object", &o.ExtraBody)
		},
	})
	return o, r.misfits
}

// readMember reads the value of a member.
type readMember func(at []string, raw json.RawMessage)

// optionsReader collects what is wrong.
type optionsReader struct {
	trusted bool
	misfits []Misfit
}

func (r *optionsReader) fail(at []string, format string, args ...any) {
	r.misfits = append(r.misfits, Misfit{At: at, Detail: fmt.Sprintf(format, args...)})
}

func (r *optionsReader) name(at []string, detail string) {
	r.misfits = append(r.misfits, Misfit{At: at, Name: true, Detail: detail})
}

// object hands the members of an object to those who read them, in the order of their names.
func (r *optionsReader) object(at []string, raw json.RawMessage, known map[string]readMember) {
	var members map[string]json.RawMessage
	if !r.as(at, raw, "an object", "an object", &members) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		below := append(slices.Clone(at), name)
		if read, ok := known[name]; ok {
			read(below, members[name])
			continue
		}
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(name string) bool { return name == "extra_body" && !r.trusted })
		if near := edits.Nearest(name, names); near != "" {
			r.name(below, "unknown option; did you mean "+near+"?")
		} else {
			r.name(below, "unknown option; expected one of "+strings.Join(names, ", "))
		}
	}
}

// as decodes a value of one kind.
func (r *optionsReader) as(at []string, raw json.RawMessage, kind, expected string, into any) bool {
	if found := rawjson.Kind(raw); found != kind {
		r.fail(at, "expected %s, found %s", expected, found)
		return false
	}
	if json.Unmarshal(raw, into) != nil {
		r.fail(at, "expected %s", expected)
		return false
	}
	return true
}

func (r *optionsReader) number(at []string, raw json.RawMessage, low, high float64) *float64 {
	var n json.Number
	if !r.as(at, raw, "a number", "a number", &n) {
		return nil
	}
	f, err := n.Float64()
	if err != nil || !(low <= f && f <= high) {
		r.fail(at, "expected a number from %g to %g, found %s", low, high, cut(n.String(), 60))
		return nil
	}
	return &f
}

func (r *optionsReader) whole(at []string, raw json.RawMessage, low, high int) *int {
	var n json.Number
	if !r.as(at, raw, "a number", "a whole number", &n) {
		return nil
	}
	i, err := strconv.Atoi(n.String())
	if err != nil || i < low || i > high {
		r.fail(at, "expected a whole number from %d to %d, found %s", low, high, cut(n.String(), 60))
		return nil
	}
	return &i
}

// word reads a text, which is one of the known words where there are any.
func (r *optionsReader) word(at []string, raw json.RawMessage, known []string) (s string) {
	switch {
	case !r.as(at, raw, "a string", "a string", &s):
	case len(known) > 0 && !slices.Contains(known, s):
		last := len(known) - 1
		r.fail(at, "expected %s or %s, found %q", strings.Join(known[:last], ", "), known[last], cut(s, 60))
	case s == "" || len(s) > maxWord:
		r.fail(at, "expected a string of 1 to %d bytes, found %d", maxWord, len(s))
	default:
		return s
	}
	return ""
}

// stops reads a text, or a list of such.
func (r *optionsReader) stops(at []string, raw json.RawMessage) []string {
	if rawjson.Kind(raw) == "a string" {
		if s := r.word(at, raw, nil); s != "" {
			return []string{s}
		}
		return nil
	}
	var items []json.RawMessage
	if !r.as(at, raw, "an array", "a string or an array of strings", &items) {
		return nil
	}
	if len(items) > maxStops {
		r.fail(at, "expected at most %d strings, found %d", maxStops, len(items))
		return nil
	}
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = r.word(append(slices.Clone(at), strconv.Itoa(i)), item, nil)
	}
	return list
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
	var b bytes.Buffer
	for i, t := range r.Tools {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.Name)
	}
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf("tool_choice: unknown tool %q; expected auto, none, required, or one of %s", r.ToolChoice, cut(b.String(), 500))}
}
