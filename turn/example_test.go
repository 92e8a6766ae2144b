package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/turn"
)

// shout is a plugin with a single hook: it answers, and leaves every other stage to the plugins below it.
type shout struct{}

func (shout) RunModel(_ context.Context, p turn.Prompt, _ turn.SessionID, _ turn.State) (string, bool, error) {
	return strings.ToUpper(p.Text), true, nil
}

// A plugin overrides one hook of those that were registered before it.
func Example() {
	f := turn.New(turn.Options{})
	if err := f.Register("shout", shout{}); err != nil {
		fmt.Println(err)
		return
	}
	result, err := f.Process(context.Background(), &turn.Envelope{Channel: "cli", ChatID: "me", Content: "hello"})
	fmt.Println(result.Session, result.Output, err)
	// Output: cli:me HELLO <nil>
}

// prefix is a plugin that takes only what it knows and observes errors.
type prefix struct{}

func (prefix) BuildPrompt(_ context.Context, e *turn.Envelope, _ turn.SessionID, _ turn.State) (turn.Prompt, bool, error) {
	text, ok := strings.CutPrefix(e.Content, "quietly: ")
	if ok && text == "" {
		return turn.Prompt{}, false, turn.ErrNoPrompt
	}
	return turn.Prompt{Text: text}, ok, nil // declined where it has no such prefix
}

func (prefix) OnError(_ context.Context, stage turn.Stage, err error, _ *turn.Envelope) {
	fmt.Println("observed:", stage, err)
}

// The plugin that was registered last is asked first; what it declines goes on to the others, or to the stage's own way.
func ExampleFramework_Register() {
	f := turn.New(turn.Options{})
	if err := errors.Join(f.Register("shout", shout{}), f.Register("prefix", prefix{})); err != nil {
		fmt.Println(err)
		return
	}
	for _, content := range []string{"hello", "quietly: hello", "quietly: "} {
		result, err := f.Process(context.Background(), &turn.Envelope{Content: content})
		fmt.Printf("%q %q\n", result.Output, f.Code(err))
	}
	// Output:
	// "HELLO" ""
	// "HELLO" ""
	// observed: turn build_prompt (prefix): turn: the prompt is empty
	// "" "invalid_request"
}

// A submission waits in the lane of its session, and the caller for its ticket. The events come while the model speaks.
func ExampleFramework_Submit() {
	f := turn.New(turn.Options{})
	if err := f.Register("shout", shout{}); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	ticket, err := f.Submit(ctx, &turn.Envelope{Content: "hello"}, turn.WithPolicy(turn.Reject), turn.WithSink(func(e turn.Event, err error) {
		if err == nil && e.Kind == turn.TextEvent {
			fmt.Println("event:", e.Delta)
		}
	}))
	if err != nil { // turn.ErrBusy, turn.ErrQueueFull, turn.ErrDraining
		fmt.Println(err)
		return
	}
	result, err := ticket.Wait(ctx)
	fmt.Println("result:", result.Output, err)
	fmt.Println(f.Drain(ctx))
	// Output:
	// event: HELLO
	// result: HELLO <nil>
	// <nil>
}

// loudspeaker is a plugin that sends the envelopes of a turn.
type loudspeaker struct{}

func (loudspeaker) DispatchOutbound(_ context.Context, e *turn.Envelope) (bool, error) {
	fmt.Println("dispatched:", e.Content)
	return true, nil
}

// A sink gets the events of a turn while the model speaks, and a dispatcher the envelopes at its end.
func ExampleWithSink() {
	f := turn.New(turn.Options{})
	if err := errors.Join(f.Register("shout", shout{}), f.Register("loudspeaker", loudspeaker{})); err != nil {
		fmt.Println(err)
		return
	}
	result, err := f.Process(context.Background(), &turn.Envelope{Content: "hello"}, turn.WithSink(func(e turn.Event, _ error) {
		if e.Kind == turn.TextEvent {
			fmt.Println("streamed:", e.Delta)
		}
	}))
	fmt.Println(result.Deliveries, err)
	// Output:
	// streamed: HELLO
	// dispatched: HELLO
	// [true] <nil>
}
