package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/channel"
)

// Sending implements [channel.Ledger]. It is an error where this replica does not run the event, or no longer: nothing is to be sent
// then.
func (j *Journal) Sending(ctx context.Context, event string) error {
	if err := j.mark(ctx, event, channel.UnknownWhether); err != nil {
		return fmt.Errorf("note that something is sent: %w", err)
	}
	return nil
}

// Sent implements [channel.Ledger].
func (j *Journal) Sent(ctx context.Context, event string, s channel.ReceiptState) error {
	err := j.mark(ctx, event, s)
	if errors.Is(err, errOutdated) {
		return nil // whoever has it knows that something may have been seen
	}
	if err != nil {
		return fmt.Errorf("note what was sent: %w", err)
	}
	return nil
}

// mark never takes back that something was seen.
func (j *Journal) mark(ctx context.Context, event string, s channel.ReceiptState) error {
	token := token(event)
	defer j.locks.lock(token)()
	for range tries {
		e, err := j.mine(token)
		if err != nil {
			return err
		}
		j.mu.Lock()
		if e == nil || e.claim == nil {
			j.mu.Unlock()
			return errOutdated
		}
		next, c := e.record, e.claim
		last := e.seq
		j.mu.Unlock()
		if next.Mark.seen() || next.Mark == marks[s] {
			return nil
		}
		next.Mark = marks[s]
		id := newID()
		seq, _, err := j.log.put(ctx, step{subject: j.subject(token), id: id, header: next.header(), last: last, alone: !next.Stored})
		if errors.Is(err, errMoved) {
			var still bool
			if seq, still, err = j.still(ctx, token, c.id, id); err == nil && !still && seq == 0 {
				j.setOwn(token, nil)
				return errOutdated
			}
			if err == nil && still { // a mark of before, whose answer was lost
				j.mu.Lock()
				e.seq = seq
				j.mu.Unlock()
				continue
			}
		}
		if err != nil {
			return err
		}
		j.mu.Lock()
		e.record, e.seq = next, seq
		j.mu.Unlock()
		return nil
	}
	return &Error{textBusy, errMoved}
}

// Seen implements [channel.Ledger].
func (j *Journal) Seen(ctx context.Context, event string) (channel.ReceiptState, error) {
	token := token(event)
	e, err := j.mine(token)
	if err != nil {
		return channel.UnknownWhether, err
	}
	if e != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		if e.todo != nil {
			return e.todo.record.Mark.receipt(), nil
		}
		return e.record.Mark.receipt(), nil
	}
	m, err := j.log.last(ctx, j.subject(token))
	if err != nil {
		return channel.UnknownWhether, err
	}
	r, err := recordOf(m)
	if err != nil {
		return channel.UnknownWhether, err
	}
	return r.Mark.receipt(), nil
}

// Forget implements [channel.Ledger]. An event that is settled is forgotten by itself.
func (j *Journal) Forget(ctx context.Context, event string) error {
	token := token(event)
	defer j.locks.lock(token)()
	e, err := j.mine(token)
	if e == nil || err != nil {
		return err
	}
	j.mu.Lock()
	next, last, ending := e.record, e.seq, e.todo != nil
	j.mu.Unlock()
	if next.Mark == "" || ending {
		return nil
	}
	next.Mark = ""
	seq, _, err := j.log.put(ctx, step{subject: j.subject(token), id: newID(), header: next.header(), last: last, alone: !next.Stored})
	if errors.Is(err, errMoved) {
		return nil // it is somebody else's
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e.record, e.seq = next, seq
	return nil
}
