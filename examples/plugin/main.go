// Plugin shows the built-in agent with a plugin beside it that builds the prompt in its place and observes errors. The second
// message is empty, so the agent refuses it: the observer and the caller get the error.
//
//	go run ./examples/plugin
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/turn"
)

type brief struct{}

// BuildPrompt adds a wish to every question. It declines empty messages and commands, so the agent handles them.
func (brief) BuildPrompt(_ context.Context, e *turn.Envelope, _ turn.SessionID, _ turn.State) (turn.Prompt, bool, error) {
	return turn.Prompt{Text: "Briefly: " + e.Content}, e.Content != "" && !e.IsCommand(), nil
}

func (brief) OnError(_ context.Context, stage turn.Stage, err error, e *turn.Envelope) {
	fmt.Printf("observed in %s of %s: %v\n", stage, e.SessionID, err)
}

func main() {
	models := &adapter.Registry{Default: "demo:fast"}
	models.Register("demo", demo.New(nil))
	database, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer database.Close()
	builtin, err := agent.New(agent.Options{Models: models, Store: database.Tapes(nil)})
	if err != nil {
		log.Fatal(err)
	}
	framework := turn.New(turn.Options{})
	if err := errors.Join(framework.Register(agent.Name, builtin), framework.Register("brief", brief{})); err != nil {
		log.Fatal(err)
	}
	for _, question := range []string{"How far away is the moon?", ""} {
		result, err := framework.Process(context.Background(), &turn.Envelope{SessionID: "s1", Content: question})
		fmt.Printf("%q: %q, %v\n", question, result.Output, err)
	}
}
