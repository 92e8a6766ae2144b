package web

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
)

// DW-12: strict and html reach the bots of a run from a query and from a body. The events of html are as described.
func TestStrictAndHTMLReachTheBotsOfARun(t *testing.T) {
	c := newContract(t)
	b := newBench(t, func(o *Options) {
		o.Workflows.Register(flow.Func("page", "", question, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
			for root, config := range map[string]bot.Config{"plan": {Schema: json.RawMessage(`{"required":["x"]}`)}, "page": {Format: bot.HTML}} {
				b, err := m.CreateBot(root, root, func(c *bot.Config) { c.Schema, c.Format = config.Schema, config.Format })
				if err == nil {
					err = b.Chat(textMessage("q"))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
	})
	b.model.say = func(_ context.Context, _ string, req adapter.Request, yield func(string) bool) error {
		if req.Format.JSON {
			yield(`{"y":1}`)
			return nil
		}
		_ = yield("<p>1 &lt;") && yield(" 2</p>")
		return nil
	}
	b.serve()
	for _, tt := range []struct {
		method, path, body string
		html, strict       bool
	}{
		{"GET", "/v1/runs?workflow=page&input=q&format=jsonl&html=1", "", true, false},
		{"GET", "/v1/runs?workflow=page&input=q&format=jsonl&strict=1", "", false, true},
		{"POST", "/v1/runs", `{"workflow":"page","input":"q","format":"jsonl","strict":true}`, false, true},
	} {
		lines := text(t, b.do(tt.method, tt.path, tt.body))
		c.checkLines(t, lines)
		if html := strings.Contains(lines, `"event":"html","data":{`); html != tt.html {
			t.Errorf("%s %s %s: it has HTML events: %v\n%s", tt.method, tt.path, tt.body, html, lines)
		}
		if failed := strings.Contains(lines, `{"status":"failed"}`); failed != tt.strict {
			t.Errorf("%s %s %s: it has failed: %v\n%s", tt.method, tt.path, tt.body, failed, lines)
		}
	}
}
