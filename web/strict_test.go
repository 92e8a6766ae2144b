package web

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
)

// DW-12: with strict a bot fails whose answer does not fit its schema.
func TestAStrictRunFailsOfAnAnswerThatDoesNotFit(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Workflows.Register(flow.Func("plan", "Plans.", question, func(_ context.Context, m *ling.Manager, input map[string]any) error {
			w, err := m.CreateBot("writer", "plan", func(c *bot.Config) { c.Schema = json.RawMessage(`{"required":["x"]}`) })
			if err != nil {
				return err
			}
			return w.Chat(textMessage(input["question"].(string)))
		}))
	})
	b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		yield(`{"y":1}`)
		return nil
	}
	b.serve()
	for _, ask := range []struct{ method, path, body, want string }{
		{"GET", "/v1/runs?workflow=plan&input=q&strict=1", "", "failed"},
		{"POST", "/v1/runs", `{"workflow":"plan","input":"q","strict":true}`, "failed"},
		{"POST", "/v1/runs", `{"workflow":"plan","input":"q","strict":false}`, "completed"},
		{"GET", "/v1/runs?workflow=plan&input=q", "", "completed"},
	} {
		if d := readDocument(t, b.do(ask.method, ask.path, ask.body)); d.Status != ask.want {
			t.Errorf("%s %s %s: the run is %s, expected %s", ask.method, ask.path, ask.body, d.Status, ask.want)
		}
	}
}
