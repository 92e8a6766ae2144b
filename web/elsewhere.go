package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/runlog"
)

const (
	// followIdle is how long a run of another replica is followed that nobody reads here any more.
	followIdle = 30 * time.Second
	// headPause is between looks for what a run has ended with, at first; it comes a moment after the end.
	headPause, headLongest = 2 * time.Millisecond, 200 * time.Millisecond
	// headWait is how long it is waited for. A run whose replica died in that moment is taken over.
	headWait = 15 * time.Second
	// beginWait is how long the beginning of a run may take to be stored: servers that have lost their leader elect for up to 9 s.
	beginWait = 15 * time.Second
)

// getElsewhere finds a run that this replica does not have: it is followed. Without a run and an error, it is to be looked for once more. The
// lock is not held.
func (rs *runs) getElsewhere(ctx context.Context, who access.Principal, id string) (*run, error) {
	over, again, err := rs.alone(ctx, id)
	if err != nil || again {
		return nil, err
	}
	r, err := rs.followRun(ctx, who, id)
	rs.mu.Lock()
	delete(rs.loading, id)
	close(over)
	here := rs.inMemory[id]
	taken := here != nil && !here.isGone()
	if err == nil && r.owned(who) && !taken {
		rs.inMemory[id] = r
	}
	rs.mu.Unlock()
	if taken {
		return nil, nil // this replica has taken it over meanwhile; that it is followed, too, ends when nobody reads it
	}
	if err != nil {
		return nil, err
	}
	if !r.owned(who) {
		return nil, errUnknown
	}
	return r, nil
}

func (r *run) owned(who access.Principal) bool { return who.Sees(r.owner) }

// alone lets one at a time find a run: again says that somebody else has, meanwhile.
func (rs *runs) alone(ctx context.Context, id string) (over chan struct{}, again bool, err error) {
	rs.mu.Lock()
	wait := rs.loading[id]
	if wait == nil {
		over = make(chan struct{})
		rs.loading[id] = over
		rs.mu.Unlock()
		return over, false, nil
	}
	rs.mu.Unlock()
	select {
	case <-wait:
		return nil, true, nil
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}

// followRun follows a run of another replica; of one that is not for who asks, nothing is kept.
func (rs *runs) followRun(ctx context.Context, who access.Principal, id string) (*run, error) {
	if rs.ctx.Err() != nil {
		return nil, runlog.ErrAway
	}
	asking, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	tail, err := rs.o.Shared.Runs.Follow(asking, id)
	switch {
	case errors.Is(err, runlog.ErrUnknown):
		return nil, errUnknown
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		rs.log.WarnContext(ctx, "cannot read another replica's run", "run", id, "error", err)
		return nil, runlog.ErrAway
	}
	var o opening
	if err := json.Unmarshal(tail.Opening(), &o); err != nil || o.Run != id {
		tail.Leave()
		rs.log.ErrorContext(ctx, "cannot read a stored run", "run", id, "error", err)
		return nil, errDamaged
	}
	r := &run{
		id: id, of: o.subject, owner: o.Owner, session: o.Session, tube: tail.Tube(), keyed: o.Keyed, began: o.Began,
		done: make(chan struct{}), place: newPlaced(tail), saved: true,
	}
	if !r.owned(who) {
		tail.Leave()
		return r, nil
	}
	r.account = rs.o.Ledger.Open()
	r.account.Measure(func() int64 { return int64(r.tube.Measure()) })
	r.place.asked.Store(time.Now().UnixNano())
	rs.moving.Go(func() { rs.watchElsewhere(r) })
	return r, nil
}

// watchElsewhere looks after a run that is followed, until nobody reads it, or it cannot be followed, or it has ended.
func (rs *runs) watchElsewhere(r *run) {
	tail := r.place.tail
	defer tail.Leave()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	ended := r.tube.Ended()
	var head <-chan time.Time
	pause, since := headPause, time.Time{}
	for {
		select {
		case <-ended:
			ended, since = nil, time.Now()
			head = time.After(0)
		case <-head:
			if h := tail.Head(); h != nil || time.Since(since) > headWait {
				if wentOn(r, h) {
					rs.forgetElsewhere(r)
					return
				}
				rs.endedElsewhere(r, h)
				return
			}
			head = time.After(pause)
			pause = min(2*pause, headLongest)
		case <-tail.Gone():
			rs.forgetElsewhere(r)
			return
		case <-tick.C:
			if rs.unread(r) {
				return
			}
		case <-rs.ctx.Done():
			rs.forgetElsewhere(r)
			return
		}
	}
}

// wentOn says that a run was cut off by the end of its replica, for those who read it here, and that another one has brought it to
// another end: what is there of its document is not what that end is about.
func wentOn(r *run, head []byte) bool {
	var h header
	return head != nil && json.Unmarshal(head, &h) == nil && h.Status != "" && h.Status != statusInterrupted &&
		outcomeFrom(r.tube).Status == statusInterrupted
}

// endedElsewhere keeps what a run has ended with in memory, for those who come late.
func (rs *runs) endedElsewhere(r *run, head []byte) {
	var h header
	if head != nil && json.Unmarshal(head, &h) == nil && h.Status != "" {
		r.outcome = h.outcome
	} else {
		r.outcome = outcomeFrom(r.tube)
		r.Session = r.session
	}
	close(r.done)
	now := time.Now()
	rs.mu.Lock()
	if rs.inMemory[r.id] == r {
		r.expires = now.Add(rs.retention(r.keyed))
		rs.keepLocked(r, now)
	} else {
		r.account.Release() // this replica has taken it over
	}
	rs.mu.Unlock()
	rs.trim(now)
}

// unread forgets a run that nobody reads any more; false where somebody does.
func (rs *runs) unread(r *run) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.sent.mu.Lock()
	users := r.sent.users
	r.sent.mu.Unlock()
	if users > 0 || time.Since(time.Unix(0, r.place.asked.Load())) < followIdle {
		return false
	}
	rs.dropElsewhereLocked(r)
	return true
}

