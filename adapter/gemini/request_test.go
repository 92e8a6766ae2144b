package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// asked is what the server was asked, as anybody reads it.
type asked struct {
	SystemInstruction object   `json:"systemInstruction"`
	Contents          []turn   `json:"contents"`
	Tools             []object `json:"tools"`
	ToolConfig        object   `json:"toolConfig"`
	GenerationConfig  object   `json:"generationConfig"`
	Rest              object   `json:"-"`
}

// turn is what one side has said.
type turn struct {
	Role  string   `json:"role"`
	Parts []object `json:"parts"`
}

const enough = `data: {"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}` + "\n\n"

// server answers as its function says, and keeps what it was asked.
type server struct {
	bodies  []string
	headers []http.Header
	urls    []string
	answer  func(n int, body string) (status int, said string)
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(nil)
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	s.bodies, s.headers, s.urls = append(s.bodies, string(body)), append(s.headers, r.Header), append(s.urls, r.URL.String())
	status, said := 200, enough
	if s.answer != nil {
		status, said = s.answer(len(s.bodies), string(body))
	}
	kind := "text/event-stream"
	if status != 200 {
		kind = "application/json"
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(said))}, nil
}

// read reads a body.
func read(t *testing.T, body string) (a asked) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	if err := d.Decode(&a); err != nil {
		t.Fatal(err)
	}
	json.Unmarshal([]byte(body), &a.Rest)
	return a
}

// sentBy returns what a model of this name sends.
func sentBy(t *testing.T, name string, req adapter.Request) asked {
	t.Helper()
	s := new(server)
	run(t, newProvider(t, Options{Transport: s, Key: "k"}), name, req)
	return read(t, s.bodies[0])
}

// run asks a model, and returns its text and its error.
func run(t *testing.T, p adapter.Provider, name string, req adapter.Request) (text string, err error) {
	t.Helper()
	m, err := p.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	if req.Messages == nil {
		req.Messages = []adapter.Message{{Role: adapter.User, Content: "?"}}
	}
	for c, err := range m.Stream(t.Context(), req) {
		if err != nil {
			return text, err
		}
		text += c.Text
	}
	return text, nil
}

