package flow

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// example is the workflow of the guide, with everything that it shows.
const example = `name: encyclopedia
description: Answers a child's question with an illustrated article.
model: openai:gpt-4o-mini
input:
  type: object
  required: [question]
  properties: {question: {type: string, maxLength: 2000}}
bots:
  outline:
    prompt: {file: prompts/outline.md}
    message: "{{ input.question }}"
    root: article
  section:
    on: article/sections/*/title
    message: "Explain {{ event.value }}"
    root: "article/sections/{{ event.match.0 }}/body"
    format: text
    concurrency: 4
  quiz:
    on: {done: section}
    message: "{{ result.article | json }}"
    root: quiz
events:
  - on: {done: outline}
    send: {event: outline-ready}
filter: {exclude: ["article/notes"]}
`

var exampleFiles = fstest.MapFS{
	"prompts/outline.md": {Data: []byte("Write an outline for {{ input.question }}.\n")},
	"prompts/umlaut.md":  {Data: []byte("ä\nöü: {{ z }}")},
}

func parse(t *testing.T, text string) *spec {
	t.Helper()
	w, err := ParseSpec("w.yaml", []byte(text), exampleFiles)
	if err != nil {
		t.Fatalf("the workflow is well, but: %v\n%s", err, text)
	}
	return w.(*spec)
}

func TestTheExampleOfTheGuideIsRead(t *testing.T) {
	s := parse(t, example)
	want := Info{
		Name:        "encyclopedia",
		Description: "Answers a child's question with an illustrated article.",
		Model:       "openai:gpt-4o-mini",
		Resume:      true,
		Input:       json.RawMessage(`{"type":"object","required":["question"],"properties":{"question":{"type":"string","maxLength":2000}}}`),
		Graph: &Graph{
			Bots: []Node{
				{Name: "outline", Root: "article", Format: "json"},
				{Name: "section", Root: "article/sections/{{ event.match.0 }}/body", Format: "text", On: OneOrMore[Trigger]{{String: "article/sections/*/title"}}, After: []string{"outline"}},
				{Name: "quiz", Root: "quiz", Format: "json", On: OneOrMore[Trigger]{{Done: OneOrMore[string]{"section"}}}, After: []string{"section"}}, // FL-06
			},
			Events: []Event{{Name: "outline-ready", On: OneOrMore[Trigger]{{Done: OneOrMore[string]{"outline"}}}}},
		},
	}
	if diff := cmp.Diff(want, s.Info()); diff != "" {
		t.Error(diff)
	}
	// Values are collected only of bots that some trigger listens to.
	for i, want := range []int{1, 0, 0} {
		if got := len(s.bots[i].listeners); got != want {
			t.Errorf("%s has %d listeners, expected %d", s.bots[i].name, got, want)
		}
	}
}

