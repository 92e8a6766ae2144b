package ling

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// DN-03: events say which bot starts and ends, and where it writes. So bots that share a root can be told apart.
func TestEventsNameTheBotsThatStartAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{Format: bot.Text}, &Options{Models: models{
			"draft": {text: "Hm."}, "answer": {text: "Yes."}, "excuse": {err: errors.New("down")}, "secret": {text: "x"},
		}})
		ask(t, m, "draft", "reply", "draft", bot.Listener{Response: func(bot.Response) {
			ask(t, m, "answer", "reply", "answer", bot.Listener{Response: func(bot.Response) {
				ask(t, m, "excuse", "", "excuse", bot.Listener{Error: func(error) {
					quiet, err := m.CreateBot("secret", "hidden", func(c *bot.Config) { c.Quiet = true })
					if err != nil || quiet.Chat(bot.Message{Text: "secret"}) != nil {
						t.Error(err)
					}
				}})
			}})
		}})
		_ = m.Close() // a bot failed
		var got []string
		for e := range m.Tube().AllEvents(context.Background(), 0) {
			switch {
			case e.Hidden && e.Name == "bot":
				got = append(got, "hidden "+string(e.Value))
			case e.Kind == tube.Append, e.Name == "error":
				got = append(got, e.Name+string(e.URI))
			case e.Name == "bot":
				got = append(got, string(e.Value))
			}
		}
		want := []string{
			`{"bot":"draft","root":"reply","state":"started"}`, "reply", `{"bot":"draft","root":"reply","state":"finished"}`,
			`{"bot":"answer","root":"reply","state":"started"}`, "reply", `{"bot":"answer","root":"reply","state":"finished"}`,
			`{"bot":"excuse","root":"","state":"started"}`, "error", `{"bot":"excuse","root":"","state":"failed"}`,
			`hidden {"bot":"secret","root":"hidden","state":"started"}`, "hidden", `hidden {"bot":"secret","root":"hidden","state":"finished"}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// DN-03: the end of the run says what has become of bots that it stopped.
func TestABotThatIsStoppedWithItsRunHasNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{Format: bot.Text}, &Options{Models: models{"go": {text: "Hm.", hang: true}}})
		ask(t, m, "slow", "", "go", bot.Listener{})
		synctest.Wait()
		_ = m.Cancel(nil)
		n := 0
		for e := range m.Tube().AllEvents(context.Background(), 0) {
			if e.Name == "bot" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events of the bot, expected only its start", n)
		}
	})
}

// asked is a bot that ends while it is asked for its state.
type asked struct{ bot.Machine }

func (a *asked) State() bot.State {
	s := a.Machine.State()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.To(bot.InferenceDone)
		_ = a.To(bot.Finished)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Millisecond): // the manager wants to know its state first
	}
	return s
}

func TestABotThatEndsWhileItIsAddedHasEnded(t *testing.T) {
	m, b := New(t.Context(), bot.Config{}, nil), new(asked)
	_ = b.To(bot.Chatting)
	if err := m.AddBot(b); err != nil {
		t.Fatal(err)
	}
	if err := m.Settle(t.Context()); err != nil { // else it would wait for a bot that has ended
		t.Error(err)
	}
}
