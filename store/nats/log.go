package nats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

const (
	logStream   = "LOG"
	logToken    = "log"
	storedToken = "stored" // of the subjects where the servers publish what they have stored

	// The last token of the subjects of a log. In the stream of tapes, which is older than this package, others are beside it; see before.
	batchesToken = "e"
	deletedToken = "d" // where a deletion is told

	// A batch of more bytes is stored in parts, so that it costs little to read the last message of a log, whatever was appended.
	maxInline = 64 << 10
	maxChunk  = 256 << 10 // bytes of a part

	deletedLife = time.Hour // of what a deleted log leaves
)

// Log is a [store.Log].
type Log struct {
	place
	o      store.LogOptions
	stored string // what begins the subjects where stored messages are published, with the dot
	before bool   // the stream may have what older versions wrote
	inline int    // bytes of a batch that is one message
	chunk  int    // bytes of a part
	known  cache[*logHead]
	room   room
	rows   directory

	publish func(context.Context, *client.Msg) (*client.Msg, error) // for tests: answers are lost
}

var (
	_ store.Log       = (*Log)(nil)
	_ store.LogEngine = (*Engine)(nil)
)

// Log implements [store.LogEngine].
func (e *Engine) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	return opened(ctx, e, e.logs, "space", o.Space, func(ctx context.Context) (store.Log, error) {
		l := &Log{o: o, publish: e.c.Conn().RequestMsgWithContext}
		return l, l.start(ctx, e)
	})
}

func (l *Log) start(ctx context.Context, e *Engine) error {
	o := &l.o
	token := cluster.Token(o.Space)
	name, prefix := e.c.Name(logStream, token), e.c.Subject(logToken, token)
	if l.before = o.Space == tapesSpace; l.before {
		name, prefix = e.c.Name(tapesStream), e.c.Subject(tapesSpace)
	}
	l.stored = e.c.Subject(storedToken, token) + "."
	config := jetstream.StreamConfig{
		Description: "logs of the space " + o.Space, Discard: jetstream.DiscardNew, MaxAge: o.Keep,
		AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, AllowAtomicPublish: o.Indexed,
		RePublish: &jetstream.RePublish{Source: prefix + ".>", Destination: l.stored + ">"},
	}
	if o.Keep > 0 {
		config.Duplicates = min(o.Keep, time.Second) // no message has an ID of that kind
	}
	if o.MaxBytes > 0 {
		config.MaxBytes = o.MaxBytes + o.MaxBytes/100 + spareBytes
	}
	if o.Durability == store.Async && !o.Indexed { // the servers do not have both
		config.PersistMode = jetstream.AsyncPersistMode
	}
	most := int(e.c.Conn().MaxPayload()) - headerRoom
	if most < headerRoom {
		return fmt.Errorf("the servers accept messages of up to %d bytes; expected at least %d", e.c.Conn().MaxPayload(), 2*headerRoom)
	}
	l.inline, l.chunk = most, most
	if o.Indexed {
		l.inline, l.chunk = min(maxInline, most), min(maxChunk, most)
	}
	l.room.l, l.rows.l = l, l
	l.remade = l.forget
	if err := l.open(ctx, e, name, prefix, config); err != nil {
		return err
	}
	if made := (*l.stream.Load()).CachedInfo().Config; o.Indexed && !made.AllowAtomicPublish || !made.AllowMsgTTL {
		return fmt.Errorf("%w: logs need servers of version 2.12, for atomic publishing", cluster.ErrTooOld)
	}
	return nil
}

// forget drops what is known of a stream that was deleted.
func (l *Log) forget() {
	l.known.clear()
	l.rows.reset()
}

// subject is where the batches of a log are.
func (l *Log) subject(name string) string { return l.prefix + l.tokens(name) + "." + batchesToken }

// nameOf undoes subject. It is "" if a part is too long to be written out in a subject, or if the subject is not one of batches.
func (l *Log) nameOf(subject string) string {
	name, ok := strings.CutSuffix(strings.TrimPrefix(subject, l.prefix), "."+batchesToken)
	if !ok {
		return ""
	}
	return l.untokens(name)
}

