package ling

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
)

// models answers by the text of the last message, a token at a time.
type models map[string]answer

type answer struct {
	text   string
	then   string        // what is said when the question is put again; the question is then the first user's
	model  string        // that answers; default fake:m
	pace   time.Duration // between tokens of four characters
	err    error         // at the end
	hang   bool          // at the end, until the context ends
	panic  string
	finish string        // default stop
	open   *atomic.Int32 // counts streams that are read
}

func (m models) Model(string) (adapter.Model, error) { return m, nil }

func (m models) Stream(ctx context.Context, r adapter.Request) iter.Seq2[adapter.Chunk, error] {
	question := r.Messages[len(r.Messages)-1].Content
	a, ok := m[question]
	for i, msg := range r.Messages {
		if first, known := m[msg.Content]; i < len(r.Messages)-1 && known && first.then != "" {
			a, ok = first, true
			a.text = first.then
		}
	}
	return func(yield func(adapter.Chunk, error) bool) {
		if !ok {
			yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeInvalid, Message: fmt.Sprintf("no answer to %q", question)})
			return
		}
		if a.open != nil {
			a.open.Add(1)
			defer a.open.Add(-1)
		}
		for text := a.text; text != ""; {
			n := min(4, len(text))
			if a.pace > 0 {
				select {
				case <-time.After(a.pace):
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil {
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			if !yield(adapter.Chunk{Text: text[:n], Model: cmp.Or(a.model, "fake:m")}, nil) {
				return
			}
			text = text[n:]
		}
		switch {
		case a.panic != "":
			panic(a.panic)
		case a.hang:
			<-ctx.Done()
			yield(adapter.Chunk{}, context.Cause(ctx))
		case a.err != nil:
			yield(adapter.Chunk{}, a.err)
		default:
			yield(adapter.Chunk{Finish: cmp.Or(a.finish, adapter.FinishStop), Usage: &adapter.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}}, nil)
		}
	}
}

// ask makes and starts a bot.
func ask(t testing.TB, m *Manager, name, root, question string, l bot.Listener) *bot.ChatBot {
	t.Helper()
	b, err := m.CreateBot(name, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Listen(l)
	if err := b.Chat(bot.Message{Text: question}); err != nil {
		t.Fatal(err)
	}
	return b
}

// named returns the named events of a run that has ended, without those of each bot's start, end and usage.
func named(m *Manager) []string {
	var lines []string
	for e := range m.Tube().AllEvents(context.Background(), 0) {
		if line := string(e.AppendJSON(nil)); strings.HasPrefix(line, `{"event"`) && e.Name != "usage" && e.Name != "bot" {
			lines = append(lines, strings.ReplaceAll(line, m.ID(), "RUN"))
		}
	}
	return lines
}

// equal compares JSON texts but for the order of members, which is that of the first writing.
func equal(t testing.TB, want string, got []byte) bool {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	return gocmp.Equal(w, g)
}
