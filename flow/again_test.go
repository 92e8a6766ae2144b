package flow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/bot"
)

const correcting = `
bots:
  outline:
    message: go
    root: article
    on_invalid: retry
    schema: {type: object, required: [list], properties: {list: {type: array, maxItems: 2}}}
  text: {on: article/list/*, message: "text {{ event.value }}", root: "texts/{{ event.match.0 }}", format: text}
  object: {on: {object: article}, message: "object {{ event.value | json }}", root: object, format: text}
  value: {on: {value: article/n}, message: "value {{ event.value }}", root: value, format: text}
  end: {on: {done: outline}, message: "end {{ result.article | json }}", root: end, format: text}
  instead: {on: {error: outline}, message: "instead {{ error.code }}", root: article, format: text}
events:
  - {on: article/list/*, send: {event: listed, data: {v: "{{ event.value }}"}}}
`

// BO-05, FL-01: what waits for a bot that may be asked again is told of the answer that stays, once, and of nothing else.
func TestTriggersFireForTheAnswerThatStays(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string
		messages      []string // but the first two
		listed        []string
		status        string
		result        string
		took          time.Duration
	}{
		{
			"the second", `{"list":["a",‖"b",‖"c"],"n":1}`, `{"list":["x",‖"y"],"n":2}`,
			[]string{`end {"list":["x","y"],"n":2}`, `object {"list":["x","y"],"n":2}`, "text x", "text y", "value 2"},
			[]string{`{"v":"x"}`, `{"v":"y"}`},
			"completed",
			`{"article":{"list":["x","y"],"n":2},"texts":{"0":"T","1":"T"},"object":"T","value":"T","end":"T"}`,
			6 * time.Second, // three and two seconds, and one for what comes then
		},
		{
			"the first, since the model is away then", `{"list":["a",‖"b",‖"c"],"n":1}`, failing,
			[]string{`end {"list":["a","b","c"],"n":1}`, `object {"list":["a","b","c"],"n":1}`, "text a", "text b", "text c", "value 1"},
			[]string{`{"v":"a"}`, `{"v":"b"}`, `{"v":"c"}`},
			"completed",
			`{"article":{"list":["a","b","c"],"n":1},"texts":{"0":"T","1":"T","2":"T"},"object":"T","value":"T","end":"T"}`,
			5 * time.Second,
		},
		{
			"none", "No.", "No, no.",
			[]string{"end null", "instead output_invalid"},
			nil, "completed",
			`{"article":"T","end":"T"}`,
			3 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &models{say: func(asked string) []string {
				switch {
				case asked == "go":
					return strings.Split(c.first, "‖")
				case strings.HasPrefix(asked, "Your "):
					return strings.Split(c.second, "‖")
				}
				return []string{"T"}
			}}
			runs(t, parse(t, correcting), m, `{}`, nil, func(t *testing.T, d done) {
				wantResult(t, d, c.status, c.result)
				var messages []string
				for _, asked := range m.messages() {
					if asked != "go" && !strings.HasPrefix(asked, "Your ") {
						messages = append(messages, asked)
					}
				}
				wants(t, "the messages", c.messages, messages)
				wants(t, "the events", c.listed, d.named("listed"))
				wants(t, "the time", c.took, d.took)
			})
		})
	}
}

func TestOnInvalidIsHandedToTheBot(t *testing.T) {
	for text, want := range map[string]bot.OnInvalid{"": "", ", on_invalid: report": bot.Report, ", on_invalid: retry": bot.Retry, ", on_invalid: fail": bot.Fail, ", on_invalid: retry_then_fail": bot.RetryThenFail} {
		w := parse(t, "bots: {a: {message: hi"+text+"}}")
		var c bot.Config
		(&run{spec: w}).configure(w.bots[0], &c)
		if c.OnInvalid != want {
			t.Errorf("%q: got %q", text, c.OnInvalid)
		}
	}
}

