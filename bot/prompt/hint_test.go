package prompt_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/bot/prompt"
)

// DN-15: what other template languages write is answered with how it is written here.
func TestWhatOtherLanguagesWriteIsExplained(t *testing.T) {
	for text, want := range map[string]string{
		`{{ result.steps[0].title }}`:                     `elements of lists follow a dot: write result.steps.0.title`,
		`{{ result.steps.[0].title }}`:                    `elements of lists follow a dot: write result.steps.0.title`,
		`{% if a.steps[10].b.c == 1 %}{% endif %}`:        `elements of lists follow a dot: write a.steps.10.b.c`,
		`{% for s in a["b"].c %}{% endfor %}`:             `elements of lists follow a dot: write a.b.c`,
		`{{ a[b].c }}`:                                    `nothing can follow a computed element; name it first: {% with step=steps[i] %}{{ step.title }}{% endwith %}`,
		`{{ a|tojson }}`:                                  `unknown filter "tojson", did you mean "json"?`,
		`{{ a|size }}`:                                    `unknown filter "size", did you mean "length"?`,
		`{{ a|uper }}`:                                    `unknown filter "uper", did you mean "upper"?`,
		`{{ a|nope }}`:                                    `unknown filter "nope"`,
		`{{ a|default('b') }}`:                            `the argument of a filter follows a colon: write default:'b'`,
		`{{ a|default("b c")|upper }}`:                    `the argument of a filter follows a colon: write default:"b c"`,
		`{{ a|default "b" }}`:                             `the argument of a filter follows a colon: default:"b"`,
		`{% if a|default(0) > 1 %}{% endif %}`:            `the argument of a filter follows a colon: write default:0`,
		`{{ a|length() }}`:                                `a filter without an argument has no brackets: write length`,
		`{{ a.items() }}`:                                 `templates cannot call functions`,
		`{% for s in a %}{{ forloop.index }}{% endfor %}`: `forloop has no "index"; write forloop.counter, which counts in a {% for %}`,
		`{% if a %}{% elsif b %}{% endif %}`:              `unknown tag "elsif", did you mean "elif"?`,
		`{% if a %}{% else if b %}{% endif %}`:            `write elif in place of else if`,
		`{% fr s in a %}`:                                 `unknown tag "fr"`,
	} {
		_, err := prompt.Parse("t", text)
		if err == nil {
			t.Errorf("%s: it was taken", text)
			continue
		}
		if _, got, _ := strings.Cut(err.Error(), ": "); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	for _, text := range []string{`{{ a[0] }}`, `{{ a.0.b }}`, `{{ a[b] }}`, `{{ a|default:"b" }}`, `{% if (a) %}{% endif %}`, `{% for s in a %}{{ forloop.counter }}{{ forloop.parentloop.counter }}{% endfor %}`} {
		if _, err := prompt.Parse("t", text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
