package prompt

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
)

var data = map[string]any{
	"name": "Ada",
	"input": map[string]any{
		"question": "Why is the sky blue?",
		"count":    3,
		"ratio":    2.5,
		"ok":       true,
		"none":     nil,
		"tags":     []string{"b", "a"},
		"quoted":   `"'<>&`,
	},
	"result": json.RawMessage(`{"title":"Sky","price":1.10,"big":12345678901234567890,"huge":1e400,"n":7,"f":0.5,
		"list":[{"t":"x","n":2.50},{"t":"y","n":10}],"map":{"z":1,"a":2},"null":null,"empty":[],"deep":{"a":{"b":"c"}}}`),
}

func render(t *testing.T, text string) string {
	t.Helper()
	tpl, err := Parse("test", text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tpl.Render(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// BO-02
func TestATemplateRendersWhatItsAuthorMeans(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain text", "Be brief.\nAlways.", "Be brief.\nAlways."},
		{"empty", "", ""},
		{"variable", "Hello {{ name }}!", "Hello Ada!"},
		{"path", "{{ input.question }}", "Why is the sky blue?"},
		{"index", "{{ input.tags.0 }} {{ result.list.1.t }}", "b y"},
		{"subscript", `{{ input["question"] }} {{ result.list[0]|json }}`, `Why is the sky blue? {"n":2.5,"t":"x"}`},
		{"integer", "{{ input.count }} {{ result.n }} {{ 42 }} {{ -3 }}", "3 7 42 -3"},
		{"floats are not 1.500000", "{{ input.ratio }} {{ result.f }} {{ 1.5 }} {{ 3 * 0.5 }}", "2.5 0.5 1.5 1.5"},
		{"large numbers keep their digits", "{{ result.price }} {{ result.big }} {{ result.huge }}", "1.1 12345678901234567890 1e400"},
		{"decimal fractions", "{% if result.price > 1 and result.price < 1.2 %}{{ result.price + 1 }}{% endif %}", "2.1"},
		{"numbers compare", "{% if input.ratio == 2.5 and result.f < 1 and result.n == 7 %}yes{% endif %}", "yes"},
		{"numbers join text", `{{ "a"|add:result.f|add:result.n|add:result.price }}`, "a0.571.1"},
		{"bool", "{{ input.ok }} {{ 1 == 2 }}", "true false"},
		{"null", "[{{ input.none }}{{ result.null }}]", "[]"},
		{"list and object", "{{ input.tags }} {{ result.map }}", `["b","a"] {"a":2,"z":1}`},
		{
			"json filter", "{{ result.list | json }} {{ name|json }} {{ result.price|json }} {{ result.null|json }} {{ 2|json }}",
			`[{"n":2.5,"t":"x"},{"n":10,"t":"y"}] "Ada" 1.1 null 2`,
		},
		{"json does not escape for HTML", `{{ input.quoted|json }}`, `"\"'<>&"`},
		{"loop", "{% for s in result.list %}{{ forloop.counter }}.{{ s.t }}{% if not forloop.last %}, {% endif %}{% endfor %}", "1.x, 2.y"},
		{"loop in a loop", "{% for a in input.tags %}{% for b in input.tags %}{{ forloop.parentloop.counter0 }}{{ b }} {% endfor %}{% endfor %}", "0b 0a 1b 1a "},
		{"loop over an object is in order", "{% for k, v in result.map %}{{ k }}={{ v }};{% endfor %}", "a=2;z=1;"},
		{"loop reversed", "{% for x in input.tags reversed %}{{ x }}{% endfor %}", "ab"},
		{"loop over characters", `{% for c in "añ" %}{{ c }}.{% endfor %}`, "a.ñ."},
		{"empty loop", "{% for x in result.empty %}x{% empty %}nothing{% endfor %}", "nothing"},
		{"if without the value", "{% if input.tone %}{{ input.tone }}{% else %}neutral{% endif %}", "neutral"},
		{"elif", "{% if nothing %}a{% elif input.count == 3 %}b{% endif %}", "b"},
		{"default", `{{ input.tone|default:"plain" }} {{ who|upper|default:"x" }}`, "plain x"},
		{"set in a loop is kept for the loop", `{% for x in input.tags %}{% set s = s|default:""|add:x %}{{ s }} {% endfor %}`, "b ba "},
		{"join", `{{ input.tags|join:", " }}`, "b, a"},
		{"floatformat", "{{ result.price|floatformat:3 }} {{ 2.0|floatformat }}", "1.100 2"},
		{"filters in a row", `{{ name|lower|capfirst|truncatechars:2 }}`, "Ad"},
		{"comment", "a{# {{ b }} #}b{% comment %}{{ c }} {% if %}{% endcomment %}c", "abc"},
		{"verbatim with other spaces", "{%verbatim -%}{{ name }}{% endverbatim%}", "{{ name }}"},
		{"verbatim", "{% verbatim %}{{ name }}{% endverbatim %}", "{{ name }}"},
		{"trimmed", "a \n {{- name -}} \n b {%- if name -%} c {%- endif -%} d", "aAdabcd"},
		{"trimmed loop", "a {%- for x in input.tags -%} {{ x }} {%- endfor -%} b", "abab"},
		{"trimmed set", "a {%- set x = 1 -%} b{{ x }}", "ab1"},
		{"braces that are text", "{ {a} }} %} {", "{ {a} }} %} {"},
		{"strings that look like the end", `{{ "}}" }}{{ "%}" }}`, "}}%}"},
		{"arithmetic", "{{ 1 + 2 * 3 }} {{ 7 % 4 }} {{ 2 ^ 3 }} {{ (1 + 2) * 3 }}", "7 3 8 9"},
		{"in", `{% if "sky" in input.question %}yes{% endif %}`, "yes"},
		{"windows line ends", "a\r\n{{ name }}\r\n", "a\r\nAda\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, render(t, c.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// SE-05
func TestNothingIsEscapedForHTML(t *testing.T) {
	want := `He said "it's <b>5 > 3</b> & more" "'<>& "'<>&`
	got := render(t, `He said "it's <b>5 > 3</b> & more" {{ input.quoted }} {% set q = input.quoted %}{{ q }}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// BO-03, FT-34: errors name template, line and column, of the text as its author wrote it.
func TestErrorsSayWhere(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unclosed variable", "a\n  {{ name", `test:2:3: the tag, variable or comment is not closed on its line`},
		{"unknown tag", "{% foo %}", `test:1:4: unknown tag "foo"; expected one of if, for, set, now, comment and verbatim`},
		{"unknown filter", "x {{ name|nope }}", `test:1:11: unknown filter "nope"`},
		{"unclosed block", "a {% if name %} b", `test:1:6: {% if %} is not closed`},
		{"wrong end", "{% if name %}{% endfor %}", `test:1:17: unexpected endfor`},
		{"stray end", "{% endif %}", `test:1:4: unexpected endif`},
		{"stray else", "{% else %}", `test:1:1: Tag 'else' not found (or beginning tag not provided)`},
		{"empty expression", "{{ }}", `test:1:1: expected an expression between the braces`},
		{"two expressions", "{{ name name }}", `test:1:9: unexpected "name" behind a value`},
		{"two expressions after a filter of ours", "{{ name|json name }}", `test:1:14: unexpected "name" behind a value`},
		{"operator without operand", "{{ 1 + }}", `test:1:1: Expected either a number, string, keyword or identifier`},
		{"newline in a tag", "{{ name\n}}", `test:1:1: the tag, variable or comment is not closed on its line`},
		{"comment over lines", "{# a\n#}", `test:1:1: the tag, variable or comment is not closed on its line`},
		{"strange character", "{{ name$ }}", `test:1:8: unexpected character '$' in a tag or variable`},
		{"wrong closer", "{{ name %}", `test:1:1: the tag, variable or comment is not closed on its line`},
		{"autoescape is ours", "{% autoescape on %}{% endautoescape %}", `test:1:4: unknown tag "autoescape"; expected one of if, for, set, now, comment and verbatim`},
		{"leaving our autoescape", "{% endautoescape %}", `test:1:4: unknown tag "endautoescape"; expected one of if, for, set, now, comment and verbatim`},
		{"unclosed verbatim", "{% verbatim %}", `test:1:4: {% verbatim %} is not closed`},
		{"member of a text", "{{ name.x }}", "test:1:1: can't access a field by name on type string (variable name.x)"},
		{"division by zero", "a\nb {{ 1/0 }}", `test: an expression cannot be evaluated`},
		{"filter", `{{ name }} {{ name|slice:"1" }}`, "test:1:1: Slice string must have the format 'from:to' [from/to can be omitted, but the ':' is required]"},
		{"minus text", "{{ -name }}", `test:1:1: Negative sign on a non-number expression`},
		{"loop over a number", "{% for x in input.count %}{% endfor %}", `test:1:1: for needs a list, an object or a text`},
		{"reserved name", "{{ pongo2.version }}", `test:1:4: the name pongo2 is reserved`},
		{"our own names", "{{ lingserve_run }}", `test:1:4: the name lingserve_run is reserved`},
		{"our own tags", "{% lingserve_print 0 name %}", `test:1:4: the name lingserve_print is reserved`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tpl, err := Parse("test", c.text)
			if err == nil {
				_, err = tpl.Render(nil, data)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("got %T %v", err, err)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// BO-03: what a workflow check needs to find a name that nobody supplies.
func TestVariablesListsWhatMustBeSupplied(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"none", "text {{ 1 }} {{ 'a' }}", nil},
		{"paths", "{{ b.c.0 }}{{ a }}{{ a }}", []string{"a", "b.c.0"}},
		{"conditions and arguments", "{% if a and not b.c %}{% elif d in e %}{% endif %}{{ f|default:g.h }}", []string{"a", "b.c", "d", "e", "f", "g.h"}},
		{"loop names", "{% for x in list %}{{ x.y }}{{ forloop.counter }}{% endfor %}{{ x }}", []string{"list", "x"}},
		{"two names", "{% for k, v in m %}{{ k }}{{ v }}{% endfor %}", []string{"m"}},
		{"reversed is no name", "{% for x in list.reversed reversed %}{% endfor %}", []string{"list.reversed"}},
		{"the list is outside of the loop", "{% for x in x %}{{ x }}{% endfor %}", []string{"x"}},
		{"set", "{{ a }}{% set a = b %}{{ a.c }}", []string{"a", "b"}},
		{"set in an if stays behind it", "{% if a %}{% set b = 1 %}{% else %}{% set b = 2 %}{% endif %}{{ b }}", []string{"a"}},
		{"subscripts", "{{ a[0] }}{{ f[g] }}", []string{"a", "f", "g"}},
		{"filters are no names", "{{ a|upper|add:b|json }}", []string{"a", "b"}},
		{"comments", "{# {{ a }} #}{% comment %}{{ b }}{% endcomment %}{% verbatim %}{{ c }}{% endverbatim %}", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tpl, err := Parse("test", c.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range tpl.Variables() {
				got = append(got, strings.Join(v.Path, "."))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// SE-02
func TestNoTemplateReadsAFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text string }{
		{"ssi", `{% ssi "FILE" %}`},
		{"ssi parsed", `{% ssi "FILE" parsed %}`},
		{"include", `{% include "FILE" %}`},
		{"include of a variable", `{% include file %}`},
		{"extends", `{% extends "FILE" %}`},
		{"import", `{% import "FILE" x %}`},
		{"relative", `{% include "../../../../../../../../FILE" %}`},
		{"inside a block tag", `{% if name %}{% ssi "FILE" %}{% endif %}`},
		{"inside a loop", `{% for x in input.tags %}{% include "FILE" %}{% endfor %}`},
		{"trimmed", `{%- ssi "FILE" -%}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tpl, err := Parse("test", strings.ReplaceAll(c.text, "FILE", secret))
			if err == nil {
				got, _ := tpl.Render(nil, map[string]any{"name": "x", "input": data["input"], "file": secret})
				t.Fatalf("it was accepted and gave %q", got)
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Fatal(err)
			}
		})
	}
}

// SE-02: the second lock, without the scanner.
func TestTheSetItselfRefusesWhatIsDangerous(t *testing.T) {
	for _, text := range []string{
		`{% ssi "/etc/hostname" %}`, `{% include "/etc/hostname" %}`, `{% extends "/etc/hostname" %}`, `{% import "/etc/hostname" a %}`,
		`{% macro f() %}{% endmacro %}`, `{% lorem 1000000 %}`, `{% block a %}{% endblock %}`,
	} {
		if _, err := templates.FromString(text); err == nil || !strings.Contains(err.Error(), "banned") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := templates.FromFile("/etc/hostname"); err == nil {
		t.Error("a file was read")
	}
}

type secretive struct{ Key string }

func (s secretive) Leak() string { return s.Key }

// SE-03
func TestOnlyPlainDataGetsIntoATemplate(t *testing.T) {
	tpl, err := Parse("test", "{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		value any
	}{
		{"struct", secretive{"sk-CANARY"}},
		{"pointer", &secretive{"sk-CANARY"}},
		{"func", func() string { return "sk-CANARY" }},
		{"chan", make(chan int)},
		{"struct in a map", map[string]any{"a": secretive{"sk-CANARY"}}},
		{"struct in a slice", []any{secretive{"sk-CANARY"}}},
		{"slice of structs", []secretive{{"sk-CANARY"}}},
		{"bytes", []byte("sk-CANARY")},
		{"map of other keys", map[int]string{1: "sk-CANARY"}},
		{"time", time.Now()},
		{"broken JSON", json.RawMessage(`{"a":`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := tpl.Render(nil, map[string]any{"x": c.value})
			if err == nil || strings.Contains(err.Error(), "CANARY") {
				t.Fatalf("%q, %v", got, err)
			}
		})
	}
}

// SE-03
func TestNothingCanBeCalled(t *testing.T) {
	for _, text := range []string{
		"{{ x.Leak() }}", "{{ x.String() }}", "{{ input.tags.Len() }}", "{{ result.price.MarshalJSON() }}", "{{ x() }}", "{{ x[0]() }}",
		"{% if x.Leak() %}{% endif %}", "{{ result.price.String }}", "{{ forloop.Parentloop() }}",
	} {
		tpl, err := Parse("test", text)
		if err == nil {
			var got string
			if got, err = tpl.Render(nil, data); err == nil {
				t.Errorf("%s gave %q", text, got)
			}
		}
	}
}

// SE-04: in a child process, since what this is about cannot be recovered from.
func TestHostileTemplatesDoNotBringTheProcessDown(t *testing.T) {
	if os.Getenv("PROMPT_HOSTILE") == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileTemplatesDoNotBringTheProcessDown$", "-test.v")
		c.Env = append(os.Environ(), "PROMPT_HOSTILE=1", "GOMEMLIMIT=512MiB")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "all refused") {
			t.Fatalf("%v\n%.4000s", err, out)
		}
		return
	}
	many := make([]any, 3000)
	for i := range many {
		many[i] = "x"
	}
	vars := map[string]any{"many": many, "long": strings.Repeat(`\`, 1<<20), "a": "x"}
	for name, text := range map[string]string{
		"recursive macro":    `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
		"a million (":        "{{ " + strings.Repeat("(", 1_000_000) + "1" + strings.Repeat(")", 1_000_000) + " }}",
		"64 KiB of (":        "{{ " + strings.Repeat("(", 32_000) + "1" + strings.Repeat(")", 32_000) + " }}",
		"64 KiB of [":        "{{ a" + strings.Repeat("[a", 20_000) + strings.Repeat("]", 20_000) + " }}",
		"64 KiB of not":      "{{ " + strings.Repeat("not ", 16_000) + "1 }}",
		"64 KiB of ^":        "{{ 1" + strings.Repeat("^1", 30_000) + " }}",
		"64 KiB of and":      "{{ 1" + strings.Repeat(" and 1", 10_000) + " }}",
		"64 KiB of ==":       "{{ 1" + strings.Repeat("==1", 20_000) + " }}",
		"64 KiB of if":       strings.Repeat("{% if 1 %}", 3200) + strings.Repeat("{% endif %}", 2800),
		"unclosed comment":   "{% comment %}{% endcomment x %}",
		"center":             `{{ "a"|center:200000000 }}`,
		"stringformat":       `{{ "a"|stringformat:"%1000000d%1000000d" }}`,
		"floatformat":        `{{ 1.5|floatformat:1000000000 }}`,
		"lorem":              `{% lorem 100000000 w %}`,
		"doubling":           `{% set a = "x" %}` + strings.Repeat("{% set a = a+a %}", 3000),
		"doubling by add":    `{% set a = "x" %}{% for x in many %}{% set a = a|add:a %}{% endfor %}`,
		"doubling by escape": `{{ long|addslashes|addslashes|addslashes|addslashes|addslashes|addslashes|addslashes|addslashes|addslashes }}`,
		"join":               `{{ many|join:long }}`,
		"many +":             "{{ long" + strings.Repeat("+long", 5000) + " }}",
		"loops without end":  strings.Repeat("{% for x in many %}", 8) + strings.Repeat("{% endfor %}", 8),
		"loops with output":  strings.Repeat("{% for x in many %}", 8) + "text" + strings.Repeat("{% endfor %}", 8),
		"loops in a filter":  "{% filter upper %}" + strings.Repeat("{% for x in many %}", 8) + "text" + strings.Repeat("{% endfor %}", 8) + "{% endfilter %}",
		"quadratic HTML":     `{{ long|truncatewords_html:3 }}`,
		"end of text in it":  "a\x01{{ nothing",
		"1/0":                "{{ 1/0 }}",
		"too long":           strings.Repeat("x", maxTemplate+1),
		"index out of range": `{{ "abc"|truncatechars:"-5" }}`,
		"sorted text":        `{% for c in 5 sorted %}{% endfor %}`,
	} {
		tpl, err := Parse(name, text)
		if err == nil {
			tpl.time = 100 * time.Millisecond
			_, err = tpl.Render(nil, vars)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
	t.Log("all refused")
}

// pongo2 keeps state in its nodes in places; one template is rendered by many bots at once.
func TestATemplateRendersConcurrently(t *testing.T) {
	tpl, err := Parse("test", `{% for s in result.list %}{{ forloop.counter }}{{ s.n }}{% set q = s.t %}{{ q|upper }}{% endfor %}{{ result.price }}`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := tpl.Render(nil, data)
				if err != nil || got != "12.5X210Y1.1" {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestNamesThatNoTemplateCanReadAreLeftAlone(t *testing.T) {
	tpl, err := Parse("test", "{{ a }}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tpl.Render(nil, map[string]any{"a": 1, "b-c": 2, "": 3, "d": secretive{}})
	if err != nil || got != "1" {
		t.Fatalf("%q, %v", got, err)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"{{ a.b|json }} {% for x in a.c sorted %}{{ x|add:1 }}{% empty %}-{% endfor %}", "{% if a %}{{ 1/0 }}{% elif b %}{% else %}{% endif %}",
		"{# a #}{% comment %}{% endcomment %}{% verbatim %}{{{% endverbatim %}",
		`{% set q = "a\"b" %}{{ q|slice:"1:" }}`, "{% comment %}{% endcomment x %}", "a\x01b", "{{ a.c.0.d }}", "{{[]}}", `{{ a["c"] }}`, "{ {a} }} %} {",
		"{% now \"2006\" %}",
	} {
		f.Add(text)
	}
	vars := map[string]any{"a": map[string]any{"b": 1.5, "c": []any{"x", 2, nil, map[string]any{"d": "e"}}}, "b": "text"}
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := Parse("fuzz", text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		tpl.Variables()
		tpl.time = time.Second
		start := time.Now()
		if _, err := tpl.Render(nil, vars); err != nil {
			checkError(t, text, err)
		}
		longtest.Within(t, "rendering", time.Since(start), 5*time.Second)
	})
}

// checkError holds an error to its form: of this package, with a place inside of the text.
func checkError(t *testing.T, text string, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Message == "" || strings.Contains(e.Message, prefix) && !strings.Contains(text, prefix) {
		t.Fatalf("%T %v", err, err)
	}
	if lines := strings.Split(text, "\n"); e.Line > len(lines) || e.Line > 0 && e.Column > len(lines[e.Line-1])+1 {
		t.Fatalf("%v is outside of the text", err)
	}
}

func TestEveryFilterThatIsListedCanBeUsed(t *testing.T) {
	for name := range filters {
		for _, text := range []string{`{{ x|` + name + ` }}`, `{{ x|` + name + `:"2" }}`, `{% if x|` + name + `:1 %}{% endif %}`, `{% for y in x|` + name + ` %}{{ y }}{% endfor %}`} {
			if _, err := Parse("test", text); err != nil {
				t.Error(err)
			}
		}
	}
}

// SE-04: what is supplied is bounded, too.
func TestTheDepthOfSuppliedValuesIsBounded(t *testing.T) {
	tpl, err := Parse("test", "{{ x|length }}")
	if err != nil {
		t.Fatal(err)
	}
	deep := any("x")
	for range maxNesting + 1 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name  string
		value any
	}{
		{"deep", deep},
		{"deep JSON", json.RawMessage(strings.Repeat("[", 2*maxNesting) + strings.Repeat("]", 2*maxNesting))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := tpl.Render(nil, map[string]any{"x": c.value}); err == nil {
				t.Errorf("gave %s", got)
			}
		})
	}
}

func TestValuesOfGoProgramsRenderAsJSONDoes(t *testing.T) {
	type text string
	tpl, err := Parse("test", "{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"named string", text("a"), "a"},
		{"int8", int8(-3), "-3"},
		{"uint64 beyond int", uint64(1) << 63, "9223372036854775808"},
		{"float32", float32(0.5), "0.5"},
		{"large float", 1e21, "1e+21"},
		{"small float", 1e-7, "1e-7"},
		{"json.Number", json.Number("1.5"), "1.5"},
		{"map of strings", map[text]string{"k": "v"}, `{"k":"v"}`},
		{"slice of floats", []float64{1, 2.5}, "[1,2.5]"},
		{"array", [2]bool{true, false}, "[true,false]"},
		{"nested", map[string]any{"a": []any{json.RawMessage(`{"n":1.50}`)}}, `{"a":[{"n":1.5}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := tpl.Render(nil, map[string]any{"x": c.value}); err != nil || got != c.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// DS-04: many renderings share one time.
func TestABudgetBoundsRenderingsTogether(t *testing.T) {
	loops := strings.Repeat("{% for a in l %}", 8) + "x" + strings.Repeat("{% endfor %}", 8)
	long, err := Parse("t", "{% if l %}"+loops+"{% endif %}")
	if err != nil {
		t.Fatal(err)
	}
	condition, err := Parse("t", "{% if l %}x{% endif %}")
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]any{"l": make([]any, 1000)}
	budget := NewBudget(time.Millisecond)
	const want = "the templates of this run took longer than 1ms together"
	for range 3 {
		if _, err := long.Render(budget, vars); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	if _, _, err := condition.Test(budget, vars); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a condition: got %v", err)
	}
	if _, err := condition.Render(nil, vars); err != nil {
		t.Errorf("without a budget: %v", err)
	}
}

func TestWhatIsMissingIsEmpty(t *testing.T) {
	for text, want := range map[string]string{
		"{{ nobody }}{{ input.tone.warm }}{% for s in result.list %}{{ s.x }}{% endfor %}{{ input.tags.7 }}.": ".",
		"{{ name.x }}": "test:1:1: can't access a field by name on type string (variable name.x)",
	} {
		tpl, err := Parse("test", text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tpl.Render(nil, data)
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
