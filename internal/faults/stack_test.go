//go:build nightly

package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// answeredBy says which models have answered, in whatever framing that is told.
func (a *answer) answeredBy(t *testing.T) []string {
	t.Helper()
	var models []string
	for _, e := range a.events {
		if e.name == "usage" {
			var d struct{ Model string }
			decode(e.data, &d)
			models = append(models, d.Model)
		}
	}
	if a.events == nil && a.problem == nil {
		var d struct{ Models map[string][]string }
		decode(string(a.body), &d)
		models = d.Models["writer"]
	}
	return models
}

// AD-06: where a model cannot answer the next one of the chain is asked, of whatever provider; the result says which has answered.
// Once something was passed on there is no other.
func TestAChainGoesAcrossProviders(t *testing.T) {
	broken := raw(bytes_(openAI.Ping), cut) // with a header: net/http would ask again by itself
	for _, row := range []struct {
		name    string
		answers map[string]fakeproviders.Answer // by model
		state   string
		doc     string
		by      string
		code    string
		says    []string
		asked   []string // each model once for each attempt
	}{
		{
			name: "the first answers", answers: map[string]fakeproviders.Answer{"a": {Text: "blue"}},
			state: "completed", doc: `{"answer":"blue"}`, by: "openai:a", asked: []string{"a"},
		},
		{
			name: "the second answers", answers: map[string]fakeproviders.Answer{"a": echo(401, nil), "b": {Text: "blue"}},
			state: "completed", doc: `{"answer":"blue"}`, by: "coze:b", asked: []string{"a", "b"},
		},
		{
			name: "the third answers", answers: map[string]fakeproviders.Answer{"a": echo(503, nil), "b": coded(4011), "c": {Text: "blue"}},
			state: "completed", doc: `{"answer":"blue"}`, by: "ollama:c", asked: []string{"a", "a", "a", "b", "c"},
		},
		{
			name: "the second breaks off after it has said something",
			answers: map[string]fakeproviders.Answer{
				"a": broken, "b": raw(bytes_(cozeBot.begin("bl")), cut), "c": {Text: "blue"},
			},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", asked: []string{"a", "a", "a", "b"},
		},
		{
			name: "none answers", answers: map[string]fakeproviders.Answer{"a": echo(401, nil), "b": coded(4100), "c": {Status: 404}},
			state: "failed", doc: "{}", code: "upstream_protocol", asked: []string{"a", "b", "c"},
			says: []string{"none of the 3 models", "openai:a: ", "OPENAI_API_KEY", "coze:b: ", "COZE_API_TOKEN", "ollama:c: ", "`ollama pull c`"},
		},
	} {
		for where, body := range map[string]string{
			"of the workflow": run("chain"),
			"of the request":  `{"workflow":"text","input":"question","model":["openai:a","coze:b","ollama:c"]}`,
		} {
			t.Run(row.name+"/"+where, func(t *testing.T) {
				var mu sync.Mutex
				var models []string
				p := start(t, setup{script: func(r fakeproviders.Request) fakeproviders.Answer {
					mu.Lock()
					defer mu.Unlock()
					models = append(models, r.Model)
					return row.answers[r.Model]
				}})
				for _, framing := range framings {
					models = nil
					a := p.ask(framing, body)
					if diff := cmp.Diff(row.asked, models); diff != "" {
						t.Error(diff)
					}
					if a.code() != row.code {
						t.Errorf("%v", a)
					}
					for _, says := range row.says {
						if !strings.Contains(a.says(), says) {
							t.Errorf("it does not say %q: %v", says, a)
						}
					}
					if a.problem != nil {
						if a.problem.Status != 502 || row.doc != "{}" {
							t.Errorf("%v", a)
						}
						continue
					}
					if a.state != row.state || a.doc != row.doc {
						t.Errorf("%v", a)
					}
					if by := a.answeredBy(t); row.by != "" && !slices.Equal(by, []string{row.by}) {
						t.Errorf("answered by %q: %v", by, a)
					}
				}
				p.idle()
			})
		}
	}
}

