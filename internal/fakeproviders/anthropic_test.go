package fakeproviders

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The stand-in is as strict as Anthropic: MO-02, MO-04.
func TestAnthropicRefusesWhatTheRealOneRefuses(t *testing.T) {
	s := &Server{Script: func(Request) Answer { return Answer{Text: "ok"} }}
	defer s.Close()
	hi := `{"role":"user","content":"hi"}`
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"x"}]}`
	thought := func(signature string) string {
		return `{"role":"assistant","content":[{"type":"thinking","thinking":"so"` + signature + `},{"type":"text","text":"a"}]}`
	}
	const thinks = `"thinking":{"type":"enabled","budget_tokens":1024},`
	for name, row := range map[string]struct{ members, messages, says string }{
		"taken":                           {"", hi + "," + thought(`,"signature":"`+Signature("so")+`"`) + "," + hi, ""},
		"a loop":                          {"", hi + "," + call + "," + result, ""},
		"no messages":                     {"", "", ""}, // of tests that look at nothing but the answer
		"an unknown member":               {`"seed":1,`, hi, "seed: Extra inputs are not permitted"},
		"an unknown member of a block":    {"", `{"role":"user","content":[{"type":"text","text":"a","x":1}]}`, "messages.0.content.0.text.x: Extra inputs are not permitted"},
		"an unknown block":                {"", `{"role":"user","content":[{"type":"audio"}]}`, "Input tag 'audio' found"},
		"a model first":                   {"", thought(""), "first message must use"},
		"a role twice":                    {"", hi + "," + hi, "roles must alternate"},
		"a system's message in the midst": {"", hi + `,{"role":"system","content":"x"}`, "Input should be 'user' or 'assistant'"},
		"nothing":                         {"", `{"role":"user","content":[]}`, "non-empty content"},
		"an empty text":                   {"", `{"role":"user","content":""}`, "must be non-empty"},
		"a blank text":                    {"", `{"role":"user","content":"\n"}`, "non-whitespace"},
		"no signature":                    {"", hi + "," + thought("") + "," + hi, "thinking.signature: Field required"},
		"a changed signature":             {"", hi + "," + thought(`,"signature":"x"`) + "," + hi, "Invalid `signature` in `thinking` block"},
		"no result":                       {"", hi + "," + call + "," + hi, "without `tool_result` blocks immediately after: c1"},
		"no result at the end":            {"", hi + "," + call, "without `tool_result` blocks"},
		"no call":                         {"", hi + "," + thought(`,"signature":"`+Signature("so")+`"`) + "," + result, "unexpected `tool_use_id`"},
		"the same call twice":             {"", hi + "," + call + "," + result + "," + call + "," + result, "ids must be unique"},
		"an id of other characters":       {"", hi + "," + strings.Replace(call, "c1", "c:1", 1), "String should match pattern"},
		"no thinking in a loop":           {thinks, hi + "," + call + "," + result, "Expected `thinking` or `redacted_thinking`, but found `tool_use`"},
		"a budget above the limit":        {strings.Replace(thinks, "1024", "3000", 1), hi, "must be greater than `thinking.budget_tokens`"},
		"temperature beside thinking":     {thinks + `"temperature":0,`, hi, "may only be set to 1"},
		"a forced tool beside thinking":   {thinks + `"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},`, hi, "when tool_choice forces tool use"},
		"an open schema":                  {`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},`, hi, "'additionalProperties' must be explicitly set to false"},
		"five breakpoints":                {"", `{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 5), ",") + `]}`, "Found 5"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m","max_tokens":2000,` + row.members + `"messages":[` + row.messages + `]}`
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/messages", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Anthropic-Version", "2023-06-01")
			res, err := s.Transport().RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			said, _ := io.ReadAll(res.Body)
			if row.says == "" && res.StatusCode != 200 || row.says != "" && (res.StatusCode != 400 || !strings.Contains(string(said), `"type":"invalid_request_error"`)) {
				t.Errorf("%d %s", res.StatusCode, said)
			}
			var out struct{ Error struct{ Message string } }
			if row.says != "" && (json.Unmarshal(said, &out) != nil || !strings.Contains(out.Error.Message, row.says)) {
				t.Errorf("%s", said)
			}
		})
	}
}
