package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// asks returns a model whose requests are noted, at a stand-in that is as strict as the API.
func asks(t *testing.T, name string, script func(fakeproviders.Request) fakeproviders.Answer) (m adapter.Model, bodies func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	up := &fakeproviders.Server{Script: script}
	t.Cleanup(func() { up.Close() })
	p := newProvider(t, Options{BaseURL: "http://model.test/v1", Transport: tripper(func(r *http.Request) (*http.Response, error) {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		var said strings.Builder
		if _, err := fmt.Fprint(&said, read(t, body)); err != nil {
			return nil, err
		}
		mu.Lock()
		all = append(all, said.String())
		mu.Unlock()
		return up.Transport().RoundTrip(r)
	})})
	m, err := p.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func says(text string) func(fakeproviders.Request) fakeproviders.Answer {
	return func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: text} }
}

// sameJSON holds JSON to what was expected.
func sameJSON(t *testing.T, want, got string) {
	t.Helper()
	var w, g any
	for text, into := range map[string]*any{want: &w, got: &g} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Error(diff)
	}
}

// MO-22: every option that the API has goes out, and nothing else.
func TestOptionsGoOut(t *testing.T) {
	m, bodies := asks(t, "o-large", says("ok"))
	req := ask("Why?")
	req.Messages = append([]adapter.Message{{Role: adapter.System, Content: "Be kind."}, {Role: adapter.System, Content: "Be short."}}, req.Messages...)
	req.Tools = []adapter.Tool{{Name: "look", Description: "looks", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "see"}}
	req.Options = adapter.Options{
		Temperature: new(0.0), TopP: new(0.5), MaxTokens: new(5), Stop: []string{"."}, Seed: new(1), FrequencyPenalty: new(1.0), PresencePenalty: new(1.0),
		Reasoning: adapter.Reasoning{Effort: "high"}, Verbosity: "low", ToolChoice: "look", ParallelToolCalls: new(false), ServiceTier: "flex",
		ExtraBody: map[string]json.RawMessage{"metadata": json.RawMessage(`{"a":"<b>"}`), "top_p": json.RawMessage(`0.25`)},
	}
	req.CacheKey = strings.Repeat("session", 20)
	if got, _, err := answerOf(t, m, req); got.Text != "ok" || err != nil {
		t.Fatal(got, err)
	}
	sameJSON(t, `{
		"model":"o-large","stream":true,"store":false,"include":["reasoning.encrypted_content"],"instructions":"Be kind.\n\nBe short.",
		"input":[{"role":"user","content":"Why?"}],
		"tools":[{"type":"function","name":"look","description":"looks","parameters":{"type":"object","properties":{}},"strict":false},
			{"type":"function","name":"see","parameters":{"type":"object","properties":{}},"strict":false}],
		"tool_choice":{"type":"function","name":"look"},"parallel_tool_calls":false,"text":{"verbosity":"low"},
		"reasoning":{"effort":"high","summary":"auto"},"max_output_tokens":16,"temperature":0,"top_p":0.25,"service_tier":"flex",
		"metadata":{"a":"<b>"},"prompt_cache_key":"`+callID(req.CacheKey)+`"}`, bodies()[0])
}