// AD-03: calls that a bot's own plugins make, and what came of them, stand beside the document.
func TestWhatABotsOwnPluginsDoStandsBesideTheDocument(t *testing.T) {
	p := start(t, setup{by: cozeBot, script: always(fakeproviders.Answer{
		Text: "It rains.",
		ToolCalls: []fakeproviders.ToolCall{
			{ID: "c1", Name: "weather", Arguments: `{"at":"Zürich \"🙂\""}`},
			{ID: "c2", Name: "search", Arguments: `{"q":["a",1]}`},
		},
		ToolResults: []string{"rain & <b>wind</b>", `{"found":2}`},
	})})
	same := func(got, want string) bool {
		var g, w any
		return json.Unmarshal([]byte(got), &g) == nil && json.Unmarshal([]byte(want), &w) == nil && cmp.Equal(g, w)
	}
	want := map[string]string{
		"answer/$tools/0":        `{"id":"c1","name":"weather","arguments":{"at":"Zürich \"🙂\""}}`,
		"answer/$tool_results/0": `"rain & <b>wind</b>"`,
		"answer/$tools/1":        `{"id":"c2","name":"search","arguments":{"q":["a",1]}}`,
		"answer/$tool_results/1": `{"found":2}`,
	}
	check := func(t *testing.T, uri, got string, seen map[string]bool) {
		t.Helper()
		if !same(got, want[uri]) {
			t.Errorf("%s is %s, want %s", uri, got, want[uri])
		}
		seen[uri] = true
	}
	for _, framing := range streams {
		a := p.ask(framing, run("text"))
		seen := map[string]bool{}
		for _, e := range a.events {
			if strings.Contains(e.uri, "$") {
				check(t, e.uri, e.delta, seen)
			}
		}
		if a.state != "completed" || a.doc != `{"answer":"It rains."}` || len(seen) != len(want) {
			t.Errorf("%d: %v", len(seen), a)
		}
	}
	for _, path := range []string{"/v1/runs?include=reserved", "/v1/runs"} {
		a := p.do("POST", path, run("text"), "Accept: application/json")
		var d struct {
			Reserved map[string]map[string]json.RawMessage
		}
		decode(string(a.body), &d)
		seen := map[string]bool{}
		for uri, list := range d.Reserved {
			for n, value := range list {
				check(t, uri+"/"+n, string(value), seen)
			}
		}
		if a.state != "completed" || a.doc != `{"answer":"It rains."}` || len(seen) != len(want) && path != "/v1/runs" || len(seen) > 0 && path == "/v1/runs" {
			t.Errorf("%s: %d: %v", path, len(seen), a)
		}
	}
}

// A call of which nothing was heard again has failed: its result is null.
func TestAPluginThatDoesNotAnswerHasNoResult(t *testing.T) {
	p := start(t, setup{by: cozeBot, script: always(raw(bytes_(cozeBot.Open +
		"event:conversation.message.completed\ndata:{\"id\":\"1\",\"type\":\"function_call\",\"role\":\"assistant\",\"content\":\"{\\\"name\\\":\\\"look\\\"}\"}\n\n" +
		cozeBot.Text("blue") + cozeBot.end())))})
	for _, framing := range streams {
		a := p.ask(framing, run("text"))
		var beside []string
		for _, e := range a.events {
			if strings.Contains(e.uri, "$") {
				beside = append(beside, e.uri+" "+e.delta)
			}
		}
		if a.state != "completed" || a.doc != `{"answer":"blue"}` || len(beside) != 2 || !strings.Contains(beside[0], `"name":"look"`) || beside[1] != "answer/$tool_results/0 null" {
			t.Errorf("%q: %v", beside, a)
		}
	}
}

