package coze

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
)

// trip answers requests without a network.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// sent asks a bot and returns the request that went out, with its body.
func sent(t *testing.T, o Options, bot string, req adapter.Request) (*http.Request, string) {
	t.Helper()
	var got *http.Request
	var body string
	o.Transport = trip(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		got, body = r, string(b)
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(strings.NewReader(chatCreated + chatCompleted + done)),
		}, err
	})
	m, err := newProvider(t, o).Model(bot)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return got, body
}

func TestARequestInTheWordsOfTheFormat(t *testing.T) {
	user := []adapter.Message{{Role: adapter.User, Content: "hi"}}
	const hi = `{"role":"user","type":"question","content":"hi","content_type":"text"}`
	chat := func(messages, rest string) string {
		return `{"bot_id":"7379","user_id":"web","additional_messages":[` + messages + `],"stream":true,"auto_save_history":false` + rest + `}`
	}
	image := adapter.Part{Type: "image_url", Image: "https://a.test/b.png?c=d&e"}
	conversation := []adapter.Message{
		{Role: adapter.User, Content: "weather?"},
		{Role: adapter.Assistant, Content: "I look.", ToolCalls: []adapter.ToolCall{
			{ID: "a", Name: "rain", Arguments: `{"at":"Zürich"}`}, {ID: "b", Name: "sun", Arguments: "oops"},
		}},
		{Role: adapter.ToolRole, ToolCallID: "a", Content: "none"},
		{Role: adapter.ToolRole, ToolCallID: "b", Content: ""},
		{Role: adapter.Assistant, Content: "No rain."},
		{Role: adapter.User, Content: "hi"},
	}
	for _, row := range []struct {
		name string
		o    Options
		req  adapter.Request
		want string
	}{
		{"as little as possible", Options{}, adapter.Request{Messages: user}, chat(hi, "")},
		{"no messages", Options{}, adapter.Request{}, chat("", "")},
		{
			"options that Coze has no place for",
			Options{},
			adapter.Request{Messages: user, Options: adapter.Options{Temperature: new(0.5), TopP: new(0.25), MaxTokens: new(100), Stop: []string{"END"}, Seed: new(7)}, Format: adapter.Format{JSON: true}},
			chat(hi, ""),
		},
		{"MO-22: members of a request's body", Options{}, adapter.Request{Messages: user, Options: adapter.Options{
			ExtraBody: map[string]json.RawMessage{"enable_card": json.RawMessage("true"), "user_id": json.RawMessage(`"web"`)},
		}}, `{"additional_messages":[` + hi + `],"auto_save_history":false,"bot_id":"7379","enable_card":true,"stream":true,"user_id":"web"}`},
		{"AD-03: the system prompts as a variable", Options{}, adapter.Request{Messages: []adapter.Message{
			{Role: adapter.System, Content: "You are \"kind\"."},
			{Role: adapter.System, Parts: []adapter.Part{{Type: "text", Text: "And "}, {Type: "text", Text: "<brief>."}}},
			{Role: adapter.System},
			user[0],
		}}, chat(hi, `,"custom_variables":{"system_prompt":"You are \"kind\".\n\nAnd <brief>."}`)},
		{
			"AD-03: params as variables",
			Options{},
			adapter.Request{Messages: user, Params: map[string]any{
				"tone": "playful", "age": 7, "half": 0.5, "yes": true, "none": nil, "list": []any{"a", 1}, "deep": map[string]any{"b": "<"},
				"number": json.Number("12345678901234567890"), "empty": "", "no": func() {},
			}},
			chat(hi, `,"custom_variables":{"age":"7","deep":"{\"b\":\"<\"}","empty":"","half":"0.5","list":"[\"a\",1]","no":"null","number":"12345678901234567890","tone":"playful","yes":"true"}`),
		},
		{"a param called as the prompt is, with a prompt", Options{}, adapter.Request{
			Messages: append([]adapter.Message{{Role: adapter.System, Content: "ours"}}, user...), Params: map[string]any{"system_prompt": "the caller's"},
		}, chat(hi, `,"custom_variables":{"system_prompt":"ours"}`)},
		{
			"a param called as the prompt is, without one",
			Options{},
			adapter.Request{Messages: user, Params: map[string]any{"system_prompt": "the caller's"}},
			chat(hi, `,"custom_variables":{"system_prompt":"the caller's"}`),
		},
		{"a JSON Schema", Options{}, adapter.Request{
			Messages: append([]adapter.Message{{Role: adapter.System, Content: "Be brief."}}, user...),
			Format:   adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object"}`)},
		}, chat(hi, `,"custom_variables":{"system_prompt":"Be brief.\n\nAnswer with one JSON value and nothing else. It must fit this JSON Schema:\n{\"type\":\"object\"}"}`)},
		{"a conversation with calls", Options{}, adapter.Request{Messages: conversation}, chat(
			`{"role":"user","type":"question","content":"weather?","content_type":"text"},`+
				`{"role":"assistant","type":"answer","content":"I look.","content_type":"text"},`+
				`{"role":"assistant","type":"function_call","content":"{\"name\":\"rain\",\"arguments\":{\"at\":\"Zürich\"}}","content_type":"text"},`+
				`{"role":"assistant","type":"function_call","content":"{\"name\":\"sun\",\"arguments\":{\"arguments\":\"oops\"}}","content_type":"text"},`+
				`{"role":"assistant","type":"tool_output","content":"none","content_type":"text"},`+
				`{"role":"assistant","type":"tool_output","content":"","content_type":"text"},`+
				`{"role":"assistant","type":"answer","content":"No rain.","content_type":"text"},`+hi, "")},
		{"a conversation with calls, and tools of ours", Options{}, adapter.Request{Messages: conversation, Tools: []adapter.Tool{{Name: "rain"}}}, strings.Replace(chat(
			`{"role":"user","type":"question","content":"weather?","content_type":"text"},`+
				`{"role":"assistant","type":"answer","content":"I look.","content_type":"text"},`+
				`{"role":"user","type":"question","content":"The tool rain, called with {\"at\":\"Zürich\"}, has answered:\nnone","content_type":"text"},`+
				`{"role":"user","type":"question","content":"The tool sun, called with oops, has answered:\n","content_type":"text"},`+
				`{"role":"assistant","type":"answer","content":"No rain.","content_type":"text"},`+hi, ""), `"auto_save_history":false`, `"auto_save_history":true`, 1)},
		{"parts with images", Options{}, adapter.Request{Messages: []adapter.Message{
			{Role: adapter.User, Content: "not sent beside parts", Parts: []adapter.Part{{Type: "text", Text: "see \"this\""}, image, {Type: "text"}}},
			{Role: adapter.User, Parts: []adapter.Part{{Type: "text", Text: "h"}, {Type: "text", Text: "i"}}},
		}}, chat(`{"role":"user","type":"question","content":"[{\"type\":\"text\",\"text\":\"see \\\"this\\\"\"},{\"type\":\"image\",\"file_url\":\"https://a.test/b.png?c=d&e\"}]","content_type":"object_string"},`+hi, "")},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, body := sent(t, row.o, "7379", row.req)
			if diff := cmp.Diff(row.want, body); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAddressesAndHeaders(t *testing.T) {
	for _, row := range []struct{ base, key, url string }{
		{"", "k", "https://api.coze.com/v3/chat"},
		{"https://api.coze.cn", "k", "https://api.coze.cn/v3/chat"},
		{"https://api.coze.cn/", "k", "https://api.coze.cn/v3/chat"},
		{"http://localhost:8888/coze", "", "http://localhost:8888/coze/v3/chat"},
		{"https://api.coze.cn/v3/chat", "k", "https://api.coze.cn/v3/chat"},
		{"https://api.coze.cn/v3/chat/?tenant=a%26b", "k", "https://api.coze.cn/v3/chat?tenant=a%26b"},
	} {
		r, _ := sent(t, Options{BaseURL: row.base, Key: row.key}, "m", adapter.Request{})
		if r.URL.String() != row.url || r.Method != http.MethodPost {
			t.Errorf("%q: %s %s", row.base, r.Method, r.URL)
		}
		want := []string{"Bearer " + row.key}
		if row.key == "" {
			want = nil
		}
		if diff := cmp.Diff(want, r.Header["Authorization"]); diff != "" {
			t.Errorf("%q: %s", row.base, diff)
		}
		if r.Header.Get("Accept") != "text/event-stream" || r.Header.Get("Content-Type") != "application/json" || r.GetBody == nil {
			t.Errorf("%q: %v", row.base, r.Header)
		}
	}
}

func TestABaseURLThatIsNone(t *testing.T) {
	for _, base := range []string{"api.coze.com", "ftp://h", "http://", "://", "http://h/#x", "http://user:CANARY@h\x7f/"} {
		_, err := New(Options{Prefix: "mine", BaseURL: base}, "")
		if err == nil || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "expected") || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestABotNeedsAnID(t *testing.T) {
	p := newProvider(t, Options{Names: []string{"7379", "7380"}})
	if _, err := p.Model(""); err == nil || !strings.Contains(err.Error(), `"coze:"`) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"7379", "7380"}, p.Names()); diff != "" {
		t.Error(diff)
	}
}
