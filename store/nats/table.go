package nats

import (
	"context"
	"log/slog"
	"strings"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

const (
	streamName = "TABLE"
	tableToken = "table"

	headerRoom = 16 << 10 // what headers take at most: a meta of 4 KiB is written in base64
)

// Table is a [store.Table].
type Table struct {
	place
	o      store.TableOptions
	known  cache[*message]
	bounds bounds

	publish func(context.Context, *client.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error) // for tests: answers are lost
}

var _ store.Table = (*Table)(nil)

func openTable(ctx context.Context, e *Engine, o store.TableOptions) (*Table, error) {
	token := cluster.Token(o.Name)
	t := &Table{o: o, publish: e.c.JetStream().PublishMsg}
	t.bounds.t = t
	config := jetstream.StreamConfig{Description: "records of the table " + o.Name, AllowRollup: true, AllowMsgTTL: true, AllowDirect: true}
	if o.Durability == store.Async {
		config.PersistMode = jetstream.AsyncPersistMode
	}
	return t, t.open(ctx, e, e.c.Name(streamName, token), e.c.Subject(tableToken, token), config)
}

// subject is where the messages of a key are.
func (t *Table) subject(key string) string { return t.prefix + tokens(key) }

// key undoes subject. It is "" if a part is too long to be written out in a subject.
func (t *Table) key(subject string) string { return untokens(strings.TrimPrefix(subject, t.prefix)) }

// filter matches at least the subjects of the keys that begin with prefix.
func (t *Table) filter(prefix string) string {
	parts := strings.Split(prefix, "/")
	filter := t.prefix
	for _, part := range parts[:len(parts)-1] {
		filter += cluster.Token(part) + "."
	}
	return filter + ">"
}

// message reads a message of the servers.
func (t *Table) message(subject string, seq uint64, header client.Header, data []byte) message {
	m := message{seq: seq, key: t.key(subject), data: data}
	if m.read(header); m.damaged {
		t.e.log.Warn("table has a damaged record", slog.String("table", t.o.Name), slog.String("key", m.key))
	}
	return m
}

// ask asks the leader for one message.
func (t *Table) ask(ctx context.Context, request any) (message, error) {
	m, err := t.place.ask(ctx, request)
	if err != nil || m == nil {
		return message{}, err
	}
	return t.message(m.Subject, m.Sequence, m.Header, m.Data), nil
}
