package web

import (
	"strings"
	"testing"
)

// DW-14, DW-07: what is misspelt in a request is answered with what was meant.
func TestWhatIsMisspeltInARequestIsAnsweredWithWhatWasMeant(t *testing.T) {
	b := newBench(t, func(o *Options) { o.InlineWorkflows = true })
	b.serve()
	for _, ask := range []struct{ method, path, body, want string }{
		{"POST", "/v1/runs", `{"wrokflow":"steps","input":"x"}`, "unknown field; did you mean workflow? expected one of agent, "},
		{"POST", "/v1/runs", `{"workflow":"steps","input":"x","options":{"temprature":1}}`, "did you mean"},
		{"POST", "/v1/runs", `{"workflow":"stesp","input":"x"}`, `unknown workflow \"stesp\"; did you mean steps? expected one of `},
		{"GET", "/v1/runs?workflow=stesp&input=x", "", `unknown workflow \"stesp\"; did you mean steps? expected one of `},
		{"GET", "/v1/workflows/stesp", "", `unknown workflow \"stesp\"; did you mean steps? expected one of `},
		{"GET", "/v1/runs?workflow=steps&inptu=x", "", "unknown; did you mean input? expected one of "},
		{"POST", "/v1/runs", `{"workflow":{"bots":{"a":{"model":"tset:m"}}},"input":{}}`, `unknown provider \"tset\", did you mean \"test\"?`},
	} {
		if got := text(t, b.do(ask.method, ask.path, ask.body)); !strings.Contains(got, ask.want) {
			t.Errorf("%s %s %s: got %s", ask.method, ask.path, ask.body, got)
		}
	}
}
