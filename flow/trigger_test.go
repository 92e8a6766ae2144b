package flow

import (
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/ling"
)

// DW-02: {done: [a, b]} fires once, when the last of them has ended; a list of triggers fires for each of them.
func TestSeveralTriggersStartABot(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // what was asked, sorted
	}{
		{"all of two have ended", `
bots:
  a: {message: slow, root: a}
  b: {message: quick, root: b}
  both: {on: {done: [a, b]}, message: "both {{ result.a.x }} {{ result.b.x }} {{ event.bot }}", root: both}
`, []string{"both 1 2 a", "quick", "slow"}},
		{"any of several", `
bots:
  a: {message: slow, root: a}
  b: {message: quick, root: b}
  each: {on: [{done: a}, {done: b}, {value: a/x}], message: "each {{ event.bot }} {{ event.uri }}", root: "each/{{ event.bot }}", concurrency: 1}
`, []string{"each a ", "each a a/x", "each b ", "quick", "slow"}},
		{"all of two that start others", `
bots:
  a: {message: two, root: a}
  part: {on: {value: a/*}, message: slow, root: "part/{{ event.match.0 }}"}
  b: {message: quick, root: b}
  end: {on: {done: [b, part]}, message: "end {{ event.bot }}", root: end}
`, []string{"end part", "quick", "slow", "slow", "two"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := answers(map[string]string{"quick": `{"x":2}`, "two": `{"x":1,"y":2}`, "slow": ` ‖ ‖{"x":1}`})
			runs(t, parse(t, test.text), m, `{}`, nil, func(t *testing.T, d done) {
				wants(t, "what was asked", test.want, m.messages())
				wants(t, "the status", "completed", d.Status)
			})
		})
	}
}

// DW-03: {completed: x} fires where all of that name have ended and none has failed; {done: x} does so after a failure too.
func TestCompletedFiresOnlyForSuccess(t *testing.T) {
	const text = `
bots:
  a: {message: "{{ input.a }}", root: a}
  b: {message: ok, root: b}
  well: {on: {completed: a}, message: well, root: well}
  both: {on: {completed: [a, b]}, message: both, root: both}
  ended: {on: {done: a}, message: ended, root: ended}
  after: {on: {done: well}, message: after, root: after}
  rescue: {on: {error: a}, message: rescue, root: a}
  either: {on: [{completed: a}, {completed: rescue}], message: either, root: either}
  never: {on: {completed: unstarted}, message: never, root: never}
  unstarted: {on: {done: b}, when: input.nope, message: unstarted, root: unstarted}
events:
  - {on: {completed: a}, send: {event: good}}
`
	for _, test := range []struct {
		a    string
		want []string
		sent int
	}{
		{"ok", []string{"after", "both", "either", "ended", "ok", "ok", "well"}, 1},
		{"fails", []string{"after", "either", "ended", "fails", "ok", "rescue"}, 0},
	} {
		m := answers(map[string]string{"ok": `{"x":1}`, "fails": `{"x":‖` + failing})
		runs(t, parse(t, text), m, `{"a":"`+test.a+`"}`, nil, func(t *testing.T, d done) {
			wants(t, "what was asked with "+test.a, test.want, m.messages())
			wants(t, "the events", test.sent, len(d.named("good")))
			wants(t, "the warnings", 0, len(d.named("warning")))
			wants(t, "the status", "completed", d.Status)
		})
	}
}

// DW-01: a condition that compares what is missing, or a text with a number, does not hold, and one warning names the comparison.
func TestAConditionOnWhatIsMissingDoesNotHold(t *testing.T) {
	const text = `
bots:
  lead: {message: lead, root: lead}
  low: {on: {value: lead/*}, when: result.lead.nope < 50, message: low, root: "low/{{ event.match.0 }}"}
  hot: {on: {done: lead}, when: result.lead.tier < 5, message: hot, root: hot}
  other: {on: {done: lead}, when: not result.lead.score, message: other, root: other}
  good: {on: {done: lead}, when: result.lead.score >= 50 or result.lead.nope, message: good, root: good}
events:
  - {on: {done: lead}, when: result.lead.nope != 1, send: {event: odd}}
`
	m := answers(map[string]string{"lead": `{"score":80,"tier":"hot"}`, "good": `{}`})
	runs(t, parse(t, text), m, `{}`, nil, func(t *testing.T, d done) {
		wants(t, "what was asked", []string{"good", "lead"}, m.messages())
		wants(t, "the events", 0, len(d.named("odd")))
		warnings := d.named("warning")
		slices.Sort(warnings)
		wants(t, "the warnings", []string{
			`{"code":"not_comparable","message":"the bot \"hot\" is not started: its condition is false, because \"result.lead.tier < 5\": text cannot be compared with a number","bot":"hot"}`,
			`{"code":"not_comparable","message":"the bot \"low\" is not started: its condition is false, because \"result.lead.nope < 50\": result.lead.nope is missing","bot":"low"}`,
			`{"code":"not_comparable","message":"the event \"odd\" is not sent: its condition is false, because \"result.lead.nope != 1\": result.lead.nope is missing"}`,
		}, warnings)
		wants(t, "the status", "completed", d.Status)
	})
}

