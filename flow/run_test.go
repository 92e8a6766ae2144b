package flow

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// models is a scripted model: what it says depends on the last message. Each chunk takes a second, on a bubble's clock.
type models struct {
	say func(asked string) []string

	mu       sync.Mutex
	asked    []adapter.Request
	names    []string
	now, top int // answers to a "b…" being written, and the most there were
}

func (m *models) Model(name string) (adapter.Model, error) { return &model{m, name}, nil }

type model struct {
	*models
	name string
}

// failing is a chunk that stands for an error.
const failing = "\x00fail"

func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		m.mu.Lock()
		m.asked = append(m.asked, req)
		m.names = append(m.names, m.name)
		asked := req.Messages[len(req.Messages)-1].Content
		if strings.HasPrefix(asked, "b") {
			m.now++
			m.top = max(m.top, m.now)
			defer func() {
				m.mu.Lock()
				m.now--
				m.mu.Unlock()
			}()
		}
		m.mu.Unlock()
		for _, text := range m.say(asked) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			if text == failing {
				yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeUnavailable, Message: "the model is away"})
				return
			}
			if !yield(adapter.Chunk{Text: text}, nil) {
				return
			}
		}
		yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// messages lists what was asked, sorted: bots that start together come in any order.
func (m *models) messages() []string {
	var out []string
	for _, r := range m.asked {
		out = append(out, r.Messages[len(r.Messages)-1].Content)
	}
	slices.Sort(out)
	return out
}

// answers says the same text, in one chunk, to each message that begins with a key.
func answers(byPrefix map[string]string) *models {
	return &models{say: func(asked string) []string {
		for prefix, text := range byPrefix {
			if strings.HasPrefix(asked, prefix) {
				return strings.Split(text, "‖")
			}
		}
		return []string{"{}"}
	}}
}

// done is a run that has ended.
type done struct {
	ling.Result
	err    error
	events []tube.Event
	took   time.Duration
}

// lines are the events of the run that say something: status events by name, deltas by uri.
func (d done) lines() (out []string) {
	for _, e := range d.events {
		line := string(e.URI)
		if e.Kind == tube.Named {
			line = e.Name
		}
		if n := len(out); n == 0 || out[n-1] != line {
			out = append(out, line)
		}
	}
	return out
}

func (d done) visible() (out []string) {
	for _, e := range d.events {
		if e.Kind != tube.Named && !e.Hidden {
			out = append(out, string(e.URI))
		}
	}
	return slices.Compact(out)
}

func (d done) named(name string) (out []string) {
	for _, e := range d.events {
		if e.Kind == tube.Named && e.Name == name {
			out = append(out, string(e.Value))
		}
	}
	return out
}

type runOptions struct {
	config bot.Config
	params map[string]any
	during func(m *ling.Manager)
}

