package ling

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// DM-03: a task gives its value to those who wait for it, and is the run's as any other.
func TestATaskGivesItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{}, nil)
		length := Task(m, func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return 7, nil
		})
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if v, err := length(impatient); v != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("whoever does not wait gets %d, %v", v, err)
		}
		for range 2 {
			if v, err := length(t.Context()); v != 7 || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
		}
		wrong := errors.New("wrong")
		if v, err := Task(m, func(context.Context) (string, error) { return "half", wrong })(t.Context()); v != "half" || err != wrong {
			t.Errorf("got %q, %v", v, err)
		}
		if _, err := Task(m, func(context.Context) (string, error) { panic("oh") })(t.Context()); err == nil {
			t.Error("a panic is no error")
		}
		if err := m.Close(); !errors.Is(err, wrong) {
			t.Errorf("the run failed of %v", err)
		}
		if _, err := Task(m, func(context.Context) (int, error) { return 1, nil })(t.Context()); err != ErrEnded {
			t.Errorf("after the end: %v", err)
		}
	})
}

// DW-17: Events are what clients see; AllEvents of the tube has what is hidden, too.
func TestEventsAreWhatClientsSee(t *testing.T) {
	m := New(t.Context(), bot.Config{}, nil)
	m.Tube().AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("secret")}})
	for _, uri := range []string{"open", "secret"} {
		if _, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	m.Close()
	seen := ""
	for e, err := range m.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen += fmt.Sprintf("%s%s ", e.Name, e.URI)
	}
	all := ""
	for e, err := range m.Tube().AllEvents(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintf("%s%s ", e.Name, e.URI)
	}
	if seen != "started open finished " || all != "started open secret finished " {
		t.Errorf("clients see %q, and there is %q", seen, all)
	}
}

// DM-01: a failure of any chat can be handled.
func TestAFailureOfALaterChatIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(t.Context(), bot.Config{Format: bot.Text}, &Options{Models: models{"go": {text: "One."}}})
		b, err := m.CreateBot("b", "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		m.OnFailure(b, func(error) bool { return true })
		for _, question := range []string{"go", "unknown", "go", "unknown"} {
			if err := b.Chat(bot.Message{Text: question}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Wait(t.Context()); (err != nil) != (question == "unknown") {
				t.Errorf("%s: %v", question, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// DM-04: the model that bots ask which name none of their own.
func TestAManagerNamesItsModel(t *testing.T) {
	for want, m := range map[string]*Manager{
		"a:b": New(t.Context(), bot.Config{Model: "a:b"}, &Options{Model: "c:d"}), "c:d": New(t.Context(), bot.Config{}, &Options{Model: "c:d"}), "": New(t.Context(), bot.Config{}, nil),
	} {
		if got := m.Model(); got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
		m.Close()
	}
}
