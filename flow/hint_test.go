package flow

import (
	"strings"
	"testing"
)

// DW-14: the commonest mistakes are answered with what was meant.
func TestCommonMistakesAreAnsweredWithWhatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		"message: {{ input.town }}":                          `3:14: YAML takes {{ for the beginning of a mapping: put the text in quotes, as in '{{ input.town }}'`,
		"message: {{ input.town }} isn't far":                `3:14: YAML takes {{ for the beginning of a mapping: put the text in quotes, as in "{{ input.town }} isn't far"`,
		"prompt:\n      - {{ input.town }}":                  `4:9: YAML takes {{ for the beginning of a mapping: put the text in quotes, as in '{{ input.town }}'`,
		"message: {% if input.town %}x{% endif %}":           `3:14: YAML takes {% for the beginning of a mapping: put the text in quotes, as in '{% if input.town %}x{% endif %}'`,
		"history: [{role: user, content: {{ input.town }}}]": `3:37: YAML takes {{ for the beginning of a mapping: put the text in quotes, as in '{{ input.town }}'`,
		"message: {% now %}":                                 `3:14: message: YAML takes {% for the beginning of a mapping: put the text in quotes, as in '{% now %}'`,
		"when: {{ input.town }} == 1":                        `3:11: a condition is written without braces and on one line, as in: input.level == "expert"`,
		`when: "{{ input.town }} == 1"`:                      `3:11: when: a condition is written without braces and on one line, as in: input.level == "expert"`,
		`when: input.town = "Rome"`:                          `3:22: when: "=" has no meaning in a condition, did you mean "=="?`,
		`message: "{% if input.town = 1 %}x{% endif %}"`:     `3:32: message: "=" has no meaning in a condition, did you mean "=="?`,

		"after: plan":            `3:5: unknown field "after", did you mean "on", as in on: {done: plan}? expected on, when, `,
		"needs: [plan]":          `3:5: unknown field "needs", did you mean "on", as in on: {done: plan}? expected on, when, `,
		"depends_on: plan":       `3:5: unknown field "depends_on", did you mean "on", as in on: {done: plan}? expected on, when, `,
		"if: input.town":         `3:5: unknown field "if", did you mean "when", as in when: input.level == "expert"? expected on, when, `,
		"mesage: x":              `3:5: unknown field "mesage", did you mean "message"? expected on, when, `,
		"on: {finished: a}":      `3:10: unknown field "finished", did you mean "done", as in {done: plan}? expected string, `,
		"root: r\n    on: other": `4:9: on: no bot can fire this: nothing is written at "other"; did you mean {done: other}?`,
		"message: x: {a: b}":     `3:14: not YAML: mapping value is not allowed in this context`,
	} {
		_, err := ParseSpec("w.yaml", []byte("bots:\n  a:\n    "+text+"\n  other: {root: b}\n"), nil)
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), "w.yaml:"); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
