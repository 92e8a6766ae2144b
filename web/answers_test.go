package web

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
)

// corrected is a workflow whose first bot gives an answer that does not fit its schema, and whose second waits for a text of it.
const corrected = `{"name":"x","bots":{
	"outline":{"message":"go","root":"article","on_invalid":"RETRY","schema":{"type":"object","required":["title"],
		"properties":{"title":{"type":"string"}},"additionalProperties":false}},
	"body":{"on":"article/title","message":"{{ event.value }}","root":"body","format":"text"}}}`

// answering says the first of these when first asked, and so on; a bot that is asked for a title's body repeats it.
func answering(answers ...string) func(context.Context, string, adapter.Request, func(string) bool) error {
	n := 0
	return func(_ context.Context, _ string, req adapter.Request, yield func(string) bool) error {
		if !req.Format.JSON {
			yield("About " + req.Messages[len(req.Messages)-1].Content)
			return nil
		}
		text := answers[min(n, len(answers)-1)]
		n++
		for len(text) > 0 && yield(text[:min(3, len(text))]) {
			text = text[min(3, len(text)):]
		}
		return nil
	}
}

// BO-05, PROTOCOL 1.1: in every framing, the document is the fold of what was sent, and nothing is started by an answer that did
// not stay.
func TestOutputThatDoesNotFitItsSchema(t *testing.T) {
	const wrong, right = `{"title":"Sky","more":1}`, `{"title":"Sea"}`
	for _, c := range []struct {
		name, mode string
		answers    []string
		result     string
		pointers   []string // of the errors
		asked      string   // what the last error's message ends with
		usage      int      // events of the outline
	}{
		{"reported", "report", []string{wrong}, `{"article":{"title":"Sky","more":1},"body":"About Sky"}`, []string{"/article/more"}, "unknown property", 1},
		{"asked again", "retry", []string{wrong, right}, `{"article":{"title":"Sea"},"body":"About Sea"}`, []string{"/article/more"}, "the server retries once", 2},
		{
			"asked again, in vain", "retry",
			[]string{wrong, `{"title":7,"x":1}`},
			`{"article":{"title":7,"x":1}}`,
			[]string{"/article/more", "/article/title", "/article/x"},
			"unknown property", 2,
		},
		{"no document at all", "retry", []string{"I cannot.", right}, `{"article":{"title":"Sea"},"body":"About Sea"}`, []string{""}, "the server retries once", 2},
		{"nothing wrong", "retry", []string{right}, `{"article":{"title":"Sea"},"body":"About Sea"}`, nil, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := `{"workflow":` + strings.Replace(corrected, "RETRY", c.mode, 1) + `}`
			check := func(t *testing.T, errors []ling.ErrorData) {
				t.Helper()
				var pointers []string
				for _, e := range errors {
					pointers = append(pointers, e.Pointer)
					if e.Code != "output_invalid" || e.Fatal || e.Bot != "outline" {
						t.Errorf("%+v", e)
					}
				}
				if diff := cmp.Diff(c.pointers, pointers); diff != "" {
					t.Error(diff)
				}
				if n := len(errors); n > 0 && !strings.HasSuffix(errors[n-1].Message, c.asked) {
					t.Errorf("%+v", errors[n-1])
				}
			}
			run := func(t *testing.T, format string) *http.Response {
				b := newBench(t, func(o *Options) { o.InlineWorkflows = true })
				b.model.say = answering(c.answers...)
				return b.serve().do("POST", "/v1/runs?format="+format, request)
			}
			t.Run("json", func(t *testing.T) {
				d := readDocument(t, run(t, "json"))
				if diff := cmp.Diff(c.result, string(d.Result)); diff != "" || d.Status != "completed" {
					t.Error(d.Status, diff)
				}
				check(t, d.Errors)
				if got := d.Usage["outline"].TotalTokens; got != 10*c.usage {
					t.Errorf("%d tokens", got)
				}
				if diff := cmp.Diff([]string{"test:story"}, d.Models["outline"]); diff != "" {
					t.Error(diff)
				}
			})
			t.Run("sse", func(t *testing.T) {
				var f folded
				var errors []ling.ErrorData
				bodies := 0
				list, _ := events(run(t, "sse").Body)
				for _, e := range list {
					f.take(t, e)
					switch {
					case e.Type == "error":
						var d ling.ErrorData
						if err := json.Unmarshal([]byte(e.Data), &d); err != nil {
							t.Fatal(err)
						}
						errors = append(errors, d)
					case e.Type == "usage" && strings.Contains(e.Data, `"bot":"body"`):
						bodies++
					}
				}
				if diff := cmp.Diff(c.result, f.json()); diff != "" {
					t.Error(diff)
				}
				check(t, errors)
				if want := strings.Count(c.result, "About"); bodies != want {
					t.Errorf("%d bodies were written, want %d", bodies, want)
				}
			})
			t.Run("jsonl", func(t *testing.T) {
				var doc jsonuri.Document
				var errors []ling.ErrorData
				lines := bufio.NewScanner(run(t, "jsonl").Body)
				for lines.Scan() {
					var e struct {
						URI   *string
						Delta json.RawMessage
						Event string
						Data  json.RawMessage
					}
					if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
						t.Fatal(err)
					}
					switch {
					case e.Event == "error":
						var d ling.ErrorData
						if err := json.Unmarshal(e.Data, &d); err != nil {
							t.Fatal(err)
						}
						errors = append(errors, d)
					case e.URI != nil && e.Delta[0] == '"':
						doc.Append([]byte(*e.URI), e.Delta[1:len(e.Delta)-1])
					case e.URI != nil:
						doc.Set([]byte(*e.URI), e.Delta)
					}
				}
				if diff := cmp.Diff(c.result, string(doc.AppendJSON(nil))); diff != "" {
					t.Error(diff)
				}
				check(t, errors)
			})
		})
	}
}

