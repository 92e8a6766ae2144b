package web

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
)

// Whoever asks is told of each tag of the HTML that bots write, as the description says; the others get the text alone.
func TestHTMLEventsAreToldToThoseWhoAsk(t *testing.T) {
	const page = `<main class="a"><p>1 &lt; 2<br>é</p><svg viewBox="0 0 1 1"/></main>`
	c := newContract(t)
	b := newBench(t, func(o *Options) {
		o.Workflows.Register(flow.Func("page", "Writes a page.", question, func(_ context.Context, m *ling.Manager, input map[string]any) error {
			w, err := m.CreateBot("writer", "page", func(c *bot.Config) { c.Format = bot.HTML })
			if err != nil {
				return err
			}
			return w.Chat(textMessage(input["question"].(string)))
		}))
	})
	b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		for i := 0; i < len(page); i += 5 {
			yield(page[i:min(i+5, len(page))])
		}
		return nil
	}
	b.serve()
	want := []string{
		"open_tag main[1]", "open_tag main[1]/p[1]", "text_delta main[1]/p[1]", "open_tag main[1]/p[1]/br[1]", "close_tag main[1]/p[1]/br[1]", "text_delta main[1]/p[1]",
		"close_tag main[1]/p[1]", "open_tag main[1]/svg[1]", "close_tag main[1]/svg[1]", "close_tag main[1]",
	}
	for _, ask := range []struct {
		name, method, path, body string
		want                     []string
	}{
		{"in a query", "GET", "/v1/runs?workflow=page&input=q&format=jsonl&html=1", "", want},
		{"in a body", "POST", "/v1/runs", `{"workflow":"page","input":"q","format":"jsonl","html":true}`, want},
		{"not", "GET", "/v1/runs?workflow=page&input=q&format=jsonl&html=0", "", nil},
		{"nothing said", "GET", "/v1/runs?workflow=page&input=q&format=jsonl", "", nil},
		{"of what is filtered", "GET", `/v1/runs?workflow=page&input=q&format=jsonl&html=1&filter={"exclude":["page"]}`, "", nil},
	} {
		t.Run(ask.name, func(t *testing.T) {
			var told []string
			written, before := "", ""
			for line := range strings.Lines(text(t, b.do(ask.method, ask.path, ask.body))) {
				c.checkEvent(t, line)
				var e struct {
					Event, Delta string
					Data         struct{ Path, Type, Text string }
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				written += e.Delta
				if e.Event != "html" {
					continue
				}
				if now := e.Data.Type + " " + e.Data.Path; now != before || !strings.HasPrefix(now, "text_delta") { // text comes in pieces
					told = append(told, now)
					before = now
				}
			}
			if diff := cmp.Diff(ask.want, told); diff != "" {
				t.Error(diff)
			}
			if hidden := strings.Contains(ask.path, "exclude"); hidden != (written == "") || !hidden && written != page {
				t.Errorf("got %q", written)
			}
		})
	}
	if d := readDocument(t, b.do("GET", "/v1/runs?workflow=page&input=q&html=1", "")); d.Status != "completed" || !strings.Contains(string(d.Result), `\u003cbr`) && !strings.Contains(string(d.Result), "<br>") {
		t.Errorf("got %+v", d)
	}
}
