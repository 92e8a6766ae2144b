package flow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/ling"
)

func TestBoundsEndWhatWouldNotEnd(t *testing.T) {
	for _, test := range []struct {
		name, text string
		starts     int
		want       []string
	}{
		{"max", `
bots:
  a: {message: a, root: a}
  b: {on: "**/next", message: b, root: "b/{{ event.match.0 }}", max: 4}
`, 5, []string{"b reached its limit max: 4; the server did not start it again"}},
		{"limits.bots", `
limits: {bots: 3}
bots:
  a: {message: a, root: a}
  b: {on: "**/next", message: b, root: "b/{{ event.match.0 }}", max: 100}
`, 3, []string{"the workflow reached its limit of 3 bots; the server started no more"}},
		{"when", `
bots:
  a: {message: a, root: a}
  b: {on: "**/next", message: b, root: "b/{{ event.match.0 }}", when: event.match.0 != "b/b/a"}
`, 3, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := answers(map[string]string{"a": `{"next":"x"}`, "b": `{"next":"x"}`})
			runs(t, parse(t, test.text), m, `{}`, nil, func(t *testing.T, d done) {
				wants(t, "the starts", test.starts, len(m.asked))
				var got []string
				for _, e := range d.Errors {
					got = append(got, e.Message)
					if e.Bot != "b" || e.Code != "limit_reached" { // DW-10
						t.Errorf("the error is %q, of bot %q", e.Code, e.Bot)
					}
				}
				wants(t, "the errors", test.want, got)
				wants(t, "the status", "completed", d.Status)
			})
		})
	}
}

// The race detector sees it: one bot looks back at what was never sent while another sends the event of their common end.
func TestBotsThatEndAtOnceSettleTheirEndsAtOnce(t *testing.T) {
	parsed := parse(t, `
bots:
  a: {message: a, root: a}
  b: {message: b, root: b}
  c: {on: {done: [a, b]}, message: c, root: c}
  never: {on: a/y, message: d, root: d}
events:
  - {on: {done: a}, send: {event: one}}
  - {on: {done: b}, send: {event: two}}
  - {on: {done: [a, b]}, send: {event: both}}
`)
	for range 200 {
		runs(t, parsed, answers(map[string]string{"a": "{}", "b": "{}", "c": "{}"}), `{}`, nil, func(t *testing.T, d done) {
			wants(t, "the status", "completed", d.Status)
		})
	}
}

func TestFailuresAreHandledOrNot(t *testing.T) {
	for _, test := range []struct {
		name, text     string
		say            map[string]string
		status, result string
		messages       []string
	}{
		{"a failure that nobody waits for", `
bots:
  a: {message: a, root: a}
  b: {message: b, root: b}
  c: {on: {done: a}, message: c, root: c}
`, map[string]string{"a": failing}, "failed", `{"b":{},"c":{}}`, []string{"a", "b", "c"}},
		{"a failure that another bot waits for", `
bots:
  a: {message: a, root: a}
  b: {on: {error: a}, message: "sorry {{ error.bot }}, {{ event.bot }}: {{ error.code }}, {{ error.message }}", root: a}
`, map[string]string{"a": `{"x":"half‖` + failing}, "completed", `{"a":{}}`, []string{"a", "sorry a, a: upstream_unavailable, the model is away"}},
		{"a failure that an event waits for", `
bots: {a: {message: a, root: a}}
events: [{on: {error: a}, send: {event: sorry, data: "{{ error.message }}"}}]
`, map[string]string{"a": failing}, "completed", `{}`, []string{"a"}},
		{"a condition that does not hold", `
bots:
  a: {message: a, root: a}
  b: {on: {error: a}, when: error.code == "upstream_auth", message: b, root: b}
`, map[string]string{"a": failing}, "failed", `{}`, []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := answers(test.say)
			runs(t, parse(t, test.text), m, `{}`, nil, func(t *testing.T, d done) {
				wantResult(t, d, test.status, test.result)
				wants(t, "the messages", test.messages, m.messages())
				if len(d.Errors) == 0 || d.Errors[0].Handled != (test.status == "completed") { // DW-04
					t.Errorf("the errors are %+v", d.Errors)
				}
				if (d.err != nil) != (test.status == "failed") {
					t.Errorf("Close returned %v", d.err)
				}
			})
		})
	}
}

func TestABotIsTriedAgainUntilItsMax(t *testing.T) {
	const text = `
bots:
  a: {message: a, root: a}
  b: {on: {value: a}, message: b, root: b}
  again: {on: {error: b}, message: again, root: b}
  last: {on: {error: again}, message: last, root: b, max: 1}
`
	m := answers(map[string]string{"b": failing, "again": failing, "last": `{"well":true}`})
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "completed", `{"a":{},"b":{"well":true}}`)
		wants(t, "the errors", 2, len(d.Errors))
	})
	m = answers(map[string]string{"b": failing, "again": failing, "last": failing})
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wantResult(t, d, "failed", `{"a":{}}`)
	})
}

