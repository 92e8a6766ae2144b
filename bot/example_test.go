package bot_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tool"
)

// counter is a bot of its own: it asks no model, but has the same states, and a manager can wait for it.
type counter struct{ bot.Machine }

func (c *counter) Count(text string) (words int) {
	c.To(bot.Chatting)
	words = len(strings.Fields(text))
	c.To(bot.InferenceDone)
	c.To(bot.Finished)
	return words
}

func ExampleMachine() {
	var c counter
	c.Watch(func(t bot.Transition) { fmt.Println(t.From, "→", t.To) })
	fmt.Println(c.Count("why is the sky blue"), "words")
	fmt.Println(c.To(bot.InferenceDone))
	// Output:
	// init → chatting
	// chatting → inference-done
	// inference-done → finished
	// 5 words
	// bot: no transition from finished to inference-done
}

func ExampleChatBot() {
	models := &adapter.Registry{Default: "demo:fast"}
	models.Register("demo", demo.New(nil))
	m := ling.New(context.Background(), bot.Config{}, &ling.Options{Models: models})
	defer m.Close()

	quiz, err := m.CreateBot("quiz", "quiz", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = quiz.AddPrompt("Ask {{ count }} questions about an article. Answer with JSON of this form:\n"+
		`{"questions": [{"question": "…", "choices": ["…", "…"], "answer": 0}]}`, map[string]any{"count": 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	quiz.Listen(bot.Listener{String: func(s bot.StringValue) {
		if strings.HasSuffix(s.URI, "/question") { // it is complete, and the rest is still being written
			fmt.Println(s.URI)
		}
	}})
	quiz.Chat(bot.Message{Text: `{"title": "Why the Sky Is Blue"}`})
	_, err = quiz.Wait(context.Background())
	fmt.Println(quiz.State(), err)
	// Output:
	// quiz/questions/0/question
	// quiz/questions/1/question
	// quiz/questions/2/question
	// finished <nil>
}

func ExampleConfig_tools() {
	models := &adapter.Registry{Default: "demo:fast"}
	models.Register("demo", demo.New(nil)) // calls the tools that a question names

	weather, err := tool.New("weather", "The weather in a city now.", func(_ context.Context, in struct {
		City string `json:"city"`
	},
	) (string, error) {
		return "sunny in " + in.City, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := tool.NewSet(weather)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := ling.New(context.Background(), bot.Config{Format: bot.Text, Tools: tools}, &ling.Options{Models: models})
	defer m.Close()
	b, err := m.CreateBot("answer", "answer", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := b.Chat(bot.Message{Text: "What is the weather in Rome?"}); err != nil {
		fmt.Println(err)
		return
	}
	r, err := b.Wait(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, told, _ := strings.Cut(string(r.Value), "Rome?” ")
	fmt.Println(strings.Trim(told, `"`))
	// Output: The tool weather says: “sunny in Rome”.
}