// same compares JSON.
func same(t *testing.T, name string, got any, want string) {
	t.Helper()
	text, _ := json.Marshal(got)
	var a, b any
	json.Unmarshal(text, &a)
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

// MO-22: all options that the API can express.
func TestOptionsGoOut(t *testing.T) {
	req := adapter.Request{
		Messages: []adapter.Message{{Role: adapter.System, Content: "kind"}, {Role: adapter.User, Content: "a<b"}},
		Tools:    []adapter.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)}, {Name: "g"}},
		Format:   adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object"}`)},
		Options: adapter.Options{
			Temperature: new(0.0), TopP: new(0.5), MaxTokens: new(9), Stop: []string{"x"}, Seed: new(7), FrequencyPenalty: new(0.1), PresencePenalty: new(0.2),
			ToolChoice: "f", ServiceTier: "flex", Verbosity: "low", ParallelToolCalls: new(false),
			ExtraBody: map[string]json.RawMessage{
				"generationConfig": json.RawMessage(`{"topK":3,"seed":8}`), "tools": json.RawMessage(`[{"googleSearch":{}}]`), "safetySettings": json.RawMessage(`[]`),
			},
		},
	}
	got := sentBy(t, "m", req)
	same(t, "system", got.SystemInstruction, `{"parts":[{"text":"kind"}]}`)
	same(t, "contents", got.Contents, `[{"role":"user","parts":[{"text":"a<b"}]}]`)
	same(t, "generationConfig", got.GenerationConfig, `{"temperature":0,"topP":0.5,"maxOutputTokens":9,"stopSequences":["x"],"seed":8,"frequencyPenalty":0.1,"presencePenalty":0.2,`+
		`"responseMimeType":"application/json","responseJsonSchema":{"type":"object"},"topK":3}`)
	same(t, "tools", got.Tools, `[{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object","properties":{"x":{"type":"string"}}}},{"name":"g"}]},{"googleSearch":{}}]`)
	same(t, "toolConfig", got.ToolConfig, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`)
	if got.Rest["serviceTier"] != "flex" || got.Rest["safetySettings"] == nil {
		t.Errorf("%v", got.Rest)
	}
	older := sentBy(t, "gemini-2.0-flash", req) // takes no JSON beside tools
	same(t, "generationConfig", older.GenerationConfig, `{"temperature":0,"topP":0.5,"maxOutputTokens":9,"stopSequences":["x"],"seed":8,"frequencyPenalty":0.1,"presencePenalty":0.2,"topK":3}`)
	for choice, mode := range map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"} {
		req.ToolChoice = choice
		same(t, choice, sentBy(t, "m", req).ToolConfig, `{"functionCallingConfig":{"mode":"`+mode+`"}}`)
	}
}

// MO-22: Gemini 3 thinks in levels, those before by a budget of tokens; thoughts are asked for only where there are any.
func TestThinking(t *testing.T) {
	for _, row := range []struct {
		model string
		r     adapter.Reasoning
		want  string
	}{
		{"gemini-2.5-flash", adapter.Reasoning{}, `{"includeThoughts":true}`},
		{"gemini-2.5-flash", adapter.Reasoning{Show: new(false)}, `null`},
		{"gemini-2.5-flash", adapter.Reasoning{Effort: "high"}, `{"includeThoughts":true,"thinkingBudget":24576}`},
		{"gemini-2.5-flash", adapter.Reasoning{Effort: "none"}, `{"thinkingBudget":0}`},
		{"gemini-2.5-pro", adapter.Reasoning{Effort: "none"}, `{"includeThoughts":true,"thinkingBudget":128}`},
		{"gemini-2.5-flash-lite", adapter.Reasoning{}, `null`},
		{"gemini-2.5-flash", adapter.Reasoning{Budget: new(1), Show: new(false)}, `{"thinkingBudget":1}`},
		{"gemini-3-flash-preview", adapter.Reasoning{Effort: "none"}, `{"includeThoughts":true,"thinkingLevel":"minimal"}`},
		{"gemini-3.1-pro-preview", adapter.Reasoning{Effort: "minimal"}, `{"includeThoughts":true,"thinkingLevel":"low"}`},
		{"publishers/google/models/gemini-3-pro", adapter.Reasoning{Effort: "xhigh", Show: new(false)}, `{"thinkingLevel":"high"}`},
		{"gemini-3-flash-preview", adapter.Reasoning{Budget: new(100)}, `{"includeThoughts":true,"thinkingBudget":100}`},
		{"gemini-2.0-flash", adapter.Reasoning{}, `null`},
		{"gemini-2.5-flash-image", adapter.Reasoning{}, `null`},
		{"gemma-3-27b-it", adapter.Reasoning{}, `null`},
		{"gemini-flash-latest", adapter.Reasoning{Effort: "low"}, `{"includeThoughts":true,"thinkingBudget":1024}`},
	} {
		same(t, row.model+" "+row.r.Effort, sentBy(t, row.model, adapter.Request{Options: adapter.Options{Reasoning: row.r}}).GenerationConfig["thinkingConfig"], row.want)
	}
}

// weather is a step with two calls that another model has made.
func weather(result ...adapter.Part) []adapter.Message {
	return []adapter.Message{
		{Role: adapter.User, Content: "Where?"},
		{Role: adapter.Assistant, Content: "I look", ToolCalls: []adapter.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}, {ID: "b", Name: "g", Arguments: "oops"}}},
		{Role: adapter.ToolRole, ToolCallID: "a", Content: "dry", Parts: result},
		{Role: adapter.ToolRole, ToolCallID: "b", Content: `{"error":"none"}`},
		{Role: adapter.User, Content: "And?"},
	}
}

// MO-02: results have the names of their calls and stand in one turn; calls that no Gemini has made get the signature
// that skips the check, on the first of a step, where the model insists.
func TestResultsFollowTheirCalls(t *testing.T) {
	results := `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"dry"}}},{"functionResponse":{"name":"g","response":{"output":{"error":"none"}}}},{"text":"And?"}]}]`
	calls := `{"functionCall":{"name":"g","args":{"arguments":"oops"}}}]},`
	same(t, "Gemini 2.5", sentBy(t, "gemini-2.5-flash", adapter.Request{Messages: weather()}).Contents,
		`[{"role":"user","parts":[{"text":"Where?"}]},{"role":"model","parts":[{"text":"I look"},{"functionCall":{"name":"f","args":{"x":1}}},`+calls+results)
	same(t, "Gemini 3", sentBy(t, "gemini-3-flash", adapter.Request{Messages: weather()}).Contents,
		`[{"role":"user","parts":[{"text":"Where?"}]},{"role":"model","parts":[{"text":"I look"},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"skip_thought_signature_validator"},`+calls+results)
}

// Results of calls with ids that were used before are told apart; a result without a call is text; half a character is sent as none.
func TestResultsWithIdsThatWereUsedBefore(t *testing.T) {
	step := []adapter.Message{
		{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "a", Name: "f", Arguments: "{\"x\":\"\xf0\"}"}, {ID: "b", Name: "g"}}},
		{Role: adapter.ToolRole, ToolCallID: "a", Content: "1"},
		{Role: adapter.ToolRole, ToolCallID: "b", Content: "\"\xf0\""},
		{Role: adapter.ToolRole, ToolCallID: "c", Content: "lost"},
	}
	got := sentBy(t, "m", adapter.Request{Messages: slices.Concat([]adapter.Message{{Role: adapter.User, Content: "?"}}, step, step)})
	calls := `{"role":"model","parts":[{"functionCall":{"name":"f","args":{"x":"\uFFFD"}}},{"functionCall":{"name":"g","args":{}}}]}`
	results := `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":1}}},{"functionResponse":{"name":"g","response":{"output":"\uFFFD"}}},{"text":"lost"}]}`
	same(t, "contents", got.Contents, `[{"role":"user","parts":[{"text":"?"}]},`+calls+","+results+","+calls+","+results+"]")
}

// Google refuses a call without a result: one that has none is told to have failed.
func TestACallWithoutAResultGetsOne(t *testing.T) {
	messages := slices.Delete(weather(), 3, 4)
	same(t, "result", sentBy(t, "m", adapter.Request{Messages: messages}).Contents[2].Parts[1],
		`{"functionResponse":{"name":"g","response":{"error":"There is no result: the call was not finished."}}}`)
}

// MO-25: images of tools go to the model: in the result where it takes such, beside the results where not.
func TestResultsWithImages(t *testing.T) {
	image := []adapter.Part{{Type: "text", Text: "seen"}, {Type: "image_url", Image: "data:image/png;base64,QQ=="}}
	inline := `{"inlineData":{"mimeType":"image/png","data":"QQ=="}}`
	same(t, "Gemini 3", sentBy(t, "gemini-3-flash", adapter.Request{Messages: weather(image...)}).Contents[2].Parts[0],
		`{"functionResponse":{"name":"f","response":{"output":"seen"},"parts":[`+inline+`]}}`)
	same(t, "Gemini 2.5", sentBy(t, "gemini-2.5-flash", adapter.Request{Messages: weather(image...)}).Contents[2].Parts[2], inline)
}

// MO-25: files of all kinds that the API takes.
func TestFiles(t *testing.T) {
	for name, row := range map[string]struct {
		part adapter.Part
		want string
	}{
		"an image":           {adapter.Part{Image: "data:image/webp;base64,QQ=="}, `{"inlineData":{"mimeType":"image/webp","data":"QQ=="}}`},
		"a PDF":              {adapter.Part{File: "data:application/pdf;base64,QQ==", Name: "a.pdf"}, `{"inlineData":{"mimeType":"application/pdf","data":"QQ=="}}`},
		"a sound":            {adapter.Part{File: "data:audio/wav;base64,QQ=="}, `{"inlineData":{"mimeType":"audio/wav","data":"QQ=="}}`},
		"text":               {adapter.Part{File: "data:text/markdown;charset=utf-8;base64,w7wgYQ=="}, `{"inlineData":{"mimeType":"text/plain","data":"w7wgYQ=="}}`},
		"JSON":               {adapter.Part{File: "data:application/json;base64,QQ=="}, `{"inlineData":{"mimeType":"text/plain","data":"QQ=="}}`},
		"an address":         {adapter.Part{Image: "https://x/a.PNG?b"}, `{"fileData":{"fileUri":"https://x/a.PNG?b","mimeType":"image/png"}}`},
		"an unknown image":   {adapter.Part{Image: "https://x/a"}, `{"fileData":{"fileUri":"https://x/a","mimeType":"image/jpeg"}}`},
		"an unknown file":    {adapter.Part{File: "https://x/a"}, `{"fileData":{"fileUri":"https://x/a"}}`},
		"a file of Google's": {adapter.Part{File: "gs://x/a.pdf"}, `{"fileData":{"fileUri":"gs://x/a.pdf","mimeType":"application/pdf"}}`},
	} {
		got := sentBy(t, "m", adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{{Text: "see"}, row.part}}}})
		same(t, name, got.Contents[0].Parts[1], row.want)
	}
	for _, file := range []string{"data:application/zip;base64,QQ==", "data:image/png;base64", "ftp://x/a", "::", "data:<;base64,QQ=="} {
		s := new(server)
		_, err := run(t, newProvider(t, Options{Transport: s}), "m", adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{{File: file}}}}})
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeInvalid || len(s.bodies) > 0 {
			t.Errorf("%s: %v", file, err)
		}
		if strings.Contains(file, "zip") && !strings.Contains(err.Error(), "application/zip") {
			t.Errorf("the type is not named: %v", err)
		}
	}
}

