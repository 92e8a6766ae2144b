package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

const (
	// SuspendAfter is how long a turn waits for people in memory. Then its run is suspended: it is only a row of the store, until it is needed.
	SuspendAfter = 10 * time.Second
	// suspendFollowed is the same for a run that has readers: their connections break, and they come back.
	suspendFollowed = 10 * time.Minute
	// askedWait is how long a run that goes on may take until its question is open again, and askedEvery is between looks.
	askedWait, askedEvery = 5 * time.Second, 10 * time.Millisecond
)

// pending is what the turn of a run waits for. It is changed by the turn, and read by the recorder.
type pending struct {
	calls    int       // that have no result
	waiting  int       // of them, those that wait for a person
	within   int       // of these, calls of subagents, which cannot be asked again
	earliest time.Time // when the time of a question is over
	since    time.Time // nothing else goes on
}

// track notes what happens in the turn. q is the question of an event that asks one.
func (r *Run) track(e turn.Event, q *agent.Question) {
	r.pendingMu.Lock()
	defer r.pendingMu.Unlock()
	p := &r.pending
	switch e.Kind {
	case turn.ToolCallEvent:
		p.calls += len(e.Calls)
	case turn.ToolResultEvent:
		p.calls = max(0, p.calls-len(e.Results))
	case agent.ApprovalRequiredEvent:
		if p.waiting++; q.Subagent != "" {
			p.within++
		}
		if p.earliest.IsZero() || q.Expires.Before(p.earliest) {
			p.earliest = q.Expires
		}
	case agent.ApprovalResolvedEvent:
		if p.waiting--; p.waiting <= 0 {
			*p = pending{calls: p.calls}
		}
	default:
		return
	}
	p.since = time.Time{}
	if p.waiting > 0 && p.waiting >= p.calls && p.within == 0 {
		p.since = time.Now()
	}
}

// waits reports whether the turn waits for a person.
func (r *Run) waits() bool {
	r.pendingMu.Lock()
	defer r.pendingMu.Unlock()
	return r.pending.waiting > 0
}

// suspendable reports whether the run can be suspended now, and until when.
func (s *Service) suspendable(r *Run, now time.Time) (wake time.Time, ok bool) {
	if !r.goesOn || r.Session == "" || !r.machine.is(stateRunning) {
		return time.Time{}, false
	}
	after := SuspendAfter
	switch {
	case s.Draining():
		after = 0 // the server does not wait for people
	case s.o.Turns.Waits(r.Lane()): // for the answer to this one
		return time.Time{}, false
	case r.readers.Load() > 0:
		after = min(suspendFollowed, s.o.RunTimeout/2)
	}
	r.pendingMu.Lock()
	defer r.pendingMu.Unlock()
	p := r.pending
	return p.earliest, !p.since.IsZero() && now.Sub(p.since) >= after
}

// suspendWaiting suspends runs that have waited for long.
func (s *Service) suspendWaiting(list []*Run) {
	now := time.Now()
	for _, r := range list {
		wake, ok := s.suspendable(r, now)
		if !ok {
			continue
		}
		s.mu.Lock()
		if s.moving[r.ID] == nil && r.machine.enterFrom(stateRunning, stateHandedOver) {
			release := s.moveLocked(r.ID)
			s.starts.Enter() // a server that ends waits for it
			s.wg.Go(func() {
				defer s.starts.Leave()
				defer release()
				s.suspend(r, wake)
			})
		}
		s.mu.Unlock()
	}
}

// moveLocked makes others wait while the caller moves a run between the store and memory, until it calls release. The lock of runs is held.
func (s *Service) moveLocked(id string) (release func()) {
	over := make(chan struct{})
	s.moving[id] = over
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.moving, id)
		close(over)
	}
}

