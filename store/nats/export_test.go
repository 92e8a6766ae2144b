package nats

import (
	"context"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// Publish lets a test stand between a table and the servers.
func Publish(tab store.Table, between func(ctx context.Context, m *client.Msg, send func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error)) {
	t := tab.(*Table)
	real := t.publish
	t.publish = func(ctx context.Context, m *client.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		return between(ctx, m, func() (*jetstream.PubAck, error) { return real(ctx, m, o...) })
	}
}

// Forget makes a table forget the heads that it knows.
func Forget(tab store.Table) { tab.(*Table).known.clear() }

// Stream is the name of a table's stream, and Subject where a key is.
func Stream(tab store.Table) string { return tab.(*Table).name }

// Subject is where the messages of a key are.
func Subject(tab store.Table, key string) string { return tab.(*Table).subject(key) }

// AwaitSeen waits until the bounds of a table know all messages up to a revision.
func AwaitSeen(ctx context.Context, t store.Table, rev uint64) error {
	b := &t.(*Table).bounds
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.seen < rev {
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Followed reports whether a process knows the records of a table.
func Followed(tab store.Table) bool {
	b := &tab.(*Table).bounds
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.on
}

// Lose has the servers lose the message with an entry of a log.
func Lose(t testing.TB, c *cluster.Cluster, space, name string, n uint64) {
	t.Helper()
	e := Open(c, Options{})
	defer e.Close()
	log, err := e.Log(t.Context(), store.LogOptions{Space: space, Indexed: space != "plain"})
	if err != nil {
		t.Fatal(err)
	}
	l := log.(*Log)
	h, err := l.find(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	kept, _, err := l.firstKept(t.Context(), name, h, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := (*l.stream.Load()).DeleteMsg(t.Context(), kept.seq); err != nil {
		t.Fatal(err)
	}
}

// PublishLog lets a test stand between a log and the servers.
func PublishLog(log store.Log, between func(m *client.Msg, send func() (*client.Msg, error)) (*client.Msg, error)) {
	l := log.(*Log)
	real := l.e.c.Conn().RequestMsgWithContext
	l.publish = func(ctx context.Context, m *client.Msg) (*client.Msg, error) {
		return between(m, func() (*client.Msg, error) { return real(ctx, m) })
	}
}

// ForgetLogs makes a space forget the heads that it knows.
func ForgetLogs(log store.Log) { log.(*Log).known.clear() }

// LogStream is the name of a space's stream, and LogSubject where the batches of a log are.
func LogStream(log store.Log) string { return log.(*Log).name }

// LogSubject is where the batches of a log are.
func LogSubject(log store.Log, name string) string { return log.(*Log).subject(name) }

// Rows is how many logs the directory has.
func Rows(log store.Log) int {
	d := &log.(*Log).rows
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows.Len()
}

// Cluster is the connection of a space.
func Cluster(log store.Log) *cluster.Cluster { return log.(*Log).e.c }

// SetWaits changes how long is waited for an answer, and in all.
func SetWaits(e *Engine, answer, all time.Duration) { e.waits = waits{answer, all, all} }

// SetSizes changes how many bytes of a batch one message has.
func SetSizes(log store.Log, size int) {
	l := log.(*Log)
	l.inline, l.chunk = size, size
}

// Batches returns the last message of each batch of a log's page, and how many messages the batch has.
func Batches(ctx context.Context, log store.Log, name string) (last []uint64, messages []int, err error) {
	h, err := log.(*Log).find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	spots, err := h.spots()
	for _, at := range spots {
		last, messages = append(last, at.seq), append(messages, int(at.parts))
	}
	return last, messages, err
}