// Info implements [store.Log].
func (l *Log) Info(ctx context.Context, name string) (store.Info, error) {
	if err := store.CheckKey(name); err != nil {
		return store.Info{}, err
	}
	h, err := l.find(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	return h.info(name), nil
}

// Sync implements [store.Log]: what was acknowledged is as durable as the servers make it.
func (l *Log) Sync(ctx context.Context, _ ...string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return context.Cause(l.e.end)
}

// find returns the head of a log that exists.
func (l *Log) find(ctx context.Context, name string) (h *logHead, err error) {
	err = l.again(ctx, func(ctx context.Context) error {
		if h, err = l.head(ctx, name); err == nil && !h.lives() {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return l.expire(ctx, name, h)
	})
	return h, err
}

// getRequest asks for a message: the one of a sequence, the last of a subject, or the next of a subject from a sequence on.
type getRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`

	// Of any copy alone: so many messages, until they have so many bytes.
	Batch    int `json:"batch,omitempty"`
	MaxBytes int `json:"max_bytes,omitempty"`
}

// head returns what the last message of a log says, or nil. That there is no log is certain, and so is that the head is as new as what this
// process has seen.
func (l *Log) head(ctx context.Context, name string) (*logHead, error) {
	subject := l.subject(name)
	m, err := l.ask(ctx, getRequest{Last: subject})
	if err != nil {
		return nil, err
	}
	h, err := l.headIn(ctx, name, m)
	if err != nil || h.lives() && h.seq >= l.known.find(name).sequence() {
		return h, err
	}
	last, err := l.barrier.Last(ctx, subject)
	if err != nil {
		return nil, err
	}
	if last == nil {
		return l.blobBefore(ctx, name)
	}
	if m = directMsg(last); m == nil {
		return nil, fmt.Errorf("log %q: a message without a sequence", name)
	}
	return l.headIn(ctx, name, m)
}

// headIn reads the last message of a log. In a space that is not Indexed it may be of a batch whose writer has not come to its end.
func (l *Log) headIn(ctx context.Context, name string, m *jetstream.RawStreamMsg) (*logHead, error) {
	if m == nil {
		return nil, nil
	}
	last := m.Sequence
	for {
		h, p, err := l.read(m)
		switch {
		case err != nil:
			return nil, fmt.Errorf("log %q: %w", name, err)
		case h != nil:
			h.tail = last
			if h.lives() {
				l.known.add(name, h)
			}
			return h, nil
		case p.before == 0:
			return &logHead{seq: last, tail: last, state: stateGone}, nil
		}
		before := p.before
		if m, err = l.ask(ctx, getRequest{Seq: before}); err != nil {
			return nil, err
		}
		if m == nil {
			return nil, fmt.Errorf("log %q: message %d is missing: %w", name, before, store.ErrDamaged)
		}
	}
}

// expire takes from a head what the servers have removed since because of its age.
func (l *Log) expire(ctx context.Context, name string, h *logHead) error {
	if l.o.Keep <= 0 || time.Since(time.UnixMicro(h.created)) < l.o.Keep || h.entries == h.gone {
		return nil
	}
	m, err := l.ask(ctx, getRequest{Seq: 1, Next: l.subject(name)})
	if err != nil || m == nil {
		return err
	}
	first, err := l.headOfBatch(ctx, name, m)
	if err != nil || first == nil || first.last < h.first {
		return err
	}
	h.first = first.last + 1
	if first.n > 0 {
		h.first = first.from
	}
	h.gone, h.goneBytes = max(h.gone, first.entries-first.n), max(h.goneBytes, first.bytes-first.size)
	return nil
}

// headOfBatch returns the last message of the batch that a message belongs to, or nil if the batch has no end.
func (l *Log) headOfBatch(ctx context.Context, name string, m *jetstream.RawStreamMsg) (*logHead, error) {
	for {
		h, p, err := l.read(m)
		if err != nil || h != nil {
			return h, err
		}
		id, next := p.id, p.number+1
		if m, err = l.ask(ctx, getRequest{Seq: m.Sequence + 1, Next: l.subject(name)}); err != nil || m == nil {
			return nil, err
		}
		if _, p, err = l.read(m); err != nil || p.id != id || p.number != next {
			return nil, err
		}
	}
}

// directMsg reads the answer of a copy; it is nil if the copy has no such message.
func directMsg(m *client.Msg) *jetstream.RawStreamMsg {
	if m.Header.Get("Status") != "" {
		return nil
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil
	}
	return &jetstream.RawStreamMsg{Subject: m.Header.Get(jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data}
}

// purge removes what is under a subject, up to before a sequence; 0: all.
func (l *Log) purge(ctx context.Context, filter string, before uint64) error {
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(filter)}
	if before > 0 {
		options = append(options, jetstream.WithPurgeSequence(before))
	}
	return (*l.stream.Load()).Purge(ctx, options...)
}
