// Imagebot shows a bot of your own beside a chat bot: one that draws. Whatever embeds bot.Machine and makes its transitions
// can be managed: the run ends when it has ended, and fails when it has failed.
//
//	go run ./examples/imagebot > sky.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// ImageBot draws a picture for a text: where a real one would ask a model for images, it scatters light with the text as
// the seed.
type ImageBot struct {
	bot.Machine
	manager *ling.Manager
	root    string
}

// NewImageBot makes a bot that puts its picture at root, and gives it to the manager.
func NewImageBot(m *ling.Manager, root string) (*ImageBot, error) {
	b := &ImageBot{manager: m, root: root}
	return b, m.AddBot(b)
}

// Name stands in errors.
func (b *ImageBot) Name() string { return "image" }

// Draw starts the bot and returns at once.
func (b *ImageBot) Draw(text string) error {
	if err := b.To(bot.Chatting); err != nil {
		return err
	}
	return b.manager.Go(func(ctx context.Context) error {
		picture, err := draw(ctx, text)
		if err == nil {
			err = b.To(bot.InferenceDone)
		}
		if err == nil {
			err = b.send("alt", "A picture of: "+text)
		}
		if err == nil {
			err = b.send("svg", picture)
		}
		if err != nil {
			return b.Fail(err)
		}
		return b.To(bot.Finished)
	})
}

func (b *ImageBot) send(member, text string) error {
	value, err := json.Marshal(text)
	if err != nil {
		return err
	}
	_, err = b.manager.Tube().Send(tube.Event{Kind: tube.Set, URI: []byte(b.root + "/" + member), Value: value})
	return err
}

// draw paints dots of short waves everywhere and a few of long ones.
func draw(ctx context.Context, text string) (string, error) {
	seed := fnv.New64a()
	io.WriteString(seed, text)
	dice := rand.New(rand.NewPCG(seed.Sum64(), 0))
	var svg strings.Builder
	svg.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 60"><rect width="100" height="60" fill="#9cf"/>`)
	for i := range 24 {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		color := "#36f"
		if i%6 == 0 {
			color = "#f63"
		}
		fmt.Fprintf(&svg, `<circle cx="%d" cy="%d" r="%d" fill="%s" opacity=".5"/>`, dice.IntN(100), dice.IntN(60), 1+dice.IntN(4), color)
	}
	svg.WriteString(`</svg>`)
	return svg.String(), nil
}

const prompt = `Answer with JSON of this form:
{"title": "…", "summary": "…", "sections": [{"title": "…"}]}`

func main() {
	pace := flag.Float64("pace", 200, "tokens per second; negative: as fast as it can")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *pace); err != nil {
		fmt.Fprintln(os.Stderr, "imagebot:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, pace float64) error {
	models := &adapter.Registry{Default: "demo:demo"}
	models.Register("demo", demo.New(&demo.Options{Pace: pace}))

	m := ling.New(ctx, bot.Config{}, &ling.Options{Models: models})
	article, err := m.CreateBot("article", "article", nil)
	if err != nil {
		return err
	}
	if err := article.AddPrompt(prompt, nil); err != nil {
		return err
	}
	article.Listen(bot.Listener{String: func(s bot.StringValue) {
		if s.URI != "article/title" {
			return
		}
		image, err := NewImageBot(m, "image") // begins while the article is being written
		if err == nil {
			err = image.Draw(s.Value)
		}
		if err != nil {
			m.Report("image", err)
		}
	}})
	if err := article.Chat(bot.Message{Text: "Why is the sky blue?"}); err != nil {
		return err
	}
	closeErr := m.Close()
	result, err := m.Result(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", result.Result); err != nil {
		return err
	}
	return closeErr
}
