package ling_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
)

// One bot's answer starts the next one; Close waits for both.
func Example() {
	models := &adapter.Registry{Default: "demo:fast"}
	models.Register("demo", demo.New(nil))

	m := ling.New(context.Background(), bot.Config{Format: bot.Text}, &ling.Options{Models: models})
	first, err := m.CreateBot("first", "answer", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	first.Listen(bot.Listener{Response: func(r bot.Response) {
		second, err := m.CreateBot("second", "comment", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		second.Chat(bot.Message{Text: "Is this right? " + string(r.Value)})
	}})
	first.Chat(bot.Message{Text: "Why is the sky blue?"})
	m.Close()

	r, err := m.Result(context.Background())
	fmt.Println(r.Status, err)
	for _, name := range []string{"first", "second"} {
		fmt.Println(name, r.Usage[name].CompletionTokens > 0)
	}
	// Output:
	// completed <nil>
	// first true
	// second true
}

// A task is waited for as a bot is, and its error is the run's.
func ExampleManager_Go() {
	m := ling.New(context.Background(), bot.Config{}, nil)
	m.Go(func(ctx context.Context) error {
		return &bot.Failure{Code: bot.CodeInvalid, Message: "there is no city of that name", Cause: errors.New("for the log")}
	})
	fmt.Println(m.Close())
	for e := range m.Events(context.Background()) {
		if e.Name != "started" {
			fmt.Printf("%s\n", e.AppendJSON(nil))
		}
	}
	// Output:
	// there is no city of that name
	// {"event":"error","data":{"code":"invalid_request","message":"there is no city of that name","retryable":false,"fatal":false,"failed":true}}
	// {"event":"finished","data":{"status":"failed"}}
}

// Task is Go for a task with a value.
func ExampleTask() {
	ctx := context.Background()
	m := ling.New(ctx, bot.Config{}, nil)
	distance := ling.Task(m, func(context.Context) (int, error) { return 384_400, nil })
	km, err := distance(ctx)
	fmt.Println(km, err)
	fmt.Println(m.Close())
	// Output:
	// 384400 <nil>
	// <nil>
}
