package inbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
)

// claim is the right to run an event.
type claim struct {
	inbox *Inbox
	token string
	id    string
	key   channel.EventKey
}

// Claim implements [channel.Journal].
func (j *Inbox) Claim(ctx context.Context, k channel.EventKey) (channel.Claim, channel.ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, channel.ClaimNone, err
	}
	c, state, err := j.take(ctx, owner.Token(k.String()), k)
	if err != nil {
		return nil, channel.ClaimNone, fmt.Errorf("claim an event: %w", err)
	}
	if c == nil {
		return nil, state, nil
	}
	return c, state, nil
}

func (j *Inbox) take(ctx context.Context, token string, k channel.EventKey) (*claim, channel.ClaimState, error) {
	defer j.r.Lock(token)()
	for range owner.Tries {
		e, err := j.mine(token)
		if err != nil {
			return nil, channel.ClaimNone, err
		}
		if e != nil && e.todo != nil && e.todo.record.State == accepted { // it was released, and the table does not know
			if err := j.finish(ctx, token, e); err != nil {
				return nil, channel.ClaimNone, err
			}
			continue
		}
		var next other
		if e != nil {
			if s := j.stateOf(e); s != channel.ClaimAccepted {
				return nil, s, nil
			}
			next = other{e.record, e.made, e.rev}
		} else if j.settledNow(token) {
			return nil, channel.ClaimSettled, nil
		} else {
			var s channel.ClaimState
			if next, s, err = j.theirs(ctx, token, k); err != nil || s != channel.ClaimNone {
				return nil, s, err
			}
		}
		c := &claim{inbox: j, token: token, id: rand.Text(), key: k}
		if was, err := next.record.key(); err == nil {
			c.key = was
		}
		r := next.record
		r.State, r.Owner, r.Claim, r.Given = claimed, j.r.Self(), c.id, false
		rec, moved, err := j.store(ctx, j.put(token, owner.NewID(), next.rev, r))
		switch {
		case err != nil:
			return nil, channel.ClaimNone, err // what may be stored is this process's, and is claimed again
		case moved == nil:
			j.setOwn(token, &event{record: r, made: rec.Made, rev: rec.Rev, claim: c, shown: e != nil && e.shown})
			return c, channel.ClaimTaken, nil
		}
		j.setOwn(token, nil) // what was known of it is outdated
	}
	return nil, channel.ClaimNone, owner.ErrBusy
}

// theirs is what can be claimed of an event that this process does not have, or the state in which another process has it.
func (j *Inbox) theirs(ctx context.Context, token string, k channel.EventKey) (next other, s channel.ClaimState, err error) {
	r, rec, err := j.get(ctx, token)
	if err != nil {
		return other{}, channel.ClaimNone, err
	}
	fresh := other{record{Key: k.String(), Brief: k.Synthetic, At: j.o.now().UnixNano()}, 0, rec.Rev}
	switch {
	case r.over(j.o.now()):
		return fresh, channel.ClaimNone, nil
	case r.State == settled:
		return other{}, channel.ClaimSettled, nil
	}
	if r.Owner != j.r.Self() {
		alive, err := j.r.Alive(ctx, r.Owner)
		switch {
		case err != nil:
			return other{}, channel.ClaimNone, err
		case alive && r.State == claimed:
			return other{}, channel.ClaimTaken, nil
		case alive:
			return other{}, channel.ClaimAccepted, nil // its owner runs it
		case r.State == claimed:
			r.Attempt++ // its process has died in it
		}
	}
	if !r.Stored {
		return fresh, channel.ClaimNone, nil
	}
	return other{r, rec.Made, rec.Rev}, channel.ClaimNone, nil
}

// Key implements [channel.KeyedClaim].
func (c *claim) Key() channel.EventKey { return c.key }

// Again implements [channel.Repeater].
func (c *claim) Again() bool {
	j := c.inbox
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.own[c.token]
	if e == nil || e.claim != c || !e.record.Stored || j.closed {
		return false
	}
	_, again := channel.RetryAfter(e.record.Attempt + 1)
	return again
}

// Commit implements [channel.Claim]. The event is settled for this process whatever the engine says.
func (c *claim) Commit(ctx context.Context, o channel.Outcome) error {
	return c.end(ctx, func(r record) record { return c.inbox.settle(r, o) })
}

// Release implements [channel.Claim].
func (c *claim) Release(ctx context.Context, cause error) error {
	return c.end(ctx, func(r record) record {
		if channel.ReleaseCounts(cause) && r.Stored {
			r.Attempt++
			if _, again := channel.RetryAfter(r.Attempt); !again {
				return c.inbox.settle(r, channel.OutcomeFailed)
			}
		}
		return r.released()
	})
}

// settle is the last record of an event: its key, and what came of it.
func (j *Inbox) settle(r record, o channel.Outcome) record {
	until := j.o.now().Add(keyLife)
	if r.Brief {
		until = time.Unix(0, r.At).Add(syntheticLife)
	}
	return record{State: settled, Key: r.Key, Brief: r.Brief, At: r.At, Attempt: r.Attempt, Outcome: o, Until: until.UnixNano()}
}

// end ends a claim, and makes its event what next says.
func (c *claim) end(ctx context.Context, next func(record) record) error {
	j := c.inbox
	defer j.r.Lock(c.token)()
	e, err := j.mine(c.token)
	if err != nil {
		return err
	}
	j.mu.Lock()
	if e == nil || e.claim != c {
		j.mu.Unlock()
		return nil
	}
	e.claim = nil
	e.todo = &todo{owner.NewID(), next(e.record)}
	j.mu.Unlock()
	if err := j.finish(context.WithoutCancel(ctx), c.token, e); err != nil {
		j.r.Wake()
		return fmt.Errorf("keep what became of an event; it is tried again: %w", err)
	}
	return nil
}

// finish stores what is still to be stored of an event. The caller has the token's lock.
func (j *Inbox) finish(ctx context.Context, token string, e *event) error {
	t := e.todo
	p := j.put(token, t.id, e.rev, t.record)
	for range owner.Tries {
		rec, moved, err := j.store(ctx, p)
		if err != nil {
			return err
		}
		if moved != nil {
			r, err := recordOf(*moved)
			if err != nil {
				return err
			}
			if r.State == claimed && r.Claim == e.record.Claim { // a mark whose answer was lost
				p.After = moved.Rev
				continue
			}
		}
		if t.record.State != accepted && e.shown {
			if err := j.forgetShown(ctx, token); err != nil {
				return err
			}
		}
		j.finished(token, e, rec.Rev)
		return nil
	}
	return owner.ErrBusy
}

// finished notes that a change was stored, or with 0 that it never will be: the event is another process's.
func (j *Inbox) finished(token string, e *event, rev uint64) {
	j.mu.Lock()
	t := e.todo
	if rev != 0 && t.record.State == accepted {
		e.record, e.rev, e.todo = t.record, rev, nil
		j.mu.Unlock()
		return
	}
	if rev != 0 && t.record.State == settled {
		j.recent.add(token, t.record.Until)
	}
	j.mu.Unlock()
	j.setOwn(token, nil)
}
