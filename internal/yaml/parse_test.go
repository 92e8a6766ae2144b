package yaml

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestYAMLIsReadAsItIsWritten(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"scalars", "a: 1\nb: 1.50\nc: true\nd: null\ne: ~\nf:\ng: yes\nh: 0x10\ni: 1_000\nj: 'it''s'\nk: \"\\u00e9\\n\"", `{"a":1,"b":1.50,"c":true,"d":null,"e":null,"f":null,"g":"yes","h":16,"i":1000,"j":"it's","k":"é\n"}`},
		{"blocks", "a: |\n  x\n   y\nb: >-\n  p\n  q\n", `{"a":"x\n y\n","b":"p q"}`},
		{"JSON", `{"a": [1, {"b": "\u0041"}], "c": {}}`, `{"a":[1,{"b":"A"}],"c":{}}`},
		{"keys that are no text", "1: a\ntrue: b\n2.5: c\non: d", `{"1":"a","true":"b","2.5":"c","on":"d"}`},
		{"aliases", "a: &x {b: [1]}\nc: *x\nd: [*x, *x]", `{"a":{"b":[1]},"c":{"b":[1]},"d":[{"b":[1]},{"b":[1]}]}`},
		{"a tag for text", "a: !!str 12", `{"a":"12"}`},
		{"colons in lists inside of braces", "{m: [openai:gpt-4o, ollama:qwen3:8b, x: y, a:5]}", `{"m":["openai:gpt-4o","ollama:qwen3:8b",{"x":"y"},"a:5"]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Reader{Aliases: true}
			n := r.Parse(test.yaml)
			if n == nil {
				t.Fatal(r.Err())
			}
			if got := string(n.AppendJSON(nil)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestProblemsHaveTheirPlaceAndPath(t *testing.T) {
	for _, test := range []struct {
		name, text string
		aliases    bool
		want       string
	}{
		{"a key twice", "a: 1\nb: {c: 1, d: 2, c: 3}\na: 2", false, "f:2:17: b.c: occurs twice, first in line 2; remove one\nf:3:1: a: occurs twice, first in line 1; remove one"},
		{"merge keys", "a: {b: {<<: {c: 1}}}", true, "f:1:9: a.b: merge keys (<<) are not supported; write out the members"},
		{"keys that are lists", "[a]: b", false, "f:1:1: expected a text key"},
		{"aliases", "a: &x 1\nb: *x\nc: !!str 1", false, "f:1:4: a: anchors, aliases and tags are not supported; write the value itself\n" +
			"f:2:4: b: anchors, aliases and tags are not supported; write the value itself\n" +
			"f:3:4: c: anchors, aliases and tags are not supported; write the value itself"},
		{"an alias inside of its anchor", "a: &a [*a]", true, "f:1:8: a: *a refers to itself; remove it"},
		{"an alias of nothing", "a: *x", true, "f:1:4: YAML reads * as the start of an alias; put a text in quotes, or define the anchor before it"},
		{"tags", "a: !x 1", true, "f:1:4: a: the tag !x is not supported; remove it"},
		{"documents", "a: 1\n---\nb: 1", false, "f:3:1: a second document starts here; expected only one"},
		{"infinity", "a: [1, .inf]", false, "f:1:8: a: infinity and not-a-number are not supported; expected a number"},
		{"no UTF-8", "a: \ufffd\nb: \xff", false, "f:2:1: the file is not UTF-8 text; save it as UTF-8"},
		{"other line ends", "\ufeffa: 1\r\nb: 1\rb: 2", false, "f:3:1: b: occurs twice, first in line 2; remove one"},
		{"a key with a dot", "a.b: {\"\": {c: 1, c: 2}}", false, `f:1:18: "a.b"."".c: occurs twice, first in line 1; remove one`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Reader{File: "f", Aliases: test.aliases}
			r.Parse(test.text)
			if err := r.Err(); err == nil || err.Error() != test.want {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// Hostile text is refused in a moment, whoever reads it. Its other half is in package flow, which allows aliases.
func TestHostileTextIsRefusedQuickly(t *testing.T) {
	indented := ""
	for i := range 100 {
		indented += strings.Repeat(" ", i) + "a:\n"
	}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 15000), "braces": strings.Repeat("{a: ", 5000), "dashes": strings.Repeat("- ", 15000),
		"question marks": strings.Repeat("? ", 15000), "colons": strings.Repeat("a: ", 5000), "anchors": strings.Repeat("&a ", 5000),
		"tags": strings.Repeat("!a ", 5000), "indentation": indented, "words": strings.Repeat("- a\n", 60000), "bytes": strings.Repeat("#", MaxBytes+1),
		"texts that aliases multiply": "a: &a '" + strings.Repeat("x", 200_000) + "'\nb: [" + strings.Repeat("*a, ", 2000) + "1]",
		"keys that aliases multiply":  "a: &a {" + strings.Repeat("x", 200_000) + ": 1}\nb: [" + strings.Repeat("*a, ", 2000) + "1]",
		"keys that occur twice":       strings.Repeat(strings.Repeat("x", 50)+": 1\n", 4000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, aliases := range []bool{false, true} {
				r := Reader{Aliases: aliases}
				if r.Parse(text); len(r.Problems()) == 0 || len(r.Problems()) > maxProblems+1 {
					t.Errorf("it was taken, with %d problems", len(r.Problems()))
				}
			}
		})
	}
}

func TestValuesHaveTheirTypes(t *testing.T) {
	r := Reader{File: "f"}
	root := r.Parse("name: 5\nnmae: x\nlabel: y\nlist: [a, 1, [b]]\nint: 1.5\nfar: 11\nbool: yes\ntime: 2d\ngood: {int: 3, bool: true, time: 90s, list: one, float: 1.5}\nrest: 7\n")
	if root == nil {
		t.Fatal(r.Err())
	}
	f := r.Fields(root, "", "name", "list", "int", "far", "bool", "time", "good", "rest")
	r.Text(f["name"], "name")
	r.Texts(f["list"], "list", func(_ *Node, text string) {
		if text != "a" {
			t.Errorf("got %q", text)
		}
	})
	r.Int(f["int"], "int", 1, 10)
	r.Int(f["far"], "far", 1, 10)
	r.Bool(f["bool"], "bool")
	r.Duration(f["time"], "time", time.Second, 24*time.Hour)
	r.Fields(f["rest"], "rest", "a", "b")
	good := f["good"]
	i, ok := r.Int(good.Get("int"), "", 1, 10)
	d, isTime := r.Duration(good.Get("time"), "", time.Second, time.Hour)
	float, isFloat := good.Get("float").Float()
	if !ok || i != 3 || !r.Bool(good.Get("bool"), "") || !isTime || d != 90*time.Second || !isFloat || float != 1.5 {
		t.Errorf("got %d, %s, %g", i, d, float)
	}
	if _, ok := r.Text(good.Get("none"), ""); ok || r.Bool(nil, "") {
		t.Error("there is a value where none is")
	}
	const known = "expected name, list, int, far, bool, time, good and rest"
	want := "f:1:7: name: 5 is not text; put the value in quotes\n" +
		"f:2:1: unknown field \"nmae\", did you mean \"name\"? " + known + "\n" +
		"f:3:1: unknown field \"label\"; " + known + "\n" +
		"f:4:11: list: 1 is not text; put the value in quotes\n" +
		"f:4:14: list: expected text, got a list\n" +
		"f:5:6: int: expected a whole number, got 1.5\n" +
		"f:6:6: far: expected 1 to 10, got 11\n" +
		"f:7:7: bool: expected true or false, got text\n" +
		"f:8:7: time: expected a duration from 1s to 24h, such as 90s or 5m, got \"2d\"\n" +
		"f:10:7: rest: expected a mapping with a and b, got a number"
	if diff := cmp.Diff(want, r.Err().Error()); diff != "" {
		t.Error(diff)
	}
}

// A file with very many mistakes names the first ones, in the order of the file and those of other files behind them.
func TestProblemsAreSortedAndBounded(t *testing.T) {
	r := Reader{File: "b"}
	r.Add(&Error{File: "a", Line: 1, Message: "x"})
	for i := range 60 {
		r.Errorf(&Node{Line: 60 - i/2, Column: 1}, "", "y")
	}
	all := r.Problems()
	if len(all) != 31 || all[0].Line != 31 || all[30].File != "a" {
		t.Errorf("%d problems, %v first, %v last", len(all), all[0], all[len(all)-1])
	}
	for i := range 60 {
		r.Errorf(&Node{Line: i + 1, Column: 2}, "", "z")
	}
	if all = r.Problems(); len(all) != 51 || all[50].Error() != "b: and 41 more problems" {
		t.Errorf("%d problems, %v last", len(all), all[len(all)-1])
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "a: &x [1]\nb: *x", "a: !!str 1", "? a\n: b", "a: |2\n   x", "{m: [a:b, c: d]}", "\ufeffa: \"\\x41\"", "a: 'b\x00'", "a: 1\na: 2", "<<: {a: 1}",
		"---\n...\n---", "- - -", "a: \"", "a: >-\n  b\n  c", "\"a\nb\": 1", "1e999: .nan", "a: 0x1p2", "* 0\n\n0",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, aliases bool) {
		watchdog := time.AfterFunc(5*time.Minute, func() { panic("still reading " + strconv.Quote(text)) })
		defer watchdog.Stop()
		r := Reader{File: "f", Aliases: aliases}
		n := r.Parse(text)
		if n == nil && r.NumProblems() == 0 {
			t.Fatal("no tree and no problem")
		}
		for _, e := range r.Problems() {
			if e.File != "f" || e.Line < 0 || e.Line > 1+strings.Count(text, "\n")+strings.Count(text, "\r") || e.Line > 0 && e.Column < 1 || strings.Contains(e.Error(), "\n") {
				t.Errorf("a problem at no place: %#v", e)
			}
		}
		if n != nil && !json.Valid(n.AppendJSON(nil)) {
			t.Errorf("no JSON: %s", n.AppendJSON(nil))
		}
	})
}