// MO-04, MO-23: what the adapter adds by itself is left out of the request that a model has refused for it, and of no other.
func TestARefusedAdditionIsLeftOutOfTheSameRequest(t *testing.T) {
	for name, row := range map[string]struct {
		model, refusal string // of the stand-in itself where it is empty
		options        adapter.Options
		format         adapter.Format
		absent         string // from the last request
		times          int    // that the first question is asked
		status         int
	}{
		"a model without words for its reasoning": {
			model: "m", refusal: `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary","code":"unsupported_value"}}`,
			absent: "summary", times: 2,
		},
		"a model that does not reason, known by its name": {model: "openai/gpt-4o", options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}}, absent: "reasoning", times: 1},
		"a model that does not reason": {
			model: "m", refusal: `{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`,
			absent: "include", times: 2,
		},
		"a member that a small server does not know": {
			model: "m", refusal: `{"detail":[{"type":"extra_forbidden","loc":["body","prompt_cache_key"],"msg":"Extra inputs are not permitted"}]}`,
			absent: "prompt_cache_key", times: 2, status: 422,
		},
		"a stream": {
			model: "m", refusal: `{"error":{"message":"Your organization must be verified to stream this model.","param":"stream","code":"unsupported_value"}}`,
			absent: `"stream":true`, times: 2,
		},
		"a schema": {
			model: "m", refusal: `{"error":{"message":"json_schema is not a form that this model knows","param":"text.format","code":null}}`,
			format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object"}`)}, absent: "json_schema", times: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, bodies := asks(t, row.model, func(r fakeproviders.Request) fakeproviders.Answer {
				if row.refusal != "" && strings.Contains(string(r.Body), row.absent) {
					return fakeproviders.Answer{Status: max(400, row.status), Body: row.refusal}
				}
				return fakeproviders.Answer{Text: "ok"}
			})
			req := ask("Why?")
			req.Options, req.Format, req.CacheKey = row.options, row.format, "k"
			for range 2 {
				if got, _, err := answerOf(t, m, req); got.Text != "ok" || err != nil {
					t.Fatal(got, err)
				}
			}
			all := bodies()
			if len(all) != 2*row.times || strings.Contains(all[len(all)-1], row.absent) {
				t.Errorf("%d requests, the last is %s", len(all), all[len(all)-1])
			}
		})
	}
}

// MO-22: an option that the user has set is not left out.
func TestARefusedOptionIsAnError(t *testing.T) {
	for _, refusal := range []string{
		`{"error":{"message":"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 5 instead.","param":"temperature","code":"decimal_above_max_value"}}`,
		`{"error":{"message":"Unsupported value: 'none' is not supported with the 'm' model. Supported values are: 'low', 'medium', and 'high'.","param":"reasoning.effort","code":"unsupported_value"}}`,
		`{"error":{"message":"Unsupported parameter: 'text.verbosity'","param":"text.verbosity","code":"unsupported_parameter"}}`,
	} {
		m, bodies := asks(t, "m", func(fakeproviders.Request) fakeproviders.Answer {
			return fakeproviders.Answer{Status: 400, Body: refusal}
		})
		req := ask("Why?")
		req.Options = adapter.Options{Temperature: new(5.0), Verbosity: "low", Reasoning: adapter.Reasoning{Effort: "none"}}
		if _, _, err := answerOf(t, m, req); err == nil || len(bodies()) != 1 {
			t.Errorf("%v after %d requests", err, len(bodies()))
		}
	}
}

// MO-22: a budget becomes an effort.
func TestABudgetBecomesAnEffort(t *testing.T) {
	m, bodies := asks(t, "m", says("ok"))
	for i, row := range []struct {
		budget int
		effort string
	}{{0, "none"}, {2000, "low"}, {5000, "medium"}, {50000, "high"}} {
		req := ask("Why?")
		req.Reasoning.Budget = &row.budget
		if _, _, err := answerOf(t, m, req); err != nil {
			t.Fatal(err)
		}
		if all := bodies(); !strings.Contains(all[i], `"effort":"`+row.effort+`"`) {
			t.Errorf("%d: %s", row.budget, all[i])
		}
	}
}

