package fakeproviders

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What Bedrock and its models refuse of a history, the stand-in refuses in their words.
func TestBedrockRefusesWhatBedrockRefuses(t *testing.T) {
	const (
		claude  = "us.anthropic.claude-haiku-4-5-20251001-v1%3A0"
		user    = `{"role":"user","content":[{"text":"hi"}]}`
		call    = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"look","input":{}}}]}`
		result  = `{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"seen"}]}}]}`
		tools   = `,"toolConfig":{"tools":[{"toolSpec":{"name":"look","inputSchema":{"json":{"type":"object"}}}}]}`
		thinks  = `,"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024}}`
		pointed = `,"toolConfig":{"tools":[{"toolSpec":{"name":"look","inputSchema":{"json":{}}}},{"cachePoint":{"type":"default"}}]}`
	)
	signed := `{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"so","signature":"` + Signature("so") + `"}}},{"toolUse":{"toolUseId":"a","name":"look","input":{}}}]}`
	for _, row := range []struct{ name, model, body, says string }{
		{"a question", claude, `{"messages":[` + user + `]}`, ""},
		{"a call", claude, `{"messages":[` + user + `,` + call + `,` + result + `]` + tools + `}`, ""},
		{"a call with thinking", claude, `{"messages":[` + user + `,` + signed + `,` + result + `]` + tools + thinks + `}`, ""},
		{"cache points", claude, `{"messages":[` + user + `]` + pointed + `}`, ""},
		{"cache points of tools of Nova", "us.amazon.nova-2-lite-v1%3A0", `{"messages":[` + user + `]` + pointed + `}`, "extraneous key [cachePoint]"},
		{"an unknown member", claude, `{"messages":[` + user + `],"model":"m"}`, "Malformed input request"},
		{"nothing", claude, `{"messages":[]}`, "must start with a user message"},
		{"the assistant first", claude, `{"messages":[{"role":"assistant","content":[{"text":"hi"}]}]}`, "must start with a user message"},
		{"two of the user", claude, `{"messages":[` + user + `,` + user + `]}`, "must alternate"},
		{"a blank", claude, `{"messages":[{"role":"user","content":[{"text":" "}]}]}`, "is blank"},
		{"no blocks", claude, `{"messages":[{"role":"user","content":[]}]}`, "is empty"},
		{"no result", claude, `{"messages":[` + user + `,` + call + `,` + user + `]` + tools + `}`, "Expected toolResult blocks at messages.2.content for the following Ids: a"},
		{"no call", claude, `{"messages":[` + result + `]` + tools + `}`, "exceeds the number of toolUse blocks"},
		{"no tools", claude, `{"messages":[` + user + `,` + call + `,` + result + `]}`, "toolConfig field must be defined"},
		{"a call without thinking", claude, `{"messages":[` + user + `,` + call + `,` + result + `]` + tools + thinks + `}`, "Expected `thinking`"},
		{"another signature", claude, `{"messages":[` + user + `,` + strings.Replace(signed, `"so"`, `"no"`, 1) + `,` + result + `]` + tools + thinks + `}`, "Invalid `signature`"},
		{"a document's name", claude, `{"messages":[{"role":"user","content":[{"text":"a"},{"document":{"format":"pdf","name":"a.pdf","source":{"bytes":""}}}]}]}`, "document file name"},
		{"a document alone", claude, `{"messages":[{"role":"user","content":[{"document":{"format":"pdf","name":"a","source":{"bytes":""}}}]}]}`, "text block is required"},
		{"temperature with thinking", claude, `{"messages":[` + user + `],"inferenceConfig":{"temperature":0}` + thinks + `}`, "may only be set to 1"},
		{"a forced tool with thinking", claude, `{"messages":[` + user + `]` + strings.Replace(tools, `{"tools"`, `{"toolChoice":{"any":{}},"tools"`, 1) + thinks + `}`, "forces tool use"},
	} {
		t.Run(row.name, func(t *testing.T) {
			up := &Server{Script: func(r Request) Answer { return Answer{Text: r.Model} }}
			w := httptest.NewRecorder()
			up.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/model/"+row.model+"/converse-stream", strings.NewReader(row.body)))
			said, _ := io.ReadAll(w.Result().Body)
			if (w.Code == http.StatusOK) != (row.says == "") || !strings.Contains(string(said), row.says) || w.Code != http.StatusOK && !strings.HasPrefix(w.Header().Get("X-Amzn-Errortype"), "ValidationException") {
				t.Errorf("%d %q", w.Code, said)
			}
		})
	}
}
