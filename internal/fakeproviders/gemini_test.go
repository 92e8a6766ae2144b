package fakeproviders

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// post posts a body to the stand-in.
func postGemini(t *testing.T, s *Server, path, body string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// MO-02, MO-32: the stand-in refuses what Google refuses, in its words.
func TestGeminiRefusesHistoriesAsGoogleDoes(t *testing.T) {
	s := &Server{Script: func(Request) Answer { return Answer{Text: "a"} }}
	defer s.Close()
	const user, call, result = `{"role":"user","parts":[{"text":"?"}]}`, `{"functionCall":{"name":"f","args":{}}}`, `{"functionResponse":{"name":"f","response":{"a":1}}}`
	model := func(parts string) string { return `{"role":"model","parts":[` + parts + `]}` }
	results := `{"role":"user","parts":[` + result + `]}`
	signed := `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"` + signatureOf("f", "{}") + `"}`
	for name, row := range map[string]struct{ model, contents, says string }{
		"a question":                {"m", user, ""},
		"calls and results":         {"m", user + "," + model(call) + "," + results, ""},
		"nothing":                   {"m", "", "contents is not specified"},
		"no parts":                  {"m", `{"role":"user","parts":[]}`, "must not be empty"},
		"empty text":                {"m", `{"role":"user","parts":[{"text":""}]}`, "empty text parameter"},
		"another role":              {"m", `{"role":"assistant","parts":[{"text":"a"}]}`, "valid role"},
		"the model first":           {"m", model(`{"text":"a"}`) + "," + user, "alternate"},
		"two of one role":           {"m", user + "," + user, "alternate"},
		"the model last":            {"m", user + "," + model(`{"text":"a"}`), "ends with a user role"},
		"calls first":               {"m", model(call) + "," + results, "function call turn comes immediately after a user turn"},
		"results without calls":     {"m", user + "," + model(`{"text":"a"}`) + "," + results, "immediately after a function call turn"},
		"calls without results":     {"m", user + "," + model(call) + "," + user, "number of function response parts"},
		"fewer results":             {"m", user + "," + model(call+","+call) + "," + results, "number of function response parts"},
		"a result without a name":   {"m", user + "," + model(call) + `,{"role":"user","parts":[{"functionResponse":{"response":{}}}]}`, "Name cannot be empty"},
		"an unknown member":         {"m", `{"role":"user","parts":[{"text":"?","cache":1}]}`, `Unknown name "cache"`},
		"a signature":               {"gemini-3-x", user + "," + model(signed) + "," + results, ""},
		"the documented one":        {"gemini-3-x", user + "," + model(strings.Replace(call, "}}}", `}},"thoughtSignature":"`+skipsValidator+`"}`, 1)) + "," + results, ""},
		"no signature":              {"gemini-3-x", user + "," + model(call) + "," + results, "missing a thought_signature"},
		"no signature of the past":  {"gemini-3-x", user + "," + model(call) + "," + results + "," + model(`{"text":"a"}`) + "," + user, ""},
		"one that is not of it":     {"gemini-3-x", user + "," + model(strings.Replace(signed, `"args":{}`, `"args":{"x":1}`, 1)) + "," + results, "Corrupted thought signature"},
		"an empty part with a sign": {"gemini-3-x", user + "," + model(`{"text":"","thoughtSignature":"QQ=="}`) + "," + user, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, said := postGemini(t, s, "/v1beta/models/"+row.model+":streamGenerateContent?alt=sse", `{"contents":[`+row.contents+`]}`)
			if (status == 200) != (row.says == "") {
				t.Fatalf("status %d: %s", status, said)
			}
			var report struct {
				Error struct{ Message, Status string }
			}
			if row.says != "" && (json.Unmarshal([]byte(said), &report) != nil || !strings.Contains(report.Error.Message, row.says) || report.Error.Status != "INVALID_ARGUMENT") {
				t.Errorf("%s", said)
			}
		})
	}
	for body, says := range map[string]string{
		`{"contents":[` + user + `],"generationConfig":{"thinkingConfig":{"thinkingBudget":1,"thinkingLevel":"low"}}}`:                              "only one of thinking budget",
		`{"contents":[` + user + `],"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}}`:                                                 "not supported for this model",
		`{"contents":[` + user + `],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","additionalProperties":false}}]}]}`: "additionalProperties",
		`{"contents":[` + user + `],"tools":[{"functionDeclarations":[{"name":"1 f"}]}]}`:                                                           "Invalid function name",
	} {
		if status, said := postGemini(t, s, "/v1beta/models/m:streamGenerateContent", body); status != 400 || !strings.Contains(said, says) {
			t.Errorf("%d %s", status, said)
		}
	}
}
