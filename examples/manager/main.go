// Manager shows the way that bots work together: one plans an article as JSON, and while it is still writing, the first two
// titles of its plan start two more bots, which write the text below them. All three write into one document, and what they
// write is printed as it comes, as JSON Lines.
//
// It needs no account: the model is the built-in demo, which is scripted.
//
//	go run ./examples/manager
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/web/wire/frame"
)

const planPrompt = `You plan articles. Answer with JSON of this form:
{"title": "…", "summary": "…", "sections": [{"title": "…"}]}`

func main() {
	pace := flag.Float64("pace", 200, "tokens per second; negative: as fast as it can")
	question := flag.String("question", "Why is the sky blue?", "what the article answers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *question, *pace); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, question string, pace float64) error {
	models := &adapter.Registry{Default: "demo:demo"}
	models.Register("demo", demo.New(&demo.Options{Pace: pace}))

	m := ling.New(ctx, bot.Config{}, &ling.Options{Models: models})
	plan, err := m.CreateBot("plan", "article", nil)
	if err != nil {
		return err
	}
	if err := plan.AddPrompt(planPrompt, nil); err != nil {
		return err
	}
	plan.Listen(bot.Listener{String: func(s bot.StringValue) {
		// This is called as soon as the string is complete, long before the plan is.
		switch s.URI {
		case "article/sections/0/title", "article/sections/1/title":
			body := s.URI[:len(s.URI)-len("title")] + "body"
			if err := write(m, body, question, s.Value); err != nil {
				m.Report("plan", err)
			}
		}
	}})
	if err := plan.Chat(bot.Message{Text: question}); err != nil {
		return err
	}

	// Close waits for all bots, those that have not been made yet included, and then ends the events.
	closed := make(chan error, 1)
	go func() { closed <- m.Close() }()
	var line []byte
	for e, err := range m.Events(context.Background()) {
		if err != nil {
			return err
		}
		line = frame.AppendJSONL(line[:0], m.ID(), e)
		if _, err := out.Write(line); err != nil {
			m.Stop(err)
			break
		}
	}
	return <-closed
}

// write starts a bot that writes the text of a section.
func write(m *ling.Manager, root, question, title string) error {
	b, err := m.CreateBot("section", root, func(c *bot.Config) { c.Format = bot.Text })
	if err != nil {
		return err
	}
	return b.Chat(bot.Message{Text: fmt.Sprintf("The question: %s\nThe section to write: %s", question, title)})
}
