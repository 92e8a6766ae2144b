package prompt_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/bot/prompt"
)

// DN-15
func TestMistakesAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		`{{ a|uper }}`:            `unknown filter "uper", did you mean "upper"?`,
		`{{ a|nope }}`:            `unknown filter "nope"`,
		`{{ a|default('b') }}`:    `templates cannot call functions; the argument of a filter follows a colon`,
		`{{ a.items() }}`:         `templates cannot call functions`,
		`{% if a %}{% elsif b %}`: `unknown tag "elsif"; expected one of if, for, set, now, comment and verbatim`,
		`{% if a %}{% esle %}`:    `unknown tag "esle"; expected one of if, for, set, now, comment and verbatim`,
		`{% set a %}`:             `set needs the form: set NAME = VALUE`,
		`{% for a b in c %}`:      `for needs the form: for NAME in LIST`,
	} {
		_, err := prompt.Parse("t", text)
		if err == nil {
			t.Errorf("%s: it was accepted", text)
			continue
		}
		if _, got, _ := strings.Cut(err.Error(), ": "); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	for _, text := range []string{`{{ a[0] }}`, `{{ a.0.b }}`, `{{ a["b"] }}`, `{{ a|default:"b" }}`, `{% if (a) %}{% endif %}`, `{% for s in a %}{{ forloop.counter }}{{ forloop.parentloop.counter }}{% endfor %}`} {
		if _, err := prompt.Parse("t", text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