// MO-23: the schema goes out, strict if it is in the subset; where that is refused, any JSON is asked for.
func TestSchemasAreAskedForAsStrictlyAsTheyCanBe(t *testing.T) {
	closed := `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"array","items":{"$ref":"#/$defs/c"}}},"required":["a","b"],"additionalProperties":false,` +
		`"$defs":{"c":{"anyOf":[{"type":"string","enum":["x"]},{"type":"object","properties":{},"required":[],"additionalProperties":false}]}}}`
	for schema, want := range map[string]bool{
		closed: true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`:                                         false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                   false,
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}},"required":["a"],"additionalProperties":false}`: false,
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"],"additionalProperties":false}`:                          false,
		`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`:                                                     false,
		`{"type":"object","properties":{"a":{"type":"string","format":"uri"}},"required":["a"],"additionalProperties":false}`:                       false,
		`{"type":"array","items":{"type":"string"}}`:                                                                                                false,
		`true`: false,
		`no`:   false,
	} {
		if got := wire.StrictSchema(json.RawMessage(schema)); got != want {
			t.Errorf("%s: %v", schema, got)
		}
	}
	m, bodies := asks(t, "m", func(r fakeproviders.Request) fakeproviders.Answer {
		if strings.Contains(string(r.Body), "json_schema") {
			return fakeproviders.Answer{Status: 400, Body: `{"error":{"message":"Invalid schema","param":"text.format.schema","code":"invalid_json_schema"}}`}
		}
		return fakeproviders.Answer{Text: "{}"}
	})
	req := ask("Write JSON.")
	req.Format = adapter.Format{JSON: true, Name: "the answer", Schema: json.RawMessage(closed)}
	if _, _, err := answerOf(t, m, req); err != nil {
		t.Fatal(err)
	}
	all := bodies()
	if len(all) != 2 || !strings.Contains(all[0], `"name":"the_answer"`) || !strings.Contains(all[0], `"strict":true`) ||
		!strings.Contains(all[1], `"text":{"format":{"type":"json_object"}}`) {
		t.Errorf("%q", all)
	}
	req.Messages[0].Content = "Write." // the API takes this form only where the messages name it
	if _, _, err := answerOf(t, m, req); err != nil || strings.Contains(bodies()[3], "json_object") {
		t.Errorf("%v %s", err, bodies()[3])
	}
}

// MO-25: what messages can have beside text.
func TestImagesAndFilesGoOut(t *testing.T) {
	m, bodies := asks(t, "m", says("ok"))
	req := adapter.Request{Messages: []adapter.Message{
		{Role: adapter.User, Parts: []adapter.Part{
			{Type: "text", Text: "What is in these?"},
			{Type: "image_url", Image: "https://a.test/b.png"},
			{Type: "image_url", Image: "data:image/png;base64,aGk="},
			{Type: "file", File: "data:application/pdf;base64,aGk=", Name: "a.pdf"},
			{Type: "file", File: "data:application/pdf;base64,aGk="},
			{Type: "file", File: "https://a.test/c.pdf"},
			{Type: "file", File: "data:text/csv;charset=utf-8;base64,YSxiCg==", Name: "t.csv"},
			{Type: "file", File: "data:audio/mpeg;base64,aGk="},
		}},
		{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c1", Name: "draw"}}},
		{Role: adapter.ToolRole, ToolCallID: "c1", Parts: []adapter.Part{{Type: "image_url", Image: "data:image/png;base64,aGk="}}},
	}}
	if _, _, err := answerOf(t, m, req); err != nil {
		t.Fatal(err)
	}
	var got struct{ Input json.RawMessage }
	json.Unmarshal([]byte(bodies()[0]), &got)
	sameJSON(t, `[{"role":"user","content":[
		{"type":"input_text","text":"What is in these?"},
		{"type":"input_image","image_url":"https://a.test/b.png","detail":"auto"},
		{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"},
		{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="},
		{"type":"input_file","filename":"file.pdf","file_data":"data:application/pdf;base64,aGk="},
		{"type":"input_file","file_url":"https://a.test/c.pdf"},
		{"type":"input_text","text":"t.csv:\n\na,b\n"},
		{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}}]},
		{"type":"function_call","call_id":"c1","name":"draw","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"}]}]`, string(got.Input))
	for file, says := range map[string]string{
		"data:audio/ogg;base64,aGk=": "WAV and MP3", "data:video/mp4;base64,aGk=": "video", "data:text/plain": "data: URL", "file:///etc/passwd": "data: URL",
		"data:text/plain;base64,?": "not in base64",
	} {
		req := adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{{Type: "file", File: file}}}}}
		_, _, err := answerOf(t, m, req)
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeInvalid || !strings.Contains(e.Message, says) || e.Cause == nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if len(bodies()) != 1 {
		t.Error("it was asked all the same")
	}
}

