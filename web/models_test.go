package web

import (
	"net/http"
	"strings"
	"testing"
)

// DH-08: requests name the models that are listed.
func TestRequestsNameListedModels(t *testing.T) {
	for _, listed := range []bool{true, false} {
		b := newBench(t, func(o *Options) { o.ListedModels, o.InlineWorkflows = listed, true }).serve()
		ask := func(path, body string) string {
			resp := b.do(http.MethodPost, path, body)
			return resp.Status + " " + text(t, resp)
		}
		const other = `{"model":"test:other","messages":[{"role":"user","content":"hi"}]}`
		for name, row := range map[string]struct{ path, body, refusal string }{
			"a completion":       {"/v1/chat/completions", other, "404 Not Found"},
			"a chain":            {"/v1/chat/completions", strings.Replace(other, "test:other", "test:story,test:other", 1), "404 Not Found"},
			"a run":              {"/v1/runs", `{"workflow":"chat","input":"hi","model":"test:other"}`, `"pointer":"/model"`},
			"an inline workflow": {"/v1/runs", `{"workflow":{"bots":{"a":{"model":"test:other","prompt":"hi"}}},"input":"hi"}`, `"pointer":"/workflow"`},
		} {
			got := ask(row.path, row.body)
			if refused := strings.Contains(got, "not offered") && strings.Contains(got, row.refusal); refused != listed {
				t.Errorf("%s, listed %t: %.300s", name, listed, got)
			}
		}
		if got := ask("/v1/chat/completions", strings.Replace(other, "test:other", "test:story", 1)); !strings.HasPrefix(got, "200") {
			t.Errorf("a model of the list: %s", got)
		}
	}
}
