package ling

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// needsOK makes a bot ask again for what has no member "ok".
func needsOK(c *bot.Config) {
	c.Schema, c.OnInvalid = json.RawMessage(`{"type":"object","required":["ok"]}`), bot.Retry
}

// BO-05, LI-02
func TestWhatABotTakesBackIsOnlyItsOwn(t *testing.T) {
	for _, c := range []struct {
		name  string
		root  string
		start func(t *testing.T, m *Manager) // what else there is
		want  string
	}{
		{"alone", "a", func(*testing.T, *Manager) {}, `{"a":{"ok":2}}`},
		{"alone, without a root", "", func(*testing.T, *Manager) {}, `{"ok":2}`},
		{"beside another root", "a", func(t *testing.T, m *Manager) { ask(t, m, "o", "b", "slow", bot.Listener{}) }, `{"a":{"ok":2},"b":{"x":"abcdefgh"}}`},
		{"a bot without a root goes on", "a", func(t *testing.T, m *Manager) { ask(t, m, "o", "", "slow", bot.Listener{}) }, `{"a":{"no":null,"ok":2},"x":"abcdefgh"}`},
		{"a bot below goes on", "a", func(t *testing.T, m *Manager) { ask(t, m, "o", "a/b", "slow", bot.Listener{}) }, `{"a":{"b":{"x":"abcdefgh"},"no":null,"ok":2}}`},
		{"another wrote here", "a", func(t *testing.T, m *Manager) { ask(t, m, "o", "a", "quick", bot.Listener{}) }, `{"a":{"x":1,"no":null,"ok":2}}`},
		{"another wrote, without a root", "", func(t *testing.T, m *Manager) { ask(t, m, "o", "", "quick", bot.Listener{}) }, `{"x":1,"no":null,"ok":2}`},
		{"another wrote somewhere else", "a", func(t *testing.T, m *Manager) { ask(t, m, "o", "", "quick", bot.Listener{}) }, `{"x":1,"a":{"ok":2}}`},
		{"a task wrote here", "a", func(t *testing.T, m *Manager) {
			m.Tube().Send(tube.Event{Kind: tube.Set, URI: []byte("a/t"), Value: []byte("1")})
		}, `{"a":{"t":1,"no":null,"ok":2}}`},
		{"a bot of another kind", "a", func(t *testing.T, m *Manager) {
			if err := m.AddBot(new(drawing)); err != nil {
				t.Fatal(err)
			}
		}, `{"a":{"no":null,"ok":2}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(t.Context(), bot.Config{}, &Options{Models: models{
					"go": {text: `{"no":1}`, pace: time.Second, then: `{"ok":2}`}, "slow": {text: `{"x":"abcdefgh"}`, pace: 10 * time.Second}, "quick": {text: `{"x":1}`},
				}})
				c.start(t, m)
				synctest.Wait()
				b, err := m.CreateBot("b", c.root, needsOK)
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Chat(bot.Message{Text: "go"}); err != nil {
					t.Fatal(err)
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				r := m.Peek(true)
				if !equal(t, c.want, r.Result) {
					t.Errorf("%s", r.Result)
				}
				if len(r.Errors) != 1 || r.Errors[0].Code != bot.CodeOutputInvalid || r.Status != "completed" {
					t.Errorf("%s: %+v", r.Status, r.Errors)
				}
				if u := r.Usage["b"]; u.TotalTokens != 6 {
					t.Error("both answers are not counted:", u)
				}
			})
		})
	}
}

// PROTOCOL 1.1, LI-02
func TestTheResultIsWhatStaysOfEachBotsAnswers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "bots")
		answers, want := models{}, map[string]any{}
		object := rapid.MapOfN(rapid.StringN(0, 6, -1), value(2), 0, 4)
		for i := range n {
			name := fmt.Sprint("b", i)
			first, second := object.Draw(rt, name), object.Draw(rt, name+" again")
			delete(first, "ok")
			second["ok"] = true
			answers[name] = answer{text: encode(rt, first), then: encode(rt, second), pace: time.Duration(rapid.IntRange(0, 5).Draw(rt, "pace"))}
			want[name] = second
		}
		var result, seen []byte
		synctest.Test(t, func(t *testing.T) {
			m := New(t.Context(), bot.Config{}, &Options{Models: answers})
			for name := range answers {
				b, err := m.CreateBot(name, name, needsOK)
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Chat(bot.Message{Text: name}); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			result, seen = m.Peek(true).Result, m.Peek(false).Result
		})
		for _, got := range [][]byte{result, seen} {
			if diff := cmp.Diff(decode(rt, []byte(encode(rt, want))), decode(rt, got)); diff != "" {
				rt.Fatal(diff)
			}
		}
	})
}

func TestTheResultSaysWhichModelsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{Model: "fake:first,fake:second"}, &Options{Models: models{
			"one": {text: `{"a":1}`, model: "fake:first"}, "two": {text: `{"a":1}`, model: "fake:second"}, "fails": {err: &adapter.Error{Code: adapter.CodeUnavailable}},
			"breaks": {text: `{"a":`, model: "fake:first", err: &adapter.Error{Code: adapter.CodeProtocol}},
		}})
		for i, question := range []string{"one", "two", "one", "breaks"} {
			ask(t, m, "several", fmt.Sprint("x/", i), question, bot.Listener{})
			synctest.Wait()
		}
		ask(t, m, "silent", "y", "fails", bot.Listener{})
		m.Close()
		r := m.Peek(true)
		if diff := cmp.Diff(map[string][]string{"several": {"fake:first", "fake:second"}}, r.Models); diff != "" {
			t.Error(diff)
		}
		r.Models["several"][0] = "changed"
		if got := m.Peek(true).Models["several"][0]; got != "fake:first" {
			t.Error("the result is not a copy")
		}
	})
}
