package yaml

import (
	"testing"
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
