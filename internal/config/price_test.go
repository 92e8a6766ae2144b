package config

import (
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/yaml"
)

// MO-40: settings have prices of their own, in the configuration file or in another one, and the rest stays as it is built in.
func TestPricesCanBeSet(t *testing.T) {
	builtIn, err := os.ReadFile("../../adapter/price/prices.json") // is one that could be set
	if err != nil {
		t.Fatal(err)
	}
	r := &yaml.Reader{File: "prices.json"}
	if rows := readPriceFile(r, string(builtIn)); r.NumProblems() > 0 || len(rows) < 50 {
		t.Errorf("%d rows, %v", len(rows), r.Err())
	}
	row := `"openai:gpt-5*, local:*": {input: 1, cached: 0, output: 2.5, long: {over: 1000, input: 2, output: 5}}`
	check := func(t *testing.T, c *Config) {
		t.Helper()
		find, err := c.Prices()
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := find("local", "llama"); !ok || p.Input != 1 || p.Cached != 0 || p.Output != 2.5 || p.Over != 1000 || p.Long.Reasoning != 5 {
			t.Errorf("%+v", p)
		}
		if p, _ := find("openai", "gpt-5.1"); p.Input != 1 {
			t.Errorf("%+v", p)
		}
		if p, _ := find("openai", "gpt-4o"); p.Input != 2.5 {
			t.Errorf("%+v", p)
		}
	}
	t.Run("here", func(t *testing.T) { check(t, mustLoad(t, "prices:\n  "+row+"\n", nil)) })
	for name, text := range map[string]string{
		"YAML": "date: 2026-11-24\nprices:\n  " + row + "\n",
		"JSON": `{"date": "2026-11-24", "prices": {"openai:gpt-5*, local:*": {"input": 1, "cached": 0, "output": 2.5, "long": {"over": 1000, "input": 2, "output": 5}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("my-prices", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(parseFlags(t, "--prices", "my-prices"), nil)
			if err != nil {
				t.Fatal(err)
			}
			check(t, c)
		})
	}
	find, err := mustLoad(t, "", nil).Prices()
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := find("openai", "gpt-5.1"); !ok || p.Input != 1.25 {
		t.Errorf("what is built in: %+v", p)
	}
	if find, err = mustLoad(t, "", []string{"OPENAI_BASE_URL=http://127.0.0.1:8000/v1"}).Prices(); err != nil {
		t.Fatal(err)
	}
	if p, ok := find("openai", "gpt-5.1"); ok {
		t.Errorf("of a server that is not OpenAI's: %+v", p)
	}
}

// MO-40: a mistake says where it stands and what was expected, before any model is asked.
func TestAMistakeInAPriceSaysWhereAndWhat(t *testing.T) {
	for text, want := range map[string]string{
		"prices:\n  gpt-5: {input: 1, output: 2}":                                          `lingserve.yaml:2:3: prices: "gpt-5" is no model; expected PROVIDER:NAME, such as openai:gpt-5 or openai:gpt-5*`,
		"prices:\n  \"a:b\": {inptu: 1, output: 2}":                                        `lingserve.yaml:2:11: unknown field "inptu", did you mean "input"? expected input, cached, cache_write, output, reasoning and long`,
		"prices:\n  \"a:b\": {output: 2}":                                                  `lingserve.yaml:2:3: prices.a:b: has no input`,
		"prices:\n  \"a:b\": {input: 1, output: cheap}":                                    `lingserve.yaml:2:29: prices.a:b.output: expected dollars for a million tokens (such as 1.25), from 0 to 10000`,
		"prices:\n  \"a:b\": {input: -1, output: 2}":                                       `lingserve.yaml:2:18: prices.a:b.input: expected dollars for a million tokens (such as 1.25), from 0 to 10000`,
		"prices:\n  \"a:b\": 3":                                                            `lingserve.yaml:2:3: prices.a:b: expected the prices of its tokens, such as {input: 1.25, cached: 0.125, output: 10}`,
		"prices:\n  \"a:b\": {input: 1, output: 2, long: {input: 2, output: 3}}":           `lingserve.yaml:2:32: prices.a:b.long: has no over`,
		"prices:\n  \"a:b\": {input: 1, output: 2, over: 3}":                               `lingserve.yaml:2:32: unknown field "over"; expected input, cached, cache_write, output, reasoning and long`,
		"prices:\n  \"a:b\": {input: 1, output: 2}\n  \"a:b, a:c\": {input: 1, output: 2}": `lingserve.yaml:2:3: prices: "a:b" has two prices; remove one`,
		"prices: [1]":              `lingserve.yaml:1:9: prices: found a list; expected text`,
		"prices: not-there.yaml":   `lingserve.yaml:1: prices: cannot read the file: not-there.yaml: no such file or directory`,
		"limit: {cost: {run: -1}}": `lingserve.yaml:1:21: limit.cost.run: -1 is too small; expected at least 0`,
		"limit: {cost: {rum: 1}}":  `lingserve.yaml:1:16: limit.cost.rum: unknown setting; did you mean limit.cost.run?`,
	} {
		c, err := load(t, text+"\n", nil)
		if err == nil {
			_, err = c.Prices()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got  %v\n want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"":          `my-prices: prices are missing; expected "prices:" with one model per line, such as "openai:gpt-5": {input: 1.25, cached: 0.125, output: 10}`,
		"- 1":       `my-prices:1:1: expected a mapping with date and prices, got a list`,
		"prices: 3": `my-prices:1:9: prices: found a number; expected one model per line, such as "openai:gpt-5": {input: 1.25, cached: 0.125, output: 10}`,
		"a: 1":      `my-prices:1:1: unknown field "a"; expected date and prices`,
		"{":         `my-prices:1:2: invalid YAML`,
		"prices:\n  \"a:b\": {input: x, output: 2}": `my-prices:2:18: prices.a:b.input: expected dollars for a million tokens (such as 1.25), from 0 to 10000`,
	} {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("my-prices", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(parseFlags(t, "--prices", "my-prices"), nil)
		if err == nil {
			_, err = c.Prices()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\n got  %v\n want %s", text, err, want)
		}
	}
}
