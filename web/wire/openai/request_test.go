package openai_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/openai"
)

// body is the body of a request with more members.
func body(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"m","messages":[{"role":"user","content":"x"}]` + more + `}`
}

func TestARequestIsRead(t *testing.T) {
	user := []adapter.Message{{Role: adapter.User, Content: "x"}}
	asking := func(o adapter.Options) openai.Request { return openai.Request{Model: "m", Messages: user, Options: o} }
	for _, c := range []struct {
		name, body string
		want       openai.Request
	}{
		{"the least", body(""), openai.Request{Model: "m", Messages: user}},
		{"a stream with usage", body(`"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}`), openai.Request{Model: "m", Messages: user, Stream: true, Usage: true}},
		{
			"sampling", body(`"temperature":0,"top_p":1,"max_tokens":5,"stop":["a","b"],"seed":-1`),
			asking(adapter.Options{Temperature: new(0.0), TopP: new(1.0), MaxTokens: new(5), Stop: []string{"a", "b"}, Seed: new(-1)}),
		},
		{ // MO-22
			"more of the model", body(`"frequency_penalty":-1,"presence_penalty":1,"reasoning_effort":"minimal","verbosity":"high","service_tier":"flex","parallel_tool_calls":true`),
			asking(adapter.Options{FrequencyPenalty: new(-1.0), PresencePenalty: new(1.0), Reasoning: adapter.Reasoning{Effort: "minimal"}, Verbosity: "high", ServiceTier: "flex", ParallelToolCalls: new(true)}),
		},
		{
			"reasoning as ours, and a router's", body(`"reasoning":{"budget":0,"enabled":true,"effort":null,"show":false}`),
			asking(adapter.Options{Reasoning: adapter.Reasoning{Budget: new(0), Show: new(false)}}),
		},
		{"a tool by name", body(`"tool_choice":{"type":"function","function":{"name":"now"}}`), asking(adapter.Options{ToolChoice: "now"})},
		{"the newer limit", body(`"max_tokens":5,"max_completion_tokens":6`), asking(adapter.Options{MaxTokens: new(6)})},
		{"a user", body(`"user":"u","metadata":{"other":"x"}`), openai.Request{Model: "m", Messages: user, Session: "u", SessionParam: "user"}},
		{"a session", body(`"user":"u","metadata":{"session":"s"}`), openai.Request{Model: "m", Messages: user, Session: "s", SessionParam: "metadata.session"}},
		{"JSON", body(`"response_format":{"type":"json_object"}`), openai.Request{Model: "m", Messages: user, JSON: true}},
		{
			"a schema", body(`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`),
			openai.Request{Model: "m", Messages: user, JSON: true, Schema: json.RawMessage(`{"type":"object"}`), SchemaName: "n", Strict: true},
		},
		{"tools that are none to call", body(`"tools":[{"type":"function"}],"tool_choice":"none"`), asking(adapter.Options{ToolChoice: "none"})},
		{"nothing of much", body(`"stream":null,"stop":null,"n":1,"tools":[ ],"logit_bias":{ },"logprobs":false,"top_logprobs":0,"audio":null,"modalities":["text"]`), openai.Request{Model: "m", Messages: user}},
		{
			"messages", `{"model":"m","messages":[{"role":"developer","content":"d"},{"role":"assistant","content":null,"refusal":"no"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}]}]}`,
			openai.Request{Model: "m", Messages: []adapter.Message{{Role: adapter.System, Content: "d"}, {Role: adapter.Assistant, Content: "no"}, {Role: adapter.Assistant, Content: "a\nb"}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, faults := openai.Read([]byte(c.body))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if d := cmp.Diff(&c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatDoesNotFitIsRefusedByItsName(t *testing.T) {
	for _, c := range []struct{ body, param string }{
		{`7`, ""},
		{`{"model":"","messages":[]}`, "model"},
		{`{"model":7}`, "model"},
		{`{"model":"` + strings.Repeat("x", 300) + `"}`, "model"},
		{`{"model":"m","messages":{}}`, "messages"},
		{`{"model":"m","messages":[7]}`, "messages[0]"},
		{`{"model":"m","messages":[{"role":"user"}]}`, "messages[0].content"},
		{`{"model":"m","messages":[{"role":"user","content":[7]}]}`, "messages[0].content[0]"},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text"},
		{`{"model":"m","messages":[{"role":"assistant","tool_calls":7}]}`, "messages[0].tool_calls"},
		{`{"model":"m","messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`, "messages[0].content[0]"},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/html;base64,AA=="}}]}]}`, "messages[0].content[0].image_url.url"},
		{body(`"stream":"yes"`), "stream"},
		{body(`"stream_options":7`), "stream_options"},
		{body(`"top_p":-1`), "top_p"},
		{body(`"seed":1.5`), "seed"},
		{body(`"seed":"1"`), "seed"},
		{body(`"max_tokens":0`), "max_tokens"},
		{body(`"stop":7`), "stop"},
		{body(`"stop":[""]`), "stop"},
		{body(`"stop":["a",7]`), "stop"},
		{body(`"max_tokens":5,"max_completion_tokens":0`), "max_completion_tokens"},
		{body(`"frequency_penalty":3`), "frequency_penalty"},
		{body(`"reasoning_effort":"lots"`), "reasoning_effort"},
		{body(`"reasoning":{"budget":-1}`), "reasoning"},
		{body(`"reasoning":"high"`), "reasoning"},
		{body(`"tool_choice":{"type":"allowed_tools"}`), "tool_choice"},
		{body(`"verbosity":7`), "verbosity"},
		{body(`"user":7`), "user"},
		{body(`"metadata":[]`), "metadata"},
		{body(`"metadata":{"session":7}`), "metadata.session"},
		{body(`"stream_options":{"include_usage":1}`), "stream_options.include_usage"}, // DH-15
		{body(`"response_format":{"type":"grammar"}`), "response_format.type"},
		{body(`"response_format":{"type":"json_schema"}`), "response_format.json_schema"},
		{body(`"response_format":{"type":"json_schema","json_schema":{"schema":7}}`), "response_format.json_schema.schema"},
		{body(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"objekt"}}}`), "response_format.json_schema.schema"}, // DH-05
		{body(`"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#/$defs/x"}}}`), "response_format.json_schema.schema"},
		{body(`"response_format":{"type":"json_schema","json_schema":{"strict":true}}`), "response_format.json_schema.schema"},
		{body(`"response_format":{"type":"json_schema","json_schema":{"strict":1,"schema":{}}}`), "response_format.json_schema.strict"},
		{body(`"tools":[{}]`), "tools"},
		{body(`"tools":[{}],"tool_choice":"auto"`), "tools"},
		{body(`"functions":[{}]`), "functions"},
		{body(`"n":2`), "n"},
		{body(`"logprobs":true`), "logprobs"},
		{body(`"top_logprobs":1`), "top_logprobs"},
		{body(`"logit_bias":{"1":2}`), "logit_bias"},
		{body(`"modalities":["text","audio"]`), "modalities"},
		{body(`"web_search_options":{}`), "web_search_options"},
	} {
		t.Run(c.body[:min(len(c.body), 120)], func(t *testing.T) {
			p := wire.CheckBody([]byte(c.body))
			if p == nil {
				_, faults := openai.Read([]byte(c.body))
				p = wire.Invalid(faults...)
			}
			if p == nil {
				t.Fatal("it is taken")
			}
			w := httptest.NewRecorder()
			openai.WriteProblem(w, p)
			var got struct {
				Error struct{ Message, Type, Param string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if e := got.Error; w.Code != 400 || e.Param != c.param || e.Type != "invalid_request_error" || e.Message == "" || !strings.HasPrefix(e.Message, c.param) {
				t.Errorf("%d %+v", w.Code, e)
			}
		})
	}
}

func TestAConversationIsSplit(t *testing.T) {
	q, faults := openai.Read([]byte(`{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"see"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"r"},{"role":"assistant","content":"ok"},{"role":"developer","content":"b"},{"role":"user","content":"now"}]}`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	instructions, before, now, refusal := q.Conversation()
	want := []adapter.Message{{Role: adapter.User, Content: "see\n[an image]"}, {Role: adapter.Assistant, Content: "ok"}}
	if d := cmp.Diff(want, before); d != "" || instructions != "a\n\nb" || now.Content != "now" || refusal != nil {
		t.Errorf("%q %q %v %s", instructions, now.Content, refusal, d)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{body(""), body(`"stop":["a"],"n":1,"user":"u"`), `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, `[]`, `{"messages":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return // it is known to be JSON
		}
		q, faults := openai.Read(text)
		if len(faults) > 0 {
			if faults[0].Detail == "" {
				t.Error(faults)
			}
			return
		}
		if q.Model == "" || len(q.Messages) == 0 {
			t.Errorf("%+v", q)
		}
		_, _, _, _ = q.Conversation()
	})
}
