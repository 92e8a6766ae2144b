package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/control"
	_ "github.com/lingserve/lingserve/store/nats" // the table of leases
)

// Options of a control; the zero value has the defaults.
type Options struct {
	Log *slog.Logger // nil is nowhere
}

const (
	askToken = "ask"

	// A replica that was there a moment ago and has no subscription may be connecting anew, which takes some 300 ms; and so may this one.
	reconnectWait = time.Second
	retryEvery    = 50 * time.Millisecond

	// While an answer is waited for, it is asked whether the replica still listens. Servers of a cluster tell each other of subscriptions that
	// have ended a moment later: a request that comes between is lost, and nobody says so. A replica that is there may be connecting anew.
	probeEvery = 400 * time.Millisecond
	mostMissed = 3

	// askAgain is when a request that may be is sent again: its message, or the answer, was lost with a server's connection. Each time it is
	// twice as long, for one that takes longer than that would else never have its answer waited for, and add to what it waits behind.
	askAgain = time.Second

	// headerRoom is what a message has beside its part of a body: names and errors, escaped.
	headerRoom = 32 << 10
	// What may wait for the goroutine of a subscription. More is lost, and who has asked is told nothing.
	waitingMessages, waitingBytes = 4096, 64 << 20
)

// Control is a [control.Control].
type Control struct {
	cluster  *cluster.Cluster
	conn     *client.Conn
	presence *cluster.Presence
	desk     control.Desk
	part     int // bytes of a body in one message
	unwatch  func()
	lose     func() bool // for tests: an answer is lost

	mu     sync.Mutex
	closed bool
	asked  map[*question]struct{}
}

// question is one that waits for its answer.
type question struct {
	replica string
	lose    context.CancelCauseFunc
}

var _ control.Control = (*Control)(nil)

// Open makes a control of a connection, which is the caller's to close, after this.
func Open(ctx context.Context, c *cluster.Cluster, o Options) (*Control, error) {
	presence, err := c.Presence(ctx)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	n := &Control{cluster: c, conn: c.Conn(), presence: presence, desk: control.Desk{Log: o.Log}, asked: map[*question]struct{}{}}
	if n.part = int(min(n.conn.MaxPayload(), 1<<20)) - headerRoom; n.part < headerRoom {
		return nil, fmt.Errorf("control: the servers accept messages of up to %d bytes; expected at least %d", n.conn.MaxPayload(), 2*headerRoom)
	}
	n.unwatch = presence.Watch(func(change cluster.Change) {
		if change.What != cluster.Came {
			n.gone(change.Replica.ID)
		}
	})
	return n, nil
}

// Close ends all that waits for an answer. The handler ends by its own stop.
func (n *Control) Close() error {
	n.unwatch()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for q := range n.asked {
		q.lose(control.ErrClosed)
	}
	return nil
}

// Replica implements [control.Control].
func (n *Control) Replica() string { return n.cluster.Replica() }

func (n *Control) subject(replica string) string {
	return n.cluster.Subject(askToken, cluster.Token(replica))
}

// Serve implements [control.Control].
func (n *Control) Serve(h control.Handler) (stop func(), err error) {
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if closed {
		return nil, control.ErrClosed
	}
	closeDesk, err := n.desk.Open(h)
	if err != nil {
		return nil, err
	}
	in := &arrivals{n: n, open: map[string]*arriving{}}
	sub, err := n.conn.Subscribe(n.subject(n.Replica()), in.take)
	if err == nil {
		err = sub.SetPendingLimits(waitingMessages, waitingBytes)
	}
	if err != nil {
		closeDesk()
		return nil, fmt.Errorf("control: %w", err)
	}
	// So that others find it from now on. Where the servers are away, they do when those are back.
	_ = n.conn.FlushTimeout(reconnectWait)
	return func() {
		_ = sub.Unsubscribe() // of a connection that is closed there is nothing left
		in.close()
		closeDesk()
	}, nil
}

