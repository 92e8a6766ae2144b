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

// Bus is a [replicas.Bus] on core NATS. A request is a message to <prefix>.ask.<replica>, which no server stores, and its answer a message
// to an inbox of the asking replica. A replica that serves no requests says so as long as it is connected: a request that meets the end of
// a subscription would be lost without a word.
type Bus struct {
	c    *Cluster
	part int // bytes of one message
	in   arrivals
}

var _ replicas.Bus = (*Bus)(nil)

// Bus opens the bus of a connection, which ends with it.
func (c *Cluster) Bus() (*Bus, error) {
	part := int(min(c.conn.MaxPayload(), mostPart)) - headerRoom
	if part < headerRoom {
		return nil, fmt.Errorf("cluster: the servers accept messages of up to %d bytes; expected at least %d",
			c.conn.MaxPayload(), 2*headerRoom)
	}
	b := &Bus{c: c, part: part, in: arrivals{open: map[string]*arriving{}}}
	sub, err := c.conn.Subscribe(b.subject(c.replica), b.take)
	if err == nil {
		err = sub.SetPendingLimits(waitingMessages, waitingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: requests of other replicas: %w", err)
	}
	// So that others find it from now on. If the servers are away, they do when those are back.
	_ = c.conn.FlushTimeout(flushWait)
	return b, nil
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
			if answer, err = replicas.Decode(in.data); err == nil {
				err = answer.Nobody()
			}
			return answer, err
		}
	}
}

// unsent marks an error if the message did not leave this process.
func unsent(err error) error {
	for _, known := range []error{
		nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrDisconnected,
	} {
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
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	b.in.serve = serve
	return func() {
		b.in.mu.Lock()
		defer b.in.mu.Unlock()
		b.in.serve = nil
		clear(b.in.open)
		b.in.bytes = 0
	}, nil
}

// take takes a message; one goroutine does. It must not block.
func (b *Bus) take(m *nats.Msg) {
	if m.Reply == "" {
		return
	}
	answer := func(answer replicas.Message) {
		_ = b.publish(m.Reply, "", answer) // if the servers are away, the asking replica waits in vain
	}
	data, serve, err := b.in.add(m)
	switch {
	case err != nil:
		answer(replicas.Message{Code: "overloaded", Text: err.Error()})
		return
	case serve == nil:
		answer(replicas.NobodyServes())
		return
	case data == nil:
		return
	}
	request, err := replicas.Decode(data)
	if err != nil {
		b.c.complain(nil, nil, err)
		return
	}
	serve(request, answer)
}

// arrivals are the requests to this replica.
type arrivals struct {
	mu    sync.Mutex
	serve func(replicas.Message, func(replicas.Message)) // nil: nobody serves
	open  map[string]*arriving                           // requests in parts, by the inbox of the asking replica
	bytes int                                            // of them
}

var errArriving = errors.New("the replica serves too many large requests at once")

// add takes a message, and returns the request when it is whole.
func (in *arrivals) add(m *nats.Msg) (data []byte, serve func(replicas.Message, func(replicas.Message)), err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	part := m.Header.Get(headerPart)
	if part == "" || in.serve == nil {
		return m.Data, in.serve, nil
	}
	a := in.open[m.Reply]
	if a == nil {
		if !strings.HasPrefix(part, "0 ") { // its beginning was lost, or it was refused
			return nil, in.serve, nil
		}
		in.dropLate()
		if len(in.open) >= mostArriving {
			return nil, in.serve, errArriving
		}
		a = &arriving{since: time.Now()}
		in.open[m.Reply] = a
	}
	if in.bytes+len(m.Data) > mostArrivingBytes {
		in.drop(m.Reply)
		return nil, in.serve, errArriving
	}
	before := len(a.data)
	whole, err := a.add(m)
	in.bytes += len(a.data) - before
	switch {
	case err != nil:
		in.drop(m.Reply)
	case whole:
		in.drop(m.Reply)
		return a.data, in.serve, nil
	}
	return nil, in.serve, nil
}

// drop forgets a request in parts.
func (in *arrivals) drop(reply string) {
	in.bytes -= len(in.open[reply].data)
	delete(in.open, reply)
}

// dropLate forgets the requests of which a part has not come. It is called when another one begins: until then they are few.
func (in *arrivals) dropLate() {
	for reply, a := range in.open {
		if time.Since(a.since) >= arriveWait {
			in.drop(reply)
		}
	}
}
