package postgres

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/longtest"
)

func openBus(t *testing.T, e *Engine, replica string) *Bus {
	t.Helper()
	b, err := e.Bus(t.Context(), replica)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// CL-14: through a pooler, which passes no notices on, a request and its answer take a second each at most.
func TestRequestsWithoutNotices(t *testing.T) {
	schema := newSchema()
	asker, other := open(t, Options{Schema: schema}), open(t, Options{Schema: schema})
	asker.channel, other.channel = newSchema(), newSchema()
	a, b := openBus(t, asker, "a"), openBus(t, other, "b")
	body := bytes.Repeat([]byte("x"), replicas.MaxMessage)
	if _, err := a.Ask(t.Context(), "b", replicas.Message{Command: "say", Wait: time.Minute}); !errors.Is(err, replicas.ErrNobody) {
		t.Errorf("nobody serves: %v", err)
	}
	stop, err := b.Serve(func(m replicas.Message, answer func(replicas.Message)) {
		answer(replicas.Message{Body: m.Body, Text: m.Session})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	began := time.Now()
	got, err := a.Ask(t.Context(), "b", replicas.Message{Command: "say", Session: "\x00\xff", Wait: time.Minute, Body: body})
	if err != nil || !bytes.Equal(got.Body, body) || got.Text != "\x00\xff" {
		t.Errorf("%d bytes, %q, %v", len(got.Body), got.Text, err)
	}
	longtest.Within(t, "an answer without notices", time.Since(began), 4*time.Second)
}

// CL-14: a replica that comes back late does not serve what nobody waits for any more, and messages that nobody reads are removed.
func TestMessagesThatAreLate(t *testing.T) {
	e := open(t, Options{})
	b := openBus(t, e, "b")
	count := func() (n int) {
		t.Helper()
		if err := e.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM messages`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	served := make(chan string, 10)
	stop, err := b.Serve(func(m replicas.Message, answer func(replicas.Message)) {
		served <- m.Command
		answer(replicas.Message{})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, m := range []struct {
		to, command string
		age         time.Duration
	}{{"b", "late", time.Minute / 2}, {"b", "in time", time.Second}, {"gone", "unread", 2 * time.Minute}, {"gone", "fresh", 0}} {
		data, err := (&replicas.Message{Command: m.command, Wait: 10 * time.Second}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		execute(t, e, `INSERT INTO messages (recipient, sender, number, answer, at, data) VALUES ($1, 'gone', 1, false, clock_timestamp() - $2::interval, $3)`, m.to, m.age, data)
	}
	if command := <-served; command != "in time" {
		t.Errorf("%q is served", command)
	}
	if err := b.removeUnread(); err != nil {
		t.Fatal(err)
	}
	for count() != 2 { // "fresh", and the answer to "in time", which its sender does not read
		b.nudge()
	}
	if len(served) > 0 {
		t.Errorf("%q is served, too", <-served)
	}
}
