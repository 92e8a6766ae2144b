package flow

import (
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
	for text, want := range map[string]bot.OnInvalid{"": "", ", on_invalid: report": bot.Report, ", on_invalid: retry": bot.Retry} {
		w := parse(t, "bots: {a: {message: hi"+text+"}}")
		var c bot.Config
		(&run{spec: w}).configure(w.bots[0], &c)
		if c.OnInvalid != want {
			t.Errorf("%q: got %q", text, c.OnInvalid)
		}
	}
}