// DW-11: what waits for values that nobody has written is said at the end, where those that could have written them are well.
func TestWhatNeverStartedIsSaidAtTheEnd(t *testing.T) {
	const text = `
bots:
  trip: {message: "{{ input.trip }}", root: trip}
  day: {on: trip/dayz/*, message: day, root: "days/{{ event.match.0 }}"}
  list: {on: trip/days, message: list, root: list}
  hour: {on: [days/*/hour, {object: trip/days/*}], message: hour, root: "hours/{{ event.match.0 }}"}
  started: {on: trip/title, when: input.never, message: started, root: started}
  after: {on: {done: day}, message: after, root: after}
events:
  - {on: {object: trip/title}, send: {event: titled}}
`
	m := answers(map[string]string{"trip": `{"title":"Rome","days":["Monday"]}`, "fails": `{"title":"Rome"‖` + failing})
	runs(t, parse(t, text), m, `{"trip":"trip"}`, nil, func(t *testing.T, d done) {
		wants(t, "what was asked", []string{"after", "trip"}, m.messages())
		wants(t, "the warnings", []string{
			`{"code":"never_started","message":"bot day never started: nothing matched trip/dayz/*","bot":"day"}`,
			`{"code":"never_started","message":"bot list never started: nothing matched trip/days","bot":"list"}`,
			`{"code":"never_started","message":"bot hour never started: nothing matched days/*/hour or trip/days/*","bot":"hour"}`,
			`{"code":"never_started","message":"event titled was never sent: nothing matched trip/title"}`,
		}, d.named("warning"))
		if lines := d.lines(); !slices.Equal(lines[len(lines)-2:], []string{"warning", "finished"}) {
			t.Errorf("the events end with %v", lines)
		}
	})
	runs(t, parse(t, text), m, `{"trip":"fails"}`, nil, func(t *testing.T, d done) {
		wants(t, "the warnings after a failure", 0, len(d.named("warning")))
	})
	runs(t, parse(t, text), m, `{"trip":"trip"}`, &runOptions{during: func(m *ling.Manager) { m.Stop(nil) }}, func(t *testing.T, d done) {
		wants(t, "the warnings of a run that was canceled", 0, len(d.named("warning")))
	})
}

// DW-11, DW-02: mistakes in lists of triggers are reported at their place.
func TestMistakesInListsOfTriggersAreReported(t *testing.T) {
	for text, want := range map[string]string{
		`  b: {on: [], root: b}`:                                     `w.yaml:4:11: on: expected a list of 1 to 32 triggers, got 0`,
		`  b: {on: [a/x, [a/y]], root: b}`:                           `w.yaml:4:17: on: expected a uri pattern, a mapping with one of string, object, value, done, completed and error, or a list of these, got a list`,
		`  b: {on: {done: [a, c]}, root: b}`:                         `w.yaml:4:22: on: unknown bot "c"; expected one of a and b`,
		`  b: {on: {done: [a, a]}, root: b}`:                         `w.yaml:4:22: done: "a" occurs twice; remove one`,
		`  b: {on: {done: []}, root: b}`:                             `w.yaml:4:18: done: expected the name of a bot, or a list of names`,
		`  b: {on: {error: [a, b]}, root: b}`:                        `w.yaml:4:19: error: expected the name of one bot; write several as a list, such as [{error: a}, {error: b}]`,
		`  b: {on: {completed: [a, b]}, root: b}`:                    `w.yaml:4:27: on: b waits for the end of b, which it can start itself; use another trigger`,
		`  b: {on: [a/x, {done: a}], root: b}`:                       `w.yaml:4:35: root: b can run several times at once and would always write to "b"; use what tells them apart, as in {{ event.bot }}, or set concurrency: 1`,
		`  b: {on: [a/*, {done: a}], root: "b/{{ event.match.1 }}"}`: `w.yaml:4:41: root: event has no "match"; expected one of bot`,
		`  b: {on: [{done: a}, {error: a}], root: b, message: "{{ event.value }} {{ error.code }}"}`: `w.yaml:4:58: message: event has no "value"; expected one of bot`,
		`  b: {on: [a/x, b2/*], root: "b/{{ event.bot }}"}`:                                          `w.yaml:4:17: on: no bot writes a text at "b2/*"; a writes below "a" and b writes below "b/{{ event.bot }}"`,
	} {
		_, err := ParseSpec("w.yaml", []byte("name: w\nbots:\n  a: {root: a}\n"+text+"\n"), nil)
		if err == nil {
			t.Errorf("%s: no error, expected %s", text, want)
			continue
		}
		if got := err.Error(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, strings.ReplaceAll(got, "\n", "\n     "), want)
		}
	}
}
