package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Barrier makes sure that what a server says is not in a stream, is not. The leader of a stream is asked without a word to the others, so
// that one that stood still, or was cut off, answers as if it still led, until it learns better: what was stored meanwhile it says is not
// there.
//
// So a message is stored on a subject of the stream, which takes more than half of the servers, and one server is asked for that message
// and for what is looked for at once. Where it has the one, it has all that was stored before, and its no is true; else it is asked again.
// Callers who ask at the same time share a message, but never one that was sent before they asked. It costs a caller two answers, and is
// for those who would be told a no: what is there is there.
//
// The stream must allow direct reads, and either keep one message a subject or allow rollups.
type Barrier struct {
	c       *Cluster
	stream  string // its whole name
	subject string

	mu   sync.Mutex
	next *passage // that is sent next; nil where nobody waits for one
	busy bool     // a goroutine sends them, one after the other
}

// BarrierToken is no token that [Token] makes, so that the subject of a barrier may be beside theirs.
const BarrierToken = "=barrier"

// passage is one message.
type passage struct {
	done     chan struct{} // closed when the others are set
	sequence uint64
	err      error
}

// callWait bounds one request.
const callWait = time.Second

const (
	// A server that lacks what is acknowledged is asked again: it gets it within milliseconds where it is not far behind.
	firstStale, lastStale = 2 * time.Millisecond, 200 * time.Millisecond
)

// Barrier makes one for a stream, which has its whole name here, and of which it has the subject for itself.
func (c *Cluster) Barrier(stream, subject string) *Barrier {
	return &Barrier{c: c, stream: stream, subject: subject}
}

// Subject is where its messages are.
func (b *Barrier) Subject() string { return b.subject }

// Pass returns the sequence of a message that was stored after the call: all that was acknowledged before comes before it.
func (b *Barrier) Pass(ctx context.Context) (sequence uint64, err error) {
	b.mu.Lock()
	p := b.next
	if p == nil {
		p = &passage{done: make(chan struct{})}
		b.next = p
		if !b.busy {
			if !b.c.begin(b.run) {
				b.next = nil
				b.mu.Unlock()
				return 0, ErrClosed
			}
			b.busy = true
		}
	}
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.sequence, p.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// begin starts a goroutine that ends with the cluster; false where it is closed.
func (c *Cluster) begin(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(f)
	return true
}

// run sends messages while somebody waits for one.
func (b *Barrier) run() {
	for {
		b.mu.Lock()
		p := b.next
		b.next, b.busy = nil, p != nil
		b.mu.Unlock()
		if p == nil {
			return
		}
		p.sequence, p.err = b.send()
		close(p.done)
	}
}

func (b *Barrier) send() (uint64, error) {
	ctx, cancel := context.WithTimeout(b.c.end, callWait)
	defer cancel()
	m := &nats.Msg{Subject: b.subject, Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
	ack, err := b.c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, fmt.Errorf("cluster: stream %s: %w", b.stream, err)
	}
	return ack.Sequence, nil
}

// Last is the last message of a subject, with the headers of a direct read, or nil where there was none at some moment of the call. The
// servers have a second to store the barrier's message; then it takes as long as ctx lets it. An error says that nobody knows.
func (b *Barrier) Last(ctx context.Context, subject string) (*nats.Msg, error) {
	ask, err := json.Marshal(struct {
		Last []string `json:"multi_last"`
	}{[]string{b.subject, subject}})
	if err != nil {
		return nil, err
	}
	var found *nats.Msg
	err = b.confirmed(ctx, func(ctx context.Context, sequence uint64) (current bool, err error) {
		found = nil
		if err = b.c.Direct(ctx, b.stream, ask, 3, func(m *nats.Msg, n uint64) {
			switch m.Header.Get(jetstream.SubjectHeader) {
			case b.subject:
				current = n >= sequence
			case subject:
				found = m
			}
		}); err != nil || !current || found != nil {
			return current, err
		}
		// A server first looks how far it has got, and then for messages up to there. Where a subject keeps only its newest message and that
		// came in between, it has seen none.
		newer := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":1}`, sequence+1, subject)
		err = b.c.Direct(ctx, b.stream, newer, 3, func(m *nats.Msg, _ uint64) { found = m })
		return current, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// At is the message of a sequence, or nil where there is none, as Last.
func (b *Barrier) At(ctx context.Context, sequence uint64) (*nats.Msg, error) {
	// A batch says what comes next where there is none. What comes behind the barrier's message is not asked for, since that says nothing.
	ask := fmt.Appendf(nil, `{"seq":%d,"batch":1}`, sequence)
	var found *nats.Msg
	err := b.confirmed(ctx, func(ctx context.Context, _ uint64) (current bool, err error) {
		found = nil
		err = b.c.Direct(ctx, b.stream, ask, 3, func(m *nats.Msg, n uint64) {
			if current = true; n == sequence {
				found = m
			}
		})
		return current, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// confirmed asks until a server is found to have all that was stored before the call.
func (b *Barrier) confirmed(ctx context.Context, ask func(ctx context.Context, sequence uint64) (current bool, err error)) error {
	sequence, err := b.Pass(ctx)
	if err != nil {
		return err
	}
	for wait := firstStale; ; wait = min(2*wait, lastStale) {
		attempt, cancel := context.WithTimeout(ctx, callWait)
		current, err := ask(attempt, sequence)
		cancel()
		if current && err == nil {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("cluster: stream %s: no server is found that has all of it: %w", b.stream, errors.Join(context.Cause(ctx), err))
		case <-b.c.end.Done():
			return ErrClosed
		}
	}
}

// Direct asks any server for messages of a stream, which has its whole name here, and takes what it answers, to its end. most is how many
// messages the request asks for at most. The client of JetStream asks for one.
func (c *Cluster) Direct(ctx context.Context, stream string, ask []byte, most int, take func(m *nats.Msg, sequence uint64)) error {
	answers := make(chan *nats.Msg, most+1) // the last one says that it is the end
	sub, err := c.conn.ChanSubscribe(c.conn.NewInbox(), answers)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails where the connection is lost, and then it is gone
	if err := c.conn.PublishRequest("$JS.API.DIRECT.GET."+stream, sub.Subject, ask); err != nil {
		return err
	}
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			n, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
			if err != nil {
				return fmt.Errorf("cluster: stream %s: a message without a sequence: %w", stream, err)
			}
			take(m, n)
		case "204", "404": // the end, or nothing
			return nil
		default:
			return fmt.Errorf("cluster: stream %s: %s %s", stream, status, bytes.TrimSpace([]byte(m.Header.Get("Description"))))
		}
	}
}
