package ling_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/ling"
)

// LI-04, LI-05, FT-13, FT-34: however a run ends, nothing of it goes on at the model's server, which says so itself. The wire
// is real, over pipes.
func TestARunThatEndsLeavesNoConnectionOpen(t *testing.T) {
	long := `{"a":"` + strings.Repeat("word ", 1000) + `"}` // a minute at the pace below
	for _, c := range []struct {
		name   string
		answer fakeproviders.Answer
		listen bot.Listener
		end    func(m *ling.Manager, b *bot.ChatBot)
		status string
	}{
		{"to its end", fakeproviders.Answer{Text: `{"a":1}`}, bot.Listener{}, nil, "completed"},
		{
			"canceled",
			fakeproviders.Answer{Text: long, Pace: 20},
			bot.Listener{},
			func(m *ling.Manager, _ *bot.ChatBot) { m.Cancel(errors.New("enough")) }, "canceled",
		},
		{
			"finished by hand",
			fakeproviders.Answer{Text: long, Pace: 20},
			bot.Listener{},
			func(_ *ling.Manager, b *bot.ChatBot) { b.Finish() }, "completed",
		},
		{
			"a panic in a callback",
			fakeproviders.Answer{Text: `{"x":"y",` + long[1:], Pace: 20},
			bot.Listener{String: func(bot.StringValue) { panic("ouch") }},
			nil, "failed",
		},
		{
			"a model that says nothing more",
			fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: ": wait\n\n"}, {Hang: true}}},
			bot.Listener{},
			func(m *ling.Manager, _ *bot.ChatBot) { m.Cancel(nil) }, "canceled",
		},
		{"a model that does not stop", fakeproviders.Answer{Text: `{"a":1}` + strings.Repeat(" ", 100_000), Pace: 20}, bot.Listener{}, nil, "completed"},
		{
			"a connection that is cut",
			fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"a\\\":1\"}}]}\n\n"}, {Cut: true}}},
			bot.Listener{},
			nil, "failed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return c.answer }}
				defer server.Close()
				provider, err := openai.New(openai.Options{BaseURL: "http://model.invalid/v1", Transport: server.Transport()})
				if err != nil {
					t.Fatal(err)
				}
				models := &adapter.Registry{Default: "openai:m"}
				models.Register("openai", provider)
				m := ling.New(t.Context(), bot.Config{}, &ling.Options{Models: models})
				b, err := m.CreateBot("b", "x", nil)
				if err != nil {
					t.Fatal(err)
				}
				b.Listen(c.listen)
				if err := b.Chat(bot.Message{Text: "go"}); err != nil {
					t.Fatal(err)
				}
				if c.end != nil {
					time.Sleep(time.Second)
					if server.Open() != 1 {
						t.Fatalf("%d answers are being written", server.Open())
					}
					c.end(m, b)
				}
				m.Close()
				time.Sleep(100 * time.Millisecond) // AD-01 allows so much
				synctest.Wait()
				if server.Open() != 0 {
					t.Errorf("%d answers are still being written", server.Open())
				}
				if status := m.Peek(true).Status; status != c.status {
					t.Errorf("the run is %s: %v", status, m.Peek(true).Errors)
				}
			})
		})
	}
}