// PROTOCOL "EventSource": who comes back in the middle of a second answer has the same document.
func TestWhoComesBackWhileAnAnswerIsReplacedHasTheSameDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.InlineWorkflows = true })
		begin, goOn := make(chan struct{}), make(chan struct{})
		n := 0
		b.model.say = func(_ context.Context, _ string, req adapter.Request, yield func(string) bool) error {
			switch n++; n {
			case 1:
				yield(`{"title":"Much`)
				yield(` too long","more":1}`)
			case 2:
				<-begin
				yield(`{"title":"S`)
				<-goOn
				yield(`ea"}`)
			default:
				yield("About it")
			}
			return nil
		}
		b.servePipes()
		resp := b.do("POST", "/v1/runs?format=sse", `{"workflow":`+strings.Replace(corrected, "RETRY", "retry", 1)+`}`)
		next, stop := liveEvents(t, resp)
		defer stop()
		var whole, back folded
		path := "/v1/runs/" + resp.Header.Get("X-Run-Id") + "/events?format=sse"
		for whole.last == "" || !strings.Contains(whole.json(), "more") {
			whole.take(t, next())
		}
		before := whole.last
		close(begin)
		for whole.json() != `{"article":{"title":"S"}}` {
			whole.take(t, next())
		}
		snapshot := b.do("GET", path+"&snapshot=1", "")
		close(goOn)
		if f := fold(t, snapshot); f.json() != `{"article":{"title":"Sea"},"body":"About it"}` {
			t.Error("from a snapshot:", f.json())
		}
		back.last = before
		if err := back.doc.Set(nil, []byte(`{"article":{"title":"Much too long","more":1}}`)); err != nil {
			t.Fatal(err)
		}
		list, _ := events(b.do("GET", path+"&last_event_id="+before, "").Body)
		for _, e := range list {
			back.take(t, e)
		}
		if back.json() != `{"article":{"title":"Sea"},"body":"About it"}` {
			t.Error("from the id:", back.json())
		}
	})
}

// AD-06, PROTOCOL 3
func TestAChainOfModelsIsNamedAndSaysWhichOfThemAnswered(t *testing.T) {
	const bots = `"bots":{"a":{"message":"hi","root":"a","format":"text"}}`
	for _, c := range []struct {
		name, path, body string
		model            string // of started
	}{
		{"a list in the workflow", "", `{"workflow":{"name":"x","model":["test:down","test:up"],` + bots + `}}`, "test:down,test:up"},
		{"a bot's own list", "", `{"workflow":{"name":"x","bots":{"a":{"message":"hi","model":["test:down","test:up"],"root":"a","format":"text"}}}}`, "test:story"},
		{"a text in the request", "", `{"workflow":{"name":"x",` + bots + `},"model":"test:down, test:up"}`, "test:down,test:up"},
		{"a list in the request", "", `{"workflow":{"name":"x",` + bots + `},"model":["test:down","test:up"]}`, "test:down,test:up"},
		{"a query", "?workflow=chat&input=Why&model=test:down,%20test:up", "", "test:down,test:up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.InlineWorkflows = true })
			b.model.say = func(_ context.Context, name string, _ adapter.Request, yield func(string) bool) error {
				if name == "down" {
					return &adapter.Error{Code: adapter.CodeUnavailable, Message: "it is down"}
				}
				yield(`{"here":true}`)
				return nil
			}
			b.serve()
			ask := func(format string) *http.Response {
				if c.body == "" {
					return b.do("GET", "/v1/runs"+c.path+"&format="+format, "")
				}
				return b.do("POST", "/v1/runs?format="+format, c.body)
			}
			d := readDocument(t, ask("json"))
			for _, models := range d.Models {
				if diff := cmp.Diff([]string{"test:up"}, models); diff != "" {
					t.Error(diff)
				}
			}
			if len(d.Models) != 1 || d.Status != "completed" {
				t.Errorf("%+v", d)
			}
			var started, used string
			list, _ := events(ask("sse").Body)
			for _, e := range list {
				switch e.Type {
				case "started":
					started = e.Data
				case "usage":
					used = e.Data
				}
			}
			if !strings.Contains(started, `"model":"`+c.model+`"`) {
				t.Error(started)
			}
			if !strings.Contains(used, `"model":"test:up"`) {
				t.Error(used)
			}
		})
	}
}

