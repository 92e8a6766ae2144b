package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/channel"
)

// claim is the right to run an event.
type claim struct {
	journal *Journal
	token   string
	id      string
	key     channel.EventKey
}

// Claim implements [channel.Journal].
func (j *Journal) Claim(ctx context.Context, k channel.EventKey) (channel.Claim, channel.ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, channel.ClaimNone, err
	}
	c, state, err := j.take(ctx, token(k.String()), k)
	if err != nil {
		return nil, channel.ClaimNone, fmt.Errorf("claim an event: %w", err)
	}
	if c == nil {
		return nil, state, nil
	}
	return c, state, nil
}

func (j *Journal) take(ctx context.Context, token string, k channel.EventKey) (*claim, channel.ClaimState, error) {
	defer j.locks.lock(token)()
	for range tries {
		e, err := j.mine(token)
		if err != nil {
			return nil, channel.ClaimNone, err
		}
		if e != nil && e.todo != nil && e.todo.record.State == accepted { // it was released, and nobody knows
			if err := j.finish(ctx, token, e); err != nil {
				return nil, channel.ClaimNone, err
			}
			continue
		}
		var next record
		var last uint64
		if e != nil {
			if s := j.stateOf(e); s != channel.ClaimAccepted {
				return nil, s, nil
			}
			next, last = e.record, e.seq
		} else {
			var s channel.ClaimState
			if next, last, s, err = j.theirs(ctx, token, k); err != nil || s != channel.ClaimNone {
				return nil, s, err
			}
		}
		c := &claim{journal: j, token: token, id: newID(), key: k}
		if was, err := next.key(); err == nil {
			c.key = was
		}
		j.mu.Lock()
		next.State, next.Owner, next.Claim, next.Given = claimed, j.owner, c.id, false
		j.mu.Unlock()
		seq, _, err := j.log.put(ctx, step{subject: j.subject(token), id: c.id, header: next.header(), last: last, alone: !next.Stored})
		switch {
		case err == nil:
			j.setOwn(token, &event{record: next, seq: seq, claim: c})
			return c, channel.ClaimTaken, nil
		case !errors.Is(err, errMoved):
			return nil, channel.ClaimNone, err // what may be stored is this replica's, and claimed by nobody: it is claimed again
		}
		j.setOwn(token, nil) // what was known of it is outdated
	}
	return nil, channel.ClaimNone, &Error{textBusy, errMoved}
}

// theirs is what can be claimed of an event that this replica does not have, or the state in which somebody else has it.
func (j *Journal) theirs(ctx context.Context, token string, k channel.EventKey) (next record, last uint64, s channel.ClaimState, err error) {
	m, err := j.log.last(ctx, j.subject(token))
	if err != nil {
		return record{}, 0, channel.ClaimNone, err
	}
	r, err := recordOf(m)
	if err != nil {
		return record{}, 0, channel.ClaimNone, err
	}
	fresh := record{Key: k.String(), Brief: k.Synthetic, At: j.now().UnixNano()}
	switch {
	case r.over(j.now()):
		return fresh, m.seq, channel.ClaimNone, nil
	case r.State == settled:
		return record{}, 0, channel.ClaimSettled, nil
	}
	j.mu.Lock()
	self := r.Owner == j.owner
	j.mu.Unlock()
	if !self {
		alive, err := j.alive(ctx, r.Owner)
		switch {
		case err != nil:
			return record{}, 0, channel.ClaimNone, err
		case alive && r.State == claimed:
			return record{}, 0, channel.ClaimTaken, nil
		case alive:
			return record{}, 0, channel.ClaimAccepted, nil // whoever has accepted it runs it
		case r.State == claimed:
			r.Attempt++ // its replica has died in it
		}
	}
	if !r.Stored {
		return fresh, m.seq, channel.ClaimNone, nil
	}
	return r, m.seq, channel.ClaimNone, nil
}

// Key implements [channel.KeyedClaim].
func (c *claim) Key() channel.EventKey { return c.key }

