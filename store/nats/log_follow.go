package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

const (
	// tailMessages may wait for a follower; what is beyond is lost, and read again.
	tailMessages = 256
	// A log that is silent is asked for its last message, since one that is lost behind all others is missed by nobody: at first soon, then
	// less often.
	firstCheck, lastCheck = time.Second, 8 * time.Second
)

// Follow implements [store.Log]. It subscribes to what the servers publish when they have stored it, then reads what is stored, and puts
// the two together by the messages' sequences.
func (l *Log) Follow(ctx context.Context, name string, from uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		ctx, cancel := l.e.whileOpen(ctx)
		defer cancel()
		t := &tail{ctx: ctx, l: l, name: name, next: from, messages: make(chan *client.Msg, tailMessages)}
		t.yield = func(e store.Entry, err error) bool {
			t.next = e.N + 1
			return yield(e, err)
		}
		err := cmp.Or(store.CheckKey(name), context.Cause(ctx))
		if err == nil {
			err = t.follow()
		}
		if !errors.Is(err, errLeft) {
			yield(store.Entry{}, err)
		}
	}
}

// tail is one call of Follow.
type tail struct {
	ctx      context.Context
	l        *Log
	name     string
	next     uint64   // the number that is yielded next, or the first above it
	h        *logHead // all up to it was yielded; nil at first
	messages chan *client.Msg
	yield    func(store.Entry, error) bool
}

func (t *tail) follow() error {
	l := t.l
	stop, err := t.subscribe()
	defer stop()
	if err != nil {
		return err
	}
	kick := make(chan struct{}, 1)
	unwatch := l.e.c.Watch(func(s cluster.State) {
		if s.Connected {
			select {
			case kick <- struct{}{}:
			default:
			}
		}
	})
	defer unwatch()
	// The question for the last message goes the way of the subscription, behind it: what is not in the answer is published to us.
	err = t.catchUp()
	wait := firstCheck
	check := time.NewTimer(wait)
	defer check.Stop()
	for {
		switch {
		case err == nil:
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case !errors.Is(err, store.ErrAway):
			return err
		}
		select {
		case m := <-t.messages:
			wait = firstCheck
			check.Reset(wait)
			err = t.message(m)
		case <-kick:
			err = t.catchUp()
		case <-check.C:
			err = t.check()
			wait = min(2*wait, lastCheck)
			check.Reset(wait)
		case <-t.ctx.Done():
			err = context.Cause(t.ctx)
		}
	}
}

// subscribe has messages get what is stored of the log, and what is told of its deletion and of those of the logs above it.
func (t *tail) subscribe() (stop func(), err error) {
	var subscriptions []*client.Subscription
	stop = func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe() // fails if the connection is lost, and then it is gone
		}
	}
	subjects := []string{t.l.stored + t.l.tokens(t.name) + "." + batchesToken}
	for name, more := t.name, true; more; {
		subjects = append(subjects, t.l.stored+t.l.tokens(name)+"."+deletedToken)
		var at int
		if at = strings.LastIndexByte(name, '/'); at < 0 {
			break
		}
		name = name[:at]
	}
	for _, subject := range subjects {
		s, err := t.l.e.c.Conn().ChanSubscribe(subject, t.messages)
		if err != nil {
			return stop, &awayError{err}
		}
		subscriptions = append(subscriptions, s)
	}
	return stop, nil
}

// catchUp yields all that is stored and was not yielded.
func (t *tail) catchUp() error {
	h, err := t.l.headAgain(t.ctx, t.name)
	switch {
	case err != nil:
		return err
	case t.h == nil && !h.lives():
		return store.ErrNotFound
	case t.h == nil && t.next > 0 && t.next < h.first && h.gone > 0, t.h != nil && t.h.same(h) && h.gone > t.h.entries:
		return fmt.Errorf("log %q: %w: it begins with %d", t.name, store.ErrExpired, h.first)
	case t.h != nil && !t.h.same(h):
		return t.deleted(h)
	case t.h != nil && h.seq <= t.h.seq:
		return nil
	}
	from := uint64(0)
	if t.h != nil {
		from = t.h.seq + 1
	}
	rd := newReader(t.ctx, t.l, t.name, h, store.Range{From: t.next})
	rd.yield = t.yield
	if err := rd.run(from); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	t.passed(h)
	return nil
}

// passed takes note that all up to a head was yielded.
func (t *tail) passed(h *logHead) {
	t.h, t.next = h.light(), max(t.next, h.last+1)
}

// deleted returns why a log is not there any more.
func (t *tail) deleted(now *logHead) error {
	if keep := t.l.o.Keep; keep > 0 && now == nil && time.Since(time.UnixMicro(t.h.updated)) >= keep {
		return fmt.Errorf("log %q: %w", t.name, store.ErrExpired)
	}
	return fmt.Errorf("log %q: %w", t.name, store.ErrDeleted)
}

// message takes one that was published.
func (t *tail) message(m *client.Msg) error {
	raw := directMsg(m)
	if t.h == nil || raw == nil { // a deletion is told
		return t.catchUp()
	}
	if raw.Sequence <= t.h.seq {
		return nil
	}
	h, _, err := t.l.read(raw)
	switch {
	case err != nil:
		return t.catchUp()
	case h == nil: // a part, behind which the whole comes
		return nil
	case h.state == stateDeleted:
		return t.deleted(h)
	case h.before != t.h.seq || h.parts > 1 || !t.h.same(h):
		return t.catchUp()
	}
	rd := newReader(t.ctx, t.l, t.name, h, store.Range{From: t.next})
	rd.yield = t.yield
	if h.parts > 0 {
		if err := rd.take(raw); err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	t.passed(h)
	return nil
}

// check asks any copy whether something was missed.
func (t *tail) check() error {
	if t.h == nil {
		return t.catchUp()
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.l.e.waits.answer)
	defer cancel()
	m, err := t.l.e.c.Conn().RequestWithContext(ctx, "$JS.API.DIRECT.GET."+t.l.name+"."+t.l.subject(t.name), nil)
	if err != nil {
		return nil //nolint:nilerr // the next check asks again
	}
	if last := directMsg(m); last == nil || last.Sequence > t.h.tail {
		return t.catchUp()
	}
	return nil
}
