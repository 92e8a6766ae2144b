package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/web/once"
)

// keyReused is the error of a key that was used before, for another request.
func keyReused() *Error {
	const detail = "belongs to another request; use a new one"
	return &Error{Kind: ErrKeyReused, Detail: "the Idempotency-Key " + detail, Fields: []Field{{Header: "Idempotency-Key", Detail: detail}}}
}

// notKept reports a disk that has failed.
func (s *Service) notKept(err error) {
	if vfs.Failed(vfs.Explain(err)) {
		s.o.Pressure.DiskFailed()
	}
}

// claimed is what a key says of its run, should that never be seen.
type claimed struct {
	Subject
	Owner   string `json:"owner,omitempty"`
	Replica string `json:"replica,omitempty"` // that has claimed it, and is to see to its beginning
}

// claimKey lets the key of a request lead to its run. earlier is a run that it leads to already. A key that leads to this run may have been
// freed meanwhile, by a copy of the request that was refused: it is claimed once more.
func (s *Service) claimKey(ctx context.Context, sp *spec) (earlier once.Claim, err error) {
	if sp.key == "" {
		sp.start.enter(startKeyed)
		return once.Claim{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, SharedWait)
	defer cancel()
	c, ok, err := s.shared.Keys.Claim(ctx, once.Claim{
		Owner: sp.owner, Key: sp.key, Hash: sp.hash, Run: sp.id, Of: mustJSON(claimed{sp.of(), sp.owner, s.shared.replica()}),
	})
	if earlier, err = s.ofRequest(ctx, c, !ok, sp.hash, err); err != nil {
		return once.Claim{}, err
	}
	switch {
	case ok:
		sp.keyState.enter(keyClaimed)
	case earlier.Run != sp.id:
		return earlier, nil
	}
	sp.start.enter(startKeyed)
	return once.Claim{}, nil
}

// findKey finds the run that a key leads to; one without a run is none.
func (s *Service) findKey(ctx context.Context, owner, key string, hash [16]byte) (c once.Claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, SharedWait)
	defer cancel()
	c, ok, err := s.shared.Keys.Find(ctx, owner, key)
	return s.ofRequest(ctx, c, ok, hash, err)
}

// ofRequest is the earlier claim of a key, if there is one, which must be of the same request.
func (s *Service) ofRequest(ctx context.Context, c once.Claim, ok bool, hash [16]byte, err error) (once.Claim, error) {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return once.Claim{}, context.Cause(ctx) // the client disconnected
	case err != nil:
		s.log.WarnContext(ctx, "cannot look up an idempotency key", "error", err)
		if vfs.Failed(err) {
			s.o.Pressure.DiskFailed()
			return once.Claim{}, overLimit(LimitDisk, "the server's disk has failed, so it cannot keep the Idempotency-Key; retry later", DiskRetry)
		}
		return once.Claim{}, away()
	case !ok:
		return once.Claim{}, nil
	case c.Hash != hash:
		return once.Claim{}, keyReused()
	}
	return c, nil
}

// forgetKey frees the key of a request whose run could not be started, if this start has claimed it. A copy of the request may have started
// under the id at another replica, where this one was taken for dead: then the key leads to that run.
func (s *Service) forgetKey(ctx context.Context, sp *spec) {
	if !sp.keyState.is(keyClaimed) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SharedWait)
	defer cancel()
	if _, err := s.shared.Runs.Find(ctx, sp.id); err == nil {
		sp.keyState.enter(keyHeld)
		return
	}
	if err := s.shared.Keys.Forget(ctx, sp.owner, sp.key, sp.id); err != nil {
		s.log.WarnContext(ctx, "cannot free the idempotency key of a refused run", "error", err)
		return
	}
	sp.keyState.enter(keyFree)
}

// releaseKey frees the key of a run that has ended, so that the same request starts another run.
func (s *Service) releaseKey(r *Run) {
	if r.key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), SharedWait)
	defer cancel()
	if err := s.shared.Keys.Forget(ctx, r.owner, r.key, r.ID); err != nil {
		s.log.WarnContext(ctx, "cannot free the idempotency key of a failed run", "run", r.ID, "error", err)
	}
}

// moveKey lets the key of a message, if it has one, lead to the run that the message was given to, or back to its own.
func (s *Service) moveKey(sp *spec, to string) {
	if sp.key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), SharedWait)
	defer cancel()
	keys := s.shared.Keys
	c, ok, err := keys.Find(ctx, sp.owner, sp.key)
	if err == nil && ok && c.Run != to {
		_, err = keys.Move(ctx, sp.owner, sp.key, c.Run, to)
	}
	if err != nil {
		s.log.WarnContext(ctx, "cannot link an idempotency key to its run", "run", to, "error", err)
	}
}

// starting knows the runs with a key that are about to start here, so that copies of their requests wait, and other replicas can ask.
type starting struct {
	mu  sync.Mutex
	ids map[string]chan struct{} // closed when it has started, or has not
}

