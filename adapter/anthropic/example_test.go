package anthropic_test

import (
	"context"
	"fmt"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/anthropic"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// A model that thinks says what it thinks before it answers.
func Example() {
	server := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Reasoning: "Rayleigh, I think.", Text: "Blue light scatters more."}
	}}
	defer server.Close()
	provider, err := anthropic.New(anthropic.Options{Key: "sk-ant-…", BaseURL: "http://model.test", Transport: server.Transport()})
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := provider.Model("claude-sonnet-4-6")
	if err != nil {
		fmt.Println(err)
		return
	}
	var thought, said string
	question := adapter.Request{
		Messages: []adapter.Message{{Role: adapter.User, Content: "Why is the sky blue?"}},
		Options:  adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}},
	}
	for chunk, err := range model.Stream(context.Background(), question) {
		if err != nil {
			fmt.Println(err)
			return
		}
		thought += chunk.Reasoning
		said += chunk.Text
		if chunk.Finish != "" {
			fmt.Printf("(%s) %s\n%s after %d tokens\n", thought, said, chunk.Finish, chunk.Usage.CompletionTokens)
		}
	}
	// Output:
	// (Rayleigh, I think.) Blue light scatters more.
	// stop after 12 tokens
}