// MO-01, MO-02, MO-20, MO-21: an agent that thinks goes through eight steps at a server that refuses every history that is not as it was.
func TestAnAgentsLoopGoesThroughAStrictServer(t *testing.T) {
	m, bodies := asks(t, "m", func(r fakeproviders.Request) fakeproviders.Answer {
		a := fakeproviders.Answer{Reasoning: fmt.Sprintf("step <%d> & \"more\"", r.Attempt), Text: "I look"}
		if r.Attempt < 8 {
			for i := range r.Attempt % 3 {
				a.ToolCalls = append(a.ToolCalls, fakeproviders.ToolCall{ID: fmt.Sprintf("call_%d_%d", r.Attempt, i), Name: "look", Arguments: `{"n":1}`})
			}
		}
		if r.Attempt%2 == 0 && a.ToolCalls != nil {
			a.Text = ""
		}
		return a
	})
	req := ask("Go.")
	for range 8 {
		_, msg, err := answerOf(t, m, req)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, msg)
		for _, c := range msg.ToolCalls {
			req.Messages = append(req.Messages, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: "seen"})
		}
		if len(msg.ToolCalls) == 0 {
			req.Messages = append(req.Messages, adapter.Message{Role: adapter.User, Content: "On."})
		}
	}
	all := bodies()
	if len(all) != 8 {
		t.Fatalf("%d requests: something was refused: %s", len(all), all[len(all)-1])
	}
	last := all[7]
	if strings.Count(last, `"encrypted_content"`) != 7 || !strings.Contains(last, `"phase":"final_answer"`) || strings.Contains(last, `"id"`) {
		t.Error(last)
	}
	for i, body := range all[1:] { // MO-24: the same to the byte, as far as it was
		before := all[i]
		if cut := strings.TrimSuffix(before, "]}"); !strings.HasPrefix(body, cut) {
			t.Errorf("request %d does not begin as the one before:\n%s\n%s", i+1, cut, body)
		}
	}
}

// MO-02, MO-03: histories of other models, and of answers that were cut off, are taken, too.
func TestHistoriesOfOtherModelsAreTaken(t *testing.T) {
	long := strings.Repeat("toolu_", 20)
	sealed := json.RawMessage(`{"id":"rs_9","type":"reasoning","summary":[],"encrypted_content":"x"}`)
	m, bodies := asks(t, "m", says("ok"))
	req := adapter.Request{Messages: []adapter.Message{
		{Role: adapter.User, Content: "Go."},
		{Role: adapter.Assistant, Content: "I look", ToolCalls: []adapter.ToolCall{{ID: long, Name: "look", Arguments: `{}`}, {ID: "c2", Name: "look", Arguments: `{}`}}},
		{Role: adapter.ToolRole, ToolCallID: long, Content: "seen"},
		{Role: adapter.ToolRole, ToolCallID: "c2", Content: ""},
		{Role: adapter.Assistant, Made: &adapter.Made{Parts: []adapter.MadePart{
			{Type: adapter.PartReasoning, Text: "then"}, {Type: adapter.PartText, Text: "done"}, {Type: adapter.PartReasoning, Data: sealed},
		}}},
		{Role: adapter.User, Content: "On."},
		{Role: adapter.Assistant, Content: "", Made: &adapter.Made{Parts: []adapter.MadePart{{Type: adapter.PartReasoning, Data: sealed}}}},
		{Role: adapter.User, Content: "On."},
		{Role: adapter.System, Content: "Be brief."},
	}}
	if _, _, err := answerOf(t, m, req); err != nil {
		t.Fatal(err)
	}
	if all := bodies(); len(all) != 1 || strings.Contains(all[0], "reasoning\",") || strings.Contains(all[0], "then") {
		t.Errorf("%q", all)
	}
}