// runs runs a workflow in a bubble until it has ended; a goroutine that is left behind fails the test.
func runs(t *testing.T, w Workflow, m *models, input string, o *runOptions, check func(t *testing.T, d done)) {
	t.Helper()
	if o == nil {
		o = &runOptions{}
	}
	synctest.Test(t, func(t *testing.T) {
		in, err := Prepare(w, json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		manager := ling.New(t.Context(), o.config, &ling.Options{Models: m})
		manager.SetCustomParams(o.params)
		if err := w.Run(t.Context(), manager, in); err != nil {
			t.Fatal(err)
		}
		var during sync.WaitGroup
		if o.during != nil {
			during.Go(func() { o.during(manager) })
		}
		d := done{err: manager.Close(), took: time.Since(start)}
		during.Wait()
		d.Result = manager.Peek(true)
		for e, err := range manager.Tube().AllEvents(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			d.events = append(d.events, e)
		}
		check(t, d)
	})
}

func wants(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func wantResult(t *testing.T, d done, status, result string) {
	t.Helper()
	if d.Status != status {
		t.Errorf("the status is %s, expected %s: %v, %v", d.Status, status, d.err, d.Errors)
	}
	var want, got any
	if err := json.Unmarshal([]byte(result), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.Result.Result, &got); err != nil {
		t.Fatal(err)
	}
	wants(t, "the result", want, got)
}

// FL-01: a trigger fires as soon as the value is complete, while the bot goes on writing; {done: bot} when no more can come.
func TestTheExampleOfTheGuideRuns(t *testing.T) {
	m := answers(map[string]string{
		"Why?": `{"title":"T","sections":[{"title":"A"},‖{"title":"B"}],‖"notes":["n"],‖"end":1}`,
		// Both sections end before the outline does.
		"Explain": "body of it",
		"{":       `{"questions":[]}`,
	})
	runs(t, parse(t, example), m, `"Why?"`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"article":{"title":"T","sections":[{"title":"A","body":"body of it"},{"title":"B","body":"body of it"}],"notes":["n"],"end":1},"quiz":{"questions":[]}}`)
		lines := d.lines()
		order := []string{"article/sections/0/title", "article/sections/0/body", "article/end", "outline-ready", "quiz", "finished"}
		at := -1
		for _, l := range order {
			i := slices.Index(lines, l)
			if i <= at {
				t.Errorf("%s comes too early: %q", l, lines)
			}
			at = i
		}
		for _, l := range d.visible() {
			if strings.HasPrefix(l, "article/notes") {
				t.Errorf("%s is filtered, but was sent", l)
			}
		}
		// Four seconds for the outline, one for the quiz: the sections cost nothing, and neither does the end.
		wants(t, "the time", 5*time.Second, d.took)
		wants(t, "the messages", []string{
			"Explain A", "Explain B", "Why?",
			`{"end":1,"notes":["n"],"sections":[{"body":"body of it","title":"A"},{"body":"body of it","title":"B"}],"title":"T"}`,
		}, m.messages())
		wants(t, "the prompt", "Write an outline for Why?.\n", m.asked[0].Messages[0].Content)
	})
}

func TestDoneFiresWhenNoMoreCanCome(t *testing.T) {
	for _, test := range []struct {
		name, text string
		say        map[string]string
		want       []string // messages
		took       time.Duration
	}{
		{"also when none has come", `
bots:
  a: {message: a, root: a}
  b: {on: a/*/x, message: b, root: "b/{{ event.match.0 }}"}
  c: {on: {done: b}, message: c, root: c}
`, map[string]string{"a": `{"k":{"y":"1"}}`}, []string{"a", "c"}, 2 * time.Second},
		{"along a chain of which nothing runs", `
bots:
  a: {message: a, root: a, when: input.nope}
  b: {on: {done: a}, message: b, root: b, when: "false"}
  c: {on: {done: b}, message: c, root: c}
  d: {on: {done: c}, message: d, root: d}
`, nil, []string{"c", "d"}, 2 * time.Second},
		{"after the slowest of them", `
bots:
  a: {message: a, root: a}
  b: {on: a/*, message: "{{ event.value }}", root: "b/{{ event.match.0 }}"}
  c: {on: {done: b}, message: c, root: c}
`, map[string]string{"a": `{"k":"fast","l":"slow"}`, "slow": "{‖}‖ ‖ "}, []string{"a", "c", "fast", "slow"}, 5 * time.Second},
		{"not between a source's values", `
bots:
  a: {message: a, root: a}
  b: {on: a/*, message: b, root: "b/{{ event.match.0 }}"}
  c: {on: {done: b}, message: c, root: c}
`, map[string]string{"a": `{"k":"1",‖"x":1,‖"x":2,‖"l":"2"}`}, []string{"a", "b", "b", "c"}, 6 * time.Second},
		{"when bots that start each other rest", `
bots:
  a: {message: a, root: a}
  b: {on: "*/next", message: "b{{ event.value }}", root: "b{{ event.value }}", max: 5}
  c: {on: {done: b}, message: c, root: c, format: text}
`, map[string]string{"a": `{"next":"1"}`, "b1": `{"next":"2"}`, "b2": `{}`}, []string{"a", "b1", "b2", "c"}, 4 * time.Second},
		{"for events as for bots", `
bots:
  a: {message: a, root: a}
  b: {on: {done: a}, message: "{{ event.bot }} has ended", root: b}
events:
  - {on: {done: a}, send: {event: e}}
`, nil, []string{"a", "a has ended"}, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := answers(test.say)
			runs(t, parse(t, test.text), m, `{}`, nil, func(t *testing.T, d done) {
				wants(t, "the status", "completed", d.Status)
				wants(t, "the messages", test.want, m.messages())
				wants(t, "the time", test.took, d.took)
			})
		})
	}
}

func TestTriggersFireForWhatTheyName(t *testing.T) {
	const text = `
bots:
  a: {message: a, root: a}
  s: {on: {string: "a/**"}, message: "s {{ event.uri }} {{ event.value }} {{ event.match.0 }} {{ event.bot }}", root: "s/{{ event.match.0 }}"}
  o: {on: {object: "a/*"}, message: "o {{ event.uri }} {{ event.value | json }}", root: "o/{{ event.match.0 }}"}
  v: {on: {value: "a/*"}, message: "v {{ event.uri }} {{ event.value | json }}", root: "v/{{ event.match.0 }}"}
`
	m := answers(map[string]string{"a": `{"x/y":"str","n":1.50,"l":[true],"d":{"in":"deep"}}`})
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "the messages", []string{
			"a",
			`o a/d {"in":"deep"}`,
			`o a/l [true]`,
			`s a/d/in deep d/in a`,
			`s a/x\/y str x\/y a`,
			`v a/d {"in":"deep"}`,
			`v a/l [true]`,
			`v a/n 1.5`,
			`v a/x\/y "str"`,
		}, m.messages())
		// What a star matched is a uri: the slash of the key stays inside of one segment.
		wantResult(t, d, "completed", `{"a":{"x/y":"str","n":1.50,"l":[true],"d":{"in":"deep"}},"s":{"x/y":{},"d":{"in":{}}},"o":{"l":{},"d":{}},"v":{"x/y":{},"n":{},"l":{},"d":{}}}`)
	})
}

// A "**" may stand for nothing; then it leaves no empty segment in a root.
func TestStarsThatStandForNothing(t *testing.T) {
	m := answers(map[string]string{"a": `{"x":{"t":"1"},"t":"2"}`})
	runs(t, parse(t, `
bots:
  a: {message: a, root: a}
  b: {on: "a/**/t", message: "b", root: "b/{{ event.match.0 }}/c"}
`), m, `{}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"a":{"x":{"t":"1"},"t":"2"},"b":{"x":{"c":{}},"c":{}}}`)
	})
}

func TestATextBotFiresWithItsWholeText(t *testing.T) {
	m := answers(map[string]string{"a": "some ‖\"text\""})
	runs(t, parse(t, `
bots:
  a: {message: a, root: a, format: text}
  b: {on: a, message: "b {{ event.value }}", root: b}
  c: {on: {value: a}, message: "c {{ event.value }}", root: c}
`), m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "the messages", []string{"a", `b some "text"`, `c some "text"`}, m.messages())
		wantResult(t, d, "completed", `{"a":"some \"text\"","b":{},"c":{}}`)
	})
}

// BO-05: HTML is one string, without what stands around it.
func TestAnHTMLBotFiresWithItsDocument(t *testing.T) {
	m := answers(map[string]string{"a": "Here:\n```html\n<p>‖Hi\n```"})
	runs(t, parse(t, `
bots:
  a: {message: a, root: a, format: html}
  b: {on: a, message: "b {{ event.value }}", root: b}
  c: {on: {done: a}, message: "c {{ result.a }}", root: c}
`), m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "the messages", []string{"a", "b <p>Hi", "c <p>Hi"}, m.messages())
		wantResult(t, d, "completed", `{"a":"<p>Hi","b":{},"c":{}}`)
	})
}

func TestConcurrencyLetsTheOthersWait(t *testing.T) {
	m := answers(map[string]string{"a": `["1","2","3","4","5","6","7"]`, "b": "x‖y"})
	runs(t, parse(t, `
bots:
  a: {message: a, root: a}
  b: {on: a/*, message: "b{{ event.value }}", root: "b/{{ event.match.0 }}", format: text, concurrency: 2}
  c: {on: {done: b}, message: c, root: c}
`), m, `{}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"a":["1","2","3","4","5","6","7"],"b":{"0":"xy","1":"xy","2":"xy","3":"xy","4":"xy","5":"xy","6":"xy"},"c":{}}`)
		wants(t, "the most at once", 2, m.top)
		wants(t, "the order", []string{"a", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "c"}, m.messages())
		wants(t, "the time", 10*time.Second, d.took) // a, four rounds of b, c
	})
}

// What a template gives is not read as a template again, and what is missing is empty.
func TestTemplatesAreFilledIn(t *testing.T) {
	const text = `
input: {properties: {question: {type: string}, level: {type: string}, n: {type: number}}}
bots:
  a:
    prompt: ["P {{ input.question }} {{ input.level }}{{ params.tone }} {{ params.deep.er }}", {file: prompts/outline.md}]
    history:
      - {role: user, content: "H {{ input.n }}"}
      - {role: assistant, content: "{{ params.tone|default:\"calm\" }}"}
    message: "{% if input.level %}L{% else %}no L{% endif %} {{ result.a.list | json }} {{ result.a.nope.x }}"
    root: a
  b:
    on: {object: a}
    message: "{{ event.value.x }}{{ event.value.nope.y }} {{ event.value.list.1 }} {{ result.a.list | json }}"
    root: b
`
	m := answers(map[string]string{"no L": `{"x":"{{ input.question }}","list":[1,2.50]}`})
	input := `{"question":"<\"{{ params.tone }}\" & 'it'>","n":1.10}`
	runs(t, parse(t, text), m, input, &runOptions{params: map[string]any{"tone": "{% now %}"}}, func(t *testing.T, d done) {
		want := []adapter.Message{
			{Role: "system", Content: `P <"{{ params.tone }}" & 'it'> {% now %} `},
			{Role: "system", Content: "Write an outline for <\"{{ params.tone }}\" & 'it'>.\n"},
			{Role: "user", Content: "H 1.1"},
			{Role: "assistant", Content: "{% now %}"},
			{Role: "user", Content: "no L null "},
		}
		wants(t, "the request", want, m.asked[0].Messages)
		wants(t, "the second message", "{{ input.question }} 2.5 [1,2.5]", m.asked[1].Messages[len(m.asked[1].Messages)-1].Content)
		wants(t, "the status", "completed", d.Status)
	})
}

func TestWithoutAMessageTheInputIsAsked(t *testing.T) {
	for input, want := range map[string]string{
		`{"question":"Why?"}`: "Why?",
		`{"a":"<x>","b":1.0}`: `{"a":"<x>","b":1.0}`,
		`{"a":1}`:             `{"a":1}`,
		`{}`:                  `{}`,
	} {
		m := answers(nil)
		runs(t, parse(t, "bots: {a: {}}"), m, input, nil, func(t *testing.T, d done) {
			wants(t, input, []string{want}, m.messages())
		})
	}
}

// The caller of a run decides over the workflow, and a bot over both.
func TestModelsAndOptionsHaveAnOrder(t *testing.T) {
	const text = `
model: [w:1, w:2]
options: {temperature: 0.1, seed: 7, stop: w}
bots:
  a: {message: a, root: a}
  b: {message: b, root: b, model: "b:1", options: {temperature: 0.9, max_tokens: 5, stop: [x, y], top_p: 0.5}, schema: {type: object}}
`
	f := func(f float64) *float64 { return &f }
	i := func(i int) *int { return &i }
	type asked struct {
		Model             string
		Temperature, TopP *float64
		MaxTokens, Seed   *int
		Stop              []string
		Format            adapter.Format
	}
	see := func(m *models) map[string]asked {
		out := map[string]asked{}
		for n, r := range m.asked {
			out[r.Messages[len(r.Messages)-1].Content] = asked{m.names[n], r.Temperature, r.TopP, r.MaxTokens, r.Seed, r.Stop, r.Format}
		}
		return out
	}
	b := asked{"b:1", f(0.9), f(0.5), i(5), i(7), []string{"x", "y"}, adapter.Format{JSON: true, Name: "b", Schema: json.RawMessage(`{"type":"object"}`)}}
	m := answers(nil)
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "by itself", map[string]asked{"a": {"w:1,w:2", f(0.1), nil, nil, i(7), []string{"w"}, adapter.Format{JSON: true}}, "b": b}, see(m))
	})
	m = answers(nil)
	b.Seed = i(1)
	runs(t, parse(t, text), m, `{}`, &runOptions{config: bot.Config{Model: "r:1", Options: adapter.Options{Temperature: f(0.3), Seed: i(1), Stop: []string{"r"}}}}, func(t *testing.T, d done) {
		wants(t, "with a caller's", map[string]asked{"a": {"r:1", f(0.3), nil, nil, i(1), []string{"r"}, adapter.Format{JSON: true}}, "b": b}, see(m))
	})
}

// TB-02: what is filtered and quiet reaches the result, but no client.
func TestFiltersAndQuietBotsHide(t *testing.T) {
	const text = `
filter: {exclude: [a/notes, "*/secret"]}
bots:
  a: {message: a, root: a}
  b: {message: b, root: b, quiet: true}
  c: {message: c, root: c, filter: {include: [c/x]}}
  d: {on: {done: b}, message: d, root: "d/{{ event.bot }}", filter: {exclude: ["d/*/y"]}}
`
	const doc = `{"notes":[{"n":"1"}],"secret":{"s":"2"},"x":{"in":"3"},"y":"4"}`
	m := answers(map[string]string{"a": doc, "b": doc, "c": doc, "d": doc})
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"a":`+doc+`,"b":`+doc+`,"c":`+doc+`,"d":{"b":`+doc+`}}`)
		got := d.visible()
		slices.Sort(got)
		wants(t, "what is seen", []string{
			"a", "a/x", "a/x/in", "a/y",
			"c/x", "c/x/in",
			"d/b", "d/b/notes", "d/b/notes/0", "d/b/notes/0/n", "d/b/secret", "d/b/secret/s", "d/b/x", "d/b/x/in",
		}, slices.Compact(got))
	})
}

