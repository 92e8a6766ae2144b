package fakeproviders

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The stand-in refuses what OpenAI's Responses API refuses of a history and of options, in its words (MO-02, MO-04).
func TestResponsesRefusesWhatTheAPIRefuses(t *testing.T) {
	s := &Server{Script: func(Request) Answer { return Answer{Text: "ok"} }}
	defer s.Close()
	const (
		user   = `{"role":"user","content":"Go."}`
		call   = `{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}`
		output = `{"type":"function_call_output","call_id":"c1","output":"seen"}`
		answer = `{"role":"assistant","content":"done"}`
	)
	thought := `{"type":"reasoning","summary":[{"type":"summary_text","text":"so"}],"encrypted_content":"` + sealed("so") + `"}`
	input := func(items ...string) string { return `"input":[` + strings.Join(items, ",") + `]` }
	tool := func(schema string) string {
		return `,"tools":[{"type":"function","name":"f","parameters":` + schema + `}]`
	}
	for name, row := range map[string]struct{ members, says string }{
		"what is right":                         {input(user, thought, call, output, thought, answer, user), ""},
		"reasoning at the end":                  {input(user, thought), "without its required following item"},
		"reasoning before a user's message":     {input(user, thought, user), "without its required following item"},
		"reasoning before reasoning":            {input(user, thought, thought, call, output), "without its required following item"},
		"reasoning that was changed":            {input(user, strings.Replace(thought, `"so"`, `"no"`, 1), call, output), "could not be verified"},
		"reasoning by its id":                   {input(user, `{"type":"reasoning","id":"rs_1","summary":[]}`, call, output), "Item with id 'rs_1' not found"},
		"reasoning without a summary":           {input(user, `{"type":"reasoning","encrypted_content":"x"}`, call, output), "Missing required parameter: 'input[1].summary'"},
		"a call by its id without reasoning":    {input(user, strings.Replace(call, `"call_id"`, `"id":"fc_3_1","call_id"`, 1), output), "without its required 'reasoning' item: 'rs_3_0'"},
		"a call without a result":               {input(user, call), "No tool output found for function call c1."},
		"a result without a call":               {input(user, output), "No tool call found for function call output with call_id c1."},
		"a call's id that is too long":          {input(user, strings.Replace(call, "c1", strings.Repeat("c", 65), 1)), "string too long"},
		"an item of another type":               {input(`{"type":"dream"}`), "Invalid value: 'dream'."},
		"a member of an item":                   {input(`{"role":"user","content":"a","name":"b"}`), "Unknown parameter: 'input[0].name'."},
		"a part of another role":                {input(`{"role":"assistant","content":[{"type":"input_text","text":"a"}]}`), "Invalid value: 'input_text'."},
		"a member of the request":               {input(user) + `,"stop":["."]`, "Unknown parameter: 'stop'."},
		"a choice without tools":                {input(user) + `,"tool_choice":"auto"`, "must be specified with 'tools'"},
		"a tool without properties":             {input(user) + tool(`{"type":"object"}`), "object schema missing properties"},
		"a tool with alternatives":              {input(user) + tool(`{"type":"object","properties":{},"anyOf":[{}]}`), "at the top level"},
		"a tool of no type":                     {input(user) + tool(`{"properties":{}}`), "schema must be a JSON Schema"},
		"a list of a tool without items":        {input(user) + tool(`{"type":"object","properties":{"a":{"type":"array"}}}`), "array schema missing items"},
		"a tool that is right":                  {input(user) + tool(`{"type":"object","properties":{"a":{"type":"array","items":{}}}}`), ""},
		"any JSON that no message speaks of":    {input(user) + `,"text":{"format":{"type":"json_object"}}`, "must contain the word 'json'"},
		"a strict schema that is open":          {input(user) + `,"text":{"format":{"type":"json_schema","name":"a","strict":true,"schema":{"type":"object"}}}`, "'additionalProperties' is required"},
		"an answer of too few tokens":           {input(user) + `,"max_output_tokens":5`, "integer below minimum value"},
		"a search by an id that is not known":   {input(user, `{"type":"web_search_call","id":"ws_1","status":"completed","action":{}}`), "Item with id 'ws_1' not found"},
		"a model that does not reason":          {input(user) + `,"model":"gpt-4o","include":["reasoning.encrypted_content"]`, "Encrypted content is not supported"},
		"an effort of a model without":          {input(user) + `,"model":"gpt-4o","reasoning":{"effort":"low"}`, "Unsupported parameter: 'reasoning.effort'"},
		"a temperature of a model that reasons": {input(user) + `,"model":"gpt-5","temperature":1`, "Unsupported parameter: 'temperature'"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m","store":false,` + row.members + `}`
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/responses", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Transport().RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			said, err := io.ReadAll(res.Body)
			if want := map[bool]int{true: 200, false: 400}[row.says == ""]; err != nil || res.StatusCode != want || !strings.Contains(string(said), row.says) {
				t.Errorf("%v, status %d: %s", err, res.StatusCode, said)
			}
		})
	}
}
