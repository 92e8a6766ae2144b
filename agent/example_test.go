package agent_test

import (
	"context"
	"fmt"
	"os"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// An agent with one tool, which is a Go function.
func Example() {
	weather := tool.Must(tool.New("weather", "Says what the weather is like.",
		func(_ context.Context, in struct {
			City string `json:"city"`
		},
		) (string, error) {
			return "sunny in " + in.City, nil
		}))
	tools, err := tool.NewSet(weather)
	if err != nil {
		panic(err)
	}
	a, err := agent.New(agent.Options{Models: models(), Model: "openai:m", Tools: tools, Store: tapetest.NewMemory(nil)})
	if err != nil {
		panic(err)
	}
	framework := turn.New(turn.Options{Workspace: os.TempDir()})
	if err := framework.Register(agent.Name, a); err != nil {
		panic(err)
	}
	for _, question := range []string{"What is the weather like in Rome?", "What did I ask?"} {
		result, err := framework.Process(context.Background(), &turn.Envelope{SessionID: "ann", Content: question})
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Output)
	}
	// Output:
	// It is sunny in Rome.
	// You asked: What is the weather like in Rome?
}

// models has one model, whose server is a script in this process.
func models() *adapter.Registry {
	server := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		switch last := r.Messages[len(r.Messages)-1]; {
		case last.Role == "tool":
			return fakeproviders.Answer{Text: "It is " + last.Content + "."}
		case last.Content == "What did I ask?":
			return fakeproviders.Answer{Text: "You asked: " + r.Messages[1].Content}
		}
		return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "c1", Name: "weather", Arguments: `{"city":"Rome"}`}}}
	}}
	provider, err := openai.New(openai.Options{BaseURL: "http://upstream/v1", Key: "key", Transport: server.Transport()})
	if err != nil {
		panic(err)
	}
	registry := new(adapter.Registry)
	registry.Register("openai", provider)
	return registry
}