func TestEventsCarryData(t *testing.T) {
	const text = `
bots: {a: {message: a, root: a}}
events:
  - {on: a/title, send: {event: titled, data: {title: "{{ event.value }}", at: ["{{ event.uri }}", 1.50, null, true], html: "<b>"}}}
  - {on: a/title, when: event.value == "other", send: {event: never}}
  - {on: {done: a}, send: {event: ready}}
  - {on: {done: a}, when: result.a.title == "The \"T\"", send: {event: counted, data: "{{ result.a.n }}"}}
`
	m := answers(map[string]string{"a": `{"title":"The \"T\"","n":3}`})
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "titled", []string{`{"title":"The \"T\"","at":["a/title",1.50,null,true],"html":"<b>"}`}, d.named("titled"))
		wants(t, "never", []string(nil), d.named("never"))
		wants(t, "ready", []string{`{}`}, d.named("ready"))
		wants(t, "counted", []string{`"3"`}, d.named("counted"))
	})
}

// FL-03: a run keeps the workflow that it started with.
func TestAReloadDoesNotTouchARun(t *testing.T) {
	files := fstest.MapFS{"w.yaml": {Data: []byte("bots:\n  a: {message: a, root: a}\n  b: {on: {done: a}, message: old, root: b}")}}
	r, err := OpenFS("flows", files)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := r.Get("w")
	m := answers(nil)
	runs(t, w, m, `{}`, &runOptions{during: func(*ling.Manager) {
		files["w.yaml"] = &fstest.MapFile{Data: []byte("bots:\n  a: {message: new, root: a}")}
		if err := r.Reload(); err != nil {
			t.Error(err)
		}
	}}, func(t *testing.T, d done) {
		wants(t, "the messages", []string{"a", "old"}, m.messages())
	})
	w, _ = r.Get("w")
	m = answers(nil)
	runs(t, w, m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "the messages of the next run", []string{"new"}, m.messages())
	})
}

