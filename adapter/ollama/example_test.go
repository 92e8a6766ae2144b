package ollama_test

import (
	"context"
	"fmt"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/ollama"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// A model that thinks says what it thinks before it answers.
func Example() {
	server := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Reasoning: "Rayleigh, I think.", Text: "Blue light scatters more."}
	}}
	defer server.Close()
	provider, err := ollama.New(ollama.Options{BaseURL: "127.0.0.1:11434", Transport: server.Transport()})
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := provider.Model("qwen3:8b")
	if err != nil {
		fmt.Println(err)
		return
	}
	var thought, said string
	question := adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "Why is the sky blue?"}}}
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

// The provider can say which models have been pulled.
func Example_list() {
	server := &fakeproviders.Server{Models: []string{"qwen3:8b", "llama3.2:3b"}}
	defer server.Close()
	provider, err := ollama.New(ollama.Options{Transport: server.Transport()})
	if err != nil {
		fmt.Println(err)
		return
	}
	names, err := provider.(adapter.Lister).List(context.Background())
	fmt.Println(names, err)
	// Output:
	// [llama3.2:3b qwen3:8b] <nil>
}
