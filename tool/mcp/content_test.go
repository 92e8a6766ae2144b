package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tool"
)

func TestResultsOfServers(t *testing.T) { // AG-65
	text := func(s string) *sdk.TextContent { return &sdk.TextContent{Text: s} }
	for _, row := range []struct {
		name string
		in   sdk.CallToolResult
		want string
	}{
		{"nothing", sdk.CallToolResult{}, `""`},
		{"texts are joined", sdk.CallToolResult{Content: []sdk.Content{text("a"), text("b")}}, `"a\nb"`},
		{"structured content alone", sdk.CallToolResult{StructuredContent: map[string]any{"a": "<b>"}}, `{"a":"<b>"}`},
		{
			"structured content that the text repeats",
			sdk.CallToolResult{Content: []sdk.Content{text("{ \"a\": 1 }")}, StructuredContent: map[string]any{"a": 1.0}},
			`{"a":1}`,
		},
		{
			"structured content and another text",
			sdk.CallToolResult{Content: []sdk.Content{text("one a")}, StructuredContent: map[string]any{"a": 1.0}},
			`[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"one a"}]`,
		},
		{
			"an image",
			sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/webp", Data: []byte("x")}}},
			`[{"type":"image_url","image_url":{"url":"data:image/webp;base64,eA=="}}]`,
		},
		{
			"an image that no model takes",
			sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/svg+xml", Data: []byte("<svg/>")}}},
			`"[an image of type image/svg+xml, 6 bytes, left out]"`,
		},
		{
			"a type that is none",
			sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png;base64,AA==\"", Data: []byte("x")}}},
			`"[an image of type image/png;base64,AA==\", 1 bytes, left out]"`,
		},
		{
			"a sound",
			sdk.CallToolResult{Content: []sdk.Content{&sdk.AudioContent{MIMEType: "audio/wav", Data: make([]byte, 9)}}},
			`[{"type":"file","file":{"file_data":"data:audio/wav;base64,AAAAAAAAAAAA"}}]`,
		},
		{
			"resources",
			sdk.CallToolResult{Content: []sdk.Content{
				&sdk.ResourceLink{Name: "n", URI: "file:///n"},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", Text: "inside"}},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", MIMEType: "image/png", Blob: []byte("x")}},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", MIMEType: "application/zip", Blob: []byte("x")}},
				&sdk.EmbeddedResource{},
			}},
			`[{"type":"text","text":"[a link to n: file:///n]\ninside\n[a file of type application/zip, 1 bytes, left out]\n[an empty resource]"},` +
				`{"type":"image_url","image_url":{"url":"data:image/png;base64,eA=="}}]`,
		},
		{"an error", sdk.CallToolResult{IsError: true, Content: []sdk.Content{text("no"), text("way")}}, `{"error":{"kind":"failed","message":"no\nway"}}`},
		{"an error without words", sdk.CallToolResult{IsError: true, StructuredContent: map[string]any{"a": 1.0}}, `{"error":{"kind":"failed","message":"the tool failed without a reason"}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, string(resultOf(&row.in).Value())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// DC-06: what a server says twice, as structured content and as text, reaches the model once.
func TestStructuredContentAndItsMirrorAreOneResult(t *testing.T) {
	for _, row := range []struct {
		name, structured string
		texts            []string
		want             string
	}{
		{"other spacing and order", `{"a":1,"b":"x"}`, []string{"{\n  \"b\": \"x\",\n  \"a\": 1\n}"}, `{"b":"x","a":1}`},
		{"a wrapped number", `{"result":5}`, []string{"5"}, `{"result":5}`},
		{"a wrapped text", `{"result":"It rains."}`, []string{"It rains."}, `{"result":"It rains."}`},
		{"a wrapped object", `{"result":{"a":1}}`, []string{`{"a": 1}`}, `{"result":{"a":1}}`},
		{"a wrapped list, a text for each item", `{"result":["a",{"b":2}]}`, []string{"a", `{"b": 2}`}, `{"result":["a",{"b":2}]}`},
		{"an empty wrapped list", `{"result":[]}`, nil, `{"result":[]}`},
		{
			"words beside the mirror stay", `{"a":1}`,
			[]string{"Prices are in euros.", `{"a": 1}`},
			`[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"Prices are in euros."}]`,
		},
		{
			"other words stay", `{"result":5}`,
			[]string{"6"},
			`[{"type":"text","text":"{\"result\":5}"},{"type":"text","text":"6"}]`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := sdk.CallToolResult{StructuredContent: decoded(t, row.structured)}
			for _, text := range row.texts {
				in.Content = append(in.Content, &sdk.TextContent{Text: text})
			}
			if diff := cmp.Diff(row.want, string(resultOf(&in).Value())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamesOfTools(t *testing.T) { // AG-64
	long := strings.Repeat("very-", 20) + "long"
	for _, row := range []struct{ server, remote, want string }{
		{"srv", "get_weather", "mcp.srv.get_weather"},
		{"srv", "admin.tools.list", "mcp.srv.admin.tools.list"},
		{"srv", strings.Repeat("a", 56), "mcp.srv." + strings.Repeat("a", 56)},
		{"srv", strings.Repeat("a", 57), "mcp.srv." + strings.Repeat("a", 47) + "-" + hash(strings.Repeat("a", 57))},
		{"srv", long, "mcp.srv." + long[:47] + "-" + hash(long)},
		{"srv", "get weather", "mcp.srv.get_weather-" + hash("get weather")},
		{"srv", "天气", "mcp.srv.__-" + hash("天气")},
		{"srv", ".a..b.", "mcp.srv._a__b_-" + hash(".a..b.")},
		{"srv", "a/b", "mcp.srv.a_b-" + hash("a/b")},
	} {
		if got := name(row.server, row.remote); got != row.want {
			t.Errorf("%q: got %s, want %s", row.remote, got, row.want)
		}
	}
	any := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z._/-]{0,80}`))
	rapid.Check(t, func(t *rapid.T) {
		server, a, b := rapid.StringMatching(`[a-z0-9-]{1,32}`).Draw(t, "server"), any.Draw(t, "a"), any.Draw(t, "b")
		for _, n := range []string{name(server, a), hashedName(server, a)} {
			made := tool.Tool{Name: n, Run: (&tool.Tool{}).Run}
			if err := made.Check(); err == nil || !strings.Contains(err.Error(), "a function that runs it") {
				t.Fatalf("%q makes a name that is none: %v", a, err)
			}
			if !strings.HasPrefix(n, "mcp."+server+".") {
				t.Fatalf("got %s", n)
			}
		}
		if a != b && name(server, a) == name(server, b) {
			t.Fatalf("%q and %q have the same name", a, b)
		}
	})
}

