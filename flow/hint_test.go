package flow

import (
	"strings"
	"testing"
)

// DW-14: the commonest mistakes are answered with what was meant.
func TestCommonMistakesAreAnsweredWithWhatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		"message: {{ input.town }}":                          `3:14: YAML reads {{ as the start of a mapping; put the text in quotes, such as '{{ input.town }}'`,
		"message: {{ input.town }} isn't far":                `3:14: YAML reads {{ as the start of a mapping; put the text in quotes, such as "{{ input.town }} isn't far"`,
		"prompt:\n      - {{ input.town }}":                  `4:9: YAML reads {{ as the start of a mapping; put the text in quotes, such as '{{ input.town }}'`,
		"message: {% if input.town %}x{% endif %}":           `3:14: YAML reads {% as the start of a mapping; put the text in quotes, such as '{% if input.town %}x{% endif %}'`,
		"history: [{role: user, content: {{ input.town }}}]": `3:37: YAML reads {{ as the start of a mapping; put the text in quotes, such as '{{ input.town }}'`,
		"message: {% now %}":                                 `3:14: message: YAML reads {% as the start of a mapping; put the text in quotes, such as '{% now %}'`,
		"when: {{ input.town }} == 1":                        `3:11: write a condition without braces and on one line, such as: input.level == "expert"`,
		`when: "{{ input.town }} == 1"`:                      `3:11: when: write a condition without braces and on one line, such as: input.level == "expert"`,
		`when: input.town = "Rome"`:                          `3:22: when: unexpected "=" in the condition; did you mean "=="?`,
		`message: "{% if input.town = 1 %}x{% endif %}"`:     `3:32: message: unexpected "=" in the condition; did you mean "=="?`,

		"mesage: x":              `3:5: unknown field "mesage", did you mean "message"? expected on, when, `,
		"root: r\n    on: other": `4:9: on: no bot fires this trigger: no bot writes to "other"; did you mean {done: other}?`,
		"message: x: {a: b}":     `3:14: YAML reads ": " as the end of a key; put the text in quotes, such as 'x: {a: b}', or begin it with message: | and `,

		"message: {{ input.town }}, far":                                    `3:14: YAML reads {{ as the start of a mapping; put the text in quotes, such as '{{ input.town }}, far'`,
		"history: [{content: {{ input.a }} and {{ input.b }}, role: user}]": `3:25: YAML reads {{ as the start of a mapping; put the text in quotes, such as '{{ input.a }} and {{ input.b }}'`,
		"prompt:\n      - Rules: be short":                                  `4:9: prompt: expected text or {file: name}, got a mapping; YAML reads ": " as the end of a key, so put the text in quotes, such as 'Rules: be short'`,
		"prompt: # Rules":                                                   `3:5: prompt: expected text, {file: name} or a list of these, got nothing; YAML reads # as the start of a comment, so put the text in quotes, such as '# Rules'`,
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
