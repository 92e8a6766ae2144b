package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/wording"
)

const (
	// A replica that runs and whose bus reaches nobody may be reconnecting, which takes some 300 ms; and so may this one.
	reconnectWait = time.Second
	retryEvery    = 50 * time.Millisecond

	// askAgain is when a request that has an ID is sent again: the request or its answer may have been lost with a connection. Each time it
	// is twice as long: otherwise no answer that takes longer would be waited for, and each attempt would add to what it waits behind.
	askAgain = time.Second

	codeGone = "(gone)" // of an answer: nobody serves any more; no handler's code has brackets

	maxError = 4 << 10 // bytes of an error's text
)

// Requests is a [Control] that reaches other replicas by a bus.
type Requests struct {
	bus     replicas.Bus
	members *replicas.Members
	desk    desk
	unwatch func()
	lose    func() bool // in tests: an answer is lost

	mu     sync.Mutex
	closed bool
	asked  map[*question]struct{}
}

// question is a request that waits for its answer.
type question struct {
	replica string
	lose    context.CancelCauseFunc
}

var _ Control = (*Requests)(nil)

// New makes a control. The caller closes it before the bus and the members. log may be nil.
func New(bus replicas.Bus, members *replicas.Members, log *slog.Logger) *Requests {
	c := &Requests{bus: bus, members: members, desk: desk{log: log}, asked: map[*question]struct{}{}}
	c.unwatch = members.Watch(func(change replicas.Change) {
		if change.What != replicas.Came {
			c.gone(change.Replica.ID)
		}
	})
	return c
}

// Close ends all that waits for an answer. The handler ends by its own stop.
func (c *Requests) Close() error {
	c.unwatch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for q := range c.asked {
		q.lose(ErrClosed)
	}
	return nil
}

// Replica implements [Control].
func (c *Requests) Replica() string { return c.members.ID() }

// Serve implements [Control].
func (c *Requests) Serve(h Handler) (stop func(), err error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	closeDesk, err := c.desk.open(h)
	if err != nil {
		return nil, err
	}
	closeBus, err := c.bus.Serve(c.serve)
	if err != nil {
		closeDesk()
		return nil, fmt.Errorf("control: %w", err)
	}
	return func() {
		closeBus()
		closeDesk()
	}, nil
}

// serve answers a request of another replica.
func (c *Requests) serve(m replicas.Message, answer func(replicas.Message)) {
	r := Request{ID: m.ID, Command: m.Command, Run: m.Run, Session: m.Session, Body: m.Body}
	if err := r.Check(); err != nil {
		answer(refusal(err))
		return
	}
	wait := Patience
	if 0 < m.Wait && m.Wait < time.Hour {
		wait = m.Wait
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(m.Trace))
	c.desk.serve(ctx, wait, r, func(body []byte, err error) {
		switch {
		case c.lose != nil && c.lose():
		case err != nil:
			answer(refusal(err))
		default:
			answer(replicas.Message{Body: body})
		}
	})
}

// refusal is an error as an answer.
func refusal(err error) replicas.Message {
	if errors.Is(err, ErrGone) {
		return replicas.Message{Code: codeGone}
	}
	code, text := codeInternal, err.Error()
	if c, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok {
		code = c.ErrorCode()
	}
	return replicas.Message{Code: code, Text: wording.ClipTo(text, maxError)}
}

// Ask implements [Control].
func (c *Requests) Ask(ctx context.Context, replica string, r Request) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	waiting, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	q := &question{replica, lose}
	if err := c.register(q); err != nil {
		return nil, err
	}
	defer c.forget(q)
	if replica == c.Replica() {
		return c.desk.ask(ctx, r) // also while the bus reaches nobody
	}
	waiting, cancel := context.WithTimeoutCause(waiting, patience(ctx), ErrSilent)
	defer cancel()
	answer, err := c.askOther(waiting, replica, r)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case waiting.Err() == nil:
		return nil, err
	}
	if _, ok := ctx.Deadline(); ok && errors.Is(context.Cause(waiting), ErrSilent) {
		<-ctx.Done() // it is now
		return nil, context.Cause(ctx)
	}
	return nil, context.Cause(waiting)
}

// askOther asks another replica until it has answered, or the outcome is certain, or ctx ends.
func (c *Requests) askOther(ctx context.Context, replica string, r Request) ([]byte, error) {
	m := replicas.Message{ID: r.ID, Command: r.Command, Run: r.Run, Session: r.Session, Body: r.Body, Trace: map[string]string{}}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(m.Trace))
	if there, err := c.members.Find(ctx, replica); !there {
		if err != nil && ctx.Err() == nil {
			err = ErrAway
		}
		return nil, cmp.Or(err, ErrGone)
	}
	arrived := false // perhaps
	again := askAgain
	for began := time.Now(); ; {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if r.ID != "" {
			attempt, cancel = context.WithTimeout(ctx, again)
		}
		m.Wait = max(patience(ctx), time.Millisecond)
		answer, err := c.bus.Ask(attempt, replica, m)
		silent, late := attempt.Err() != nil, arrived
		cancel()
		switch {
		case err == nil:
			return result(answer)
		case ctx.Err() != nil:
			return nil, err
		case silent:
			arrived = true
			again *= 2
			continue
		case errors.Is(err, replicas.ErrNobody):
			switch err = ErrGone; {
			case !c.members.Alive(replica) && arrived:
				return nil, ErrLost
			case !c.members.Alive(replica):
				return nil, err
			}
		case errors.Is(err, replicas.ErrUnsent):
			err = ErrAway
		case r.ID != "" && c.members.Alive(replica):
			arrived, late = true, true // a replica that runs is asked again
		case !c.members.Alive(replica):
			return nil, ErrLost
		default:
			return nil, fmt.Errorf("%w: %w", ErrSilent, err)
		}
		if !late && time.Since(began) >= reconnectWait {
			return nil, err
		}
		_ = backoff.Sleep(ctx, retryEvery)
	}
}

// result is what an answer says.
func result(answer replicas.Message) ([]byte, error) {
	switch answer.Code {
	case "":
		return answer.Body, nil
	case codeGone:
		return nil, ErrGone
	}
	return nil, &Error{Code: answer.Code, Message: answer.Text}
}

func (c *Requests) register(q *question) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.asked[q] = struct{}{}
	return nil
}

func (c *Requests) forget(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, q)
}

// gone tells those who wait for a replica that it has ended.
func (c *Requests) gone(replica string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range c.asked {
		if q.replica == replica {
			q.lose(ErrLost)
		}
	}
}