// FL-04: a workflow may come as JSON text, without a folder.
func TestAWorkflowInARequest(t *testing.T) {
	w, err := ParseSpec("workflow", []byte(`{"bots": {"a": {"message": "Hi {{ input.name }}", "format": "text", "root": "out"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, "the name", "workflow", w.Info().Name)
	m := answers(map[string]string{"Hi": "there"})
	runs(t, w, m, `{"name":"Ada"}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"out":"there"}`)
	})
	_, err = ParseSpec("workflow", []byte(`{"bots": {"a": {"prompt": {"file": "x.md"}}}}`), nil)
	wants(t, "the error", []string{`workflow:1:36: file: a workflow inside a request cannot read files; write the text itself`}, lines(err))
}

// FL-05: Go workflows are run by the same API.
func TestAGoWorkflowRuns(t *testing.T) {
	w := Func("pair", "", json.RawMessage(`{"required":["q"],"properties":{"q":{"type":"string"}}}`), func(ctx context.Context, m *ling.Manager, input map[string]any) error {
		for _, name := range []string{"a", "b"} {
			b, err := m.CreateBot(name, name, nil)
			if err != nil {
				return err
			}
			if err := b.Chat(bot.Message{Text: input["q"].(string)}); err != nil {
				return err
			}
		}
		return nil
	})
	m := answers(map[string]string{"Why": `{"x":1}`})
	runs(t, w, m, `"Why"`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"a":{"x":1},"b":{"x":1}}`)
	})
}