func TestAChainThatCannotBeIsRefused(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, c := range []struct{ name, model, pointer, detail string }{
		{"an unknown one in it", `["test:story","other:x"]`, "/model", `the model "other:x" has an unknown provider`},
		{"an empty list", `[]`, "/model", "expected at least one model"},
		{"an empty name", `["test:story",""]`, "/model/1", "expected a string of 1 to"},
		{"a comma too many", `"test:story,"`, "/model", "has no provider"},
		{"no text", `[1]`, "/model/0", "expected a string"},
		{"too many", `["a:1","a:2","a:3","a:4","a:5","a:6","a:7","a:8","a:9"]`, "/model", "expected at most 8 strings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"chat","input":"Why?","model":`+c.model+`}`))
			if p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Pointer != c.pointer || !strings.Contains(p.Errors[0].Detail, c.detail) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// calling is a provider whose model calls a tool of its own, and waits for one of ours.
type calling struct{ finish string }

func (calling) Names() []string                       { return nil }
func (c calling) Model(string) (adapter.Model, error) { return c, nil }

func (c calling) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for _, chunk := range []adapter.Chunk{
			{ToolCall: &adapter.ToolCall{ID: "c1", Name: "search", Arguments: `{"q":`}, Model: "calls:m"},
			{ToolCall: &adapter.ToolCall{Arguments: `"sky"}`}},
			{ToolResult: &adapter.ToolResult{ID: "c1", Content: `[{"title":"Sky"}]`}},
			{Text: "It is blue."},
			{ToolCall: &adapter.ToolCall{Index: 1, ID: "c2", Name: "draw"}},
			{Finish: c.finish},
		} {
			if !yield(chunk, nil) {
				return
			}
		}
	}
}

// PROTOCOL 1.2
func TestToolsAreSentBesideTheDocument(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.InlineWorkflows = true
		o.Models.Register("calls", calling{adapter.FinishToolCalls})
	}).serve()
	const request = `{"workflow":{"name":"x","bots":{"a":{"message":"hi","root":"a","format":"text"}}},"model":"calls:m"`
	d := readDocument(t, b.do("POST", "/v1/runs", request+`}`))
	if string(d.Result) != `{"a":"It is blue."}` || d.Reserved != nil || d.Status != "completed" {
		t.Errorf("%+v", d)
	}
	if len(d.Errors) != 1 || d.Errors[0].Fatal || d.Errors[0].Message != `the model called tools that the bot does not have: "draw"` {
		t.Errorf("%+v", d.Errors)
	}
	if len(d.Usage) != 0 || len(d.Models["a"]) != 1 { // it counts no tokens
		t.Errorf("%+v, %+v", d.Usage, d.Models)
	}
	want := `{"a/$tools":{"0":{"id":"c1","name":"search","arguments":{"q":"sky"}},"1":{"id":"c2","name":"draw","arguments":{}}},` +
		`"a/$tool_results":{"0":[{"title":"Sky"}]}}`
	d = readDocument(t, b.do("POST", "/v1/runs", request+`,"include":["reserved"]}`))
	if diff := cmp.Diff(want, string(d.Reserved)); diff != "" {
		t.Error(diff)
	}
	var uris []string
	list, _ := events(b.do("POST", "/v1/runs?format=sse", request+`}`).Body)
	for _, e := range list {
		var d struct{ URI string }
		if e.Type == "" && json.Unmarshal([]byte(e.Data), &d) == nil {
			uris = append(uris, d.URI)
		}
	}
	if diff := cmp.Diff([]string{"a/$tools/0", "a/$tool_results/0", "a", "a/$tools/1"}, uris); diff != "" {
		t.Error(diff)
	}
}
