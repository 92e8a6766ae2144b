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
		"history: [{role: user, content: {{ input.town }}}]": `3:37: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"message: {% now %}":                                 `3:14: YAML reads {% as the start of a mapping; put the text in quotes, such as '{% now %}'`,
		"when: {{ input.town }} == 1":                        `3:11: write a condition without braces and on one line, such as: input.level == "expert"`,
		`when: "{{ input.town }} == 1"`:                      `3:11: when: write a condition without braces and on one line, such as: input.level == "expert"`,
		`when: input.town = "Rome"`:                          `3:22: when: unexpected "="; to compare, write "=="`,
		`message: "{% if input.town = 1 %}x{% endif %}"`:     `3:32: message: unexpected "="; to compare, write "=="`,

		"mesage: x":              `3:5: unknown field "mesage", did you mean "message"? expected on, when, `,
		"root: r\n    on: other": `4:9: on: no bot fires this trigger: no bot writes to "other"; did you mean {done: other}?`,
		"message: x: {a: b}":     `3:15: YAML reads ": " as the end of a key; put a text with ": " in quotes`,

		"message: {{ input.town }}, far":                                    `3:14: YAML reads {{ as the start of a mapping; put the text in quotes, such as '{{ input.town }}, far'`,
		"history: [{content: {{ input.a }} and {{ input.b }}, role: user}]": `3:25: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"prompt:\n      - Rules: be short":                                  `4:9: prompt: expected text or {file: name}, got a mapping; YAML reads ": " as the end of a key, so put the text in quotes`,
		"prompt: # Rules":                                                   `3:5: prompt: expected text, {file: name} or a list of these, got nothing; YAML reads # as the start of a comment, so put the text in quotes`,
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

// DN-15: what other systems write is answered with how it is written here.
func TestWhatOtherSystemsWriteIsExplained(t *testing.T) {
	for text, want := range map[string]string{
		"message: \"{{ loop.index }}\"":     `4:18: message: unknown variable "loop"; expected one of input, params and result`,
		"on: /a/title":                      `4:9: on: a uri does not begin with a slash; write a/title`,
		"root: /b":                          `4:11: root: a uri does not begin with a slash; write b`,
		"root: \"/b/{{ input.x }}\"":        `4:11: root: a uri does not begin with a slash; write b/{{ input.x }}`,
		"filter: {exclude: /b}":             `4:23: exclude: a uri does not begin with a slash; write b`,
		"root: /":                           `4:11: root: "/" is not a uri; the whole document is "", and a member is its name, such as article`,
		"on: \"a/steps[*]/x\"":              `4:9: on: an element of a list is a segment: write a/steps/*/x`,
		"message: \"{{ input.a|tojson }}\"": `4:26: message: unknown filter "tojson", did you mean "json"?`,
		"on: [a/*/x, {done: a}]\n    root: \"b/{{ event.match.0 }}\"": `5:17: root: event has no "match"; expected one of bot; a root may use only what all triggers of the list have, and {done: a} has none of this`,
		"on: [a/*/x, a/y]\n    root: \"b/{{ event.match.0 }}\"":       `5:17: root: event.match.0: the pattern "a/y" has no star, so it has no matches; a root may use only what all triggers of the list have, and a/y has none of this`,
	} {
		_, err := ParseSpec("w.yaml", []byte("bots:\n  a: {root: a}\n  b:\n    "+text+"\n"), nil)
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), "w.yaml:"); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