// FL-02: what is wrong with a file is reported at load, with line and column.
func TestProblemsAreReportedAtTheirPlace(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"an unknown field, with what was meant", `
bots:
  a: {promt: hi}
`, []string{`w.yaml:2:7: unknown field "promt", did you mean "prompt"? expected on, when, model, options, prompt, history, message, root, format, schema, on_invalid, quiet, concurrency, max and filter`}},
		{"an unknown field at the top", `
bot: {}
bots: {a: {}}
`, []string{`w.yaml:1:1: unknown field "bot", did you mean "bots"? expected name, description, model, options, input, bots, events, filter, limits and resume`}},
		{"wrong types", `
name: [x]
model: 3
options: {temperature: hot, top_p: 2, max_tokens: 1.5, stop: {}, seed: x}
bots:
  a: {quiet: 1, format: xml, max: 0, concurrency: none, prompt: 5, history: {}, when: 3, root: [a]}
`, []string{
			`w.yaml:1:7: name: expected text, got a list`,
			`w.yaml:2:8: model: 3 is not text; put the value in quotes`,
			`w.yaml:3:24: options.temperature: expected a number, got a string`,
			`w.yaml:3:36: options.top_p: expected at most 1`,
			`w.yaml:3:51: options.max_tokens: expected an integer, got a number`,
			`w.yaml:3:62: options.stop: expected a string or an array, got an object`,
			`w.yaml:3:72: options.seed: expected an integer, got a string`,
			`w.yaml:5:14: quiet: expected true or false, got a number`,
			`w.yaml:5:25: format: expected one of json, text and html, got "xml"`,
			`w.yaml:5:35: max: expected 1 to 10000, got 0`,
			`w.yaml:5:51: concurrency: expected a whole number, got text`,
			`w.yaml:5:65: prompt: expected text or {file: name}, got a number`,
			`w.yaml:5:77: history: expected a list of {role, content}, got a mapping`,
			`w.yaml:5:87: when: 3 is not text; put the value in quotes`,
			`w.yaml:5:96: root: expected text, got a list`,
		}},
		{"a template that does not parse", `
bots:
  a:
    prompt: "say {{ input.x | nope }}"
`, []string{`w.yaml:3:31: prompt: unknown filter "nope"`}},
		{"a template in a block that does not parse", `
bots:
  a:
    prompt: |
      one
      two {{ input.x | nope }}
`, []string{`w.yaml:5:24: prompt: unknown filter "nope"`}},
		{"columns count characters", `
bots:
  a: {message: "Größe: {{ x }}", prompt: {file: prompts/umlaut.md}}
  b:
    root: b
    prompt: |
      äöü {{ y }}
`, []string{
			`w.yaml:2:27: message: unknown variable "x"; expected one of input, params and result`,
			`w.yaml:6:14: prompt: unknown variable "y"; expected one of input, params and result`,
			`prompts/umlaut.md:2:8: unknown variable "z"; expected one of input, params and result`,
		}},
		{"an unknown variable", `
bots:
  a:
    message: "Say {{ inptu.question }}"
`, []string{`w.yaml:3:22: message: unknown variable "inptu", did you mean "input"? expected one of input, params and result`}},
		{"a property that the input does not have", `
input: {properties: {question: {type: string}}}
bots:
  a:
    message: "Say {{ input.qestion }}"
`, []string{`w.yaml:4:22: message: input has no "qestion", did you mean "question"? expected one of question`}},
		{"event where nothing triggers", `
bots:
  a: {message: "{{ event.value }}"}
`, []string{`w.yaml:2:20: message: the variable event exists only in bots and events with on:`}},
		{"more stars than the pattern has", `
bots:
  a: {root: a}
  b: {on: a/*/title, root: "b/{{ event.match.1 }}"}
`, []string{`w.yaml:3:34: root: event.match.1: the number of stars in the pattern is 1, and they count from 0`}},
		{"a variable of a value for the end of a bot", `
bots:
  a: {root: a}
  b: {on: {done: a}, root: b, message: "{{ event.value }}", when: error.code}
`, []string{
			`w.yaml:3:44: message: event has no "value"; expected one of bot`,
			`w.yaml:3:67: when: the variable error exists only with on: {error: bot}`,
		}},
		{"a result that no bot writes", `
bots:
  a: {root: article}
  b: {on: {done: a}, root: b, message: "{{ result.artcle.title }}"}
`, []string{`w.yaml:3:44: message: result has no "artcle", did you mean "article"? expected one of article and b`}},
		{"a pattern that does not compile", `
bots:
  a: {root: a}
  b: {on: "a/x*", root: b}
`, []string{`w.yaml:3:11: on: the star in "a/x*" has no meaning; "*" matches one whole segment, and "**" any number of segments`}},
		{"a pattern that matches no root", `
bots:
  a: {root: article}
  b: {on: artcle/title, root: b}
`, []string{`w.yaml:3:11: on: no bot writes a text at "artcle/title"; a writes below "article" and b writes below "b"`}},
		{"a string below the root of a text bot", `
bots:
  a: {root: article, format: text}
  b: {on: article/title, root: b}
`, []string{`w.yaml:3:11: on: no bot writes a text at "article/title"; a writes text to "article" and b writes below "b"`}},
		{"an object of a text bot", `
bots:
  a: {root: article, format: text}
  b: {on: {object: article}, root: b}
`, []string{`w.yaml:3:20: on: no bot writes an object or list at "article"; a writes text to "article" and b writes below "b"`}},
		{"an object of an HTML bot, and what is below it", `
bots:
  a: {root: article, format: html}
  b: {on: {object: article}, root: b}
  c: {on: article/title, root: c}
`, []string{
			`w.yaml:3:20: on: no bot writes an object or list at "article"; a writes html to "article", b writes below "b" and c writes below "c"`,
			`w.yaml:4:11: on: no bot writes a text at "article/title"; a writes html to "article", b writes below "b" and c writes below "c"`,
		}},
		{"the end of an unknown bot", `
bots:
  outline: {root: article}
  b: {on: {done: outlin}, root: b}
events:
  - {on: {error: x}, send: {event: e}}
`, []string{
			`w.yaml:3:18: on: unknown bot "outlin", did you mean "outline"? expected one of outline and b`,
			`w.yaml:5:18: on: unknown bot "x"; expected one of outline and b`,
		}},
		{"one mistake is told once", `
bots:
  a: {root: a}
  b: {on: {done: x}, root: a, message: "{{ event.bot }}"}
  c: {on: {doen: a}, root: a, message: "{{ event.bot }} {{ error.code }}"}
  d: {on: b/*/x, root: a}
`, []string{
			`w.yaml:3:18: on: unknown bot "x"; expected one of a, b, c and d`,
			`w.yaml:4:12: unknown field "doen", did you mean "done"? expected string, object, value, done, completed and error`,
			`w.yaml:5:11: on: no bot writes a text at "b/*/x"; a writes below "a", b writes below "a", c writes below "a" and d writes below "a"`,
		}},
		{"two triggers in one", `
bots:
  outline: {root: article}
  b: {on: {done: outline, error: outline}, root: b}
  c: {on: [outline], root: c}
  d: {on: {finished: outline}, root: d}
`, []string{
			`w.yaml:3:11: on: expected exactly one of string, object, value, done, completed and error, got 2; write several triggers as a list, such as [{done: a}, {error: b}]`,
			`w.yaml:4:12: on: no bot writes a text at "outline"; outline writes below "article", b writes below "b", c writes below "c" and d writes below "d"`,
			`w.yaml:5:12: unknown field "finished"; expected string, object, value, done, completed and error`,
		}},
		{"roots that collide", `
bots:
  a: {root: article}
  b: {root: article}
`, []string{`w.yaml:3:13: root: a and b can run at the same time and would both write to "article"; choose another root for one of them`}},
		{"roots that collide later", `
bots:
  a: {root: a}
  b: {on: a/x, root: c}
  c: {on: a/y, root: c}
`, []string{`w.yaml:4:22: root: b and c can run at the same time and would both write to "c"; choose another root for one of them`}},
		{"one root for many starts", `
bots:
  a: {root: a}
  b: {on: a/*/x, root: b}
`, []string{`w.yaml:3:24: root: b can run several times at once and would always write to "b"; use what the trigger matched, as in {{ event.match.0 }}, or set concurrency: 1`}},
		{"a document below a text", `
bots:
  a: {root: a, format: text}
  b: {root: a/b}
`, []string{`w.yaml:2:13: root: a writes text to "a", but b writes below it, to "a/b"; choose another root for one of them`}},
		{"a document below HTML", `
bots:
  a: {root: a, format: html}
  b: {root: a/b}
`, []string{`w.yaml:2:13: root: a writes html to "a", but b writes below it, to "a/b"; choose another root for one of them`}},
		{"roots that are no uris", `
bots:
  a: {root: /a}
  b: {root: a//b}
  c: {root: $tools/x}
`, []string{`w.yaml:2:13: root:`, `w.yaml:3:13: root:`, `w.yaml:4:13: root: "$tools/x" is reserved; write a name that starts with "$" as "\$…"`}},
		{"a bot that starts itself", `
bots:
  a: {root: a}
  b: {on: "**/next", root: "b/{{ event.match.0 }}"}
`, []string{`w.yaml:3:11: on: b → b is an endless loop; give one of its bots max: or when:`}},
		{"bots that start each other", `
bots:
  a: {root: a}
  b: {on: "**/next", root: "b/{{ event.match.0 }}", concurrency: 1}
  c: {on: {object: "b/**/item"}, root: "c/{{ event.match.0 }}"}
  d: {on: {error: c}, root: "d"}
`, []string{
			`w.yaml:3:11: on: b → b is an endless loop; give one of its bots max: or when:`,
			`w.yaml:3:11: on: b → c → b is an endless loop; give one of its bots max: or when:`,
			`w.yaml:3:11: on: b → c → d → b is an endless loop; give one of its bots max: or when:`,
		}},
		{"a bot that waits for its own end", `
bots:
  a: {root: a}
  b: {on: {done: b}, root: b}
`, []string{
			`w.yaml:3:18: on: b never starts: no bot without on: leads to this trigger`,
			`w.yaml:3:18: on: b waits for the end of b, which it can start itself; use another trigger`,
		}},
		{"a bot that waits for what it starts", `
bots:
  a: {root: a}
  critic: {on: {done: writer}, root: critic, max: 3}
  writer: {on: "**/go", root: "writer/{{ event.match.0 }}", max: 3}
`, []string{`w.yaml:3:23: on: critic waits for the end of writer, which it can start itself; use another trigger`}},
		{"bots that nothing starts", `
bots:
  a: {root: a}
  b: {on: c/x, root: b}
  c: {on: b/x, root: c, max: 2}
`, []string{
			`w.yaml:3:11: on: b never starts: no bot without on: leads to this trigger`,
			`w.yaml:4:11: on: c never starts: no bot without on: leads to this trigger`,
		}},
		{"no bot that starts with the run", `
bots:
  b: {on: b/x, root: b, max: 2}
`, []string{`w.yaml:2:11: on: b never starts: no bot without on: leads to this trigger`}},
		{"no bots", `
name: x
`, []string{`w.yaml:1:1: the workflow has no bots; expected bots: with at least one bot`}},
		{"names", `
name: a b
bots:
  1a: {}
  "a\nb": {}
`, []string{
			`w.yaml:1:7: "a b" is not a valid name; expected a letter, then at most 63 letters, digits, dots, dashes or underscores`,
			`w.yaml:3:3: "1a" is not a valid name for a bot; expected a letter, then at most 63 letters, digits, dots, dashes or underscores`,
			`w.yaml:4:3: "a\nb" is not a valid name for a bot; expected a letter, then at most 63 letters, digits, dots, dashes or underscores`,
		}},
		{"models", `
model: gpt-4o
bots:
  a: {model: [openai:x, "a b:c", "x:"]}
  b: {model: []}
`, []string{
			`w.yaml:1:8: model: expected PROVIDER:MODEL, such as openai:gpt-4o-mini, or a list of models; got "gpt-4o"`,
			`w.yaml:3:25: model: expected PROVIDER:MODEL, such as openai:gpt-4o-mini, or a list of models; got "a b:c"`,
			`w.yaml:3:34: model: expected PROVIDER:MODEL, such as openai:gpt-4o-mini, or a list of models; got "x:"`,
			`w.yaml:4:14: model: the list is empty; expected at least one PROVIDER:MODEL`,
		}},
		{"an input schema that does not compile", `
input:
  type: object
  properties:
    a: {type: strin}
bots: {a: {}}
`, []string{`w.yaml:4:15: input: invalid JSON Schema (2020-12): expected one of "array", "boolean", "integer", "null", "number", "object", "string"`}},
		{"an input schema that reads files", `
input: {properties: {a: {$ref: "file:///etc/passwd"}}}
bots: {a: {schema: {$ref: "http://169.254.169.254/x"}}}
`, []string{
			`w.yaml:1:8: input: it refers to "file:///etc/passwd", but a schema may only refer to itself (#/…)`,
			`w.yaml:2:20: schema: it refers to "http://169.254.169.254/x", but a schema may only refer to itself (#/…)`,
		}},
		{"an input that is no object", `
input: {type: string}
bots: {a: {}}
`, []string{`w.yaml:1:15: input: expected type: object, because a workflow's input is an object`}},
		{"a default that does not fit", `
input: {properties: {n: {type: integer, default: many}}}
bots: {a: {}}
`, []string{`w.yaml:1:50: input: the default does not match the schema: expected an integer, got a string`}},
		{"on_invalid", `
bots: {a: {on_invalid: ask}, b: {root: b, format: text, on_invalid: retry}, c: {root: c, on_invalid: retry}, d: {root: d, on_invalid: report}}
`, []string{
			`w.yaml:1:24: on_invalid: expected one of report, retry, fail and retry_then_fail, got "ask"`,
			`w.yaml:1:69: on_invalid: does not go with format: text; remove it`,
		}},
		{"a schema for HTML", `
bots: {a: {format: html, schema: {type: string}}}
`, []string{`w.yaml:1:34: schema: does not go with format: html; remove one of them`}},
		{"a schema for text", `
bots: {a: {format: text, schema: {type: string}}}
`, []string{`w.yaml:1:34: schema: does not go with format: text; remove one of them`}},
		{"files", `
bots:
  a: {prompt: {file: prompts/nope.md}}
  b: {prompt: [{file: ../secret}, {file: /etc/passwd}, {fil: x}, {}], root: b}
`, []string{
			`w.yaml:2:22: file: the workflow's folder has no file "prompts/nope.md"`,
			`w.yaml:3:23: file: expected a path inside the workflow's folder, such as prompts/outline.md, got "../secret"`,
			`w.yaml:3:42: file: expected a path inside the workflow's folder, such as prompts/outline.md, got "/etc/passwd"`,
			`w.yaml:3:57: unknown field "fil", did you mean "file"? expected file`,
			`w.yaml:3:66: prompt: expected text or {file: name}, got a mapping`,
		}},
		{"events", `
bots: {a: {root: a}}
events:
  - {on: a/x, send: {event: finished}}
  - {on: a/x, send: {event: "a b"}}
  - {send: {event: x}}
  - {on: a/x}
  - {on: a/x, send: {data: 3}}
  - 7
  - {on: a/x, send: {event: html}}
`, []string{
			`w.yaml:3:29: "finished" is a built-in event; choose another name`,
			`w.yaml:4:29: "a b" is not a valid name for an event; expected a letter, then at most 63 letters, digits, dots, dashes or underscores`,
			`w.yaml:5:5: the event has no on:; expected a trigger that sends it`,
			`w.yaml:6:5: the event has no send:; expected {event: name, data: …}`,
			`w.yaml:7:21: send: expected {event: name}`,
			`w.yaml:8:5: an event: expected a mapping with on, when and send, got a number`,
			`w.yaml:9:29: "html" is a built-in event; choose another name`,
		}},
		{"conditions", `
bots:
  a: {when: "{{ input.x }}"}
  b: {when: "", root: b}
  c: {when: "input.x ==", root: c}
  d: {when: "input.x == inptu.y", root: d}
`, []string{
			`w.yaml:2:13: when: write a condition without braces and on one line, such as: input.level == "expert"`,
			`w.yaml:3:13: when: the condition is empty; expected one such as: input.level == "expert"`,
			`w.yaml:4:`,
			`w.yaml:5:25: when: unknown variable "inptu", did you mean "input"? expected one of input, params and result`,
		}},
		{"limits and filters", `
limits: {bots: 0, time: forever}
filter: {exclude: ["a/x*"], exlude: []}
bots: {a: {}}
`, []string{
			`w.yaml:1:16: bots: expected 1 to 10000, got 0`,
			`w.yaml:1:25: time: expected a duration from 1s to 24h, such as 90s or 5m, got "forever"`,
			`w.yaml:2:20: exclude: the star in "a/x*" has no meaning; "*" matches one whole segment, and "**" any number of segments`,
			`w.yaml:2:29: unknown field "exlude", did you mean "exclude"? expected exclude and include`,
		}},
		{"text that is not YAML", "bots: [1, 2", []string{`w.yaml:1:7: expected a comma or the end of the brackets; inside of brackets, put a text with braces, commas or quotes in quotes`}},
		{"a key that comes twice, beside another mistake", "name: a\nname: b\nbots: {a: {promt: x}}\n", []string{
			`w.yaml:2:1: name: occurs twice, first in line 1; remove one`,
			`w.yaml:3:12: unknown field "promt", did you mean "prompt"? expected on, when, model, options, prompt, history, message, root, format, schema, on_invalid, quiet, concurrency, max and filter`,
		}},
		{"nothing", "# nothing\n", []string{`w.yaml:1:1: the file is empty; expected a workflow with name and bots`}},
		{"two documents", "name: a\n---\nname: b\n", []string{`w.yaml:3:1: a second document starts here; expected only one`}},
		{"a list", "- a\n", []string{`w.yaml:1:1: expected a workflow (a mapping with name, description, model, options, input, bots, events, filter, limits and resume), got a list`}},
		{"an alias of nothing", "name: *x\n", []string{`w.yaml:1:7: YAML reads * as the start of an alias; put a text in quotes, or define the anchor before it`}},
		{"merge keys", "a: &a {b: c}\nd: {<<: *a}\n", []string{`w.yaml:2:5: d: merge keys (<<) are not supported; write out the members`}},
		{"bytes that are not UTF-8", "name: a\ndescription: \xff\n", []string{`w.yaml:2:1: the file is not UTF-8 text; save it as UTF-8`}},
		{"lines that end with CRLF", "\ufeffname: a\r\nbots:\r\n  a: {promt: |}\r\n", []string{`w.yaml:3:14: YAML does not read this character at the start of a value as text; put the text in quotes`}},
		{"a place after CRLF and a byte order mark", "\ufeffname: a\r\nbots:\r\n  a:\r\n    prompt: |\r\n      x {{ y }}\r\n", []string{`w.yaml:5:12: prompt: unknown variable "y"; expected one of input, params and result`}},
		{"infinity", "options: {temperature: .inf}\n", []string{`w.yaml:1:24: options.temperature: infinity and not-a-number are not supported; expected a number`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseSpec("w.yaml", []byte(strings.TrimPrefix(test.text, "\n")), exampleFiles)
			if err == nil {
				t.Fatal("the workflow was taken")
			}
			got := strings.Split(err.Error(), "\n")
			for i := range got {
				// What another package says in its own words is compared by its beginning.
				if i < len(test.want) && strings.HasSuffix(test.want[i], ":") && strings.HasPrefix(got[i], test.want[i]) {
					got[i] = test.want[i]
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				if _, ok := e.(*FileError); !ok {
					t.Errorf("%T is no *FileError", e)
				}
			}
		})
	}
}
