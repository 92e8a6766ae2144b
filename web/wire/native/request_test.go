package native

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/web/wire"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"

	"github.com/lingserve/lingserve/web/wire/frame"
)

// bare answers no requests: it only reads them.
var bare = Handlers{Server: wire.New(wire.Options{ReadJSON: func(_ http.ResponseWriter, r *http.Request) ([]byte, *wire.Problem) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	return body, nil
}})}

// parsePostText reads a body as POST /v1/runs would.
func parsePostText(t testing.TB, body string, edit func(*http.Request)) (*start, *wire.Problem) {
	t.Helper()
	r := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(body))
	if edit != nil {
		edit(r)
	}
	return bare.readPost(httptest.NewRecorder(), r)
}

func parseQueryText(query string) (*start, *wire.Problem) {
	return readGet(httptest.NewRequest("GET", "/v1/runs?"+query, nil))
}

func TestABodyThatDoesNotFitIsRefusedWithThePlaceThatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want []run.Field
	}{
		"empty":                     {"", []run.Field{{Detail: "the body is empty; expected a JSON object"}}},
		"white space":               {" \n ", []run.Field{{Detail: "the body is empty; expected a JSON object"}}},
		"not JSON":                  {"hello", []run.Field{{Detail: "the body is invalid JSON at line 1, column 1: invalid character 'h' looking for beginning of value"}}},
		"not JSON in a later line":  {"{\n  \"workflow\": \"é\", x}", []run.Field{{Detail: "the body is invalid JSON at line 2, column 20: invalid character 'x' looking for beginning of object key string"}}},
		"cut off":                   {`{"workflow":"w"`, []run.Field{{Detail: "the body is invalid JSON at line 1, column 16: unexpected end of JSON input"}}},
		"something behind it":       {`{} {}`, []run.Field{{Detail: "the body is invalid JSON at line 1, column 4: invalid character '{' after top-level value"}}},
		"not UTF-8":                 {"{\"workflow\":\"a\xff\"}", []run.Field{{Detail: "the body is invalid UTF-8"}}},
		"an array":                  {`[1]`, []run.Field{{Detail: "expected an object, found an array"}}},
		"null":                      {`null`, []run.Field{{Detail: "expected an object, found null"}}},
		"an unknown member":         {`{"workflow":"w","inputs":1}`, []run.Field{{Pointer: "/inputs", Detail: "unknown field; did you mean input? expected one of agent, done, files, filter, format, html, include, input, model, on_busy, on_disconnect, options, params, session, strict, workflow"}}},
		"case counts":               {`{"Workflow":"w"}`, []run.Field{{Pointer: "/Workflow", Detail: "unknown field; did you mean workflow? expected one of agent, done, files, filter, format, html, include, input, model, on_busy, on_disconnect, options, params, session, strict, workflow"}}},
		"a name that needs escapes": {`{"a/b~c":1}`, []run.Field{{Pointer: "/a~1b~0c", Detail: "unknown field; expected one of agent, done, files, filter, format, html, include, input, model, on_busy, on_disconnect, options, params, session, strict, workflow"}}},
		"twice":                     {`{"workflow":"a","workflow":"b"}`, []run.Field{{Pointer: "/workflow", Detail: "occurs twice; send it once"}}},
		"twice, deep in the input":  {`{"input":{"a":[{},{"b":1,"b":2}]}}`, []run.Field{{Pointer: "/input/a/1/b", Detail: "occurs twice; send it once"}}},
		"a workflow of numbers":     {`{"workflow":7}`, []run.Field{{Pointer: "/workflow", Detail: "expected a string, found a number"}}},
		"an empty workflow":         {`{"workflow":""}`, []run.Field{{Pointer: "/workflow", Detail: "expected a string of 1 to 256 bytes, found 0"}}},
		"null for nothing":          {`{"session":null}`, []run.Field{{Pointer: "/session", Detail: "expected a string, found null"}}},
		"done":                      {`{"done":1}`, []run.Field{{Pointer: "/done", Detail: "expected true or false, found a number"}}},
		"options of an array":       {`{"options":[]}`, []run.Field{{Pointer: "/options", Detail: "expected an object, got an array"}}},
		"an unknown option":         {`{"options":{"top_k":1}}`, []run.Field{{Pointer: "/options/top_k", Detail: "unknown option; did you mean top_p? expected one of frequency_penalty, max_tokens, parallel_tool_calls, presence_penalty, reasoning, seed, service_tier, stop, temperature, tool_choice, top_p, verbosity"}}},
		"a key among the options":   {`{"options":{"base_url":"http://evil.test"}}`, []run.Field{{Pointer: "/options/base_url", Detail: "unknown option; expected one of frequency_penalty, max_tokens, parallel_tool_calls, presence_penalty, reasoning, seed, service_tier, stop, temperature, tool_choice, top_p, verbosity"}}},
		"a body of one's own":       {`{"options":{"extra_body":{"model":"dear"}}}`, []run.Field{{Pointer: "/options/extra_body", Detail: "this option works only in the server's configuration and in workflow files"}}}, // MO-22
		"reasoning of no kind":      {`{"options":{"reasoning":{"effort":"lots","budget":-1}}}`, []run.Field{{Pointer: "/options/reasoning/budget", Detail: "expected at least 0"}, {Pointer: "/options/reasoning/effort", Detail: `expected one of "none", "minimal", "low", "medium", "high", "xhigh", "max"`}}},
		"too hot":                   {`{"options":{"temperature":3}}`, []run.Field{{Pointer: "/options/temperature", Detail: "expected at most 2"}}},
		"beyond numbers":            {`{"options":{"temperature":1e999}}`, []run.Field{{Pointer: "/options/temperature", Detail: "expected at most 2"}}},
		"half a token":              {`{"options":{"max_tokens":1.5}}`, []run.Field{{Pointer: "/options/max_tokens", Detail: "expected an integer, got a number"}}},
		"no token":                  {`{"options":{"max_tokens":0}}`, []run.Field{{Pointer: "/options/max_tokens", Detail: "expected at least 1"}}},
		"stop":                      {`{"options":{"stop":[1,""]}}`, []run.Field{{Pointer: "/options/stop/0", Detail: "expected a string, got a number"}, {Pointer: "/options/stop/1", Detail: "expected text, got an empty string"}}},
		"an unknown filter":         {`{"filter":{"only":[]}}`, []run.Field{{Pointer: "/filter/only", Detail: "unknown field; expected one of exclude, include"}}},
		"include":                   {`{"include":["everything"]}`, []run.Field{{Pointer: "/include/0", Detail: `expected reserved, found "everything"`}}},
		"format":                    {`{"format":"xml"}`, []run.Field{{Pointer: "/format", Detail: `expected sse, jsonl or json, found "xml"`}}},
		"on_disconnect":             {`{"on_disconnect":true}`, []run.Field{{Pointer: "/on_disconnect", Detail: "expected a string, found a boolean"}}},
		"several at once": {`{"done":"x","params":3,"zzz":0}`, []run.Field{
			{Pointer: "/done", Detail: "expected true or false, found a string"},
			{Pointer: "/zzz", Detail: "unknown field; expected one of agent, done, files, filter, format, html, include, input, model, on_busy, on_disconnect, options, params, session, strict, workflow"},
			{Pointer: "/params", Detail: "expected an object, found a number"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := parsePostText(t, tt.body, nil)
			if p == nil {
				t.Fatal("was taken")
			}
			if diff := cmp.Diff(tt.want, p.Errors); diff != "" {
				t.Error(diff)
			}
			if p.Status != 400 || p.Code != wire.CodeInvalid || p.Detail == "" {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestABodyThatFitsIsRead(t *testing.T) {
	st, p := parsePostText(t, `{"workflow":"w","input":{"n":1.10},"model":"a:b","params":{"n":12345678901234567,"f":0.5,"l":[1]},
		"options":{"temperature":0,"max_tokens":5,"top_p":1,"stop":"x","seed":-3},"filter":{"exclude":["a/*"],"include":["**"]},
		"done":true,"include":["reserved"],"on_disconnect":"cancel","format":"jsonl"}`, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.Header.Set("Idempotency-Key", "k-1")
	})
	if p != nil {
		t.Fatal(p)
	}
	want := &start{
		Request: run.Request{
			Subject: run.Subject{Workflow: "w"}, Key: "k-1", Input: json.RawMessage(`{"n":1.10}`), Model: "a:b",
			Params: map[string]any{"n": int64(12345678901234567), "f": 0.5, "l": []any{int64(1)}},
			Options: adapter.Options{
				Temperature: new(0.0), MaxTokens: new(5), TopP: new(1.0), Stop: []string{"x"},
				Seed: new(-3),
			},
			Exclude: []string{"a/*"}, Include: []string{"**"}, Done: true,
		},
		view: view{View: wire.View{Format: frame.JSONL, CancelOnDisconnect: true}, reserved: true},
	}
	if diff := cmp.Diff(want, st, cmp.AllowUnexported(start{}, view{}), cmp.Comparer(func(a, b run.Request) bool {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return string(x) == string(y)
	})); diff != "" {
		t.Error(diff)
	}
}

// SE-15
func TestABodyOfAMillionBracketsIsAnError(t *testing.T) {
	_, p := parsePostText(t, `{"input":`+strings.Repeat("[", 500_000), nil)
	if p == nil || p.Status != 400 || !strings.Contains(p.Detail, "exceeded max depth") {
		t.Errorf("%+v", p)
	}
}

func TestAQueryThatDoesNotFitIsRefusedByName(t *testing.T) {
	for query, want := range map[string]run.Field{
		"workflow=w&colour=red":                {Parameter: "colour"},
		"workflow=w&workflow=v":                {Parameter: "workflow", Detail: "occurs twice; send it once"},
		"workflow=":                            {Parameter: "workflow", Detail: "expected a string of 1 to 256 bytes, found 0"},
		"workflow=%00":                         {Parameter: "workflow", Detail: "contains a NUL character; remove it"},
		"format=xml":                           {Parameter: "format", Detail: `expected sse, jsonl or json, found "xml"`},
		"done=maybe":                           {Parameter: "done", Detail: `expected 1 or 0, found "maybe"`},
		"options=3":                            {Parameter: "options", Detail: "expected an object, got a number"},
		"options={":                            {Parameter: "options", Detail: "invalid JSON at line 1, column 2: unexpected end of JSON input"},
		`options={"a":1}`:                      {Parameter: "options", Pointer: "/a", Detail: "unknown option; expected one of frequency_penalty, max_tokens, parallel_tool_calls, presence_penalty, reasoning, seed, service_tier, stop, temperature, tool_choice, top_p, verbosity"},
		"key=":                                 {Parameter: "key", Detail: "expected a string of 1 to 255 bytes, found 0"},
		"key=a%20b":                            {Parameter: "key", Detail: "expected visible ASCII characters only"},
		"key=" + strings.Repeat("k", 256):      {Parameter: "key", Detail: "expected a string of 1 to 255 bytes, found 256"},
		"last_event_id=rubbish":                {Parameter: "last_event_id", Detail: `"rubbish" is not an event id; expected <run>:<number>`},
		"on_disconnect=stay":                   {Parameter: "on_disconnect", Detail: `expected continue or cancel, found "stay"`},
		"include=reserved,secrets":             {Parameter: "include", Detail: `expected reserved, found "secrets"`},
		"after=3":                              {Parameter: "after"},
		"a=%zz":                                {Detail: "the query is invalid; check its percent signs and semicolons"},
		strings.Repeat("n", 200) + "=1":        {Parameter: strings.Repeat("n", 60) + "…"},
		`filter={"exclude":["a"],"exclude":1}`: {Parameter: "filter", Pointer: "/exclude", Detail: "occurs twice; send it once"},
	} {
		t.Run(wording.Clip(query), func(t *testing.T) {
			if name, value, ok := strings.Cut(query, "="); ok && strings.HasPrefix(value, "{") {
				query = name + "=" + url.QueryEscape(value)
			}
			_, p := parseQueryText(query)
			if p == nil || len(p.Errors) != 1 {
				t.Fatalf("%+v", p)
			}
			got := p.Errors[0]
			if want.Detail == "" {
				got.Detail = ""
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheInputOfAQueryIsAStringOrJSONText(t *testing.T) {
	for value, want := range map[string]string{
		"Why?":           `"Why?"`,
		"42":             `"42"`,
		"true":           `"true"`,
		`{"a":1}`:        `{"a":1}`,
		`"quoted"`:       `"quoted"`,
		`{not JSON`:      `"{not JSON"`,
		"":               `""`,
		"a\nb":           `"a\nb"`,
		` {"a": [1,2]} `: `{"a": [1,2]}`,
	} {
		st, p := parseQueryText("workflow=w&input=" + url.QueryEscape(value))
		if p != nil || string(st.Input) != want {
			t.Errorf("%q: %s, %v", value, st.Input, p)
		}
	}
}

func TestPropertiesOfAQueryAreReadAsTheSchemaSays(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":["boolean","null"]},
		"either":{"type":["string","number"]},"any":{}}}`)
	st, p := parseQueryText("input.s=1&input.n=2&input.b=true&input.either=3&input.any=4&input.more=5&input=" +
		url.QueryEscape(`{"s":"gone","kept":[1]}`))
	if p != nil {
		t.Fatal(p)
	}
	if p := st.typeProperties(schema); p != nil {
		t.Fatal(p)
	}
	if want := `{"any":"4","b":true,"either":"3","kept":[1],"more":"5","n":2,"s":"1"}`; string(st.Input) != want {
		t.Errorf("got  %s\nwant %s", st.Input, want)
	}
	// What does not fit its type stays a string, for the schema to complain about.
	st, _ = parseQueryText("input.n=two")
	if st.typeProperties(schema); string(st.Input) != `{"n":"two"}` {
		t.Errorf("got %s", st.Input)
	}
	st, _ = parseQueryText("input=text&input.n=2")
	if p := st.typeProperties(schema); p == nil || p.Errors[0].Parameter != "input" {
		t.Errorf("%+v", p)
	}
}

func TestTooLongInputIsBlamedOnTheLongestProperty(t *testing.T) {
	for query, want := range map[string]run.Field{
		"input.s=x&input.a/b=xxx": {Parameter: "input.a/b"},
		"input=xxx":               {Parameter: "input"},
	} {
		st, p := parseQueryText(query)
		if p != nil {
			t.Fatal(p)
		}
		tooLarge := wire.NewProblem(wire.CodeTooLarge, "")
		tooLarge.Errors = []run.Field{{Pointer: "/input"}}
		if got := st.toQuery(tooLarge).Errors[0]; got != want {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

func TestEventIDs(t *testing.T) {
	for text, want := range map[string]eventID{
		"abc:0":                   {"abc", 0},
		"abc.17":                  {"abc", 17},
		"a-b_C9:9007199254740991": {"a-b_C9", lastNumber},
	} {
		if got, err := parseEventID(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "no number": "abc:", "no run": ":1", "no colon": "abc", "negative": "abc:-1", "plus": "abc:+1",
		"leading zero": "abc:01", "too large": "abc:9007199254740992", "hexadecimal": "abc:0x1", "NUL": "a\x00bc:1", "line break": "abc\n:1",
		"path": "../../etc/passwd:1", "two colons": "a:b:1", "long": strings.Repeat("a", 100) + ":1", "space": "abc: 1", "letters": "abc:١",
	} {
		if id, err := parseEventID(text); err == nil {
			t.Errorf("%s: %q is taken as %v", name, text, id)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := eventID{rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "run"), rapid.Uint64Range(0, lastNumber).Draw(t, "n")}
		got, err := parseEventID(id.String())
		if err != nil || got != id {
			t.Fatalf("%v: %v, %v", id, got, err)
		}
	})
}

func TestTheSameRequestHasTheSameHashHoweverItIsWritten(t *testing.T) {
	hash := func(body string) [16]byte {
		st, p := parsePostText(t, body, nil)
		if p != nil {
			t.Fatal(p)
		}
		return st.Hash()
	}
	first := hash(`{"workflow":"w","input":{"a":1,"b":[1.10]},"params":{"x":1,"y":2}}`)
	for _, same := range []string{
		`{ "params":{"y":2,"x":1}, "input":{"b":[1.10],"a":1}, "workflow":"w" }`,
		`{"workflow":"w","input":{"a":1,"b":[1.10]},"params":{"x":1,"y":2},"format":"sse","on_disconnect":"cancel","include":["reserved"]}`,
	} {
		if hash(same) != first {
			t.Errorf("differs: %s", same)
		}
	}
	for _, other := range []string{
		`{"workflow":"v","input":{"a":1,"b":[1.10]},"params":{"x":1,"y":2}}`,
		`{"workflow":"w","input":{"a":1,"b":[1.1]},"params":{"x":1,"y":2}}`,
		`{"workflow":"w","input":{"a":1,"b":[1.10]},"params":{"x":1,"y":3}}`,
		`{"workflow":"w","input":{"a":1,"b":[1.10]},"params":{"x":1,"y":2},"done":true}`,
		`{"workflow":"w","input":{"a":1,"b":[1.10]},"params":{"x":1,"y":2},"options":{"seed":0}}`,
	} {
		if hash(other) == first {
			t.Errorf("is the same: %s", other)
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{}`, `{"workflow":"w","input":{"a":[1,{"b":null}]}}`, `{"a":1,"a":2}`, `{"options":{"stop":["x"]}}`, "\xff", `[`, `{"filter":{"exclude":["**/a","\\e"]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		st, p := parsePostText(t, body, nil)
		if p != nil {
			if p.Status < 400 || p.Status > 499 || p.Detail == "" {
				t.Errorf("%+v", p)
			}
			if _, err := json.Marshal(p); err != nil {
				t.Error(err)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &members); err != nil {
			t.Errorf("%q was taken: %v", body, err)
		}
		_ = st.Hash()
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"workflow=w&input=x", "input.a=1&input.a=2", "filter={}", "last_event_id=a:1", "%", "a;b", "key=%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("GET", "/v1/runs", nil)
		r.URL.RawQuery = query
		if st, p := readGet(r); p != nil {
			if p.Status != 400 {
				t.Errorf("%+v", p)
			}
		} else {
			_ = st.typeProperties(json.RawMessage(`{"properties":{"a":{"type":"number"}}}`))
			_ = st.Hash()
		}
	})
}

func ExampleHandlers_PostRun_problem() {
	_, p := bare.readPost(httptest.NewRecorder(),
		httptest.NewRequest("POST", "/v1/runs", strings.NewReader(`{"workflow":"encyclopedia","options":{"temperature":"hot"}}`)))
	w := httptest.NewRecorder()
	p.Write(w)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	fmt.Print(w.Body)
	// Output:
	// 400 application/problem+json
	// {"type":"urn:lingserve:problem:invalid_request","title":"invalid request","status":400,"detail":"/options/temperature: expected a number, got a string","code":"invalid_request","errors":[{"pointer":"/options/temperature","detail":"expected a number, got a string"}]}
}

// FT-29: an id that is taken is written back as it was, and anything else is refused with a sentence.
func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"q6myrp4qkegvdwscbennnkcpyq:17", "a.0", "a:9007199254740991", "a:9007199254740992", "a:+1", "a:01", ":1", "a:b:1", "a\x00:1", "a\n:1", strings.Repeat("a", 64) + ":1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseEventID(text)
		if err != nil {
			if err.Error() == "" || strings.ContainsAny(err.Error(), "\r\n\x00") || len(err.Error()) > 1000 {
				t.Errorf("%q", err)
			}
			return
		}
		back := id.String()
		if back != text && strings.Replace(back, ":", ".", 1) != text || !run.ValidID(id.run) || id.n > lastNumber {
			t.Errorf("%q was read as %q", text, back)
		}
	})
}
