package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/workflows"
)

// said is a whole answer.
type said struct {
	text, finish, model string
	usage               adapter.Usage
	chunks              int
}

func ask(t *testing.T, p *demo.Provider, model string, req adapter.Request) said {
	t.Helper()
	m, err := p.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	var out said
	for c, err := range m.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		out.text += c.Text
		out.chunks++
		if c.Finish != "" {
			out.finish = c.Finish
		}
		if c.Usage != nil {
			out.usage = *c.Usage
		}
		if c.Model != "" {
			out.model = c.Model
		}
	}
	return out
}

func request(system, user string, format adapter.Format) adapter.Request {
	return adapter.Request{Messages: []adapter.Message{{Role: adapter.System, Content: system}, {Role: adapter.User, Content: user}}, Format: format}
}

var wantJSON = adapter.Format{JSON: true}

func shipped(t *testing.T, name string) string {
	t.Helper()
	text, err := workflows.Files.ReadFile("prompts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// AD-05: scripted, deterministic, in-process, with usage; it says plainly what it is.
func TestEveryAnswerSaysThatItIsScripted(t *testing.T) {
	p := demo.New(nil)
	requests := map[string]adapter.Request{
		"chat":           request("You are helpful.", "Hello there", adapter.Format{}),
		"the sky":        request("", "Why is the sky blue?", adapter.Format{}),
		"nothing":        request("", "", adapter.Format{}),
		"outline":        request(shipped(t, "outline.md"), "Why do cats purr?", wantJSON),
		"sky outline":    request(shipped(t, "outline.md"), "Why is the sky blue?", wantJSON),
		"json":           request("Answer in JSON.", "Hello", wantJSON),
		"another shape":  request("Answer like this:\n{\"mood\": \"good|bad\", \"points\": [1, 2], \"text\": \"…\"}", "Hello", wantJSON),
		"schema":         request("", "Hello", adapter.Format{JSON: true, Name: "x", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}),
		"unknown title":  request(shipped(t, "section.md"), "The question: x\nThe section to write: Tails", adapter.Format{}),
		"page":           request(shipped(t, "page.md"), "Why do cats purr?", adapter.Format{}),
		"article's quiz": request(shipped(t, "quiz.md"), `The article: {"title":"Cats","sections":[{"title":"Tails"}]}`, wantJSON),
	}
	for name, req := range requests {
		t.Run(name, func(t *testing.T) {
			got := ask(t, p, "fast", req)
			if !strings.Contains(strings.ToLower(got.text), "script") {
				t.Errorf("it does not say so: %s", got.text)
			}
			if again := ask(t, p, "fast", req); again != got {
				t.Errorf("another time it says something else: %v, %v", got, again)
			}
			if got.finish != adapter.FinishStop || got.usage.PromptTokens == 0 && name != "nothing" || got.usage.CompletionTokens == 0 || got.model != "demo:fast" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

type outline struct {
	Title, Summary, Note string
	Sections             []struct{ Title string }
}

func TestTheOutlineHasACommaTooManyAndMentionsTheQuestion(t *testing.T) {
	p := demo.New(nil)
	for _, question := range []string{"Why is the sky blue?", "Warum schnurren \"Katzen\"?", strings.Repeat("long ", 400)} {
		got := ask(t, p, "fast", request(shipped(t, "outline.md"), question, wantJSON)).text
		inside, ok := strings.CutSuffix(got, ",}")
		if !ok {
			t.Fatalf("it has no comma before its end: %s", got)
		}
		inside += "}"
		var o outline
		if err := json.Unmarshal([]byte(inside), &o); err != nil {
			t.Fatal(err)
		}
		if start := strings.TrimSpace(question[:min(20, len(question))]); !strings.Contains(o.Summary, start) {
			t.Errorf("the summary does not mention %q: %s", start, o.Summary)
		}
		if n := len(o.Sections); n < 3 || n > 5 || o.Note == "" || len(o.Title) > 120 {
			t.Errorf("got %+v", o)
		}
		bodies := map[string]bool{}
		for _, s := range o.Sections {
			body := ask(t, p, "fast", request(shipped(t, "section.md"), "The question: "+question+"\nThe section to write: "+s.Title+"\n", adapter.Format{})).text
			if bodies[body] || len(body) < 200 {
				t.Errorf("the section %q is empty or comes twice: %s", s.Title, body)
			}
			bodies[body] = true
		}
		var q struct {
			Questions []struct {
				Question, Answer, Explanation string
				Choices                       []string
			}
		}
		text := ask(t, p, "fast", request(shipped(t, "quiz.md"), "The article:\n"+inside+"\n", wantJSON)).text
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			t.Fatal(err)
		}
		if len(q.Questions) != 3 {
			t.Errorf("got %d questions", len(q.Questions))
		}
		for _, question := range q.Questions {
			if len(question.Choices) != 4 || strings.Count("\n"+strings.Join(question.Choices, "\n")+"\n", "\n"+question.Answer+"\n") != 1 {
				t.Errorf("the answer is not exactly one of the choices: %+v", question)
			}
		}
	}
}

func TestAnExampleInThePromptIsFilled(t *testing.T) {
	got := ask(t, demo.New(nil), "fast", request(`Answer with JSON of this shape, and {nothing} else:
{
  "mood": "good|bad",
  "points": [{"score": 7, "why": "reason"}],
  "ok": true, "rest": null
}`, "How was it?", wantJSON)).text
	var doc map[string]any
	if err := json.Unmarshal([]byte(got), &doc); err != nil {
		t.Fatal(err)
	}
	points := doc["points"].([]any)[0].(map[string]any)
	if !strings.Contains(points["why"].(string), "How was it?") {
		t.Errorf("it does not repeat the question: %s", got)
	}
	points["why"] = ""
	want := map[string]any{"mood": "good", "points": []any{map[string]any{"score": 7.0, "why": ""}}, "ok": true, "rest": nil}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Error(diff)
	}
}

func TestJSONWithoutAShapeIsAnAnswer(t *testing.T) {
	got := ask(t, demo.New(nil), "fast", request("Answer in JSON.", "Say \"hi\"\nnow", wantJSON)).text
	var doc map[string]string
	if err := json.Unmarshal([]byte(got), &doc); err != nil || !strings.HasSuffix(doc["answer"], `You asked: “Say "hi" now”.`) || len(doc) != 1 {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestADocumentFitsTheSchemaThatWasSent(t *testing.T) {
	p := demo.New(nil)
	for name, schema := range map[string]string{
		"any":              `{}`,
		"text":             `{"type":"string","minLength":5,"maxLength":9}`,
		"a long text":      `{"type":"string","minLength":500}`,
		"types":            `{"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},"z":{"type":"null"},"a":{"type":"array","items":{"type":"integer"}},"m":{"type":["string","null"]}},"required":["s","i","n","b","z","a","m"],"additionalProperties":false}`,
		"bounds":           `{"type":"object","properties":{"a":{"type":"integer","minimum":10,"maximum":12},"b":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},"c":{"type":"integer","exclusiveMaximum":-3},"d":{"type":"integer","multipleOf":7,"minimum":8},"e":{"type":"integer","exclusiveMinimum":4}}}`,
		"lists":            `{"type":"array","items":{"type":"string"},"minItems":3,"uniqueItems":true}`,
		"unique from enum": `{"type":"array","items":{"enum":["a","b","c"]},"minItems":3,"uniqueItems":true}`,
		"unique numbers":   `{"type":"array","items":{"type":"integer"},"minItems":3,"uniqueItems":true}`,
		"no items":         `{"type":"array","maxItems":0}`,
		"a tuple":          `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"},{"const":3}],"items":false}`,
		"choices":          `{"type":"object","properties":{"e":{"enum":["x","y"]},"c":{"const":{"k":[1]}},"o":{"anyOf":[{"type":"integer"},{"type":"string"}]},"p":{"oneOf":[{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}]}},"required":["e","c","o","p"]}`,
		"references":       `{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["name","children"]}}}`,
		"all of":           `{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"y":{"type":"integer"}},"required":["y"]}],"$defs":{"a":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}}}`,
		"formats":          `{"type":"object","properties":{"d":{"type":"string","format":"date"},"u":{"type":"string","format":"uuid"},"e":{"type":"string","format":"email"}}}`,
		"required only":    `{"type":"object","required":["a","b"],"additionalProperties":{"type":"integer"}}`,
		"many members":     `{"type":"object","minProperties":3}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := ask(t, p, "fast", request("", "Hello", adapter.Format{JSON: true, Name: "x", Schema: json.RawMessage(schema)})).text
			s, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
			if err != nil {
				t.Fatal(err)
			}
			c := jsonschema.NewCompiler()
			c.AssertFormat()
			if err := c.AddResource("schema.json", s); err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if err := c.MustCompile("schema.json").Validate(doc); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
	// What cannot be met is answered like JSON without a schema.
	for name, schema := range map[string]string{
		"without end":       `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}}}`,
		"a foreign":         `{"$ref":"https://example.com/x"}`,
		"too many":          `{"type":"array","minItems":100000}`,
		"growing":           `{"$ref":"#/$defs/a","$defs":{"a":{"type":"array","minItems":9,"items":{"$ref":"#/$defs/a"}}}}`,
		"false":             `{"properties":{"a":false},"required":["a"]}`,
		"too long":          `{"type":"string","minLength":100000000}`,
		"a chain to itself": `{"$ref":"#"}`,
	} {
		t.Run("impossible: "+name, func(t *testing.T) {
			text := ask(t, p, "fast", request("", "Hello", adapter.Format{JSON: true, Name: "x", Schema: json.RawMessage(schema)})).text
			if !strings.Contains(text, `"answer"`) {
				t.Errorf("got %s", text)
			}
		})
	}
}

func TestThePaceIsThatOfAModel(t *testing.T) {
	for _, test := range []struct {
		name, model string
		pace, want  float64 // tokens per second
	}{
		{"the default", "demo", 0, 50},
		{"another", "", 400, 400},
		{"none", "demo", -1, math.Inf(1)},
		{"the fast model", "fast", 20, math.Inf(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := demo.New(&demo.Options{Pace: test.pace})
				start := time.Now()
				got := ask(t, p, test.model, request("", "Hello", adapter.Format{}))
				took := time.Since(start)
				want := time.Duration(float64(got.usage.CompletionTokens) / test.want * float64(time.Second))
				if diff := (took - want).Abs(); diff > 100*time.Millisecond {
					t.Errorf("%d tokens took %s, expected %s", got.usage.CompletionTokens, took, want)
				}
			})
		})
	}
}

// AD-01: leaving the loop and ending the context end the answer; nothing is left behind, which the bubble would notice.
func TestAnAnswerCanBeLeft(t *testing.T) {
	for name, leave := range map[string]func(cancel func()) bool{
		"leaving the loop":   func(func()) bool { return false },
		"ending the context": func(cancel func()) bool { cancel(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := demo.New(nil)
				m, err := p.Model("demo")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				for range m.Stream(ctx, request("", "Hello", adapter.Format{})) {
					if !leave(cancel) {
						break
					}
				}
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestTheLimitOfTokensCutsTheAnswer(t *testing.T) {
	limit := 10
	req := request("", "Hello", adapter.Format{})
	req.MaxTokens = &limit
	got := ask(t, demo.New(nil), "fast", req)
	if got.finish != adapter.FinishLength || got.usage.CompletionTokens != 10 || got.text != "This is scripted: it comes from the buil" {
		t.Errorf("got %+v", got)
	}
}

func TestOnlyTheModelsThatThereAre(t *testing.T) {
	p := demo.New(nil)
	if diff := cmp.Diff([]string{"demo", "fast"}, p.Names()); diff != "" {
		t.Error(diff)
	}
	if _, err := p.Model("gpt-4o"); err == nil || err.Error() != `the demo has no model "gpt-4o"; it has demo and fast` {
		t.Errorf("got %v", err)
	}
}

func ExampleNew() {
	p := demo.New(nil)
	m, err := p.Model("fast")
	if err != nil {
		fmt.Println(err)
		return
	}
	req := adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "Good morning"}}}
	var text strings.Builder
	for chunk, err := range m.Stream(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		text.WriteString(chunk.Text)
	}
	first, _, _ := strings.Cut(text.String(), "\n")
	fmt.Println(first)
	// Output: This is scripted: it comes from the built-in demo model, which understands nothing and only shows how an answer arrives. You wrote: “Good morning”. To have a real answer here, set OPENAI_API_KEY and start the server again.
}

// What comes is what models write: a document in a fence, with an entity, void elements, attributes and a list.
func TestAPageIsWrittenWhereThePromptAsksForOne(t *testing.T) {
	p := demo.New(nil)
	for prompt, want := range map[string]bool{
		shipped(t, "page.md"):                    true,
		"Answer with one HTML\n  document.":      true,
		"Write an html page about it.":           true,
		"Answer in an HTML fragment, no script.": true,
		"Write plain text, no HTML.":             false,
		"":                                       false,
	} {
		got := ask(t, p, "fast", request(prompt, "Is 1 < 2?", adapter.Format{})).text
		if page := strings.HasPrefix(got, "```html\n<!DOCTYPE html>\n<html lang=\"en\">") && strings.HasSuffix(got, "</html>\n```\n"); page != want {
			t.Errorf("%q: %s", prompt, got)
		}
		if want && (!strings.Contains(got, "1 &lt; 2") || !strings.Contains(got, "<hr>") || !strings.Contains(got, "<li><a href=\"#part-1\">")) {
			t.Errorf("%q: %s", prompt, got)
		}
	}
}
