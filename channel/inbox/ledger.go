package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
)

// errOutdated is the error for an event that has another owner by now.
var errOutdated = errors.New("channel: another replica took over the event, because this one seemed dead")

// Sending implements [channel.Ledger]. It is an error if this process does not run the event any more: then nothing may be sent.
func (j *Inbox) Sending(ctx context.Context, event string) error {
	if err := j.mark(ctx, event, channel.UnknownWhether); err != nil {
		return fmt.Errorf("note that something is sent: %w", err)
	}
	return nil
}

// Sent implements [channel.Ledger].
func (j *Inbox) Sent(ctx context.Context, event string, s channel.ReceiptState) error {
	err := j.mark(ctx, event, s)
	if errors.Is(err, errOutdated) {
		return nil // its owner knows that something may have been seen
	}
	if err != nil {
		return fmt.Errorf("note what was sent: %w", err)
	}
	return nil
}

// mark never takes back that something was seen. That something is about to be seen is durable when mark returns.
func (j *Inbox) mark(ctx context.Context, event string, s channel.ReceiptState) error {
	token := owner.Token(event)
	defer j.r.Lock(token)()
	id := owner.NewID()
	for range owner.Tries {
		e, err := j.mine(token)
		if err != nil {
			return err
		}
		j.mu.Lock()
		if e == nil || e.claim == nil {
			j.mu.Unlock()
			return errOutdated
		}
		next, last, c := e.record, e.rev, e.claim
		j.mu.Unlock()
		if next.Mark.seen() || next.Mark == marks[s] {
			return nil
		}
		next.Mark = marks[s]
		p := j.put(token, id, last, next)
		p.Lazy = s != channel.UnknownWhether
		rec, moved, err := j.store(ctx, p)
		if err != nil {
			return err
		}
		rev := rec.Rev
		if moved != nil {
			rev = moved.Rev
			if r, err := recordOf(*moved); err != nil || r.State != claimed || r.Claim != c.id {
				j.setOwn(token, nil)
				return errOutdated
			}
			next.Mark = e.record.Mark // a mark of before, whose answer was lost
		}
		j.mu.Lock()
		e.record, e.rev = next, rev
		j.mu.Unlock()
		if moved == nil {
			return nil
		}
	}
	return owner.ErrBusy
}

// Seen implements [channel.Ledger].
func (j *Inbox) Seen(ctx context.Context, event string) (channel.ReceiptState, error) {
	token := owner.Token(event)
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
	r, _, err := j.get(ctx, token)
	if err != nil {
		return channel.UnknownWhether, err
	}
	return r.Mark.receipt(), nil
}

// Forget implements [channel.Ledger]. A settled event is forgotten by itself.
func (j *Inbox) Forget(ctx context.Context, event string) error {
	token := owner.Token(event)
	defer j.r.Lock(token)()
	e, err := j.mine(token)
	if e == nil || err != nil {
		return err
	}
	j.mu.Lock()
	next, last, ending, shown := e.record, e.rev, e.todo != nil, e.shown
	j.mu.Unlock()
	if shown {
		if err := j.forgetShown(ctx, token); err != nil {
			return err
		}
		e.shown = false
	}
	if next.Mark == "" || ending {
		return nil
	}
	next.Mark = ""
	rec, moved, err := j.store(ctx, j.put(token, owner.NewID(), last, next))
	if moved != nil || err != nil {
		return err // or it is another process's
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e.record, e.rev = next, rec.Rev
	return nil
}