// Many runs of one workflow at the same time do not disturb each other; for the race detector.
func TestRunsOfOneWorkflowAreApart(t *testing.T) {
	w := parse(t, example)
	m := answers(map[string]string{
		"Why?":    `{"title":"T","sections":[{"title":"A"},{"title":"B"}]}`,
		"Explain": "body",
		"{":       `{"questions":[]}`,
	})
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				in, err := Prepare(w, json.RawMessage(`"Why?"`))
				if err != nil {
					t.Error(err)
					return
				}
				manager := ling.New(t.Context(), bot.Config{}, &ling.Options{Models: m})
				if err := w.Run(t.Context(), manager, in); err != nil {
					t.Error(err)
				}
				if err := manager.Close(); err != nil {
					t.Error(err)
				}
				const want = `{"article":{"title":"T","sections":[{"title":"A","body":"body"},{"title":"B","body":"body"}]},"quiz":{"questions":[]}}`
				if got := string(manager.Peek(true).Result); got != want {
					t.Errorf("got %s", got)
				}
			})
		}
		all.Wait()
	})
}

// DN-01: a request need not have the params that a workflow reads.
func TestParamsThatAreNotGivenAreEmpty(t *testing.T) {
	for _, test := range []struct {
		name   string
		params map[string]any
	}{
		{"no params", nil},
		{"empty params", map[string]any{}},
		{"other params", map[string]any{"y": "1"}},
		{"null", map[string]any{"x": nil}},
		{"an object without members", map[string]any{"x": map[string]any(nil)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := answers(map[string]string{"a": `{"k":"v"}`})
			runs(t, parse(t, `
bots:
  a: {prompt: "p{{ params.x.y }}", message: "a{{ params.x.y }}", history: [{role: user, content: "h{{ params.x.y }}"}], root: "r{{ params.x.y }}"}
  b: {when: params.x.y, root: b}
  c: {when: not params.x.y, message: c, root: c}
events:
  - {on: r/k, send: {event: sent, data: {x: "{{ params.x.y }}"}}}
  - {on: r/k, when: params.x.y, send: {event: unsent}}
`), m, `null`, &runOptions{params: test.params}, func(t *testing.T, d done) {
				wantResult(t, d, "completed", `{"r":{"k":"v"},"c":{}}`)
				wants(t, "the messages", []string{"a", "c"}, m.messages())
				wants(t, "the event", []string{`{"x":""}`}, d.named("sent"))
				wants(t, "the other event", []string(nil), d.named("unsent"))
			})
		})
	}
}
