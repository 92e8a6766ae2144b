package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// answered is the text of an answer and the calls in it, as "name arguments".
func answered(t *testing.T, p *demo.Provider, req adapter.Request) (text string, calls []adapter.ToolCall) {
	t.Helper()
	m, err := p.Model("fast")
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range m.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		text += c.Text
		if tc := c.ToolCall; tc != nil {
			if tc.Index == len(calls) {
				calls = append(calls, adapter.ToolCall{Index: tc.Index})
			}
			one := &calls[tc.Index]
			one.ID += tc.ID
			one.Name += tc.Name
			one.Arguments += tc.Arguments
		}
		if c.Finish != "" && (c.Finish == adapter.FinishToolCalls) != (len(calls) > 0) {
			t.Errorf("it ends with %s after %d calls", c.Finish, len(calls))
		}
	}
	return text, calls
}

func inShort(calls []adapter.ToolCall) (all []string) {
	for _, c := range calls {
		all = append(all, c.Name+" "+c.Arguments)
	}
	return all
}

func offer(name, schema string) adapter.Tool {
	return adapter.Tool{Name: name, Description: "A tool.", Parameters: json.RawMessage(schema)}
}

var offered = []adapter.Tool{
	offer("clock_time", `{"type":"object","properties":{},"additionalProperties":false}`),
	offer("weather_now", `{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":1,"maximum":7}},"required":["city","unit"],"additionalProperties":false}`),
	offer("mcp_everything_get-sum", `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
	offer("fs_read", `{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"}},"required":["path"]}`),
	offer("tape_read", `{"type":"object","properties":{"id":{"type":"integer","minimum":1}},"required":["id"]}`),
	offer("skill", `{"type":"object","properties":{"name":{"type":"string","maxLength":20}},"required":["name"]}`),
	offer("swap", `{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}},"required":["from","to"]}`),
	offer("plain", ``),
	offer("open", `true`),
	offer("dice", `{"type":"object","properties":{"sides":{"type":"integer","minimum":2,"maximum":100,"multipleOf":2},"luck":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}},"required":["sides","luck"]}`),
	offer("broken", `{"type":"string"}`),
	offer("endless", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}}}`),
}

func TestToolsAreCalledThatTheQuestionNames(t *testing.T) {
	p := demo.New(nil)
	for question, want := range map[string][]string{
		"What time is it?":                                         {"clock_time {}"},
		"Tell me the TIMES, please":                                {"clock_time {}"},
		"现在的time是什么":                                               {"clock_time {}"},
		"What is the weather in Rome?":                             {`weather_now {"city":"Rome","unit":"celsius"}`},
		"The weather in New York in Fahrenheit, and for 3 days":    {`weather_now {"city":"New York","unit":"fahrenheit"}`},
		"weather Oslo":                                             {`weather_now {"city":"Oslo","unit":"celsius"}`},
		"What is the sum of 2 and 40.5?":                           {`mcp_everything_get-sum {"a":2,"b":40.5}`},
		"Call get sum":                                             {`mcp_everything_get-sum {"a":1,"b":1}`},
		"Use fs.read with `docs/a b.md`":                           {`fs_read {"path":"docs/a b.md"}`},
		"fs_read \"x.md\" and tape_read 7":                         {`fs_read {"path":"x.md"}`, `tape_read {"id":7}`},
		"tape read 0":                                              {`tape_read {"id":1}`},
		"Read it.":                                                 nil, // two tools could be meant
		"Which skill is for \"pdf forms\"?":                        {`skill {"name":"pdf forms"}`},
		"the skill with a name that is much longer than it may be": {`skill {"name":"with a name that is "}`},
		"Swap “a” «b»":                                             {`swap {"from":"a","to":"b"}`},
		"date: 2026-01-01T12:00:00Z\n\nHello":                      nil,
		"time: noon\ndate: 2026-01-01T12:00:00Z\nnot attached: a swap\n\nThe skill 'x'": {`skill {"name":"x"}`},
		"broken and endless":                               nil,                                      // their arguments cannot be made
		"everything now, get it":                           {`mcp_everything_get-sum {"a":1,"b":1}`}, // no other tool has that word
		"time, weather in Bern, sum of 1 and 2, skill":     {"clock_time {}", `weather_now {"city":"Bern","unit":"celsius"}`, `mcp_everything_get-sum {"a":1,"b":2}`},
		"skill: time\ndate: 2026-01-01T12:00:00Z\n\nHello": nil, // which are facts about the message
		"Which skill knows \"the weather and the time\"?":  {`skill {"name":"the weather and the "}`},
		"plain, open":    {"plain {}", "open {}"},
		"dice 6 and 0.5": {`dice {"sides":6,"luck":0.5}`},
		"dice 7, 2":      {`dice {"sides":2,"luck":0.9999999999999999}`}, // neither of them is allowed there
		"dice with 200":  {`dice {"sides":2,"luck":0.9999999999999999}`},
		"Call `time`":    {"clock_time {}"},
		"Hello there":    nil,
		"":               nil,
	} {
		req := request("You are helpful.", question, adapter.Format{})
		req.Tools = offered
		text, calls := answered(t, p, req)
		if diff := cmp.Diff(want, inShort(calls)); diff != "" {
			t.Errorf("%s: %s", question, diff)
		}
		if (text == "") != (len(want) > 0) {
			t.Errorf("%s: it says %q", question, text)
		}
		for _, c := range calls {
			for _, o := range offered {
				if o.Name == c.Name && len(o.Parameters) > 0 {
					valid(t, o.Parameters, c.Arguments)
				}
			}
		}
	}
}

func valid(t *testing.T, schema json.RawMessage, document string) {
	t.Helper()
	s, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", s); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	if err := c.MustCompile("schema.json").Validate(doc); err != nil {
		t.Errorf("%v\n%s", err, document)
	}
}

// It says what came of a call, and calls nothing a second time for one question; for the next one it does.
func TestResultsAreToldAndNoToolIsCalledTwice(t *testing.T) {
	p := demo.New(nil)
	req := request("", "What time is it, and what is the weather in Rome?", adapter.Format{})
	req.Tools = offered
	_, calls := answered(t, p, req)
	if len(calls) != 2 || calls[0].ID != "call_1" || calls[1].ID != "call_2" {
		t.Fatalf("%+v", calls)
	}
	req.Messages = append(req.Messages, adapter.Message{Role: adapter.Assistant, ToolCalls: calls},
		adapter.Message{Role: adapter.ToolRole, ToolCallID: "call_2", Content: `{"error":{"kind":"timeout","message":"the tool did not finish"}}`},
		adapter.Message{Role: adapter.ToolRole, ToolCallID: "call_1", Content: "12:00"})
	const asked = "You asked: “What time is it, and what is the weather in Rome?” "
	const told = "The tool weather_now could not do it: “the tool did not finish”. The tool clock_time says: “12:00”."
	text, again := answered(t, p, req)
	if !strings.HasSuffix(text, asked+told) || !strings.HasPrefix(text, "This is scripted") || again != nil {
		t.Errorf("%s, %v", text, again)
	}

	// What is said meanwhile is a part of the question, where the agent takes it into the running turn.
	steered := req
	steered.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], adapter.Message{Role: adapter.User, Content: "And the time and the sum of 1 and 2?"})
	if _, calls = answered(t, p, steered); len(calls) != 1 || calls[0].Name != "mcp_everything_get-sum" || calls[0].ID != "call_3" {
		t.Errorf("%+v", calls)
	}

	req.Messages = append(req.Messages, adapter.Message{Role: adapter.Assistant, Content: text}, adapter.Message{Role: adapter.User, Content: "And the time now?"})
	if _, calls = answered(t, p, req); len(calls) != 1 || calls[0].Name != "clock_time" || calls[0].ID != "call_3" {
		t.Errorf("%+v", calls)
	}
	req.Messages = append(req.Messages, adapter.Message{Role: adapter.Assistant, ToolCalls: calls}, adapter.Message{Role: adapter.ToolRole, ToolCallID: "call_3", Content: " "})
	if text, calls = answered(t, p, req); calls != nil || !strings.HasSuffix(text, "The tool clock_time returned nothing.") {
		t.Errorf("%s, %v", text, calls)
	}
}

func TestAQuestionForJSONCallsToolsAsWell(t *testing.T) {
	p := demo.New(nil)
	req := request("Answer in JSON.", "What time is it?", wantJSON)
	req.Tools = offered
	_, calls := answered(t, p, req)
	if diff := cmp.Diff([]string{"clock_time {}"}, inShort(calls)); diff != "" {
		t.Fatal(diff)
	}
	req.Messages = append(req.Messages, adapter.Message{Role: adapter.Assistant, ToolCalls: calls}, adapter.Message{Role: adapter.ToolRole, ToolCallID: "call_1", Content: "12:00"})
	text, _ := answered(t, p, req)
	var doc map[string]string
	if err := json.Unmarshal([]byte(text), &doc); err != nil || !strings.Contains(doc["answer"], "The tool clock_time says: “12:00”") {
		t.Errorf("%s, %v", text, err)
	}
}

// BO-07, AD-05: a bot's whole loop, with the real tools of package tool and without an account.
func TestABotsLoopIsSeenWithoutAnAccount(t *testing.T) {
	p := demo.New(nil)
	registry := &adapter.Registry{}
	registry.Register("demo", p)
	weather, err := tool.New("weather", "The weather of a town.", func(_ context.Context, in struct {
		Town string `json:"town"`
	},
	) (string, error) {
		return fmt.Sprintf("sunny in %s", in.Town), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(weather)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	b := bot.New(bot.Env{
		Context: t.Context(), Models: registry,
		Tube: tube.New("run", &tube.Options{}),
		Go:   func(f func(context.Context)) bool { running.Go(func() { f(t.Context()) }); return true },
	}, "b", "", bot.Config{Model: "demo:fast", Format: bot.Text, Tools: set})
	if err := b.Chat(bot.Message{Text: "How is the weather in Rome?"}); err != nil {
		t.Fatal(err)
	}
	r, err := b.Wait(t.Context())
	if err != nil || !strings.HasSuffix(string(r.Value), ` You asked: “How is the weather in Rome?” The tool weather says: “sunny in Rome”."`) {
		t.Errorf("%s, %v", r.Value, err)
	}
}
