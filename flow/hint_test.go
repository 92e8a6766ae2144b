package flow

import (
	"strings"
	"testing"
)

// DW-14: the commonest mistakes are answered with what was meant.
func TestCommonMistakesAreAnsweredWithWhatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		"message: {{ input.town }}":                          `3:14: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"message: {{ input.town }} isn't far":                `3:14: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"prompt:\n      - {{ input.town }}":                  `4:9: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"message: {% if input.town %}x{% endif %}":           `3:14: YAML reads {% as the start of a mapping; put the text in quotes`,
		"history: [{role: user, content: {{ input.town }}}]": `3:37: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"message: {% now %}":                                 `3:14: YAML reads {% as the start of a mapping; put the text in quotes`,
		"when: {{ input.town }} == 1":                        `3:11: YAML reads {{ as the start of a mapping; put the text in quotes`,
		`when: "{{ input.town }} == 1"`:                      `3:11: when: write a condition without braces and on one line, such as: input.level == "expert"`,
		`when: input.town = "Rome"`:                          `3:22: when: unexpected "="; to compare, write "=="`,
		`message: "{% if input.town = 1 %}x{% endif %}"`:     `3:32: message: unexpected "="; to compare, write "=="`,

		"mesage: x":              `3:5: unknown field "mesage", did you mean "message"? expected on, when, `,
		"root: r\n    on: other": `4:9: on: no bot writes a text at "other"; a writes below "r" and other writes below "b"`,
		"message: x: {a: b}":     `3:15: YAML reads ": " as the end of a key; put a text with ": " in quotes`,

		"message: {{ input.town }}, far":                                    `3:14: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"history: [{content: {{ input.a }} and {{ input.b }}, role: user}]": `3:25: YAML reads {{ as the start of a mapping; put the text in quotes`,
		"prompt:\n      - Rules: be short":                                  `4:9: prompt: expected text or {file: name}, got a mapping; YAML reads ": " as the end of a key, so put the text in quotes`,
		"prompt: # Rules":                                                   `3:5: prompt: expected text or {file: name}, got nothing; YAML reads # as the start of a comment, so put the text in quotes`,
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
		"on: /a/title":                      `4:9: on: a uri does not begin with a slash`,
		"root: /b":                          `4:11: root: a uri does not begin with a slash`,
		"root: \"/b/{{ input.x }}\"":        `4:11: root: a uri does not begin with a slash`,
		"filter: {exclude: /b}":             `4:23: exclude: a uri does not begin with a slash`,
		"root: /":                           `4:11: root: a uri does not begin with a slash`,
		"on: \"a/steps[*]/x\"":              `4:9: on: the star in "a/steps[*]/x" has no meaning; "*" matches one whole segment, and "**" any number of segments`,
		"message: \"{{ input.a|tojson }}\"": `4:26: message: unknown filter "tojson", did you mean "json"?`,
		"on: [a/*/x, {done: a}]\n    root: \"b/{{ event.match.0 }}\"": `5:17: root: event has no "match"; expected one of bot`,
		"on: [a/*/x, a/y]\n    root: \"b/{{ event.match.0 }}\"":       `5:17: root: event.match.0: the number of stars in the pattern is 0, and they count from 0`,
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