// refusal is an error of Google's.
func refusal(message string) (int, string) {
	text, _ := json.Marshal(map[string]any{"error": map[string]any{"code": 400, "status": "INVALID_ARGUMENT", "message": message}})
	return 400, string(text)
}

// MO-04, MO-23: what the adapter adds by itself is left out of the request that a model has refused for it, and of no other; what the model
// misses is added.
func TestARefusedAdditionIsLeftOutOfTheSameRequest(t *testing.T) {
	full := adapter.Request{
		Messages: weather(),
		Tools:    []adapter.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","$defs":{"n":{"type":["integer","null"]}},"properties":{"x":{"$ref":"#/$defs/n"}},"required":["x","y"],"additionalProperties":false}`)}},
		Format:   adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object"}`)},
		Options:  adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}, PresencePenalty: new(0.5)},
	}
	for name, row := range map[string]struct {
		model, says   string
		without, with string // of the second request
	}{
		"a signature is missing":   {"gemini-2.5-x", "Function call is missing a thought_signature in functionCall parts.", "", skipValidator},
		"the signature is unknown": {"gemini-3-x", "Invalid value at 'contents[1].parts[1].thought_signature'", skipValidator, ""},
		"thoughts":                 {"gemini-3-x", "Thinking is not enabled for this model.", "includeThoughts", "thinkingLevel"},
		"a schema": {
			"gemini-3-x", "The specified schema produces a constraint that has too many states for serving.", "responseJsonSchema", "responseMimeType",
		},
		"a schema, by name": {"gemini-3-x", `Unknown name "responseJsonSchema" at 'generation_config': Cannot find field.`, "responseJsonSchema", "responseMimeType"},
		"JSON beside tools": {"gemini-3-x", "Function calling with a response mime type: 'application/json' is unsupported", "responseMimeType", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: func(n int, _ string) (int, string) {
				if n%2 == 1 {
					return refusal(row.says)
				}
				return 200, enough
			}}
			p := newProvider(t, Options{Transport: s, Key: "k"})
			for range 2 {
				if text, err := run(t, p, row.model, full); err != nil || text != "ok" {
					t.Fatalf("%q %v", text, err)
				}
			}
			if len(s.bodies) != 4 || s.bodies[0] != s.bodies[2] || s.bodies[1] != s.bodies[3] {
				t.Fatalf("%d requests", len(s.bodies))
			}
			if row.without != "" && (!strings.Contains(s.bodies[0], row.without) || strings.Contains(s.bodies[1], row.without)) || !strings.Contains(s.bodies[1], row.with) {
				t.Errorf("asked with\n%s\nand then\n%s", s.bodies[0], s.bodies[1])
			}
		})
	}
	t.Run("everything is refused", func(t *testing.T) {
		s := &server{answer: func(int, string) (int, string) { return refusal("Thinking level and thought_signature and schema: no") }}
		p := newProvider(t, Options{Transport: s, Key: "k"})
		if _, err := run(t, p, "gemini-3-x", full); err == nil || len(s.bodies) > 8 {
			t.Errorf("%d requests, %v", len(s.bodies), err)
		}
	})
	t.Run("an option that the user has set", func(t *testing.T) {
		s := &server{answer: func(int, string) (int, string) { return refusal("Penalty is not enabled for this model") }}
		if _, err := run(t, newProvider(t, Options{Transport: s, Key: "k"}), "gemini-3-x", full); err == nil || len(s.bodies) != 1 {
			t.Errorf("%d requests, %v", len(s.bodies), err)
		}
	})
}

