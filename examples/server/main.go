// Server shows a workflow that is written in Go, registered with the server, and called over HTTP. The program serves on a
// free port of this machine, asks itself one question, prints the answer and ends; with -addr it stays.
//
//	go run ./examples/server
//	go run ./examples/server -addr 127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/web"
)

// twice asks the model a question in two ways at once, and counts the words of the longer answer.
var twice = flow.Func("twice", "Answers a question in prose and as an article, side by side.", json.RawMessage(`{
	"type": "object", "required": ["question"], "additionalProperties": false,
	"properties": {"question": {"type": "string", "maxLength": 2000}}
}`), func(ctx context.Context, m *ling.Manager, input map[string]any) error {
	question, _ := input["question"].(string) // the schema says that it is a string

	prose, err := m.CreateBot("prose", "prose", func(c *bot.Config) { c.Format = bot.Text })
	if err != nil {
		return err
	}
	prose.Listen(bot.Listener{Response: func(r bot.Response) {
		var text string
		if err := json.Unmarshal(r.Value, &text); err != nil {
			m.Report("prose", err)
			return
		}
		if err := m.SendEvent("counted", map[string]int{"words": len(strings.Fields(text))}); err != nil {
			m.Report("prose", err)
		}
	}})
	article, err := m.CreateBot("article", "article", nil)
	if err != nil {
		return err
	}
	if err := article.AddPrompt("Answer with JSON of this form:\n"+`{"title": "…", "summary": "…", "sections": [{"title": "…"}]}`, nil); err != nil {
		return err
	}
	return errors.Join(prose.Chat(bot.Message{Text: question}), article.Chat(bot.Message{Text: question}))
})

func main() {
	addr := flag.String("addr", "", "where to serve; empty: on a free port, for one question")
	pace := flag.Float64("pace", 200, "tokens per second; negative: as fast as it can")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *addr, *pace); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, addr string, pace float64) (err error) {
	models := &adapter.Registry{Default: "demo:demo"}
	models.Register("demo", demo.New(&demo.Options{Pace: pace}))
	workflows, err := flow.Open("")
	if err != nil {
		return err
	}
	workflows.Register(twice)

	var o web.Options
	o.Workflows, o.Models = workflows, models
	s, err := web.New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	listen := addr
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	l, err := s.Listen(ctx, listen)
	if err != nil {
		return err
	}
	server := s.HTTPServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	url := "http://" + l.Addr().String() + "/v1/runs"

	if addr == "" {
		err = ask(ctx, out, url)
	} else {
		fmt.Fprintf(out, "curl -N %s -H 'Accept: application/x-ndjson' -d '{\"workflow\":\"twice\",\"input\":\"Why is the sky blue?\"}'\n", url)
		<-ctx.Done()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, s.Drain(grace), server.Shutdown(grace))
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// ask starts a run and prints its result as one document.
func ask(ctx context.Context, out io.Writer, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"workflow":"twice","input":"Why is the sky blue?"}`))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Fprintln(out, answer.Status)
	_, err = io.Copy(out, answer.Body)
	http.DefaultClient.CloseIdleConnections()
	return err
}
