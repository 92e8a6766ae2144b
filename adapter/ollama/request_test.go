package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// sent returns the request that a question becomes on the wire.
func sent(t *testing.T, o Options, name string, req adapter.Request) fakeproviders.Request {
	t.Helper()
	var got fakeproviders.Request
	s := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		got = r
		return fakeproviders.Answer{Text: "ok"}
	}}
	defer s.Close()
	o.Transport = s.Transport()
	m, err := newProvider(t, o).Model(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestARequestInTheWordsOfTheFormat(t *testing.T) {
	user := []adapter.Message{{Role: adapter.User, Content: "hi"}}
	const head = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true`
	const tool = `{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object"}}}`
	for _, row := range []struct {
		name string
		req  adapter.Request
		want string
	}{
		{"as little as possible, and nothing about thinking", adapter.Request{Messages: user}, head + `}`},
		{
			"all options, zeros included",
			adapter.Request{
				Messages: user, Options: adapter.Options{Temperature: new(0.0), TopP: new(0.25), MaxTokens: new(100), Stop: []string{"END"}, Seed: new(0)},
				Params: map[string]any{"secret": "of the caller"},
			},
			head + `,"options":{"temperature":0,"top_p":0.25,"num_predict":100,"seed":0,"stop":["END"]}}`,
		},
		{ // MO-22
			"what is asked of thinking and of Ollama alone",
			adapter.Request{Messages: user, Options: adapter.Options{
				FrequencyPenalty: new(-1.0), PresencePenalty: new(1.0), Reasoning: adapter.Reasoning{Effort: "xhigh"},
				ExtraBody: map[string]json.RawMessage{"keep_alive": json.RawMessage(`"10m"`), "options": json.RawMessage(`{"num_ctx":8192}`)},
			}},
			`{"keep_alive":"10m","messages":[{"role":"user","content":"hi"}],"model":"m","options":{"frequency_penalty":-1,"num_ctx":8192,"presence_penalty":1},"stream":true,"think":"high"}`,
		},
		{"no thinking", adapter.Request{Messages: user, Options: adapter.Options{Reasoning: adapter.Reasoning{Budget: new(0)}}}, head + `,"think":false}`},
		{"any JSON", adapter.Request{Messages: user, Format: adapter.Format{JSON: true}}, head + `,"format":"json"}`},
		{
			"JSON of a schema",
			adapter.Request{Messages: user, Format: adapter.Format{JSON: true, Name: "an article", Schema: json.RawMessage(` {"type": "object"}`)}},
			head + `,"format":{"type":"object"}}`,
		},
		{
			"a schema that allows anything",
			adapter.Request{Messages: user, Format: adapter.Format{JSON: true, Schema: json.RawMessage(`true`)}},
			head + `,"format":"json"}`,
		},
		{
			"tools",
			adapter.Request{Messages: user, Tools: []adapter.Tool{{Name: "f", Description: "does", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "g"}}},
			head + `,"tools":[` + tool + `,{"type":"function","function":{"name":"g","description":"","parameters":{"type":"object","properties":{}}}}]}`,
		},
		{
			"no format beside tools, which could not be called then",
			adapter.Request{
				Messages: user, Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{}`)},
				Tools: []adapter.Tool{{Name: "f", Description: "does", Parameters: json.RawMessage(`{"type":"object"}`)}},
			},
			head + `,"tools":[` + tool + `]}`,
		},
		{
			"a conversation with images, calls and empty texts",
			adapter.Request{Messages: []adapter.Message{
				{Role: adapter.System, Content: ""},
				{Role: adapter.User, Content: "not sent beside parts", Parts: []adapter.Part{
					{Type: "text", Text: "see"},
					{Type: "image_url", Image: "data:image/png;base64,AAEC"},
					{Type: "text"},
					{Type: "image_url", Image: "data:image/jpeg;charset=x;base64,/+8="},
					{Type: "text", Text: "and say"},
				}},
				{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "a", Name: "f", Arguments: `{ "big": 12345678901234567890, "f": 1.10 }`}, {Name: "g"}}},
				{Role: adapter.ToolRole, ToolCallID: "a", Content: "42"},
			}},
			`{"model":"m","messages":[{"role":"system","content":""},` +
				`{"role":"user","content":"see\nand say","images":["AAEC","/+8="]},` +
				`{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"big":12345678901234567890,"f":1.10}}},{"function":{"name":"g","arguments":{}}}]},` +
				`{"role":"tool","content":"42","tool_name":"f","tool_call_id":"a"}],"stream":true}`,
		},
		{
			"what was thought before a call (MO-02)",
			adapter.Request{Messages: []adapter.Message{{
				Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}},
				Made: &adapter.Made{Parts: []adapter.MadePart{{Type: adapter.PartReasoning, Text: "I need it."}, {Type: adapter.PartCall, Call: "a"}}},
			}}},
			`{"model":"m","messages":[{"role":"assistant","content":"","thinking":"I need it.","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]}],"stream":true}`,
		},
		{"no messages", adapter.Request{}, `{"model":"m","messages":[],"stream":true}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(sorted(t, []byte(row.want)), sorted(t, sent(t, Options{}, "m", row.req).Body)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// sorted writes JSON with the members of its objects in the order of their names.
func sorted(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatal(err)
	}
	out, _ := json.Marshal(value)
	return string(out)
}

// Ids are made by each model anew, so a result belongs to the latest call of its id.
func TestAToolResultNamesTheToolOfTheLatestCall(t *testing.T) {
	call := func(name string) adapter.Message {
		return adapter.Message{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "call_0", Name: name}, {ID: "call_1", Name: "other"}}}
	}
	result := adapter.Message{Role: adapter.ToolRole, ToolCallID: "call_0"}
	unknown := adapter.Message{Role: adapter.ToolRole, ToolCallID: "x"}
	var r struct {
		Messages []struct {
			ToolName string `json:"tool_name"`
		}
	}
	body := sent(t, Options{}, "m", adapter.Request{Messages: []adapter.Message{call("first"), result, call("second"), result, unknown}}).Body
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	if a, b, c := r.Messages[1].ToolName, r.Messages[3].ToolName, r.Messages[4].ToolName; a != "first" || b != "second" || c != "" {
		t.Errorf("%q %q %q", a, b, c)
	}
}

// What a model of any provider has written must not end a conversation.
func TestArgumentsAreAlwaysAnObject(t *testing.T) {
	for text, want := range map[string]string{
		``: `{}`, ` null `: `{}`, `{"a":1}`: `{"a":1}`, " {} \n": `{}`, `[1]`: `{"arguments":"[1]"}`, `{"a":`: `{"arguments":"{\"a\":"}`,
		`{"a":1}{}`: `{"arguments":"{\"a\":1}{}"}`, `"x"`: `{"arguments":"\"x\""}`,
	} {
		if got := string(wire.Arguments(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestAnImageThatCannotBeSentIsTheCallersMistake(t *testing.T) {
	for name, row := range map[string]struct{ image, says string }{
		"an address":     {"https://user:CANARY@example.com/cat.png", "not by their addresses"},
		"a file":         {"/etc/passwd", "not by their addresses"},
		"no comma":       {"data:image/png;base64", "only as data in base64"},
		"no base64":      {"data:image/png;base64,CANARY!", "only as data in base64"},
		"nothing at all": {"data:image/png;base64,", "only as data in base64"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeproviders.Server{}
			defer s.Close()
			m, _ := newProvider(t, Options{Transport: s.Transport()}).Model("m")
			req := adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{{Type: "image_url", Image: row.image}}}}}
			got := adaptertest.List(m.Stream(t.Context(), req))
			if !strings.HasPrefix(got, "error invalid_request says") || !strings.Contains(got, row.says) || strings.Contains(got, "CANARY") || s.Requests() != 0 {
				t.Errorf("%d requests: %s", s.Requests(), got)
			}
		})
	}
}

func TestASchemaThatIsNotJSONIsTheCallersMistake(t *testing.T) {
	m, _ := newProvider(t, Options{Transport: canned(nil)}).Model("m")
	got := adaptertest.List(m.Stream(t.Context(), adapter.Request{Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{`)}}))
	if !strings.HasPrefix(got, "error invalid_request says") {
		t.Error(got)
	}
}