// Again implements [channel.Repeater].
func (c *claim) Again() bool {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.own[c.token]
	if e == nil || e.claim != c || !e.record.Stored || j.closed {
		return false
	}
	_, again := channel.RetryAfter(e.record.Attempt + 1)
	return again
}

// Commit implements [channel.Claim]. The event is settled for this replica whatever the servers say.
func (c *claim) Commit(ctx context.Context, o channel.Outcome) error {
	return c.over(ctx, func(r record) record { return c.journal.settle(r, o) })
}

// Release implements [channel.Claim].
func (c *claim) Release(ctx context.Context, cause error) error {
	return c.over(ctx, func(r record) record {
		if !r.Stored {
			return record{State: erased}
		}
		if channel.ReleaseCounts(cause) {
			r.Attempt++
			if _, again := channel.RetryAfter(r.Attempt); !again {
				return c.journal.settle(r, channel.OutcomeFailed)
			}
		}
		r.State, r.Claim = accepted, ""
		return r
	})
}

// settle is the last step of an event; its key alone is kept.
func (j *Journal) settle(r record, o channel.Outcome) record {
	until := j.now().Add(keyLife)
	if r.Brief {
		until = j.now()
		if r.At != 0 {
			until = unixNano(r.At).Add(syntheticLife)
		}
	}
	return record{State: settled, Key: r.Key, Brief: r.Brief, At: r.At, Attempt: r.Attempt, Outcome: o, Until: until.UnixNano()}
}

// over ends a claim, and makes its event what next says.
func (c *claim) over(ctx context.Context, next func(record) record) error {
	j := c.journal
	defer j.locks.lock(c.token)()
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
	e.todo = &todo{newID(), next(e.record)}
	j.mu.Unlock()
	if err := j.finish(context.WithoutCancel(ctx), c.token, e); err != nil {
		return fmt.Errorf("keep what became of an event; it is tried again: %w", err)
	}
	return nil
}

// finish stores what is still to be stored of an event. The caller has the token's lock.
func (j *Journal) finish(ctx context.Context, token string, e *event) error {
	t := e.todo
	s := step{subject: j.subject(token), id: t.id, header: t.record.header(), last: e.seq}
	switch t.record.State {
	case settled:
		s.alone, s.life = true, max(unixNano(t.record.Until).Sub(j.now()), 0)+slack
	case erased:
		s.alone, s.life = true, slack
	}
	for range tries {
		seq, _, err := j.log.put(ctx, s)
		if errors.Is(err, errMoved) {
			var still bool
			if s.last, still, err = j.still(ctx, token, e.record.Claim, t.id); err == nil && still {
				continue
			}
			seq = s.last
		}
		if err != nil {
			return err
		}
		j.finished(token, e, seq)
		return nil
	}
	return &Error{textBusy, errMoved}
}

// still says whether the last step of an event is one of a claim; seq is that step's, or 0 where another replica has the event. One that is
// the step id already is not: there is nothing more to do.
func (j *Journal) still(ctx context.Context, token, claim, id string) (seq uint64, still bool, err error) {
	m, err := j.log.last(ctx, j.subject(token))
	if err != nil {
		return 0, false, err
	}
	if m.seq != 0 && m.header.Get(headerID) == id {
		return m.seq, false, nil
	}
	r, err := recordOf(m)
	if err != nil {
		return 0, false, err
	}
	if r.State == claimed && r.Claim == claim {
		return m.seq, true, nil
	}
	return 0, false, nil
}

// finished notes that a step was stored, or with 0 that it never will be: the event is somebody else's.
func (j *Journal) finished(token string, e *event, seq uint64) {
	j.mu.Lock()
	t := e.todo
	if seq != 0 && t.record.State == accepted {
		e.record, e.seq, e.todo = t.record, seq, nil
		j.mu.Unlock()
		return
	}
	j.mu.Unlock()
	j.setOwn(token, nil)
}