// MO-02, MO-04: without what a Gemini has signed, the history is still one that it takes; with it, it is given back to the stand-in that checks
// each signature.
func TestAConversationWithTheStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []fakeproviders.Request
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			asked = append(asked, r)
			if r.Attempt%3 == 0 {
				return fakeproviders.Answer{Text: "dry"}
			}
			return fakeproviders.Answer{Reasoning: "so", Text: "I look", ToolCalls: []fakeproviders.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":"<é>"}`}, {Name: "g", Arguments: `{}`}}}
		}}
		defer up.Close()
		p := newProvider(t, Options{Transport: up.Transport(), BaseURL: "http://model.test", Key: "k"})
		m, _ := p.Model("gemini-3-flash-preview")
		for _, kept := range []bool{true, false} {
			messages := []adapter.Message{{Role: adapter.User, Content: "?"}}
			for range 6 {
				var maker adapter.Maker
				msg := adapter.Message{Role: adapter.Assistant}
				for c, err := range m.Stream(t.Context(), adapter.Request{Messages: messages, Tools: []adapter.Tool{{Name: "f"}, {Name: "g"}}}) {
					if err != nil {
						t.Fatalf("%v: %v", err, errors.Unwrap(err))
					}
					maker.Take(&c)
					msg.Content += c.Text
					if c.ToolCall != nil {
						msg.ToolCalls = append(msg.ToolCalls, *c.ToolCall)
					}
				}
				if kept {
					msg.Made = maker.Made("gemini:gemini-3-flash-preview", func(i int) string { return msg.ToolCalls[i].ID })
				}
				messages = append(messages, msg)
				for _, c := range msg.ToolCalls {
					messages = append(messages, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: "sunny"})
				}
				if len(msg.ToolCalls) == 0 {
					messages = append(messages, adapter.Message{Role: adapter.User, Content: "And?"})
				}
			}
		}
		if n := len(asked); n != 12 || bytes.Contains(asked[5].Body, []byte(skipValidator)) || !bytes.Contains(asked[11].Body, []byte(skipValidator)) {
			t.Errorf("%d requests: %s", n, asked[n-1].Body)
		}
		for i := 1; i < 6; i++ { // MO-24: what was sent before is the beginning of what is sent
			before, after := asked[i-1].Body, asked[i].Body
			if cut := bytes.Index(before, []byte(`],"generationConfig"`)); !bytes.HasPrefix(after, before[:cut]) {
				t.Errorf("request %d does not begin as the one before", i)
			}
		}
	})
}

