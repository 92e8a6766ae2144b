package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/runlog"
)

const (
	// followIdle is how long a run of another replica is followed that nobody reads here any more.
	followIdle = 30 * time.Second
	// headPause is between looks for what a run has ended with, at first; it comes a moment after the end.
	headPause, headLongest = 2 * time.Millisecond, 200 * time.Millisecond
	// headWait is how long it is waited for. A run whose replica died in that moment is taken over.
	headWait = 15 * time.Second
	// beginWait is how long the beginning of a run may take to be stored: a database that restarts may be away for up to 9 s.
	beginWait = 15 * time.Second
)

// follow finds a run that this replica does not have: it is followed. Without a run and an error, this replica has adopted it meanwhile.
func (s *Service) follow(ctx context.Context, who access.Principal, id string) (*Run, error) {
	r, err := s.openFollower(ctx, who, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	here := s.inMemory[id]
	switch {
	case here != nil && !here.Moved():
		return nil, nil // that it is followed, too, ends when nobody reads it
	case err != nil:
		return nil, err
	case !r.owned(who):
		return nil, errUnknown
	}
	s.inMemory[id] = r
	return r, nil
}

// openFollower follows a run of another replica; of one that is not for who asks, nothing is kept.
func (s *Service) openFollower(ctx context.Context, who access.Principal, id string) (*Run, error) {
	if s.working.Err() != nil {
		return nil, runlog.ErrAway
	}
	asking, cancel := context.WithTimeout(ctx, SharedWait)
	defer cancel()
	tail, err := s.shared.Runs.Follow(asking, id)
	switch {
	case errors.Is(err, runlog.ErrUnknown):
		return nil, errNotYet
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		s.log.WarnContext(ctx, "cannot read another replica's run", "run", id, "error", err)
		return nil, runlog.ErrAway
	}
	var o opening
	if err := json.Unmarshal(tail.Opening(), &o); err != nil || o.Run != id {
		tail.Leave()
		s.log.ErrorContext(ctx, "cannot read a stored run", "run", id, "error", err)
		return nil, errDamaged
	}
	r := &Run{
		ID: id, Of: o.Subject, owner: o.Owner, session: o.Session, tube: tail.Tube(), Keyed: o.Keyed, Began: o.Began,
		done: make(chan struct{}), where: newLocation(), tail: tail, saved: true,
	}
	if !r.owned(who) {
		tail.Leave()
		return r, nil
	}
	r.machine.enter(runFollowed)
	r.pay(s.o.Ledger.Open())
	r.asked.Store(time.Now().UnixNano())
	s.moving.Go(func() { s.watchFollower(r) })
	return r, nil
}

// watchFollower looks after a run that is followed, until nobody reads it, or it cannot be followed, or it has ended.
func (s *Service) watchFollower(r *Run) {
	tail := r.tail
	defer tail.Leave()
	tick := time.NewTicker(SweepEvery)
	defer tick.Stop()
	ended := r.tube.Ended()
	var head <-chan time.Time
	pauses, since := backoff.New(headPause, headLongest), time.Time{}
	for {
		select {
		case <-ended:
			ended, since = nil, time.Now()
			head = time.After(0)
		case <-head:
			if h := tail.Head(); h != nil || time.Since(since) > headWait {
				if continuedElsewhere(r, h) {
					s.dropFollower(r)
					return
				}
				s.endFollower(r, h)
				return
			}
			head = time.After(pauses.NextBackOff())
		case <-tail.Gone():
			s.dropFollower(r)
			return
		case <-tick.C:
			if s.dropUnread(r) {
				return
			}
		case <-s.working.Done():
			s.dropFollower(r)
			return
		}
	}
}

// continuedElsewhere says that a run was cut off by the end of its replica, for those who read it here, and that another one has brought it to
// another end: what is there of its document is not what that end is about.
func continuedElsewhere(r *Run, head []byte) bool {
	var h header
	return head != nil && json.Unmarshal(head, &h) == nil && h.Status != "" && h.Status != StatusInterrupted &&
		resultFromEvents(r.tube).Status == StatusInterrupted
}

// endFollower keeps what a run has ended with in memory, for those who come late.
func (s *Service) endFollower(r *Run, head []byte) {
	var h header
	if head != nil && json.Unmarshal(head, &h) == nil && h.Status != "" {
		r.result = h.Result
	} else {
		r.result = resultFromEvents(r.tube)
		r.result.Session = r.session
	}
	close(r.done)
	now := time.Now()
	s.mu.Lock()
	if s.inMemory[r.ID] == r {
		r.expires = now.Add(s.retention(r.Keyed))
		s.keepLocked(r, now)
	} else {
		r.machine.enter(runMoved)
		r.account.Release() // this replica has taken it over
	}
	s.mu.Unlock()
	s.trim(now)
}

// dropUnread forgets a run that nobody reads any more; false where somebody does.
func (s *Service) dropUnread(r *Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.sent.mu.Lock()
	users := r.sent.users
	r.sent.mu.Unlock()
	if users > 0 || time.Since(time.Unix(0, r.asked.Load())) < followIdle {
		return false
	}
	s.dropFollowerLocked(r)
	return true
}

// dropFollower breaks off whoever reads a run that cannot be followed any more. Who comes back gets what is true then.
func (s *Service) dropFollower(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropFollowerLocked(r)
}

func (s *Service) dropFollowerLocked(r *Run) {
	r.machine.enter(runMoved)
	r.where.leave()
	s.removeLocked(r)
}

// resultSoFar is what there is so far of a run whose head is not known here. Where its end is, it has ended for all who read it.
func (r *Run) resultSoFar() (o Result, document, reserved []byte) {
	over := r.Ended()
	document, reserved = r.tube.Snapshot(false)
	o = resultFromEvents(r.tube)
	if o.Session = r.session; !over {
		o.Status, o.Reason = StatusRunning, ""
	}
	return o, document, reserved
}

// errUnstored is why a run ends whose beginning could not be stored.
var errUnstored = errors.New("the server could not store the start of this run and refused it; retry")

// awaitAccepted waits until the opening of a run is stored, and is the answer where that takes too long: nobody could ask for it at another
// replica. One without a key ends: who asked for it does not know its id. One with a key is found by it.
func (s *Service) awaitAccepted(ctx context.Context, run *Run, sp *spec) error {
	if run.accepted() {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, s.o.Times.Begin)
	defer cancel()
	if run.awaitAccepted(waiting) || ctx.Err() != nil {
		return nil
	}
	if sp.key == "" {
		cancelRun(run, errUnstored)
	}
	if sp.agent != nil { // its tape may be kept, and have the message
		return doubtful(sp, run.ID, "the server cannot store the message's run now, so the message may or may not get an answer")
	}
	return away()
}

// accepted reports whether the opening of the run is stored, so that every replica finds it, or never will be.
func (r *Run) accepted() bool { return r.tube.Len() > r.tube.From() || r.Ended() || r.Moved() }

// awaitAccepted waits until the run is accepted. It is false where ctx ends before.
func (r *Run) awaitAccepted(ctx context.Context) bool {
	for !r.accepted() {
		if ctx.Err() != nil {
			return false
		}
		r.awaitEvent(ctx, r.tube.From())
	}
	return true
}

// awaitEvent waits a while until readers may have an event of a number: a client may have had it of another replica a moment ago.
func (r *Run) awaitEvent(ctx context.Context, n uint64) {
	if n < r.tube.Len() || !r.lags() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, SharedWait)
	defer cancel()
	reader := r.tube.NewReader(r.tube.Len())
	defer reader.Leave()
	for r.tube.Len() <= n && !r.Ended() {
		select {
		case <-reader.More():
			for range reader.Waiting() {
			}
		case <-ctx.Done():
			return
		case <-r.moved():
			return
		}
	}
}
