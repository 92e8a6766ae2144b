package nats

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// Delete implements [store.Log]. A marker takes the place of the log in one step, and all that is below it goes then.
func (l *Log) Delete(ctx context.Context, name string) error {
	if err := cmp.Or(store.CheckKey(name), context.Cause(ctx)); err != nil {
		return err
	}
	all := l.prefix + l.tokens(name) + ".>"
	err := l.again(ctx, func(ctx context.Context) error {
		last, err := l.ask(ctx, getRequest{Last: all})
		if err != nil {
			return err
		}
		var marker uint64
		if last != nil { // else there is nothing, as far as is known; what there is after all, goes
			if marker, err = l.mark(ctx, name); cluster.Full(err) { // a purge needs no room
				if err = l.purge(ctx, all, 0); err == nil {
					marker, err = l.mark(ctx, name)
				}
			}
			if err != nil {
				return err
			}
		}
		return l.purge(ctx, all, marker)
	})
	if err != nil {
		return err
	}
	l.known.remove(name)
	// Those who follow a log below it are told so at once, and find out by themselves if that is lost.
	_ = l.e.c.Conn().Publish(l.stored+l.tokens(name)+"."+deletedToken, nil)
	return nil
}

// mark puts a marker in the place of a log. Twice is as good as once.
func (l *Log) mark(ctx context.Context, name string) (seq uint64, err error) {
	subject := l.subject(name)
	h := &logHead{state: stateDeleted, name: name}
	_, _ = rand.Read(h.id[:]) // never fails
	m := &client.Msg{Subject: subject, Header: h.header(l.nameOf(subject) == "")}
	m.Header[jetstream.MsgRollup] = []string{jetstream.MsgRollupSubject}
	m.Header[jetstream.MsgTTLHeader] = []string{deletedLife.String()}
	return l.send(ctx, m, false)
}

// Trim implements [store.Log]. A message that says what was removed comes behind the last batch, whose revision it does not change; then
// the batches go.
func (l *Log) Trim(ctx context.Context, name string, below uint64) error {
	if err := cmp.Or(store.CheckKey(name), context.Cause(ctx)); err != nil {
		return err
	}
	caller := ctx // an attempt has not the time for a search
	return l.again(ctx, func(ctx context.Context) error {
		h, err := l.head(ctx, name)
		if err != nil || !h.lives() || h.entries == h.gone || below <= h.first {
			return err
		}
		first, seq, err := l.firstKept(caller, name, h, below)
		if err != nil || first == nil || first.from <= h.first {
			return err
		}
		next := *h
		next.message, next.rev, next.before, next.markAt, next.markBefore = nil, h.revision(), h.seq, h.at(), 0
		if err := next.follow(h, l.o.Indexed); err != nil {
			return err
		}
		next.first, next.gone, next.goneBytes = first.from, first.entries-first.n, first.bytes-first.size
		next.n, next.size, next.from, next.parts, next.base = 0, 0, 0, 0, h.last
		a := &appending{l: l, ctx: caller, name: name, before: h}
		next.seq, err = a.send(&next, []part{{nil, h.last}})
		if cluster.WrongSequence(err) {
			return errors.Join(errChanged, err)
		}
		if err != nil {
			return err
		}
		next.tail = next.seq
		l.known.add(name, &next)
		return l.again(caller, func(ctx context.Context) error { return l.purge(ctx, l.subject(name), seq) })
	})
}

// firstKept returns the last message of the first batch that has an entry at or above a number, or else of the last batch with entries, and
// the sequence of the batch's first message. It searches by halves: nothing says where the batches of a log are that is not Indexed.
func (l *Log) firstKept(ctx context.Context, name string, h *logHead, number uint64) (kept *logHead, seq uint64, err error) {
	number = min(number, h.last)
	from, to := h.born+1, h.seq
	if kept, from, err = l.headFrom(ctx, name, from); err != nil || kept == nil {
		return nil, 0, err
	}
	for from < to {
		middle := from + (to-from)/2
		if kept, _, err = l.headFrom(ctx, name, middle); err != nil || kept == nil {
			return nil, 0, err
		}
		if kept.last >= number {
			to = middle
		} else {
			from = kept.seq + 1
		}
	}
	return l.headFrom(ctx, name, from)
}

// headFrom returns the last message of the first batch that has a message at or behind a sequence, and the sequence of that message.
func (l *Log) headFrom(ctx context.Context, name string, from uint64) (h *logHead, seq uint64, err error) {
	for more := true; more && err == nil; {
		err = l.again(ctx, func(ctx context.Context) error {
			m, err := l.ask(ctx, getRequest{Seq: from, Next: l.subject(name)})
			if more = m != nil; err != nil || m == nil {
				return err
			}
			h, err = l.headOfBatch(ctx, name, m)
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				return err
			}
			seq = m.Sequence
			more, from = h == nil, seq+1 // of a batch that has no end
			return nil
		})
	}
	return h, seq, err
}