// Ask implements [control.Control].
func (n *Control) Ask(ctx context.Context, replica string, r control.Request) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	waiting, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	q := &question{replica, lose}
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.asked[q] = struct{}{}
	}
	n.mu.Unlock()
	if closed {
		return nil, control.ErrClosed
	}
	defer n.forget(q)
	if replica == n.Replica() {
		return n.desk.Ask(ctx, r) // also while the servers are away
	}
	waiting, cancel := context.WithTimeoutCause(waiting, control.Wait(ctx), control.ErrSilent)
	defer cancel()
	doubt := false // it may have arrived
	again := askAgain
	for begin := time.Now(); ; {
		attempt, cancel := waiting, context.CancelFunc(func() {})
		if r.ID != "" {
			attempt, cancel = context.WithTimeout(waiting, again)
		}
		answer, err := n.ask(waiting, attempt, replica, r)
		silent, late := attempt.Err() != nil, doubt
		cancel()
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case waiting.Err() != nil:
			if _, ok := ctx.Deadline(); ok && errors.Is(context.Cause(waiting), control.ErrSilent) {
				<-ctx.Done() // it is now
				return nil, context.Cause(ctx)
			}
			return nil, context.Cause(waiting)
		case silent:
			doubt = true
			again *= 2
			continue
		case errors.Is(err, client.ErrNoResponders):
			switch err = control.ErrGone; {
			case !n.presence.Alive(replica) && doubt:
				return nil, control.ErrLost
			case !n.presence.Alive(replica):
				return nil, err
			}
		case unsent(err):
			err = control.ErrAway
		case r.ID != "" && (errors.Is(err, control.ErrLost) && n.presence.Alive(replica) || errors.Is(err, errParts)):
			doubt, late = true, true // who is there is asked again
		default:
			return nil, err
		}
		if !late && time.Since(begin) >= reconnectWait {
			return nil, err
		}
		select {
		case <-time.After(retryEvery):
		case <-waiting.Done():
		}
	}
}

// unsent says whether a message did not leave this process.
func unsent(err error) bool {
	return errors.Is(err, client.ErrReconnectBufExceeded) || errors.Is(err, client.ErrConnectionClosed) || errors.Is(err, client.ErrConnectionReconnecting) ||
		errors.Is(err, client.ErrDisconnected)
}

// ask asks once, and waits for an answer until ctx ends. The handler has the time of whole.
func (n *Control) ask(whole, ctx context.Context, replica string, r control.Request) ([]byte, error) {
	sub, err := n.conn.SubscribeSync(n.conn.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // else with the connection
	if err := n.send(whole, n.subject(replica), sub.Subject, r); err != nil {
		return nil, err
	}
	var answer arriving
	probes, missed, heard := 0, 0, false
	for {
		interval, cancel := context.WithTimeout(ctx, probeEvery)
		m, err := sub.NextMsgWithContext(interval)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, err
		case errors.Is(err, client.ErrNoResponders) && probes > 0:
			heard = true
			if missed++; missed >= mostMissed || !n.presence.Alive(replica) {
				return nil, control.ErrLost
			}
			continue
		case errors.Is(err, context.DeadlineExceeded):
			if !heard {
				missed = 0
			}
			probes, heard = probes+1, false
			// While there is no connection this fails, and is tried again.
			_ = n.conn.PublishMsg(&client.Msg{Subject: n.subject(replica), Reply: sub.Subject, Header: client.Header{headerProbe: {"1"}}})
			continue
		default:
			return nil, err
		}
		switch done, err := answer.add(m); {
		case err != nil:
			return nil, err
		case done:
			return answer.answer()
		}
	}
}

func (n *Control) forget(q *question) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, q)
}

// gone tells those who wait for a replica that it has gone.
func (n *Control) gone(replica string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for q := range n.asked {
		if q.replica == replica {
			q.lose(control.ErrLost)
		}
	}
}