// BO-05: an answer that does not fit is asked for once more, with what is wrong; the second one stands in its place.
func TestAnAnswerThatDoesNotFitIsAskedForOnceMore(t *testing.T) {
	for _, w := range providers {
		for _, row := range []struct {
			name   string
			second fakeproviders.Answer
			state  string
			doc    string
			codes  []string
		}{
			{"and fits then", fakeproviders.Answer{Text: `{"n":1}`}, "completed", `{"doc":{"n":1}}`, []string{"output_invalid"}},
			{"and does not fit again", fakeproviders.Answer{Text: `{"n":"two"}`}, "completed", `{"doc":{"n":"two"}}`, []string{"output_invalid", "output_invalid"}},
			{"and does not come", echo(401, nil), "completed", `{"doc":{"n":"one"}}`, []string{"output_invalid", "upstream_auth", "output_invalid"}},
			{"and is cut off", raw(bytes_(w.begin(`{"n":`)), cut), "failed", `{"doc":{}}`, []string{"output_invalid", "upstream_protocol"}},
		} {
			t.Run(w.name+"/"+row.name, func(t *testing.T) {
				var mu sync.Mutex
				asked := map[string]bool{}
				p := start(t, setup{by: w, script: func(r fakeproviders.Request) fakeproviders.Answer {
					mu.Lock()
					defer mu.Unlock()
					said := fmt.Sprint(r.Messages)
					asked[said] = true
					if strings.Contains(said, "/n") { // what is wrong, by its pointer
						return row.second
					}
					return fakeproviders.Answer{Text: `{"n":"one"}`}
				}})
				for _, framing := range w.framings() {
					a := p.ask(framing, run("again"))
					if a.state != row.state || a.doc != row.doc || a.broken != nil {
						t.Errorf("%v", a)
					}
					var codes []string
					for _, e := range a.errors {
						codes = append(codes, e.Code)
					}
					if diff := cmp.Diff(row.codes, codes); diff != "" {
						t.Errorf("%s: %v", diff, a)
					}
				}
				if p.model.Requests() != 2*len(w.framings()) {
					t.Errorf("the model was asked %d times", p.model.Requests())
				}
				p.idle()
			})
		}
	}
}

// BO-05: a page in HTML is one string, and with html=1 there are events of its tags and text; those put together are the page, also
// for a client that was cut off anywhere and came back.
func TestAPageInHTMLIsTheSameHoweverItIsRead(t *testing.T) {
	const body = `<p class="a &amp; b">It scatters<br>blue &lt; red &#9728; 🌈</p><script>if (a < b) { "</p>" }</script><ul><li>one<li>two</ul>`
	const page = `<!DOCTYPE html><html><head><title>Why?</title></head><body>` + body + `</body></html>`
	quoted, _ := json.Marshal(page)
	var plain any
	decode(string(quoted), &plain)
	for _, w := range providers {
		t.Run(w.name, func(t *testing.T) {
			var tokens []string
			for i, r := range []rune(page) {
				if i%3 == 0 {
					tokens = append(tokens, "")
				}
				tokens[len(tokens)-1] += string(r)
			}
			p := start(t, setup{by: w, script: always(fakeproviders.Answer{Tokens: tokens})})
			var whole []event // that are "html"
			for _, framing := range streams {
				a := p.do("POST", "/v1/runs?html=1", run("page"), "Accept: "+framing)
				doc := p.do("GET", "/v1/runs/"+a.run, "").doc
				for at := range a.events {
					if at%5 != 0 { // to go on from
						continue
					}
					var f fold
					for _, e := range a.events[:at+1] {
						f.take(e)
					}
					rest := p.do("GET", "/v1/runs/"+a.run+"/events", "", "Accept: "+framing, "Last-Event-ID: "+f.last)
					html := slices.Clone(a.events[:at+1])
					for _, e := range rest.events {
						f.take(e)
						html = append(html, e)
					}
					f.check(t)
					var got struct{ Page any }
					decode(f.json(), &got)
					if got.Page != plain || f.json() != doc {
						t.Fatalf("from %s on: %s", f.last, f.json())
					}
					html = slices.DeleteFunc(html, func(e event) bool { return e.name != "html" })
					for i := range html {
						html[i].id = ""
					}
					if whole == nil {
						whole = html
					}
					if diff := cmp.Diff(whole, html, cmp.AllowUnexported(event{})); diff != "" {
						t.Fatalf("from %d on: %s", at, diff)
					}
				}
			}
			// What the events say is what a browser would make of it.
			if got, want := words(whole), "Why?|It scatters|blue < red ☀ 🌈|if (a < b) { \"</p>\" }|one|two"; got != want {
				t.Errorf("the text is %q", got)
			}
			// Nobody gets them who has not asked for them.
			for _, e := range p.ask(framings[0], run("page")).events {
				if e.name == "html" {
					t.Fatalf("%+v", e)
				}
			}
		})
	}
}

// words joins the text of html events, with a bar between those of different places.
func words(events []event) string {
	var b strings.Builder
	last := ""
	for _, e := range events {
		var d struct{ Path, Type, Text string }
		decode(e.data, &d)
		switch {
		case d.Type != "text_delta":
			last = ""
		case last == d.Path || b.Len() == 0:
			b.WriteString(d.Text)
			last = d.Path
		default:
			b.WriteString("|" + d.Text)
			last = d.Path
		}
	}
	return b.String()
}