func TestABotThatCannotBeStartedFails(t *testing.T) {
	for _, test := range []struct{ name, bot, want string }{
		{"a root that is no uri", `{message: b, root: "b/{{ input.x }}//y"}`, `cannot start the bot "b": its root "b/v//y" is not a valid uri`},
		{"a root that is reserved", `{message: b, root: "{{ input.dollar }}"}`, `cannot start the bot "b": its root "$tools" is reserved`},
		{"a root that cannot be rendered", `{message: b, root: "b/{{ 1/input.zero }}"}`, `cannot start the bot "b": `},
		{"a message that cannot be rendered", `{message: "{{ 1/input.zero }}", root: b}`, `cannot start the bot "b": `},
		{"a prompt that cannot be rendered", `{prompt: "{{ 1/input.zero }}", root: b}`, `cannot start the bot "b": `},
		{"a history that cannot be rendered", `{history: [{role: user, content: "{{ 1/input.zero }}"}], root: b}`, `cannot start the bot "b": `},
		{"a condition that cannot be rendered", `{when: 1/input.zero, root: b}`, `cannot start the bot "b": `},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := answers(nil)
			input := `{"x":"v","dollar":"$tools","zero":0}`
			runs(t, parse(t, "bots:\n  a: {message: a, root: a}\n  b: "+test.bot+"\n  c: {on: {done: b}, message: c, root: c}"), m, input, nil, func(t *testing.T, d done) {
				wants(t, "the status", "failed", d.Status)
				wants(t, "the messages", []string{"a", "c"}, m.messages())
				if len(d.Errors) != 1 || !strings.HasPrefix(d.Errors[0].Message, test.want) || d.Errors[0].Bot != "b" {
					t.Errorf("got %+v", d.Errors)
				}
			})
			m = answers(nil)
			runs(t, parse(t, "bots:\n  a: {message: a, root: a}\n  b: "+test.bot+"\n  c: {on: {error: b}, message: c, root: c}"), m, input, nil, func(t *testing.T, d done) {
				wants(t, "the status with a handler", "completed", d.Status)
				wants(t, "the messages with a handler", []string{"a", "c"}, m.messages())
			})
		})
	}
}

func TestManyThatCannotBeStartedEnd(t *testing.T) {
	var list []string
	for i := range 150 {
		list = append(list, fmt.Sprint(`"`, i, `"`))
	}
	m := answers(map[string]string{"a": "[" + strings.Join(list, ",") + "]", "b": "x‖y"})
	runs(t, parse(t, `
bots:
  a: {message: a, root: a}
  b: {on: a/*, message: "b{% if event.value != \"0\" %}{{ 1/input.zero }}{% endif %}", root: "b/{{ event.match.0 }}", format: text, concurrency: 1}
`), m, `{"zero":0}`, nil, func(t *testing.T, d done) {
		wants(t, "the errors", 149, len(d.Errors))
		wants(t, "the status", "failed", d.Status)
	})
}

// LI-04: nothing of a run goes on after it was canceled, and nothing more is started.
func TestACanceledRunStartsNothing(t *testing.T) {
	const text = `
bots:
  a: {message: a, root: a}
  b: {on: a/*, message: b, root: "b/{{ event.match.0 }}", concurrency: 1}
  c: {on: {done: b}, message: c, root: c}
  d: {on: {error: a}, message: d, root: d}
`
	m := answers(map[string]string{"a": `{"x":"1","y":"2",‖"z":"3"‖}`, "b": "{‖}"})
	runs(t, parse(t, text), m, `{}`, &runOptions{during: func(m *ling.Manager) {
		time.Sleep(2500 * time.Millisecond)
		m.Cancel(errors.New("enough"))
	}}, func(t *testing.T, d done) {
		wants(t, "the status", "canceled", d.Status)
		wants(t, "the messages", []string{"a", "b"}, m.messages())
		wants(t, "the time", 2500*time.Millisecond, d.took)
	})
}

func TestTheTimeLimitEndsARun(t *testing.T) {
	m := answers(map[string]string{"a": `{‖"x":‖1‖}`})
	w := parse(t, "limits: {time: 2500ms}\nbots: {a: {message: a, root: a}}")
	runs(t, w, m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "the status", "canceled", d.Status)
		wants(t, "the reason", []string{`{"reason":"the workflow exceeded its time limit of 2.5s"}`}, d.named("canceled"))
		wants(t, "the time", 2500*time.Millisecond, d.took)
	})
	m = answers(map[string]string{"a": `{}`})
	runs(t, w, m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "the status in time", "completed", d.Status)
		wants(t, "the time in time", time.Second, d.took)
	})
}

// What is about to be started has not ended: a bot beside it that fails at once must not make it look so.
func TestNothingEndsBeforeItHasBegun(t *testing.T) {
	for name, text := range map[string]string{
		"at the start of the run": `
bots:
  a: {message: "{{ 1/input.zero }}", root: a}
  b: {message: b, root: b}
  c: {on: {done: b}, message: c, root: c}
`,
		"at an end": `
bots:
  s: {message: s, root: s, format: text}
  a: {on: {done: s}, message: "{{ 1/input.zero }}", root: a}
  b: {on: {done: s}, message: b, root: b}
  c: {on: {done: b}, message: c, root: c}
`,
	} {
		t.Run(name, func(t *testing.T) {
			m := answers(map[string]string{"b": "{‖}"})
			runs(t, parse(t, text), m, `{"zero":0}`, nil, func(t *testing.T, d done) {
				var order []string
				for _, r := range m.asked {
					order = append(order, r.Messages[len(r.Messages)-1].Content)
				}
				wants(t, "the order", []string{"b", "c"}, order[len(order)-2:])
				wants(t, "the time", time.Duration(len(order)+1)*time.Second, d.took)
			})
		})
	}
}
