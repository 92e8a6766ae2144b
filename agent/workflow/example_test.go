package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// A workflow answers in a session. Its document is the turn's output.
func Example() {
	count := flow.Func("count", "Counts what was said.", json.RawMessage(`{
		"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}
	}`), func(_ context.Context, m *ling.Manager, input map[string]any) error {
		said := 1
		for _, before := range m.History() {
			if before.Role == adapter.User {
				said++
			}
		}
		for _, piece := range []string{fmt.Sprint("message ", said), fmt.Sprint(": ", input["message"])} {
			if _, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("answer"), Value: []byte(piece)}); err != nil {
				return err
			}
		}
		return nil
	})
	workflows := new(flow.Registry)
	workflows.Register(count)

	// The agent keeps the tapes; what is registered after it comes before it.
	framework := turn.New(turn.Options{})
	keeper, err := agent.New(agent.Options{Models: new(adapter.Registry), Store: tapetest.NewMemory(nil)})
	if err != nil {
		panic(err)
	}
	if err := framework.Register(agent.Name, keeper); err != nil {
		panic(err)
	}
	if err := framework.Register("count", &workflow.Stage{Workflow: "count", Workflows: workflows}); err != nil {
		panic(err)
	}

	for _, text := range []string{"hello", "hello again"} {
		result, err := framework.Process(context.Background(), &turn.Envelope{SessionID: "ann", Content: text})
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Output)
	}
	// Output:
	// {"answer":"message 1: hello"}
	// {"answer":"message 2: hello again"}
}