func hash(remote string) string {
	n := hashedName("x", remote)
	return n[strings.LastIndexByte(n, '-')+1:]
}

func TestToolsThatCannotBeUsedAreLeftOut(t *testing.T) { // AG-64, AG-65
	s := newServer(Server{Name: "srv", Command: "x"}, withDefaults(nil))
	object := map[string]any{"type": "object"}
	got := s.adopt([]*sdk.Tool{
		{Name: "good", InputSchema: object, Description: strings.Repeat("天", 5000)},
		{Name: "a.b", InputSchema: object},
		{Name: "a_b", InputSchema: object}, // the same towards a model
		{Name: "twice", InputSchema: object},
		{Name: "twice", InputSchema: object, Description: "the second"},
		{Name: "", InputSchema: object},
		{Name: "no-schema"},
		{Name: "bad-schema", InputSchema: map[string]any{"type": 7}},
		{Name: "outside", InputSchema: map[string]any{"$ref": "http://example.com/schema"}},
		{Name: "large", InputSchema: map[string]any{"description": strings.Repeat("x", maxSchema)}},
		{Name: "old", InputSchema: map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}},
	})
	var names []string
	for _, tool := range got {
		names = append(names, tool.Name)
		if len(tool.Description) > maxDescription+3 {
			t.Errorf("the description of %s has %d bytes", tool.Name, len(tool.Description))
		}
	}
	want := []string{"mcp.srv.a.b", "mcp.srv.a_b-" + hash("a_b"), "mcp.srv.bad-schema", "mcp.srv.good", "mcp.srv.no-schema", "mcp.srv.old", "mcp.srv.outside", "mcp.srv.twice"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if _, err := tool.NewSet(got...); err != nil {
		t.Error(err)
	}
}

