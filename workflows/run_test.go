package workflows_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/workflows"
)

// run runs a shipped workflow with the demo model, on a bubble's clock.
func run(t *testing.T, name, model, input string, check func(t *testing.T, r ling.Result, events []tube.Event, took time.Duration)) {
	t.Helper()
	registry, err := flow.OpenFS("workflows", workflows.Files)
	if err != nil {
		t.Fatal(err)
	}
	w, ok := registry.Get(name)
	if !ok {
		t.Fatalf("there is no workflow %s", name)
	}
	synctest.Test(t, func(t *testing.T) {
		models := &adapter.Registry{Default: "demo:" + model}
		models.Register("demo", demo.New(nil))
		in, err := flow.Prepare(w, json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		m := ling.New(t.Context(), bot.Config{HTMLEvents: true}, &ling.Options{Models: models, Workflow: name})
		if err := w.Run(t.Context(), m, in); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		var events []tube.Event
		for e, err := range m.Tube().AllEvents(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		check(t, m.Peek(false), events, took)
	})
}

type encyclopedia struct {
	Article struct {
		Title, Summary, Note string
		Sections             []struct{ Title, Body string }
	}
	Quiz struct {
		Questions []struct {
			Question, Answer string
			Choices          []string
		}
	}
}

func TestTheEncyclopediaAnswersWithTheDemoModel(t *testing.T) {
	for name, question := range map[string]string{"what it knows": "Why is the sky blue?", "anything else": "Why do cats \"purr\"?"} {
		for _, model := range []string{"demo", "fast"} {
			t.Run(name+", "+model, func(t *testing.T) {
				text, err := json.Marshal(question)
				if err != nil {
					t.Fatal(err)
				}
				run(t, "encyclopedia", model, string(text), func(t *testing.T, r ling.Result, events []tube.Event, took time.Duration) {
					var e encyclopedia
					if err := json.Unmarshal(r.Result, &e); err != nil {
						t.Fatal(err)
					}
					if r.Status != "completed" || len(r.Errors) > 0 {
						t.Errorf("got %s, %+v", r.Status, r.Errors)
					}
					if !strings.Contains(e.Article.Summary, question) || e.Article.Title == "" || len(e.Article.Sections) < 3 || len(e.Quiz.Questions) != 3 {
						t.Errorf("got %s", r.Result)
					}
					for _, s := range e.Article.Sections {
						if s.Title == "" || len(s.Body) < 200 {
							t.Errorf("a section is empty: %+v", s)
						}
					}
					if !strings.Contains(e.Article.Note, "scripted") {
						t.Errorf("the note does not say what this is: %q", e.Article.Note)
					}
					for _, bot := range []string{"outline", "section", "quiz"} {
						if r.Usage[bot].CompletionTokens == 0 {
							t.Errorf("no usage of %s: %+v", bot, r.Usage)
						}
					}
					if model == "fast" {
						return
					}
					// The first section is being written before the outline has ended, and all grow side by side.
					first := slices.IndexFunc(events, func(e tube.Event) bool { return string(e.URI) == "article/sections/0/body" })
					ready := slices.IndexFunc(events, func(e tube.Event) bool { return e.Name == "outline-ready" })
					last := slices.IndexFunc(events, func(e tube.Event) bool { return strings.HasPrefix(string(e.URI), "quiz") })
					if !(0 < first && first < ready && ready < last) {
						t.Errorf("section %d, outline-ready %d, quiz %d", first, ready, last)
					}
					if took < 5*time.Second || took > 30*time.Second {
						t.Errorf("it took %s", took)
					}
				})
			})
		}
	}
}

func TestChatAnswersWithTheDemoModel(t *testing.T) {
	run(t, "chat", "demo", `{"message":"Good morning"}`, func(t *testing.T, r ling.Result, _ []tube.Event, _ time.Duration) {
		var out struct{ Answer string }
		if err := json.Unmarshal(r.Result, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.Answer, "This is scripted") || !strings.Contains(out.Answer, "“Good morning”") {
			t.Errorf("got %q", out.Answer)
		}
	})
}

// BO-05: the result is the page itself, and the events build it.
func TestThePageIsWrittenWithTheDemoModel(t *testing.T) {
	for name, question := range map[string]string{"what it knows": "Why is the sky blue?", "anything else": "Do cats <purr> & why?"} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(question)
			if err != nil {
				t.Fatal(err)
			}
			run(t, "page", "demo", string(text), func(t *testing.T, r ling.Result, events []tube.Event, _ time.Duration) {
				var out struct{ Page string }
				if err := json.Unmarshal(r.Result, &out); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(out.Page, "<!DOCTYPE html>\n<html") || !strings.HasSuffix(out.Page, "</html>") || len(r.Errors) > 0 {
					t.Errorf("got %s, %+v", r.Result, r.Errors)
				}
				if strings.Contains(string(r.Reserved), "```") {
					t.Errorf("the fence is taken for reasoning: %s", r.Reserved)
				}
				var open []string
				at := map[string]string{} // what text stands where
				for _, e := range events {
					if e.Name != "html" {
						continue
					}
					var tag struct {
						URI, Path, Type, Name, Text string
						Attributes                  map[string]string
					}
					if err := json.Unmarshal(e.Value, &tag); err != nil {
						t.Fatal(err)
					}
					switch tag.Type {
					case "open_tag":
						open = append(open, tag.Path)
						at[tag.Path] += tag.Attributes["href"]
					case "text_delta":
						at[tag.Path] += tag.Text
					case "close_tag":
						if last := len(open) - 1; last < 0 || open[last] != tag.Path {
							t.Fatalf("%s is closed where %q are open", tag.Path, open)
						}
						open = open[:len(open)-1]
					}
					if tag.URI != "page" || len(open) > 0 && !strings.HasPrefix(tag.Path, open[0]) {
						t.Errorf("got %s", e.Value)
					}
				}
				if len(open) > 0 {
					t.Errorf("left open: %q", open)
				}
				main := "html[1]/body[1]/main[1]"
				if !strings.Contains(at[main+"/p[1]"], question) || at[main+"/ul[1]/li[2]/a[1]"] == "" || at[main+"/section[3]/h2[1]"] == "" ||
					!strings.HasPrefix(at[main+"/ul[1]/li[1]/a[1]"], "#part-1") || !strings.Contains(at["html[1]/head[1]/style[1]"], "body > main") {
					t.Errorf("got %q", at)
				}
			})
		})
	}
}
