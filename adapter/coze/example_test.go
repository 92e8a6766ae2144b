package coze_test

import (
	"context"
	"fmt"
	"io"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/coze"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// A bot whose prompt is {{system_prompt}} is told what to be by each request; here a stand-in is in its place.
func Example() {
	bot := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Text: "I was told: " + r.Variables["system_prompt"] + " And your tone is " + r.Variables["tone"] + "."}
	}}
	defer bot.Close()

	provider, err := coze.New(coze.Options{BaseURL: "http://coze.test", Key: "pat_1", Transport: bot.Transport()}, "")
	if err != nil {
		panic(err)
	}
	defer provider.(io.Closer).Close()
	model, err := provider.Model("7379462189365198898")
	if err != nil {
		panic(err)
	}
	for chunk, err := range model.Stream(context.Background(), adapter.Request{
		Messages: []adapter.Message{
			{Role: adapter.System, Content: "You are a teacher."},
			{Role: adapter.User, Content: "Who are you?"},
		},
		Params: map[string]any{"tone": "kind"},
	}) {
		if err != nil {
			panic(err)
		}
		fmt.Print(chunk.Text)
		if chunk.Finish != "" {
			fmt.Printf("\n%s, %d tokens\n", chunk.Finish, chunk.Usage.CompletionTokens)
		}
	}
	// Output:
	// I was told: You are a teacher. And your tone is kind.
	// stop, 14 tokens
}
