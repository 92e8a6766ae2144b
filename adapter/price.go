package adapter

import "math"

// Price is what tokens of a model cost, in dollars for a million of them: in millionths of a dollar for one.
type Price struct {
	Input      float64
	Cached     float64 // input that the provider's cache had
	CacheWrite float64 // input that was written to it
	Output     float64
	Reasoning  float64 // output that is reasoning
	// Long is the price of a request with more than Over tokens of input; nil where there is no other one.
	Over int
	Long *Price
}

// MaxRate is the most that a rate of a [Price] may be.
const MaxRate = 10_000

// maxPriced is how many tokens of a kind one answer can have, for its price: providers' counts are not trusted. With MaxRate sums fit into 64 bits.
const maxPriced = 100_000_000

// Cost is the cost of an answer in millionths of a dollar, rounded up. It counts in millionths of those, so no sum depends on its order.
func (p *Price) Cost(u Usage) int64 {
	if p.Long != nil && u.PromptTokens > p.Over {
		p = p.Long
	}
	var sum int64
	add := func(tokens int, rate float64) int {
		tokens = min(max(tokens, 0), maxPriced)
		sum += int64(tokens) * int64(math.Round(rate*1e6))
		return tokens
	}
	input, output := min(max(u.PromptTokens, 0), maxPriced), min(max(u.CompletionTokens, 0), maxPriced)
	input -= add(min(u.CachedTokens, input), p.Cached)
	input -= add(min(u.CacheWriteTokens, input), p.CacheWrite)
	add(input, p.Input)
	output -= add(min(u.ReasoningTokens, output), p.Reasoning)
	add(output, p.Output)
	return (sum + 999_999) / 1_000_000
}

// setCost puts the cost of an answer beside its counts, unless the provider has said it itself.
func setCost(c *Chunk, p *Price) {
	if p == nil || c.Usage.Cost != 0 {
		return
	}
	u := *c.Usage // the adapter's own
	u.Cost = p.Cost(u)
	c.Usage = &u
}
