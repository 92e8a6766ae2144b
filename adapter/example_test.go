package adapter_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// A model is found by its name and read in a loop. Leaving the loop cancels the request.
func ExampleRegistry() {
	server := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Text: "Blue light scatters more."}
	}}
	defer server.Close()
	provider, err := openai.New(openai.Options{BaseURL: "http://model.example/v1", Transport: server.Transport()})
	if err != nil {
		fmt.Println(err)
		return
	}
	models := &adapter.Registry{Default: "openai:gpt-4o-mini"}
	models.Register("openai", provider)

	model, err := models.Model("")
	if err != nil {
		fmt.Println(err)
		return
	}
	question := adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "Why is the sky blue?"}}}
	for chunk, err := range model.Stream(context.Background(), question) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(chunk.Text)
		if chunk.Finish != "" {
			fmt.Printf("\n%s after %d tokens\n", chunk.Finish, chunk.Usage.CompletionTokens)
		}
	}
	// Output:
	// Blue light scatters more.
	// stop after 7 tokens
}

// The models of a chain are asked one after the other, until one begins to answer.
func ExampleRegistry_Model_chain() {
	server := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		if r.Model == "large" {
			return fakeproviders.Answer{Status: 401}
		}
		return fakeproviders.Answer{Text: "Hello."}
	}}
	defer server.Close()
	provider, err := openai.New(openai.Options{BaseURL: "http://model.example/v1", Transport: server.Transport(), Key: "wrong"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var models adapter.Registry
	models.Register("openai", provider)

	for _, name := range []string{"openai:large", "openai:large, openai:small", "gpt-4o"} {
		model, err := models.Model(name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		for chunk, err := range model.Stream(context.Background(), adapter.Request{}) {
			if e, ok := errors.AsType[*adapter.Error](err); ok {
				fmt.Println(e.Code+":", e)
				break
			}
			if chunk.Model != "" {
				fmt.Print(chunk.Model, ": ")
			}
			fmt.Print(chunk.Text)
		}
		fmt.Println()
	}
	// Output:
	// upstream_auth: the model's server (openai) refused the key: check OPENAI_API_KEY
	//
	// openai:small: Hello.
	// the model "gpt-4o" has no provider; expected PROVIDER:NAME with one of the providers openai
}

// What there is to choose from: what is configured, the default, and what is named elsewhere; chains taken apart.
func ExampleRegistry_Usable() {
	provider, err := openai.New(openai.Options{BaseURL: "http://model.example/v1", Names: []string{"gpt-4o-mini", "gpt-4o"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	models := &adapter.Registry{Default: "openai:gpt-4o"}
	models.Register("openai", provider)

	for _, name := range models.Usable("openai:o3, openai:gpt-4o", "nobody:x") {
		fmt.Println(name)
	}
	// Output:
	// openai:gpt-4o
	// openai:gpt-4o-mini
	// openai:o3
}
