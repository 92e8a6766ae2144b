package tape_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// A conversation is appended as it happens, and a model's context derived from it.
func Example() {
	ctx := context.Background()
	store := tapetest.NewMemory(nil)
	defer store.Close()
	t, err := tape.Open(ctx, store, "/srv/agent", "telegram:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = t.Append(ctx,
		tape.NewMessage("user", "天气?"),
		tape.NewToolCall("", tape.Call{ID: "c1", Function: tape.FunctionCall{Name: "weather", Arguments: "{}"}}),
		tape.NewToolResult([]string{"c1"}, "sunny"),
		tape.NewMessage("assistant", "It is sunny."))
	view, _ := t.View(ctx, nil)
	for _, m := range view.Messages {
		fmt.Println(string(m.JSON))
	}
	// Output:
	// {"role":"assistant","content":"[Anchor created: session/start]: {\"owner\":\"human\"}"}
	// {"role":"user","content":"天气?"}
	// {"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}}]}
	// {"role":"tool","tool_call_id":"c1","name":"weather","content":"sunny"}
	// {"role":"assistant","content":"It is sunny."}
}

// After a handoff, the view begins with the anchor and its state.
func ExampleTape_Handoff() {
	ctx := context.Background()
	store := tapetest.NewMemory(nil)
	defer store.Close()
	t, _ := tape.Open(ctx, store, "/srv/agent", "telegram:42")
	_, _ = t.Append(ctx, tape.NewMessage("user", "a long story"))
	anchor, err := t.Handoff(ctx, "phase/review", map[string]string{"summary": "The story is told."})
	fmt.Println(anchor.ID, err)
	view, _ := t.View(ctx, nil)
	for _, m := range view.Messages {
		fmt.Println(string(m.JSON))
	}
	// Output:
	// 3 <nil>
	// {"role":"assistant","content":"[Anchor created: phase/review]: {\"summary\":\"The story is told.\"}"}
}

func ExampleTape_Search() {
	ctx := context.Background()
	store := tapetest.NewMemory(nil)
	defer store.Close()
	t, _ := tape.Open(ctx, store, "/srv/agent", "telegram:42")
	_, _ = t.Append(ctx, tape.NewMessage("user", "今天天气很好"), tape.NewMessage("user", "Ｃａｆé"))
	for _, words := range []string{"天气", "cafÉ"} {
		for hit, err := range t.Search(ctx, tape.Query{Text: words}) {
			fmt.Println(hit.ID, hit.Text, err)
		}
	}
	// Output:
	// 2 今天天气很好 <nil>
	// 3 Ｃａｆé <nil>
}

// What happens in a fork is seen by the parent when it is merged, or never.
func ExampleWithFork() {
	ctx := context.Background()
	store := tapetest.NewMemory(nil)
	defer store.Close()
	t, _ := tape.Open(ctx, store, "/srv/agent", "telegram:42")
	err := tape.WithFork(ctx, t, true, func(ctx context.Context, f *tape.Fork) error {
		_, err := f.Append(ctx, tape.NewMessage("user", "a thought"))
		before, _ := t.Info(ctx)
		fmt.Println("before the merge:", before.Entries)
		return err
	})
	after, _ := t.Info(ctx)
	fmt.Println("after it:", after.Entries, err)
	// Output:
	// before the merge: 1
	// after it: 2 <nil>
}

func ExampleImport() {
	ctx := context.Background()
	store := tapetest.NewMemory(nil)
	defer store.Close()
	err := tape.Import(ctx, store, "/srv/agent", "telegram:42", strings.NewReader(
		`{"kind": "message", "payload": {"role": "user", "content": "hi"}, "timestamp": 1772355600}`))
	t, _ := tape.Lookup(ctx, store, "/srv/agent", "telegram:42")
	var b strings.Builder
	_ = t.Export(ctx, &b)
	fmt.Print(b.String(), err)
	// Output:
	// {"id":1,"kind":"message","payload":{"role": "user", "content": "hi"},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}
	// <nil>
}
