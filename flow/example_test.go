package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing/fstest"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
)

// All that is wrong with a file is reported at once, each problem at its place.
func ExampleParseSpec() {
	_, err := flow.ParseSpec("trip.yaml", []byte(`
bots:
  plan:
    promt: Plan a trip.
    message: "{{ input.town }}"
    root: trip
  stop:
    on: trip/stops/*/nmae
    root: "trip/stops/{{ event.match.1 }}/text"
    format: markdown
`), nil)
	fmt.Println(err)
	// Output:
	// trip.yaml:4:5: unknown field "promt", did you mean "prompt"? expected on, when, model, options, prompt, history, message, root, format, schema, on_invalid, quiet, concurrency, max and filter
	// trip.yaml:9:26: root: event.match.1: the number of stars in the pattern is 1, and they count from 0
	// trip.yaml:10:13: format: expected one of json, text and html, got "markdown"
}

// A workflow is run on a manager, which the caller closes.
func ExampleWorkflow() {
	workflow, err := flow.ParseSpec("trip.yaml", []byte(`
input: {required: [town], properties: {town: {type: string}}}
bots:
  plan:
    prompt: |
      Plan a trip as JSON of this shape:
      {"title": "…", "stops": [{"name": "first|second"}, {"name": "second|first"}]}
    root: trip
  stop:
    on: trip/stops/*/name
    message: "Describe {{ event.value }} of {{ input.town }}"
    root: "trip/stops/{{ event.match.0 }}/text"
    format: text
`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	models := &adapter.Registry{Default: "demo:fast"}
	models.Register("demo", demo.New(nil))

	input, err := flow.Prepare(workflow, json.RawMessage(`"Rome"`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	m := ling.New(ctx, bot.Config{}, &ling.Options{Models: models})
	if err := workflow.Run(ctx, m, input); err != nil {
		fmt.Println(err)
	}
	if err := m.Close(); err != nil { // waits for all bots
		fmt.Println(err)
	}
	var result struct {
		Trip struct {
			Stops []struct{ Name, Text string }
		}
	}
	if err := json.Unmarshal(m.Peek(true).Result, &result); err != nil {
		fmt.Println(err)
	}
	for _, s := range result.Trip.Stops {
		fmt.Println(s.Name, len(s.Text) > 0)
	}
	// Output:
	// first true
	// second true
}

func ExamplePrepare() {
	workflow, err := flow.ParseSpec("ask.yaml", []byte(`
input:
  required: [question]
  additionalProperties: false
  properties:
    question: {type: string, maxLength: 20}
    level: {enum: [child, adult], default: child}
bots: {answer: {}}
`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(flow.Prepare(workflow, json.RawMessage(`"Why is that?"`)))
	_, err = flow.Prepare(workflow, json.RawMessage(`{"qestion": "Why?", "level": 3}`))
	for _, p := range err.(*flow.InputError).Problems {
		fmt.Printf("%s: %s\n", p.Pointer, p.Detail)
	}
	// Output:
	// map[level:child question:Why is that?] <nil>
	// /level: expected one of "child", "adult"
	// /qestion: unknown property
	// /question: this property is required
}

// A broken file keeps its old workflow in force.
func ExampleRegistry_Reload() {
	files := fstest.MapFS{"ask.yaml": {Data: []byte("bots: {answer: {format: text}}")}}
	r, err := flow.OpenFS("workflows", files)
	fmt.Println(len(r.All()), err)

	files["ask.yaml"] = &fstest.MapFile{Data: []byte("bots: {answer: {format: txt}}")}
	fmt.Println(r.Reload())
	_, ok := r.Get("ask")
	fmt.Println(ok)
	// Output:
	// 1 <nil>
	// workflows/ask.yaml:1:25: format: expected one of json, text and html, got "txt"
	// true
}

// Go code is registered and run like a file.
func ExampleFunc() {
	r := &flow.Registry{}
	r.Register(flow.Func("twice", "Asks two models the same.",
		json.RawMessage(`{"required":["question"],"properties":{"question":{"type":"string"}}}`),
		func(ctx context.Context, m *ling.Manager, input map[string]any) error {
			for _, model := range []string{"demo:demo", "demo:fast"} {
				b, err := m.CreateBot("ask", model, func(c *bot.Config) { c.Model, c.Format = model, bot.Text })
				if err != nil {
					return err
				}
				if err := b.Chat(bot.Message{Text: input["question"].(string)}); err != nil {
					return err
				}
			}
			return nil
		}))
	w, _ := r.Get("twice")
	fmt.Println(w.Info().Name, w.Info().Description)
	// Output: twice Asks two models the same.
}