// AD-04: addresses, and the key where there is one.
func TestAddressesAndHeaders(t *testing.T) {
	for _, row := range []struct{ name, base, key, url, authorization string }{
		{"the default", "", "", "http://127.0.0.1:11434", ""},
		{"a key", "https://ollama.com", "k", "https://ollama.com:443", "Bearer k"},
		{"a path before it", "http://host/ollama/", "", "http://host:80/ollama", ""},
		{"with /api, as some clients have it", "http://host:11434/api", "", "http://host:11434", ""},
		{"as OLLAMA_HOST has it", "0.0.0.0:1234", "", "http://127.0.0.1:1234", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked []*http.Request
			p := newProvider(t, Options{BaseURL: row.base, Key: row.key, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r)
				return canned([]byte(`{"models":[],"done":true}`)).RoundTrip(r)
			})})
			m, _ := p.Model("m")
			if got := adaptertest.List(m.Stream(t.Context(), adapter.Request{})); got != "model ollama:m finish stop\n" {
				t.Error(got)
			}
			if _, err := p.(adapter.Lister).List(t.Context()); err != nil {
				t.Error(err)
			}
			for i, want := range []string{"POST " + row.url + "/api/chat application/x-ndjson", "GET " + row.url + "/api/tags application/json"} {
				r := asked[i]
				if got := r.Method + " " + r.URL.String() + " " + r.Header.Get("Accept"); got != want || r.Header.Get("Authorization") != row.authorization {
					t.Errorf("%s, %q; want %s", got, r.Header, want)
				}
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestABaseURLThatIsNone(t *testing.T) {
	for _, base := range []string{"ftp://h", "http://h:0", "http://user:CANARY@h\x7f/", "h?x"} {
		_, err := New(Options{Prefix: "mine", BaseURL: base})
		if err == nil || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "expected") || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// The registry cuts at the first colon only, so a tag stays with its name.
func TestNamesOfModels(t *testing.T) {
	p := newProvider(t, Options{Names: []string{"a", "b:1"}})
	for _, name := range []string{"llama3.2", "llama3.2:3b", "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "localhost:5000/me/m:latest", "gpt-oss:120b-cloud"} {
		if _, err := p.Model(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "a b", "a`b", "a;b", "$(x)", "-f", "a\nb", "modèle", strings.Repeat("a", 300)} {
		if _, err := p.Model(name); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b:1"}, p.Names()); diff != "" {
		t.Error(diff)
	}
	var r adapter.Registry
	r.Register("ollama", p)
	s := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: r.Model} }}
	defer s.Close()
	r.Register("here", newProvider(t, Options{Prefix: "here", Transport: s.Transport()}))
	m, err := r.Model("here:llama3.2:3b")
	if err != nil {
		t.Fatal(err)
	}
	if got := adaptertest.List(m.Stream(t.Context(), adapter.Request{})); !strings.HasPrefix(got, "model here:llama3.2:3b text \"llam\"\ntext \"a3.2\"\ntext \":3b\"\n") {
		t.Error(got)
	}
}

