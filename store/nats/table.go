package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

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
	e       *Engine
	o       store.TableOptions
	name    string // of the stream
	prefix  string // of subjects, with the dot
	barrier *cluster.Barrier
	stream  atomic.Pointer[jetstream.Stream]
	known   known
	bounds  bounds

	publish func(context.Context, *client.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error) // for tests: answers are lost
}

var _ store.Table = (*Table)(nil)

func openTable(ctx context.Context, e *Engine, o store.TableOptions) (*Table, error) {
	token := cluster.Token(o.Name)
	t := &Table{e: e, o: o, name: e.c.Name(streamName, token), prefix: e.c.Subject(tableToken, token) + ".", publish: e.c.JetStream().PublishMsg}
	t.barrier = e.c.Barrier(t.name, t.prefix+cluster.BarrierToken)
	t.bounds.t = t
	if err := t.make(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	return t, nil
}

// make makes the stream if it does not exist. One that is made again, after an operator has deleted it, has higher sequences than before,
// since they begin with the time in microseconds: so no revision of before fits.
func (t *Table) make(ctx context.Context) error {
	config := jetstream.StreamConfig{
		Name: t.name, Subjects: []string{t.prefix + ">"}, Description: "records of the table " + t.o.Name, FirstSeq: uint64(time.Now().UnixMicro()),
		AllowRollup: true, AllowMsgTTL: true, AllowDirect: true,
	}
	if t.o.Durability == store.Async {
		config.PersistMode = jetstream.AsyncPersistMode
	}
	s, err := t.e.c.Stream(ctx, config)
	if err != nil {
		return err
	}
	t.stream.Store(&s)
	return nil
}

// subject is where the messages of a key are.
func (t *Table) subject(key string) string {
	var b strings.Builder
	b.WriteString(t.prefix)
	for part := range strings.SplitSeq(key, "/") {
		if b.Len() > len(t.prefix) {
			b.WriteByte('.')
		}
		b.WriteString(cluster.Token(part))
	}
	return b.String()
}

// key undoes subject. It is "" if a part is too long to be written out in a subject.
func (t *Table) key(subject string) string {
	parts := strings.Split(strings.TrimPrefix(subject, t.prefix), ".")
	for i, token := range parts {
		part, ok := cluster.Untoken(token)
		if !ok {
			return ""
		}
		parts[i] = part
	}
	return strings.Join(parts, "/")
}

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
	data, err := json.Marshal(request)
	if err != nil {
		return message{}, err
	}
	answer, err := t.e.c.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+t.name, data)
	if err != nil {
		return message{}, err
	}
	var a struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer.Data, &a); {
	case err != nil:
		return message{}, fmt.Errorf("an answer of no known form: %w", err)
	case a.Error != nil && a.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return message{}, nil
	case a.Error != nil:
		return message{}, a.Error
	case a.Message == nil:
		return message{}, errors.New("an answer of no known form")
	}
	header, err := client.DecodeHeadersMsg(a.Message.Header)
	if err != nil {
		header = nil // of a message that is not the engine's
	}
	return t.message(a.Message.Subject, a.Message.Sequence, header, a.Message.Data), nil
}