// Model names with and without their publisher, and base URLs with and without a version.
func TestAddresses(t *testing.T) {
	for _, row := range []struct {
		base  string
		v     *Vertex
		model string
		want  string
	}{
		{"", nil, "gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"},
		{"", nil, "models/gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"},
		{"", nil, "publishers/google/models/x", "https://generativelanguage.googleapis.com/v1beta/models/x:streamGenerateContent?alt=sse"},
		{"", nil, "tunedModels/x", "https://generativelanguage.googleapis.com/v1beta/tunedModels/x:streamGenerateContent?alt=sse"},
		{"http://x/v1beta/", nil, "m", "http://x/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"http://x/gemini/v1?a=b", nil, "a?b", "http://x/gemini/v1/models/a%3Fb:streamGenerateContent?a=b&alt=sse"},
		{"", &Vertex{Project: "p"}, "m", "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/m:streamGenerateContent?alt=sse"},
		{"", &Vertex{Project: "p", Location: "us-central1"}, "publishers/google/models/m", "https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-central1/publishers/google/models/m:streamGenerateContent?alt=sse"},
		{"", &Vertex{Project: "p", Location: "eu"}, "google/m", "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google/models/m:streamGenerateContent?alt=sse"},
		{"", &Vertex{Project: "p", Location: "global"}, "endpoints/7", "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/endpoints/7:streamGenerateContent?alt=sse"},
		{"", &Vertex{}, "m", "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/m:streamGenerateContent?alt=sse"},
	} {
		s := new(server)
		o := Options{Transport: s, BaseURL: row.base, Key: "k", Header: http.Header{"X-Mine": {"y"}}}
		p := newProvider(t, o)
		if row.v != nil {
			p = newVertex(t, o, *row.v)
		}
		run(t, p, row.model, adapter.Request{})
		if len(s.urls) != 1 || s.urls[0] != row.want || s.headers[0].Get("X-Goog-Api-Key") != "k" || s.headers[0].Get("X-Mine") != "y" {
			t.Errorf("%s: %v %v", row.model, s.urls, s.headers)
		}
	}
	for _, name := range []string{"", "..", "a/..", "models/"} {
		if _, err := newVertex(t, Options{}, Vertex{Project: "p"}).Model(name); err == nil {
			t.Errorf("a model called %q", name)
		}
	}
	for _, o := range []Options{{BaseURL: "x"}, {BaseURL: "ftp://x"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v", o)
		}
	}
	if _, err := NewVertex(Options{}, Vertex{}); err == nil {
		t.Error("Vertex AI without a project")
	}
}

// The list of models comes in pages; models that do not generate content are left out.
func TestTheListHasAllPages(t *testing.T) {
	s := &server{answer: func(n int, _ string) (int, string) {
		return 200, []string{
			`{"models":[{"name":"models/a","supportedGenerationMethods":["generateContent"]},{"name":"models/e","supportedGenerationMethods":["embedContent"]}],"nextPageToken":"t+"}`,
			`{"publisherModels":[{"name":"publishers/google/models/b"}]}`,
		}[n-1]
	}}
	names, err := newProvider(t, Options{Transport: s, Key: "k"}).(adapter.Lister).List(t.Context())
	if err != nil || strings.Join(names, " ") != "a b" || !strings.Contains(s.urls[1], "pageToken=t%2B") {
		t.Errorf("%v %v %v", names, err, s.urls)
	}
}

// MO-16: what Google says in the details of a refusal, and in a list.
func TestDetailsOfRefusals(t *testing.T) {
	const quota = `"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED"`
	for _, row := range []struct {
		status int
		body   string
		want   adapter.Error
	}{
		{429, `[{"error":{"code":429,` + quota + `,"details":[{"@type":"x/RetryInfo","retryDelay":"7.5s"}]}}]`, adapter.Error{Code: adapter.CodeRateLimited, Retryable: true, RetryAfter: 7500 * time.Millisecond}},
		{429, `{"error":{"code":429,` + quota + `,"details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"3s"}]}}`, adapter.Error{Code: adapter.CodeRateLimited}},
		{400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, adapter.Error{Code: adapter.CodeAuth}},
	} {
		_, _, err := ask(t, &adaptertest.Answering{Status: row.status, Type: "application/json", Body: strings.NewReader(row.body)})
		e, _ := errors.AsType[*adapter.Error](err)
		if e == nil || e.Code != row.want.Code || e.Retryable != row.want.Retryable || e.RetryAfter != row.want.RetryAfter {
			t.Errorf("%s: %+v", row.body, e)
		}
	}
}

// MO-04: a signature that the model does not take any more does not end a session.
func TestAHistoryWithASpoiledSignatureIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: "ok"} }}
		defer up.Close()
		var r adapter.Registry
		r.Register("gemini", newProvider(t, Options{Transport: up.Transport(), BaseURL: "http://model.test", Key: "k"}))
		messages := weather()[:4]
		messages[1].Made = &adapter.Made{Model: "gemini:gemini-3-x", Parts: []adapter.MadePart{{Type: adapter.PartCall, Call: "a", Data: json.RawMessage(`{"thoughtSignature":"QQ=="}`)}}}
		m, err := r.Model("gemini:gemini-3-flash-preview")
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for c, err := range m.Stream(t.Context(), adapter.Request{Messages: messages}) {
			if err != nil {
				t.Fatal(err)
			}
			text += c.Text
		}
		if text != "ok" || up.Requests() != 2 {
			t.Errorf("%q after %d requests", text, up.Requests())
		}
	})
}
