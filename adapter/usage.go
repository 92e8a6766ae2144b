package adapter

// Usage counts tokens, and what they cost. No count contains another one, except TotalTokens and those named "of".
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"` // all of the input, cached ones included
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	CachedTokens     int `json:"cached_tokens,omitempty"`      // of the prompt, read from the provider's cache
	CacheWriteTokens int `json:"cache_write_tokens,omitempty"` // of the prompt, written to it
	ReasoningTokens  int `json:"reasoning_tokens,omitempty"`   // of the completion
	AudioTokens      int `json:"audio_tokens,omitempty"`       // of both
	// Cost is in millionths of a dollar; 0 where the price is not known.
	Cost int64 `json:"cost,omitempty"`
}

// Add adds what another answer took.
func (u *Usage) Add(v Usage) {
	u.PromptTokens += v.PromptTokens
	u.CompletionTokens += v.CompletionTokens
	u.TotalTokens += v.TotalTokens
	u.CachedTokens += v.CachedTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.AudioTokens += v.AudioTokens
	u.Cost += v.Cost
}

// Sub takes away what was counted before.
func (u *Usage) Sub(v Usage) {
	u.Add(Usage{
		-v.PromptTokens, -v.CompletionTokens, -v.TotalTokens, -v.CachedTokens, -v.CacheWriteTokens, -v.ReasoningTokens, -v.AudioTokens, -v.Cost,
	})
}
