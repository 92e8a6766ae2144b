package wire

import (
	"cmp"
	"math"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
)

// OpenAIUsage reads the counts of tokens and the cost, as OpenAI's APIs have them, and those that put them in other places. in and
// out are how the API calls them: "prompt" and "completion", or "input" and "output".
func OpenAIUsage(raw []byte, in, out string) *adapter.Usage {
	count := func(path ...string) int {
		n, err := jsonparser.GetInt(raw, path...)
		if err != nil || n < 0 || n > 1<<50 {
			return 0
		}
		return int(n)
	}
	prompt, completion := in+"_tokens_details", out+"_tokens_details"
	u := &adapter.Usage{
		PromptTokens: count(in + "_tokens"), CompletionTokens: count(out + "_tokens"), TotalTokens: count("total_tokens"),
		// The second is DeepSeek's, the third Moonshot's.
		CachedTokens: cmp.Or(count(prompt, "cached_tokens"), count("prompt_cache_hit_tokens"), count("cached_tokens")),
		// The second is LiteLLM's.
		CacheWriteTokens: cmp.Or(count(prompt, "cache_write_tokens"), count("cache_creation_input_tokens")),
		// The second is Perplexity's.
		ReasoningTokens: cmp.Or(count(completion, "reasoning_tokens"), count("reasoning_tokens")),
		AudioTokens:     count(prompt, "audio_tokens") + count(completion, "audio_tokens"),
		Cost:            cost(raw),
	}
	// xAI does not count reasoning as part of the completion; its total shows that. Neither does Perplexity's research, which does not count
	// the sources that it reads as input either, and leaves both out of the total.
	switch cited := count("citation_tokens"); {
	case cited > 0 || u.ReasoningTokens > u.CompletionTokens && u.TotalTokens == u.PromptTokens+u.CompletionTokens:
		u.PromptTokens += cited
		u.CompletionTokens += u.ReasoningTokens
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	case u.TotalTokens == u.PromptTokens+u.CompletionTokens+u.ReasoningTokens:
		u.CompletionTokens += u.ReasoningTokens
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u
}

// cost reads the cost that a provider has counted itself, in millionths of a dollar; 0 where it has not.
func cost(raw []byte) int64 {
	dollars := func(path ...string) float64 {
		f, err := jsonparser.GetFloat(raw, path...)
		if err != nil || !(f > 0 && f < 1e9) {
			return 0
		}
		return f
	}
	const ticks = 1e10 // of xAI, for a dollar
	all := cmp.Or(dollars("cost"), dollars("cost", "total_cost"))
	if ours, _ := jsonparser.GetBoolean(raw, "is_byok"); ours { // OpenRouter's cost is its fee then; the model's provider charges the rest
		all += dollars("cost_details", "upstream_inference_cost")
	}
	if n, err := jsonparser.GetInt(raw, "cost_in_usd_ticks"); all == 0 && err == nil && n > 0 {
		all = float64(n) / ticks
	}
	if all == 0 {
		return 0
	}
	return max(1, int64(math.Round(all*1e6)))
}
