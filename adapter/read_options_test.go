package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// MO-22: every option is read, and written as it was read.
func TestOptionsAreReadAndWritten(t *testing.T) {
	const all = `{"temperature":0,"max_tokens":7,"top_p":1,"stop":["a","b"],"seed":-3,"frequency_penalty":-2,"presence_penalty":2,` +
		`"reasoning":{"effort":"xhigh","budget":0,"show":false},"verbosity":"low","tool_choice":"fs.read","parallel_tool_calls":false,` +
		`"service_tier":"flex","extra_body":{"top_k":40}}`
	o, misfits := ReadOptions([]byte(all), true)
	if len(misfits) > 0 {
		t.Fatal(misfits)
	}
	if text, err := json.Marshal(o); err != nil || string(text) != all {
		t.Errorf("%s %v", text, err)
	}
	if o, misfits := ReadOptions([]byte(`{"stop":"x"}`), false); len(misfits) > 0 || len(o.Stop) != 1 {
		t.Errorf("%+v %v", o, misfits)
	}
	if text, _ := json.Marshal(Options{}); string(text) != "{}" {
		t.Errorf("nothing is written as %s", text)
	}
}

// MO-22: what is wrong is said of each member, with its place.
func TestWrongOptionsSayWhereAndWhatWasExpected(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`[]`, ` expected an object, got an array`},
		{`{"temperature":2.1}`, `temperature expected at most 2`},
		{`{"temperature":1e999}`, `temperature expected at most 2`},
		{`{"temperature":"hot"}`, `temperature expected a number, got a string`},
		{`{"top_p":null}`, `top_p expected a number, got null`},
		{`{"frequency_penalty":-3,"presence_penalty":3}`, `frequency_penalty expected at least -2; presence_penalty expected at most 2`},
		{`{"max_tokens":0}`, `max_tokens expected at least 1`},
		{`{"seed":1.5}`, `seed expected an integer, got a number`},
		{`{"stop":["a",1,""]}`, `stop.1 expected a string, got a number; stop.2 expected text, got an empty string`},
		{`{"stop":{}}`, `stop expected a string or an array, got an object`},
		{`{"stop":["` + strings.Repeat(`a","`, 16) + `a"]}`, `stop expected at most 16 items, got 17`},
		{`{"reasoning":"high"}`, `reasoning expected an object, got a string`},
		{`{"reasoning":{"effort":"huge","budget":-1,"show":1}}`, `reasoning.budget expected at least 0; ` +
			`reasoning.effort expected one of "none", "minimal", "low", "medium", "high", "xhigh", "max"; reasoning.show expected a boolean, got a number`},
		{`{"reasoning":{"efort":"low"}}`, `reasoning.efort! unknown option; did you mean effort? expected one of budget, effort, show`},
		{`{"verbosity":"mid"}`, `verbosity expected one of "low", "medium", "high"`},
		{`{"seed":1e30}`, `seed expected a whole number of 64 bits, got number 1e30`},
		{`{"base_url":"http://evil.test"}`, `base_url! unknown option; expected one of frequency_penalty, max_tokens, parallel_tool_calls, ` +
			`presence_penalty, reasoning, seed, service_tier, stop, temperature, tool_choice, top_p, verbosity`},
		{`{"extra_body":{"model":"dear"}}`, `extra_body! this option works only in the server's configuration and in workflow files`},
	} {
		_, misfits := ReadOptions([]byte(row.text), false)
		var got []string
		for _, m := range misfits {
			at := strings.Join(m.At, ".")
			if m.Name {
				at += "!"
			}
			got = append(got, at+" "+m.Detail)
		}
		if diff := cmp.Diff(row.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s: %s", row.text, diff)
		}
	}
}

