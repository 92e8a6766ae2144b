package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

const (
	leftAtOnce = 100 // runs that others have left, listed at a time
	takeAtOnce = 8   // of them, taken over at the same time
	// lookForLeft is between looks for runs that others have left.
	lookForLeft = time.Second
	// lookForLost is after how many looks this replica's own are compared with those that it works on.
	lookForLost = 60
)

// Members are the replicas that share the store.
type Members interface {
	// ID is that of this replica.
	ID() string
	// Alive are the ids of those who are there, this one among them.
	Alive() []string
}

// watchLeft takes over what other replicas leave, until the server ends: each run of a replica that is not there any more gets one of those
// who are.
func (s *Service) watchLeft() {
	failed := false
	for looks := 1; backoff.Sleep(s.ctx, lookForLeft) == nil && !s.Draining(); looks++ {
		err := s.recoverLeft(s.ctx, looks%lookForLost == 0)
		if err != nil && !failed && s.ctx.Err() == nil {
			s.log.WarnContext(s.ctx, "cannot look for runs of replicas that are gone; retrying", "error", err)
		}
		failed = err != nil
	}
}

// recoverLeft takes over the runs that others have left. With lost it also takes over the runs that the store has of this replica and that it does
// not work on: the answer to their start was lost.
func (s *Service) recoverLeft(ctx context.Context, lost bool) error {
	alive := []string{s.replica}
	if s.o.Members != nil {
		alive = s.o.Members.Alive()
	}
	if lost {
		alive = slices.DeleteFunc(alive, func(id string) bool { return id == s.replica })
	}
	for {
		list, err := s.store.Left(ctx, alive, leftAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		free, release := s.acquireAll(list)
		took, err := s.recoverRuns(ctx, free)
		release()
		if err != nil || !took || len(list) < leftAtOnce {
			return err
		}
	}
}

// acquireAll acquires those of the runs that are not in memory and that no other caller moves, until release is called. A run that works here,
// and that another replica has taken over since and left, is broken off: it is taken over when its session is free.
func (s *Service) acquireAll(list []store.Run) (free []store.Run, release func()) {
	var lost []*Run
	defer func() {
		for _, r := range lost {
			s.recorder.remove(r)
			r.breakOff()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	var releases []func()
	for _, row := range list {
		switch r := s.inMemory[row.ID]; {
		case s.moving[row.ID] != nil:
		case row.Replica == s.replica && time.Since(row.Created) < time.Minute: // it may still be starting
		case r == nil:
			free, releases = append(free, row), append(releases, s.moveLocked(row.ID))
		case r.manager.Load() != nil && row.Attempt > r.recording.attempt:
			lost = append(lost, r)
		}
	}
	return free, func() {
		for _, release := range releases {
			release()
		}
	}
}

// recoverRuns takes over runs, which the caller has acquired: they continue, or end. It reports whether it took any.
func (s *Service) recoverRuns(ctx context.Context, list []store.Run) (took bool, err error) {
	taken := make([]*leftRun, len(list))
	var inSessions []int
	var group errgroup.Group
	group.SetLimit(takeAtOnce)
	for i := range list {
		if list[i].Session != "" {
			inSessions = append(inSessions, i)
			continue
		}
		group.Go(func() (err error) {
			taken[i], err = s.recoverRun(ctx, &list[i])
			return err
		})
	}
	err = group.Wait()
	for _, i := range inSessions { // one after the other, in their order
		var failed error
		taken[i], failed = s.recoverRun(ctx, &list[i])
		err = errors.Join(err, failed)
	}
	taken = slices.DeleteFunc(taken, func(p *leftRun) bool { return p == nil })
	s.resumeAll(slices.DeleteFunc(slices.Clone(taken), func(p *leftRun) bool { return p.end != nil }))
	return len(taken) > 0, err
}

// recoverRun takes over a run, and ends it if it does not go on. It returns nil for a run that another replica has, or has to take.
func (s *Service) recoverRun(ctx context.Context, row *store.Run) (*leftRun, error) {
	o, err := originOf(row)
	if err != nil {
		s.log.WarnContext(ctx, "cannot read how a run began", "run", row.ID, "error", err)
	}
	p := &leftRun{
		origin: o, attempt: row.Attempt + 1, crashes: row.Crashes, queued: row.State == store.RunQueued && row.Attempt == 1, suspended: suspended(row),
	}
	if p.Session != "" && p.Again != nil { // at the replica that has its session
		if first, err := s.isNext(ctx, row); err != nil || !first {
			return nil, err
		}
	}
	p.stored, err = s.readStored(ctx, row.ID)
	switch {
	case errors.Is(err, errBatch):
		s.log.ErrorContext(ctx, "cannot read all events of a run", "run", row.ID, "error", err)
	case err != nil:
		return nil, err
	}
	if p.tube == nil {
		p.tube = s.unstored(p)
	}
	if row.Replica != "" && row.State != store.RunQueued { // else it was handed over, or had not begun
		p.crashes++
	}
	take := store.Takeover{
		ID: row.ID, FromReplica: row.Replica, FromAttempt: row.Attempt, FromState: row.State, Replica: s.replica, Crashes: p.crashes, State: store.RunRunning,
	}
	if p.last.Attempt == row.Attempt {
		take.AfterSeq = p.last.Seq
	}
	if p.end = whyNotResumed(p); p.end == nil {
		take.State = store.RunQueued
	}
	_, err = s.store.Take(ctx, take)
	if errors.Is(err, store.ErrUnsure) {
		var now store.Run
		if now, err = s.store.Find(ctx, row.ID); err == nil && (now.Replica != s.replica || now.Attempt != p.attempt) {
			err = store.ErrMoved
		}
	}
	switch {
	case errors.Is(err, store.ErrMoved):
		return nil, nil
	case err != nil:
		return nil, err
	case p.end != nil:
		s.endLeft(p)
	case p.queued && s.wasSteered(ctx, p):
		s.forgetSteered(p.ID, p.attempt)
		return nil, nil
	default:
		if err := s.continueTurn(ctx, p); err != nil {
			return nil, errors.Join(err, s.store.Release(ctx, s.replica, []string{p.ID}))
		}
	}
	return p, nil
}

// continueTurn takes over the turn of a run, if it had begun.
func (s *Service) continueTurn(ctx context.Context, p *leftRun) error {
	if p.queued || p.Session == "" || s.o.Turns == nil {
		return nil
	}
	p.questions = openQuestions(p.tube)
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	return s.o.Turns.Alone(ctx, p.Lane(), turn.Queue, func(ctx context.Context) error {
		t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, p.Lane())
		if err == nil {
			p.told, err = agent.TakeTurn(ctx, t, p.ID)
		}
		if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrDeleted) {
			return nil // the turn had not begun
		}
		return err
	})
}

// wasSteered reports whether a message that waits is on its session's tape: another turn has used it.
func (s *Service) wasSteered(ctx context.Context, p *leftRun) bool {
	if p.Session == "" || s.o.Tapes == nil {
		return false
	}
	t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, p.Lane())
	return err == nil && agent.WasSteered(ctx, t, p.Began, func(m tape.Meta) bool { return m.Run == p.ID })
}