// MO-04: items of the provider's tools are given back as they were, and left out of a request that the server has refused for them; a server
// that wants ids gets them.
func TestHistoriesAreSentTheOtherWayWhereTheyAreRefused(t *testing.T) {
	search := json.RawMessage(`{"id":"fs_1","type":"file_search_call","status":"completed","queries":["a"],"results":null}`)
	history := ask("Go.")
	history.Messages = append(history.Messages, adapter.Message{
		Role: adapter.Assistant, Content: "done", ToolCalls: []adapter.ToolCall{{ID: "c1", Name: "look", Arguments: `{}`}},
		Made: &adapter.Made{Parts: []adapter.MadePart{
			{Type: adapter.PartReasoning, Data: json.RawMessage(`{"type":"reasoning","id":"rs_1","status":"completed","content":[{"type":"reasoning_text","text":"so"}],"summary":[],"encrypted_content":null}`)},
			{Type: adapter.PartOther, Data: search},
			{Type: adapter.PartText, Text: "done", Data: json.RawMessage(`{"phase":"commentary"}`)},
			{Type: adapter.PartCall, Call: "c1", Data: json.RawMessage(`{"signature":"s"}`)},
		}},
	}, adapter.Message{Role: adapter.ToolRole, ToolCallID: "c1", Content: "seen"})
	for name, row := range map[string]struct {
		refuse func(body string) string
		want   []string // the items of the answer, in each request
	}{
		"taken": {func(string) string { return "" }, []string{
			`{"content":[{"type":"reasoning_text","text":"so"}],"summary":[],"type":"reasoning"},` +
				`{"id":"fs_1","queries":["a"],"results":null,"status":"completed","type":"file_search_call"},` +
				`{"content":"done","phase":"commentary","role":"assistant"},` +
				`{"arguments":"{}","call_id":"c1","name":"look","signature":"s","type":"function_call"}`,
		}},
		"an item is not known": {
			func(body string) string {
				if strings.Contains(body, `"fs_1"`) {
					return "Item with id 'fs_1' not found. Items are not persisted when `store` is set to false."
				}
				return ""
			},
			[]string{
				`"id":"fs_1","queries"`,
				`[{"content":"Go.","role":"user"},{"content":"done"`, // nor the reasoning that led to it
			},
		},
		"ids are wanted": {
			func(body string) string {
				if !strings.Contains(body, `"id":"fc_4"`) {
					return `Invalid Responses API request`
				}
				return ""
			},
			[]string{`"phase":"commentary","role":"assistant"`, `{"content":[{"type":"reasoning_text","text":"so"}],"id":"rs_1","status":"completed","summary":[],"type":"reasoning"},` +
				`{"id":"fs_1","queries":["a"],"results":null,"status":"completed","type":"file_search_call"},` +
				`{"content":[{"annotations":[],"text":"done","type":"output_text"}],"id":"msg_3","phase":"commentary","role":"assistant","status":"completed","type":"message"},` +
				`{"arguments":"{}","call_id":"c1","id":"fc_4","name":"look","signature":"s","status":"completed","type":"function_call"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			m := modelAt(t, tripper(func(r *http.Request) (*http.Response, error) {
				body := read(t, r.Body)
				all = append(all, body)
				if refused := row.refuse(body); refused != "" {
					said, _ := json.Marshal(map[string]any{"error": map[string]any{"message": refused, "param": nil}})
					status := 400
					if strings.Contains(refused, "not found") {
						status = 404
					}
					return (&adaptertest.Answering{Status: status, Type: "application/json", Body: bytes.NewReader(said)}).RoundTrip(r)
				}
				return (&adaptertest.Answering{Type: "text/event-stream", Body: strings.NewReader(subject.Wire.Text("ok") + subject.Wire.Finish)}).RoundTrip(r)
			}))
			for range 2 {
				if got, _, err := answerOf(t, m, history); got.Text != "ok" || err != nil {
					t.Fatal(got, err)
				}
			}
			if len(all) != 2*len(row.want) || all[len(all)-1] != all[len(row.want)-1] {
				t.Errorf("%d requests", len(all))
			}
			for i, want := range row.want {
				if !strings.Contains(all[i], want) {
					t.Errorf("request %d:\n%s\nexpected\n%s", i, all[i], want)
				}
			}
		})
	}
}

// MO-30: the addresses and the headers of OpenAI, of Azure, and of others.
func TestAddresses(t *testing.T) {
	for want, row := range map[string]struct{ base, azure string }{
		"https://api.openai.com/v1/responses Authorization":                                   {},
		"https://api.x.ai/v1/responses Authorization":                                         {base: "https://api.x.ai/v1/"},
		"https://api.x.ai/v1/responses  Authorization":                                        {base: "https://api.x.ai/v1/responses"},
		"https://n.openai.azure.com/openai/v1/responses Api-Key":                              {"https://n.openai.azure.com", "default"},
		"https://n.openai.azure.com/openai/v1/responses  Api-Key":                             {"https://n.openai.azure.com/openai/v1/", "default"},
		"https://n.openai.azure.com/openai/v1/responses   Api-Key":                            {"https://n.openai.azure.com/openai", "default"},
		"https://n.openai.azure.com/openai/responses?api-version=2025-04-01-preview Api-Key":  {"https://n.openai.azure.com", "2025-04-01-preview"},
		"https://n.openai.azure.com/openai/responses?api-version=2025-04-01-preview  Api-Key": {base: "https://n.openai.azure.com/openai/responses?api-version=2025-04-01-preview"},
		"https://n.services.ai.azure.com/openai/v1/responses?api-version=preview Api-Key":     {base: "https://n.services.ai.azure.com/openai/v1?api-version=preview"},
	} {
		var url string
		var header http.Header
		o := Options{BaseURL: row.base, Key: "k", Header: http.Header{"Openai-Organization": {"org"}}}
		o.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			url, header = r.URL.String(), r.Header
			return nil, errors.New("enough")
		})
		p := newProvider(t, o)
		if row.azure != "" {
			p = newAzure(t, o, strings.TrimPrefix(row.azure, "default"))
		}
		m, err := p.Model("gpt-5.4")
		if err != nil {
			t.Fatal(err)
		}
		answerOf(t, m, ask("?"))
		address, key, _ := strings.Cut(want, " ")
		if url != address || !strings.HasSuffix(header.Get(strings.TrimSpace(key)), "k") || header.Get("OpenAI-Organization") != "org" {
			t.Errorf("%s: expected %s with %s: %v", url, address, key, header)
		}
	}
	for _, bad := range []string{"api.openai.com", "ftp://a/b", "https://a/#b"} {
		if _, err := New(Options{BaseURL: bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if _, err := newProvider(t, Options{}).Model(""); err == nil {
		t.Error("a model without a name")
	}
	if _, lists := newAzure(t, Options{BaseURL: "https://n.openai.azure.com"}, "").(adapter.Lister); lists {
		t.Error("Azure's list is none of models that can be asked")
	}
}

// A refusal because of an address or a name says what to check: Azure's are others than those of OpenAI.
func TestANameThatIsNotKnownIsExplained(t *testing.T) {
	missing := func() http.RoundTripper {
		body := strings.NewReader(`{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`)
		return &adaptertest.Answering{Status: 404, Type: "application/json", Body: body}
	}
	for says, p := range map[string]adapter.Provider{
		"that the server has the Responses API": newProvider(t, Options{Transport: missing()}),
		"names of their deployments":            newAzure(t, Options{Transport: missing(), BaseURL: "https://n.openai.azure.com"}, ""),
	} {
		m, err := p.Model("m")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := answerOf(t, m, ask("?")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; expected %q", err, says)
		}
	}
}