// DW-12: an answer that does not fit is a failure where the file or the caller says so; another bot stands in, and what waits for values
// is not told of the answer.
func TestAnAnswerThatDoesNotFitLeadsToTheErrorBranch(t *testing.T) {
	const text = `
bots:
  plan:
    message: "{{ input.plan }}"
    root: plan
    schema: {type: object, required: [stops], properties: {stops: {type: array, minItems: 2}}}%s
  stop: {on: plan/stops/*, message: "stop {{ event.value }}", root: "texts/{{ event.match.0 }}", format: text}
  rescue: {on: {error: plan}, message: "rescue {{ error.code }}: {{ error.message }}", root: plan}
  well: {on: {completed: plan}, message: well, root: well}
`
	const wrong, right, misfit = `{"stops":["A"],"more":1}`, `{"stops":["B","C"]}`, "rescue output_invalid: the output does not match its schema: "
	for _, test := range []struct {
		name, onInvalid string
		strict          bool
		first, second   string
		want            []string // beginnings of what was asked, sorted
		result          string
	}{
		{"report", "", false, wrong, "", []string{"plan", "stop A", "well"}, `{"plan":{"stops":["A"],"more":1},"texts":{"0":"T"},"well":{}}`},
		{"report, strict", "", true, wrong, "", []string{"plan", misfit, "stop D", "stop E"}, `{"plan":{"stops":["D","E"]},"texts":{"0":"T","1":"T"}}`},
		{"fail", "fail", false, wrong, "", []string{"plan", misfit, "stop D", "stop E"}, `{"plan":{"stops":["D","E"]},"texts":{"0":"T","1":"T"}}`},
		{"fail, and it fits", "fail", true, right, "", []string{"plan", "stop B", "stop C", "well"}, `{"plan":{"stops":["B","C"]},"texts":{"0":"T","1":"T"},"well":{}}`},
		{"retry", "retry", false, wrong, wrong, []string{"Your ", "plan", "stop A", "well"}, `{"plan":{"stops":["A"],"more":1},"texts":{"0":"T"},"well":{}}`},
		{"retry, strict", "retry", true, wrong, wrong, []string{"Your ", "plan", misfit, "stop D", "stop E"}, `{"plan":{"stops":["D","E"]},"texts":{"0":"T","1":"T"}}`},
		{"retry_then_fail", "retry_then_fail", false, wrong, wrong, []string{"Your ", "plan", misfit, "stop D", "stop E"}, `{"plan":{"stops":["D","E"]},"texts":{"0":"T","1":"T"}}`},
		{"retry_then_fail, without a second answer", "retry_then_fail", false, wrong, failing, []string{"Your ", "plan", misfit, "stop D", "stop E"}, `{"plan":{"stops":["D","E"]},"texts":{"0":"T","1":"T"}}`},
		{"retry_then_fail, and the second fits", "retry_then_fail", false, wrong, right, []string{"Your ", "plan", "stop B", "stop C", "well"}, `{"plan":{"stops":["B","C"]},"texts":{"0":"T","1":"T"},"well":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &models{say: func(asked string) []string {
				switch word, _, _ := strings.Cut(asked, " "); word {
				case "plan":
					return []string{test.first[:5], test.first[5:]}
				case "Your":
					return []string{test.second}
				case "rescue":
					return []string{`{"stops":["D","E"]}`}
				case "stop":
					return []string{"T"}
				}
				return []string{"{}"}
			}}
			o := &runOptions{}
			if test.strict {
				o.config.OnInvalid = bot.Fail
			}
			onInvalid := ""
			if test.onInvalid != "" {
				onInvalid = "\n    on_invalid: " + test.onInvalid
			}
			runs(t, parse(t, fmt.Sprintf(text, onInvalid)), m, `{"plan":"plan"}`, o, func(t *testing.T, d done) {
				wantResult(t, d, "completed", test.result)
				messages := m.messages()
				for i, asked := range messages {
					if i < len(test.want) && strings.HasPrefix(asked, test.want[i]) {
						messages[i] = test.want[i]
					}
				}
				wants(t, "what was asked", test.want, messages)
			})
		})
	}
	t.Run("nobody waits for it", func(t *testing.T) {
		m := answers(map[string]string{"a": wrong})
		runs(t, parse(t, `bots: {a: {message: a, schema: {required: [x]}, on_invalid: fail}}`), m, `{}`, nil, func(t *testing.T, d done) {
			wantResult(t, d, "failed", wrong) // it stays
			wants(t, "the errors", 1, len(d.Errors))
		})
	})
}

// A bot that stands in for one that has failed half-way writes its own document, and not behind the other's.
func TestABotThatStandsInReplacesWhatTheOtherLeft(t *testing.T) {
	say := map[string]string{"one": `{"x":"half","y":[1,2]‖` + failing, "two": `{"x":"whole","z":[3]}`, "three": `{"c":"d"}`}
	for _, test := range []struct{ name, text, result string }{
		{"at a root", `
  a: {message: one, root: r}
  b: {message: two, root: r, on: {error: a}}
`, `{"r":{"x":"whole","z":[3]}}`},
		{"without a root", `
  a: {message: one}
  b: {message: two, on: {error: a}}
`, `{"x":"whole","z":[3]}`},
		{"without a root, where others write beside it", `
  a: {message: one}
  c: {message: three, root: c}
  b: {message: two, on: {error: a}}
`, `{"x":"halfwhole","y":[1,2],"z":[3],"c":{"c":"d"}}`},
		{"elsewhere", `
  a: {message: one, root: r}
  b: {message: two, root: s, on: {error: a}}
`, `{"r":{"x":"half","y":[1,2]},"s":{"x":"whole","z":[3]}}`},
		{"as text", `
  a: {message: one, root: r}
  b: {message: three, root: r, on: {error: a}, format: text}
`, `{"r":"{\"c\":\"d\"}"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs(t, parse(t, "bots:"+test.text), answers(say), `{}`, nil, func(t *testing.T, d done) { wantResult(t, d, "completed", test.result) })
		})
	}
}