// acquire returns a run that is in memory. If it is not, acquire waits while another caller moves it between the store and memory, and returns
// release: until the caller calls that, it moves the run alone. A start does the same with its owner and key in place of an id.
func (s *Service) acquire(ctx context.Context, id string) (r *Run, release func(), err error) {
	for {
		s.mu.Lock()
		r, over := s.inMemory[id], s.moving[id]
		if r != nil && (r.Moved() || r.machine.is(stateHandedOver)) {
			r = nil
		}
		if r == nil && over == nil {
			release = s.moveLocked(id)
		}
		s.mu.Unlock()
		if r != nil || over == nil {
			return r, release, nil
		}
		select {
		case <-over:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// suspend ends the work of a run here, and leaves it to the replica that needs it next.
func (s *Service) suspend(r *Run, wake time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	s.leave(ctx, []*Run{r})
	if err := s.store.Suspend(ctx, r.ID, s.replica, r.recording.attempt, wake); err != nil && !errors.Is(err, store.ErrMoved) {
		s.log.WarnContext(r.Context(), "cannot suspend a run; it is taken as after a crash", "run", r.ID, "error", err)
	}
}

// suspended reports whether a run waits and no replica works on it.
func suspended(row *store.Run) bool {
	return row.Ended.IsZero() && row.State == store.RunWaiting && row.Replica == ""
}

// isElsewhere reports whether another replica works on a run.
func (s *Service) isElsewhere(row *store.Run) bool {
	return row.Ended.IsZero() && row.Replica != s.replica && s.o.Members != nil && slices.Contains(s.o.Members.Alive(), row.Replica)
}

// wake lets a suspended run go on here and waits until its question is open again. The caller has acquired the run.
func (s *Service) wake(ctx context.Context, row *store.Run) error {
	if s.Draining() {
		return draining()
	}
	if _, err := s.recoverRuns(ctx, []store.Run{*row}); err != nil {
		s.log.WarnContext(ctx, "cannot wake a run that waits", "run", row.ID, "error", err)
		return away() // another request tries again, perhaps at another replica
	}
	s.mu.Lock()
	r := s.inMemory[row.ID]
	s.mu.Unlock()
	for since := time.Now(); r != nil && r.manager.Load() != nil && !r.waits() && time.Since(since) < askedWait; {
		if err := backoff.Sleep(ctx, askedEvery); err != nil {
			return err
		}
	}
	return nil
}

// awaitSession waits until the runs of a session, by its lane, are where their turns are: a suspended one goes on, so that its turn comes before
// what follows. It is an [Elsewhere] where another replica has one of them, and ErrAway where none has it yet.
func (s *Service) awaitSession(ctx context.Context, lane string) error {
	if lane == "" || s.o.Turns == nil {
		return nil
	}
	if last := s.activeIn(lane); last != nil && !last.Moved() {
		return nil // the lane has them
	}
	list, _, err := s.store.List(ctx, store.RunQuery{Session: lane, States: store.LiveStates, Limit: maxQueued})
	if err != nil {
		return s.storeError(ctx, err)
	}
	for i := range list {
		if err := s.awaitRun(ctx, list[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// activeIn returns the run that was started last in a session, by its lane, if it is active here; nil otherwise.
func (s *Service) activeIn(lane string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.inSession[lane]; r != nil && r.manager.Load() != nil {
		return r
	}
	return nil
}

// awaitRun is awaitSession for one run.
func (s *Service) awaitRun(ctx context.Context, id string) error {
	r, release, err := s.acquire(ctx, id)
	if r != nil || err != nil {
		return err
	}
	defer release()
	row, err := s.store.Find(ctx, id) // with its request
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return s.storeError(ctx, err)
	case suspended(&row):
		return s.wake(ctx, &row)
	case s.isElsewhere(&row):
		return &Elsewhere{row.Replica}
	case !row.Ended.IsZero(), row.Replica == s.replica, s.o.Members == nil:
		return nil
	}
	return away() // another replica is about to take it over
}

// openQuestions are the ids of questions that readers of a tube were told and that have no answer.
func openQuestions(t *tube.Tube) map[string]bool {
	open := map[string]bool{}
	for e := range t.NewReader(0).Waiting() {
		var q struct{ ID string }
		if e.Kind != tube.Named || json.Unmarshal(e.Value, &q) != nil {
			continue
		}
		switch e.Name {
		case string(agent.ApprovalRequiredEvent):
			open[q.ID] = true
		case string(agent.ApprovalResolvedEvent):
			delete(open, q.ID)
		}
	}
	return open
}