// forgetElsewhere breaks off whoever reads a run that cannot be followed any more. Who comes back gets what is true then.
func (rs *runs) forgetElsewhere(r *run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.dropElsewhereLocked(r)
}

func (rs *runs) dropElsewhereLocked(r *run) {
	if rs.inMemory[r.id] == r {
		delete(rs.inMemory, r.id)
	}
	r.place.leave()
	r.account.Release()
}

// goingOn is what there is so far of a run whose head is not known here. Where its end is, it has ended for all who read it.
func (r *run) goingOn() (o outcome, document, reserved []byte) {
	over := r.ended()
	document, reserved = r.tube.Snapshot(false)
	o = outcomeFrom(r.tube)
	if o.Session = r.session; !over {
		o.Status, o.Reason = statusRunning, ""
	}
	return o, document, reserved
}

// errUnstored is why a run ends whose beginning could not be stored.
var errUnstored = errors.New("the server could not store the start of this run and refused it; retry")

// unstored waits until the beginning of a run is stored, and is the answer where that takes too long: nobody could ask for it at another
// replica. One without a key ends: who asked for it does not know its id. One with a key is found by it.
func (s *Server) unstored(ctx context.Context, run *run, sp *spec) *problem {
	waiting, cancel := context.WithTimeout(ctx, cmp.Or(s.beginWait, beginWait))
	defer cancel()
	if run.awaitBegun(waiting) || ctx.Err() != nil {
		return nil
	}
	if sp.key == "" {
		cancelRun(run, errUnstored)
	}
	if sp.agent != nil { // its tape may be kept, and have the message
		return doubtful(sp, run.id, "the server cannot store the message's run now, so the message may or may not get an answer")
	}
	return awayProblem()
}

// awaitBegun waits until the beginning of a run is stored: from then on it is found at every replica. It is false where ctx ends before.
func (r *run) awaitBegun(ctx context.Context) bool {
	for r.place != nil && r.tube.Len() <= r.tube.From() && !r.ended() && !r.isGone() {
		if ctx.Err() != nil {
			return false
		}
		r.awaitEvent(ctx, r.tube.From())
	}
	return true
}

// awaitEvent waits a while until readers may have an event of a number: a client may have had it of another replica a moment ago.
func (r *run) awaitEvent(ctx context.Context, n uint64) {
	if r.place == nil || n < r.tube.Len() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	reader := r.tube.NewReader(r.tube.Len())
	defer reader.Leave()
	for r.tube.Len() <= n && !r.ended() {
		select {
		case <-reader.More():
			for range reader.Waiting() {
			}
		case <-ctx.Done():
			return
		case <-r.gone():
			return
		}
	}
}

// awaitSeen waits a while for the event of a number, which a client says that it has seen, and says how many events the run has had, and
// whether it has ended with them. Of one that goes on and does not have it here, another replica may know more: the connection is broken off,
// and the client comes back.
func (s *Server) awaitSeen(r *http.Request, run *run, n uint64) (sent uint64, over bool) {
	run.awaitEvent(r.Context(), n)
	over = run.ended() // first: of one that ends meanwhile not all may be counted
	if sent = run.tube.Len(); n >= sent && !over && s.o.Shared != nil {
		panic(http.ErrAbortHandler)
	}
	return sent, over
}
