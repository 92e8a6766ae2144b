package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster/replicas"
)

const (
	askToken = "ask"

	// Messages with more bytes are sent in parts, in order.
	mostPart   = 1 << 20
	headerRoom = 1 << 10
	headerPart = "Part" // "<number> <count>", from 0

	// Bounds of what waits for the goroutine of a subscription. More is lost, and the asking replica is not told.
	waitingMessages, waitingBytes = 4096, 64 << 20

	// Bounds of the requests in parts that arrive at the same time, together. More are refused.
	mostArriving      = 64
	mostArrivingBytes = 4 * replicas.MaxMessage
	arriveWait        = 10 * time.Second // for all parts of a request

	flushWait = time.Second
)

// Bus is a [replicas.Bus] on core NATS. A request is a message to <prefix>.ask.<replica>, which no server stores, and its answer a message to
// an inbox of the asking replica.
type Bus struct {
	c    *Cluster
	part int // bytes of one message
}

var _ replicas.Bus = (*Bus)(nil)

// Bus returns the bus of a connection.
func (c *Cluster) Bus() (*Bus, error) {
	part := int(min(c.conn.MaxPayload(), mostPart)) - headerRoom
	if part < headerRoom {
		return nil, fmt.Errorf("cluster: the servers accept messages of up to %d bytes; expected at least %d", c.conn.MaxPayload(), 2*headerRoom)
	}
	return &Bus{c: c, part: part}, nil
}

func (b *Bus) subject(replica string) string { return b.c.Subject(askToken, Token(replica)) }

// Ask implements [replicas.Bus].
func (b *Bus) Ask(ctx context.Context, replica string, request replicas.Message) (answer replicas.Message, err error) {
	sub, err := b.c.conn.SubscribeSync(b.c.conn.NewInbox())
	if err != nil {
		return answer, unsent(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // else with the connection
	if err := b.publish(b.subject(replica), sub.Subject, request); err != nil {
		return answer, unsent(err)
	}
	for in := (arriving{}); ; {
		m, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return answer, replicas.ErrNobody
		}
		whole := false
		if err == nil {
			whole, err = in.add(m)
		}
		if err != nil {
			return answer, err
		}
		if whole {
			return replicas.Decode(in.data)
		}
	}
}

// unsent marks an error if the message did not leave this process.
func unsent(err error) error {
	for _, known := range []error{nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrDisconnected} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", replicas.ErrUnsent, err)
		}
	}
	return err
}

// publish sends a message in as many parts as it needs. The servers keep them in order.
func (b *Bus) publish(subject, reply string, message replicas.Message) error {
	data, err := message.Encode()
	if err != nil {
		return err
	}
	parts := (len(data) + b.part - 1) / b.part
	for i := range parts {
		m := &nats.Msg{Subject: subject, Reply: reply, Data: data[i*b.part : min(len(data), (i+1)*b.part)]}
		if parts > 1 {
			m.Header = nats.Header{headerPart: {fmt.Sprint(i, " ", parts)}}
		}
		if err := b.c.conn.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// errParts means that a part was lost with a connection.
var errParts = errors.New("cluster: a part of a message is missing")

// arriving is a message in parts, as far as they have come.
type arriving struct {
	data  []byte
	next  int
	since time.Time
}

// add takes a part, and reports whether it was the last.
func (a *arriving) add(m *nats.Msg) (whole bool, err error) {
	text := m.Header.Get(headerPart)
	if text == "" {
		a.data = m.Data
		return true, nil
	}
	var part, parts int
	if _, err := fmt.Sscan(text, &part, &parts); err != nil || part != a.next || part >= parts {
		return false, errParts
	}
	if len(a.data)+len(m.Data) > replicas.MaxMessage+mostPart {
		return false, fmt.Errorf("cluster: a message has more than %d bytes", replicas.MaxMessage)
	}
	a.data = append(a.data, m.Data...)
	a.next++
	return a.next == parts, nil
}

// Serve implements [replicas.Bus].
func (b *Bus) Serve(serve func(replicas.Message, func(replicas.Message))) (stop func(), err error) {
	in := &arrivals{b: b, serve: serve, open: map[string]*arriving{}}
	sub, err := b.c.conn.Subscribe(b.subject(b.c.replica), in.take)
	if err == nil {
		err = sub.SetPendingLimits(waitingMessages, waitingBytes)
	}
	if err != nil {
		return nil, err
	}
	// So that others find it from now on. If the servers are away, they do when those are back.
	_ = b.c.conn.FlushTimeout(flushWait)
	return func() {
		_ = sub.Unsubscribe() // fails if the connection is closed: then there is none
		in.close()
	}, nil
}

// arrivals are the requests to this replica.
type arrivals struct {
	b     *Bus
	serve func(replicas.Message, func(replicas.Message))

	mu     sync.Mutex
	open   map[string]*arriving // requests in parts, by the inbox of the asking replica
	bytes  int                  // of them
	closed bool
	sweep  *time.Timer // nil while nothing is open
}

// take takes a message; one goroutine does. It must not block.
func (in *arrivals) take(m *nats.Msg) {
	if m.Reply == "" {
		return
	}
	data := m.Data
	if m.Header.Get(headerPart) != "" {
		if data = in.part(m); data == nil {
			return
		}
	}
	request, err := replicas.Decode(data)
	if err != nil {
		in.b.c.complain(nil, nil, err)
		return
	}
	in.serve(request, func(answer replicas.Message) {
		_ = in.b.publish(m.Reply, "", answer) // if the servers are away, the asking replica waits in vain
	})
}

// part takes a part of a request, and returns the request when it is whole.
func (in *arrivals) part(m *nats.Msg) []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	a := in.open[m.Reply]
	switch {
	case in.closed, a == nil && !strings.HasPrefix(m.Header.Get(headerPart), "0 "): // its beginning was lost, or it was refused
		return nil
	case a == nil && len(in.open) >= mostArriving, in.bytes+len(m.Data) > mostArrivingBytes:
		in.drop(m.Reply)
		_ = in.b.publish(m.Reply, "", replicas.Message{Code: "overloaded", Text: "the replica serves too many large requests at once"})
		return nil
	case a == nil:
		a = &arriving{since: time.Now()}
		in.open[m.Reply] = a
		if in.sweep == nil {
			in.sweep = time.AfterFunc(arriveWait, in.late)
		}
	}
	whole, err := a.add(m)
	if err != nil {
		in.drop(m.Reply)
		return nil
	}
	in.bytes += len(m.Data)
	if !whole {
		return nil
	}
	in.drop(m.Reply)
	return a.data
}

// drop forgets a request in parts. The lock is held.
func (in *arrivals) drop(reply string) {
	if a := in.open[reply]; a != nil {
		in.bytes -= len(a.data)
		delete(in.open, reply)
	}
}

// late forgets the requests of which a part has not come.
func (in *arrivals) late() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	in.sweep = nil
	for reply, a := range in.open {
		if time.Since(a.since) >= arriveWait {
			in.drop(reply)
		}
	}
	if len(in.open) > 0 {
		in.sweep = time.AfterFunc(arriveWait, in.late)
	}
}

func (in *arrivals) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	if in.sweep != nil {
		in.sweep.Stop()
	}
	clear(in.open)
}