// enter notes a start, until leave is called.
func (b *starting) enter(sp *spec) (leave func()) {
	if sp.key == "" {
		return func() {}
	}
	id, mine := sp.id, make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids[id] != nil { // a copy starts it under the same id, whose leave says so
		return func() {}
	}
	if b.ids == nil {
		b.ids = map[string]chan struct{}{}
	}
	b.ids[id] = mine
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.ids, id)
		close(mine)
	}
}

// decided is closed when a run has started, or has not; nil if it is not about to.
func (b *starting) decided(id string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id]
}

// lostStart is the error of a run that was accepted, and of which nothing was stored: its replica died too soon.
func lostStart(id string) *Error { return &Error{Kind: ErrExpired, Detail: LostMessage, Run: id} }

// awaitStart waits until the run that a key leads to becomes readable, perhaps at another replica. Meanwhile the key may come to lead to
// another run, whose turn takes the message; c is what it leads to at last. The key is held, or spent, unless the run never started: then
// it may be started, under its id if the key is unstarted. Should it have started after all, the log takes what one of them writes.
func (s *Service) awaitStart(ctx context.Context, req *Request, hash [16]byte, c *once.Claim) (*Run, keyState, error) {
	for {
		decided := s.starting.decided(c.Run)
		if decided == nil {
			return s.pollStart(ctx, req, hash, c)
		}
		if r, err := s.findAccepted(ctx, ctx, req.Who, c.Run); !errors.Is(err, errUnknown) {
			return s.foundStart(ctx, c, r, err)
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return nil, keyHeld, context.Cause(ctx) // the client disconnected
		}
		now, err := s.findKey(ctx, req.Who.Owner(), req.Key, hash)
		switch {
		case err != nil:
			return nil, keyHeld, err
		case now.Run == "":
			return nil, keyFree, nil // it was refused
		case now.Run != c.Run:
			*c = once.Claim{Run: now.Run}
		}
	}
}

// pollStart is awaitStart for a run that is not about to start here.
func (s *Service) pollStart(ctx context.Context, req *Request, hash [16]byte, c *once.Claim) (*Run, keyState, error) {
	waiting, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	there := true // the replica that claimed the key
	for look := 0; ; look++ {
		r, err := s.findAccepted(ctx, waiting, req.Who, c.Run)
		if !errors.Is(err, errNotYet) {
			return s.foundStart(ctx, c, r, err)
		}
		if by := claimant(c); by != "" && look%startAsk == 1 {
			var unstarted bool
			if there, unstarted = s.notStarted(waiting, req, c.Run, by); unstarted {
				return nil, keyUnstarted, nil
			}
		}
		select {
		case <-time.After(startPause):
			if req.Key != "" {
				if now, err := s.findKey(waiting, req.Who.Owner(), req.Key, hash); err == nil && now.Run != "" && now.Run != c.Run {
					*c = once.Claim{Run: now.Run}
				}
			}
		case <-waiting.Done():
			switch {
			case ctx.Err() != nil:
				return nil, keyHeld, context.Cause(ctx)
			case claimant(c) != "" && there:
				return nil, keyHeld, away() // it is about to begin
			}
			return nil, keySpent, lostStart(c.Run)
		}
	}
}

// foundStart says what a key is whose run was looked for.
func (s *Service) foundStart(ctx context.Context, c *once.Claim, r *Run, err error) (*Run, keyState, error) {
	if err = s.findError(ctx, c.Run, err); errors.Is(err, ErrExpired) {
		return nil, keySpent, err
	}
	return r, keyHeld, err
}

// findAccepted finds a run. One that begins here is there when the log of runs has taken it, and not another replica's: it waits for that as long
// as the context waiting goes on. Errors are those of get.
func (s *Service) findAccepted(ctx, waiting context.Context, who access.Principal, id string) (*Run, error) {
	r, err := s.get(ctx, who, id)
	if err != nil || r.followed() {
		return r, err
	}
	if r.awaitEvent(waiting, r.tube.From()); r.Moved() {
		return nil, errNotYet
	}
	return r, nil
}

// claimant is the replica that has let a key lead to its run; "" where that does not matter.
func claimant(c *once.Claim) string {
	var by claimed
	_ = json.Unmarshal(c.Of, &by) // a claim of another store
	return by.Replica
}

// notStarted asks the replica that was to begin a run whether it did. One that has died could have, and what it did is known of a workflow
// that does nothing before it is written down, and of a message, which its tape has.
func (s *Service) notStarted(ctx context.Context, req *Request, id, replica string) (there, unstarted bool) {
	t, _, err := s.ask(ctx, replica, &command{name: commandStarted, run: id})
	switch {
	case err != nil:
		return true, false // it is asked again
	case t.NotHere:
		return true, true
	case slices.Contains(s.shared.Replicas(), replica):
		return true, false
	}
	if req.Workflow != "" {
		w, ok := s.o.Workflows.Get(req.Workflow)
		return false, ok && w.Info().Restart && req.Session == ""
	}
	return false, req.Agent != ""
}

const (
	// startWait is how long it may take until something is stored of a run that started at another replica, and startPause is between
	// looks for it.
	startWait  = 5 * time.Second
	startPause = 20 * time.Millisecond
	// startAsk is after how many looks the replica is asked that was to start it.
	startAsk = 10
)