// AD-06: what there is to do about a server that is not there, and a model that was not pulled.
func TestWhatUsersMeetFirstSaysWhatToDo(t *testing.T) {
	nowhere := newProvider(t, Options{BaseURL: "127.0.0.1:1"})
	second := newProvider(t, Options{Prefix: "gpu", BaseURL: "nowhere.invalid"})
	s := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Status: http.StatusNotFound}
	}}
	defer s.Close()
	here := newProvider(t, Options{Transport: s.Transport()})
	for _, row := range []struct {
		name  string
		p     adapter.Provider
		code  string
		again bool
		says  string
	}{
		{"nothing is listening", nowhere, adapter.CodeUnavailable, true, "cannot connect to Ollama: start it with `ollama serve`, or set OLLAMA_HOST"},
		{"no such host, of a second one", second, adapter.CodeUnavailable, true, "cannot connect to Ollama (gpu): start it with `ollama serve`, or check its base URL"},
		{"not pulled", here, adapter.CodeProtocol, false, "the model llama3.2:3b is not pulled: run `ollama pull llama3.2:3b`"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, err := row.p.Model("llama3.2:3b")
			if err != nil {
				t.Fatal(err)
			}
			var last error
			for _, err := range m.Stream(t.Context(), adapter.Request{}) {
				last = err
			}
			e, ok := errors.AsType[*adapter.Error](last)
			if !ok || e.Code != row.code || e.Retryable != row.again || e.Message != row.says {
				t.Errorf("%v", last)
			}
		})
	}
}

// What users cannot ask for is not in the list.
func TestTheListHasNamesThatCanBeAskedFor(t *testing.T) {
	for name, row := range map[string]struct{ body, want string }{
		"some":                {`{"models":[{"name":"b:1","model":"b:1","size":7},{"model":"a"},{"name":"c d"},{}]}`, `a b:1`},
		"none":                {`{"models":[]}`, ``},
		"something else":      {`{"object":"list"}`, `error`},
		"a list of no models": {`{"models":7}`, `error`},
		"cut off":             {`{"models":[{"name":"a"}`, `error`},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := newProvider(t, Options{Transport: canned([]byte(row.body))}).(adapter.Lister).List(t.Context())
			got := strings.Join(names, " ")
			if e, ok := errors.AsType[*adapter.Error](err); ok && e.Code == adapter.CodeProtocol && strings.Contains(e.Message, "did not answer with a list of models") {
				got = "error"
			}
			if got != row.want {
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

// The advice of other formats, whose addresses end in /v1, would be wrong here.
func TestAListAtAWrongAddressSaysSo(t *testing.T) {
	p := newProvider(t, Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 404, Header: http.Header{}, Body: http.NoBody}, nil
	})})
	if _, err := p.(adapter.Lister).List(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "check the base URL, which is Ollama's own here, without /v1") {
		t.Errorf("%v", err)
	}
}

// Whatever Ollama says in an error, our sentence is one of ours (AD-06, SE-06).
func FuzzFailure(f *testing.F) {
	for _, said := range []string{``, `{"error":"x"}`, `{"error":"model x not found"}`, `{"error":"x does not support tools"}`, `{"error":"x out of memory","status":500}`, `{"error":{"message":"context length"}}`, `{"signin_url":"x"}`} {
		f.Add(400, []byte(said))
	}
	m := newProvider(f, Options{Key: adaptertest.Key}).(*provider).model("m")
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		marked := []byte(strings.ReplaceAll(string(body), "x", "CANARY<x>"))
		for _, e := range []*adapter.Error{m.failed(marked), m.Refused(&wire.Refusal{Status: status, Body: marked})} {
			if e.Message == "" || e.Code == "" || strings.Contains(e.Message, "CANARY") || len(e.Message) > 300 || e.Cause == nil || len(e.Cause.Error()) > 3000 {
				t.Errorf("%+v", e)
			}
		}
	})
}