// DT-03
func TestWhatCannotBeCheckedOfASchemaIsNotChecked(t *testing.T) {
	for name, row := range map[string]struct {
		schema    string
		good, bad string // arguments; none are bad where nothing is checked
		unchecked string
	}{
		"a look-ahead": {
			`{"type":"object","properties":{"mail":{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)[a-z]+$"},"n":{"type":"integer"}},"required":["mail"]}`,
			`{"mail":"a@b.c"}`, `{"mail":"a","n":"x"}`, "/properties/mail/pattern: ",
		},
		"names by a back-reference": {`{"type":"object","patternProperties":{"(a)\\1":{"type":"string"}},"required":["n"]}`, `{"n":1}`, `{}`, "/patternProperties: the regular expression"},
		"required is null":          {`{"type":"object","properties":{"n":{"type":"integer"}},"required":null}`, `{"n":"x"}`, ``, "all of it: /required: "},
		"a reference to nothing":    {`{"type":"object","properties":{"n":{"$ref":"#/$defs/gone"}}}`, `{"n":1}`, ``, "all of it: it refers to #/$defs/gone"},
		"a type of another dialect": {`{"type":"object","properties":{"n":{"type":"any"},"m":{"type":"integer"}}}`, `{"n":1}`, ``, "all of it: /properties/n/type: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(Server{Name: "srv", Command: "x"}, withDefaults(nil))
			got := s.adopt([]*sdk.Tool{{Name: "f", InputSchema: json.RawMessage(row.schema)}})
			if len(got) != 1 || string(got[0].Schema) != row.schema {
				t.Fatalf("tools: %v", got)
			}
			if left := strings.Join(got[0].Unchecked(), "; "); !strings.HasPrefix(left, row.unchecked) {
				t.Errorf("unchecked: %s, want %s", left, row.unchecked)
			}
			run := func(arguments string) (result tool.Result) {
				f := got[0]
				f.Approval = tool.Never
				f.Run = func(context.Context, tool.Call) (tool.Result, error) { return tool.Text("ran"), nil }
				for _, r := range new(tool.Runner).Run(t.Context(), []*tool.Tool{f}, []tool.Call{{ID: "1", Name: f.Wire(), Arguments: json.RawMessage(arguments)}}) {
					result = r
				}
				return result
			}
			if r := run(row.good); r.Err != nil {
				t.Errorf("%s: %v", row.good, r.Err)
			}
			if r := run(row.bad); row.bad != "" && r.Err == nil {
				t.Errorf("%s was taken", row.bad)
			}
		})
	}
}

// DT-02
func TestLargeNumbersOfAMirrorStayExact(t *testing.T) {
	const text = `{"id":12345678901234567891}`
	in := sdk.CallToolResult{StructuredContent: decoded(t, text), Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	if got := resultOf(&in); string(got.Content) != text {
		t.Error(got.Value())
	}
}

// decoded is JSON as the SDK reads it.
func decoded(t *testing.T, text string) (value any) {
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// FuzzContent: whatever a server answers, there is a result that is JSON.
func FuzzContent(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"image","mimeType":"image/png","data":"AA=="}]}`,
		`{"content":[{"type":"resource","resource":{"uri":"u","text":"t"}}],"isError":true}`, `{"content":[],"structuredContent":{"a":[1]}}`,
		`{"content":[{"type":"resource_link","uri":"u","name":"n"},{"type":"audio","data":"","mimeType":"a"}]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var whole struct{ Result sdk.CallToolResult }
		if json.Unmarshal([]byte(`{"result":`+text+`}`), &whole) != nil {
			return
		}
		r := whole.Result
		result := resultOf(&r)
		if !json.Valid(result.Value()) || (result.Err != nil) != r.IsError {
			t.Fatalf("%s makes %s", text, result.Value())
		}
	})
}