func FuzzReadOptions(f *testing.F) {
	f.Add([]byte(`{"temperature":0.5,"stop":["a"],"reasoning":{"budget":1},"extra_body":{"a":[1]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		o, misfits := ReadOptions(text, true)
		if len(misfits) > 0 {
			return
		}
		written, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		again, misfits := ReadOptions(written, true)
		for name, raw := range o.ExtraBody { // which is written without white space
			var plain bytes.Buffer
			if err := json.Compact(&plain, raw); err != nil {
				t.Fatal(err)
			}
			o.ExtraBody[name] = plain.Bytes()
		}
		if diff := cmp.Diff(o, again, cmpopts.EquateEmpty()); diff != "" || len(misfits) > 0 {
			t.Error(diff, misfits)
		}
	})
}

// MO-22: what a provider cannot do is known by its kind.
func TestWhatAProviderLacksIsKnown(t *testing.T) {
	o := Options{Temperature: new(0.5), Seed: new(1), Verbosity: "low", Reasoning: Reasoning{Budget: new(5)}}
	for kind, want := range map[string][]string{
		"openai": nil, "anthropic": {"seed", "verbosity"}, "responses": {"seed", "reasoning.budget"},
		"coze": {"temperature", "seed", "reasoning.budget", "verbosity"},
	} {
		if diff := cmp.Diff(want, Lacking(kind, o)); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

// MO-22: a request's options go before the model's, and those before the provider's; a provider's time goes before that of all.
func TestOptionsOfProvidersAndModelsHoldWhereARequestSaysNothing(t *testing.T) {
	r := &Registry{Timeouts: Timeouts{Total: time.Minute}, Settings: map[string]Settings{
		"p":   {Options: Options{Temperature: new(0.1), TopP: new(0.1), Seed: new(1), ExtraBody: map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("1")}}, Total: time.Hour},
		"p:m": {Options: Options{Temperature: new(0.2), TopP: new(0.2), ExtraBody: map[string]json.RawMessage{"b": json.RawMessage("2")}}},
	}}
	var got Request
	r.Register("p", provider{"m": modelFunc(func(req Request) { got = req }), "n": newFake()})
	m, err := r.Model("p:m")
	if err != nil {
		t.Fatal(err)
	}
	for range m.Stream(t.Context(), Request{Options: Options{Temperature: new(0.3)}}) {
	}
	want := Options{Temperature: new(0.3), TopP: new(0.2), Seed: new(1), ExtraBody: map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("2")}}
	if diff := cmp.Diff(want, got.Options); diff != "" {
		t.Error(diff)
	}
	n, _ := r.Model("p:n")
	if of := n.(*guarded); of.timeouts.Total != time.Hour || *of.options.Temperature != 0.1 {
		t.Errorf("%+v", of)
	}
}

// MO-22: a tool choice is one that a provider can take.
func TestAToolChoiceFitsTheRequest(t *testing.T) {
	tools := []Tool{{Name: "fs_read"}, {Name: "now"}}
	answered := []Message{{Role: User}, {Role: Assistant}, {Role: ToolRole}}
	for _, row := range []struct {
		name     string
		choice   string
		tools    []Tool
		messages []Message
		want     string
	}{
		{"without tools there is nothing to choose", "required", nil, nil, ""},
		{"any call", "required", tools, nil, "required"},
		{"any call, once there was one", "required", tools, answered, ""},
		{"none", "none", tools, answered, "none"},
		{"a tool", "now", tools, nil, "now"},
		{"a tool by the name that people know", "fs.read", tools, nil, "fs_read"},
		{"a tool that was called", "now", tools, answered, ""},
		{"a tool that is not there", "fs.write", tools, nil, `tool_choice: unknown tool "fs.write"; expected auto, none, required, or one of fs_read, now`},
	} {
		t.Run(row.name, func(t *testing.T) {
			req := Request{Tools: row.tools, Messages: row.messages, Options: Options{ToolChoice: row.choice, ParallelToolCalls: new(true)}}
			got := ""
			if err := req.chooseTool(); err != nil {
				got = err.Error()
			} else {
				got = req.ToolChoice
			}
			if got != row.want || (req.ParallelToolCalls == nil) != (row.tools == nil) {
				t.Errorf("%q %v", got, req.ParallelToolCalls)
			}
		})
	}
}

// modelFunc is told of requests, and answers nothing.
type modelFunc func(Request)

func (f modelFunc) Stream(_ context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f(req)
		yield(Chunk{Finish: FinishStop}, nil)
	}
}
