package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
)

// MO-13: counts are read from where each provider puts them.
func TestUsageIsReadInTheFormOfEachProvider(t *testing.T) {
	for name, row := range map[string]struct {
		usage string
		want  adapter.Usage
	}{
		"no total": {`{"prompt_tokens":3,"completion_tokens":4}`, adapter.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}},
		"OpenAI": {
			`{"prompt_tokens":300,"completion_tokens":40,"total_tokens":340,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":50,"audio_tokens":5},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":2}}`,
			adapter.Usage{PromptTokens: 300, CompletionTokens: 40, TotalTokens: 340, CachedTokens: 100, CacheWriteTokens: 50, ReasoningTokens: 30, AudioTokens: 7},
		},
		"details that are null": {
			`{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":null,"completion_tokens_details":null}`,
			adapter.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7},
		},
		"DeepSeek": {
			`{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,"prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10}`,
			adapter.Usage{PromptTokens: 30, CompletionTokens: 4, TotalTokens: 34, CachedTokens: 20},
		},
		"Moonshot": {
			`{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,"cached_tokens":20}`,
			adapter.Usage{PromptTokens: 30, CompletionTokens: 4, TotalTokens: 34, CachedTokens: 20},
		},
		"LiteLLM with Anthropic behind it": {
			`{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,"cache_creation_input_tokens":9,"cache_read_input_tokens":20,"prompt_tokens_details":{"cached_tokens":20}}`,
			adapter.Usage{PromptTokens: 30, CompletionTokens: 4, TotalTokens: 34, CachedTokens: 20, CacheWriteTokens: 9},
		},
		"xAI, whose completion is without its reasoning": {
			`{"prompt_tokens":199,"completion_tokens":8,"total_tokens":359,"completion_tokens_details":{"reasoning_tokens":152},"cost_in_usd_ticks":5143500}`,
			adapter.Usage{PromptTokens: 199, CompletionTokens: 160, TotalTokens: 359, ReasoningTokens: 152, Cost: 514},
		},
		"xAI's Responses": {
			`{"input_tokens":199,"output_tokens":160,"total_tokens":359,"input_tokens_details":{"cached_tokens":9},"output_tokens_details":{"reasoning_tokens":152},"cost_in_usd_ticks":5143500}`,
			adapter.Usage{PromptTokens: 199, CompletionTokens: 160, TotalTokens: 359, CachedTokens: 9, ReasoningTokens: 152, Cost: 514},
		},
		"OpenRouter": {
			`{"prompt_tokens":15,"completion_tokens":9,"total_tokens":24,"cost":0.00006,"is_byok":false,"cost_details":{"upstream_inference_cost":0.00006}}`,
			adapter.Usage{PromptTokens: 15, CompletionTokens: 9, TotalTokens: 24, Cost: 60},
		},
		"OpenRouter with a key of one's own": {
			`{"prompt_tokens":15,"completion_tokens":9,"total_tokens":24,"cost":0.000003,"is_byok":true,"cost_details":{"upstream_inference_cost":0.00006}}`,
			adapter.Usage{PromptTokens: 15, CompletionTokens: 9, TotalTokens: 24, Cost: 63},
		},
		"a cost of less than a millionth": {
			`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.0000001}`,
			adapter.Usage{PromptTokens: 1, CompletionTokens: 1, TotalTokens: 2, Cost: 1},
		},
		"Perplexity": {
			`{"prompt_tokens":8,"completion_tokens":5,"total_tokens":13,"cost":{"request_cost":0.005,"total_cost":0.00501}}`,
			adapter.Usage{PromptTokens: 8, CompletionTokens: 5, TotalTokens: 13, Cost: 5010},
		},
		"research of Perplexity": {
			`{"prompt_tokens":33,"completion_tokens":7163,"total_tokens":7196,"citation_tokens":19028,"num_search_queries":28,"reasoning_tokens":3081}`,
			adapter.Usage{PromptTokens: 19061, CompletionTokens: 10244, TotalTokens: 29305, ReasoningTokens: 3081},
		},
		"counts that are none": {
			`{"prompt_tokens":-3,"completion_tokens":"4","total_tokens":1e99,"cost":-1,"cost_in_usd_ticks":-5}`, adapter.Usage{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := "prompt", "completion"
			if !strings.Contains(row.usage, "prompt_tokens") {
				in, out = "input", "output"
			}
			if diff := cmp.Diff(row.want, *OpenAIUsage([]byte(row.usage), in, out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
