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
	// SuspendAfter is how long a turn waits for people in memory. Then its run is suspended: it is a row of the store, until somebody wants it.
	SuspendAfter = 10 * time.Second
	// suspendFollowed is the same for a run that somebody follows: their connection breaks, and they come back.
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

// track notes what happens in the turn.
func (r *Run) track(e turn.Event) {
	r.pendingMu.Lock()
	defer r.pendingMu.Unlock()
	p := &r.pending
	switch e.Kind {
	case turn.ToolCallEvent:
		p.calls += len(e.Calls)
	case turn.ToolResultEvent:
		p.calls = max(0, p.calls-len(e.Results))
	case agent.ApprovalRequiredEvent:
		var q agent.Question
		_ = json.Unmarshal(e.Value, &q) // our own
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

// waits reports whether the turn waits for somebody's answer.
func (r *Run) waits() bool {
	r.pendingMu.Lock()
	defer r.pendingMu.Unlock()
	return r.pending.waiting > 0
}

// suspendable reports whether the run can be suspended now, and until when.
func (s *Service) suspendable(r *Run, now time.Time) (wake time.Time, ok bool) {
	if !r.goesOn || r.session == "" || !r.machine.is(runRunning) {
		return time.Time{}, false
	}
	r.sent.mu.Lock()
	after := SuspendAfter
	if r.sent.users > 0 {
		after = min(suspendFollowed, s.o.RunTimeout/2)
	}
	r.sent.mu.Unlock()
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
		s.mu.Lock()
		ok = ok && !s.draining && r.machine.enterFrom(runRunning, runHandedOver)
		s.mu.Unlock()
		if ok {
			moved := s.move(r.ID)
			s.wg.Go(func() {
				defer moved()
				s.suspend(r, wake)
			})
		}
	}
}

// move says that a run is between the store and this server, until moved is called.
func (s *Service) move(id string) (moved func()) {
	over := make(chan struct{})
	s.mu.Lock()
	s.moving[id] = over
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.moving[id] == over {
			delete(s.moving, id)
		}
		close(over)
	}
}

// awaitMove waits until a run is here or in the store.
func (s *Service) awaitMove(ctx context.Context, id string) error {
	s.mu.Lock()
	over := s.moving[id]
	s.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// suspend leaves a run to whoever wants it next.
func (s *Service) suspend(r *Run, wake time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	r.where.leave()
	s.leave(ctx, []*Run{r})
	if err := s.store.Suspend(ctx, r.ID, s.replica, r.recording.attempt, wake); err != nil && !errors.Is(err, store.ErrMoved) {
		s.log.WarnContext(r.Context(), "cannot suspend a run; it is taken as after a crash", "run", r.ID, "error", err)
	}
}

// suspended reports whether a run waits and nobody works on it.
func suspended(row *store.Run) bool {
	return row.Ended.IsZero() && row.State == store.RunWaiting && row.Replica == ""
}

// wake lets a suspended run go on here, and waits until its question is open again.
func (s *Service) wake(ctx context.Context, row *store.Run) error {
	if s.Draining() {
		return &Error{Kind: ErrDraining, Detail: drainingMessage, Retry: 2 * time.Second}
	}
	if err := s.takeAwake(ctx, row); err != nil {
		return err
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

// takeAwake takes a suspended run over.
func (s *Service) takeAwake(ctx context.Context, row *store.Run) error {
	defer s.move(row.ID)()
	taken := s.takeRun(ctx, row)
	if taken.resume != nil {
		s.resumeAll([]*leftRun{taken.resume})
	}
	return taken.err
}

// awaitSession waits until the runs of a session, by its lane, are where their turns are: a suspended one goes on, so that its turn comes before
// what follows. It is an [Elsewhere] where another replica has one of them, and ErrAway where none has it yet.
func (s *Service) awaitSession(ctx context.Context, lane string) error {
	if lane == "" || s.o.Turns == nil {
		return nil
	}
	s.mu.Lock()
	r := s.inSession[lane]
	s.mu.Unlock()
	if r != nil && !r.Moved() && r.manager.Load() != nil {
		return nil // the lane has them
	}
	live := []string{store.RunQueued, store.RunRunning, store.RunWaiting}
	list, _, err := s.store.List(ctx, store.RunQuery{Session: lane, States: live, Limit: maxQueued})
	if err != nil {
		return s.storeError(ctx, err)
	}
	for i := range list {
		if err := s.awaitRow(ctx, list[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// awaitRow is awaitSession for one run.
func (s *Service) awaitRow(ctx context.Context, id string) error {
	if err := s.awaitMove(ctx, id); err != nil {
		return err
	}
	now, err := s.store.Find(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return s.storeError(ctx, err)
	case !now.Ended.IsZero(), now.Replica == s.replica:
		return nil
	case suspended(&now):
		return s.wake(ctx, &now)
	case s.o.Members == nil:
		return nil
	case slices.Contains(s.o.Members.Alive(), now.Replica):
		return &Elsewhere{now.Replica}
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
