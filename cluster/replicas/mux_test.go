package replicas_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lingserve/lingserve/cluster/replicas"
)

// oneBus is a bus of one replica, which it asks itself.
type oneBus struct {
	serve func(replicas.Message, func(replicas.Message))
}

func (b *oneBus) Ask(_ context.Context, _ string, m replicas.Message) (a replicas.Message, err error) {
	b.serve(m, func(answer replicas.Message) { a = answer })
	return a, a.Nobody()
}

func (b *oneBus) Serve(serve func(replicas.Message, func(replicas.Message))) (func(), error) {
	b.serve = serve
	return func() {}, nil
}

// Each user of a bus gets its own requests. One that does not serve says so, whether others do or not.
func TestUsersShareABus(t *testing.T) {
	m, err := replicas.NewMux(new(oneBus))
	if err != nil {
		t.Fatal(err)
	}
	logs, rest := m.Of("logs"), m.Of("")
	ask := func(b replicas.Bus, command string) (string, error) {
		a, err := b.Ask(t.Context(), "r", replicas.Message{Command: command})
		return a.Text, err
	}
	for _, b := range []replicas.Bus{logs, rest} {
		if _, err := ask(b, "x"); !errors.Is(err, replicas.ErrNobody) {
			t.Errorf("before one serves: %v", err)
		}
	}
	serve := func(b replicas.Bus, who string) (stop func()) {
		stop, err := b.Serve(func(m replicas.Message, answer func(replicas.Message)) {
			answer(replicas.Message{Text: who + " " + m.Command})
		})
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	stop := serve(logs, "logs")
	serve(rest, "rest")
	if a, err := ask(logs, "ignored"); err != nil || a != "logs logs" {
		t.Errorf("%q, %v", a, err)
	}
	if a, err := ask(rest, "cancel"); err != nil || a != "rest cancel" {
		t.Errorf("%q, %v", a, err)
	}
	stop()
	if a, err := ask(logs, ""); !errors.Is(err, replicas.ErrNobody) {
		t.Errorf("behind its end: %q, %v", a, err)
	}
}