// forgetSteered removes what is stored of a message that another run has used. What cannot be removed now is when it is taken over.
func (s *Service) forgetSteered(id string, attempt int) {
	ctx, cancel := context.WithTimeout(s.working, storeWait)
	defer cancel()
	end := store.RunEnd{ID: id, Replica: s.replica, Attempt: attempt, State: store.RunCompleted, Result: []byte("{}"), Expires: time.Now()}
	if err := s.store.End(ctx, end); err != nil && !errors.Is(err, store.ErrMoved) {
		s.log.WarnContext(ctx, "cannot forget a steered message", "run", id, "error", err)
	}
}

// isNext reports whether a message that waits can be taken over here: no other replica has its session, nor a run in it that came before.
func (s *Service) isNext(ctx context.Context, row *store.Run) (bool, error) {
	if s.elsewhere(ctx, row.Session) != nil {
		return false, nil
	}
	list, _, err := s.store.List(ctx, store.RunQuery{Session: row.Session, States: []string{store.RunQueued, store.RunRunning, store.RunWaiting}, Limit: maxQueued})
	return !slices.ContainsFunc(list, func(r store.Run) bool { return r.Created.Before(row.Created) && r.Replica != s.replica }), err
}

// maxQueued is more runs than go on in one session.
const maxQueued = 1000

// unstored is the tube of a run of which no event is stored.
func (s *Service) unstored(p *leftRun) *tube.Tube {
	t := tube.New(p.ID, TubeOptions(s.o.MaxLog))
	started := mustJSON(struct {
		Run string `json:"run"`
		Subject
		Session string `json:"session,omitempty"`
	}{p.ID, p.Of, p.Session})
	_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "started", Value: started}) // cannot fail: the tube is new
	return t
}
