package price_test

import (
	"regexp"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/price"
)

// MO-40: well-known models have a price, their dated versions too, and it is as of a date.
func TestWellKnownModelsHaveAPrice(t *testing.T) {
	table := price.Default()
	if !regexp.MustCompile(`^20\d\d-\d\d-\d\d$`).MatchString(table.Date) {
		t.Errorf("the date is %q", table.Date)
	}
	for _, row := range []struct {
		provider, model string
		input, output   float64 // 0: it has no price
	}{
		{"openai", "gpt-4o-mini", 0.15, 0.60},
		{"openai", "gpt-4o-mini-2024-07-18", 0.15, 0.60},
		{"openai", "gpt-5-nano-2025-08-07", 0.05, 0.40},
		{"openai", "gpt-5-of-our-own", 0, 0},
		{"anthropic", "claude-opus-4-5", 5, 25},
		{"anthropic", "claude-opus-4-5-20251101", 5, 25},
		{"anthropic", "claude-opus-4-20250514", 15, 75},
		{"anthropic", "claude-opus-5-5", 4, 20},
		{"bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0", 1, 5},
		{"bedrock", "anthropic.claude-opus-4-20250514-v1:0", 15, 75},
		{"bedrock", "eu.anthropic.claude-opus-5-5", 4, 20},
		{"vertex", "claude-sonnet-4-5@20250929", 3, 15},
		{"gemini", "gemini-3.1-pro-preview", 2, 12},
		{"gemini", "gemini-2.5-flash-001", 0.3, 2.5},
		{"mistral", "mistral-small-latest", 0.1, 0.3},
		{"mistral", "mistral-medium-2505", 0.4, 2},
		{"xai", "grok-4-1-fast-non-reasoning", 0.2, 0.5},
		{"xai", "grok-4-0709", 3, 15},
		{"deepseek", "deepseek-flash", 0.3, 1.2},
		{"ollama", "gpt-5", 0, 0},
		{"demo", "demo", 0, 0},
	} {
		p, ok := table.Find(row.provider, row.model)
		if ok != (row.input != 0) || p.Input != row.input || p.Output != row.output {
			t.Errorf("%s:%s costs %+v, %v; expected %v and %v", row.provider, row.model, p, ok, row.input, row.output)
		}
	}
}

// MO-40: a row is for a name, its versions, or all that a pattern means; the most specific one counts.
func TestTheMostSpecificRowCounts(t *testing.T) {
	own, err := price.New(map[string]price.Row{
		"openai:gpt-5*":                   {Input: 1, Output: 2},
		"openai:gpt-5-mini, local:llama*": {Input: 3, Cached: new(0.0), Output: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		provider, model string
		input           float64
	}{
		{"openai", "gpt-5.1", 1}, {"openai", "gpt-5-mini", 3}, {"openai", "gpt-5-mini-2025-08-07", 3}, {"local", "llama-4:8b", 3},
	} {
		if p, _ := own.Find(row.provider, row.model); p.Input != row.input {
			t.Errorf("%s:%s: %+v; expected an input of %v", row.provider, row.model, p, row.input)
		}
	}
	if p, _ := own.Find("local", "llama"); p.Cached != 0 || p.CacheWrite != 3 || p.Reasoning != 4 {
		t.Errorf("what is not said is not as input and output: %+v", p)
	}
	for _, name := range []string{"gpt-5", "openai:", ":x", "openai:gpt-5,"} {
		if _, err := price.New(map[string]price.Row{name: {}}); err == nil {
			t.Errorf("%q is taken for a model", name)
		}
	}
}

// MO-40: a cost is exact, whatever its parts, and rounded up once.
func TestACostIsCountedExactly(t *testing.T) {
	p := adapter.Price{Input: 0.15, Cached: 0.075, CacheWrite: 0.1875, Output: 0.6, Reasoning: 0.6, Over: 1000, Long: &adapter.Price{Input: 1, Cached: 1, CacheWrite: 1, Output: 1, Reasoning: 1}}
	for name, row := range map[string]struct {
		used adapter.Usage
		want int64
	}{
		"nothing":          {adapter.Usage{}, 0},
		"one token":        {adapter.Usage{PromptTokens: 1}, 1},                                                                                            // 0.15
		"seven":            {adapter.Usage{PromptTokens: 7}, 2},                                                                                            // 1.05
		"all kinds":        {adapter.Usage{PromptTokens: 1000, CachedTokens: 400, CacheWriteTokens: 200, CompletionTokens: 100, ReasoningTokens: 60}, 188}, // 60+30+37.5+60 = 187.5
		"a long one":       {adapter.Usage{PromptTokens: 1001, CompletionTokens: 9}, 1010},
		"more cached":      {adapter.Usage{PromptTokens: 10, CachedTokens: 100}, 1}, // 0.75
		"less than none":   {adapter.Usage{PromptTokens: -5, CompletionTokens: -1, CachedTokens: -7, ReasoningTokens: -2}, 0},
		"no honest number": {adapter.Usage{PromptTokens: 1 << 50}, 100_000_000},
	} {
		if got := p.Cost(row.used); got != row.want {
			t.Errorf("%s costs %d, expected %d", name, got, row.want)
		}
	}
	most := adapter.Price{Input: adapter.MaxRate, Cached: adapter.MaxRate, CacheWrite: adapter.MaxRate, Output: adapter.MaxRate, Reasoning: adapter.MaxRate}
	if got := most.Cost(adapter.Usage{PromptTokens: 1 << 62, CompletionTokens: 1 << 62}); got != 2*100_000_000*adapter.MaxRate {
		t.Errorf("the dearest answer costs %d", got)
	}
}
