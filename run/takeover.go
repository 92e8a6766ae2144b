package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
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
	failed, looks := false, 0
	for backoff.Sleep(s.ctx, lookForLeft) == nil && !s.Draining() {
		err := s.takeLeft(s.ctx)
		if looks++; err == nil && looks%lookForLost == 0 {
			err = s.takeLost(s.ctx)
		}
		if err != nil && !failed && s.ctx.Err() == nil {
			s.log.WarnContext(s.ctx, "cannot look for runs of replicas that are gone; retrying", "error", err)
		}
		failed = err != nil
	}
}

// takeLost takes over the runs that the store has of this replica and that it does not work on: the answer to their start was lost.
func (s *Service) takeLost(ctx context.Context) error {
	others := slices.DeleteFunc(s.o.Members.Alive(), func(id string) bool { return id == s.replica })
	list, err := s.store.Left(ctx, others, leftAtOnce)
	if err != nil {
		return err
	}
	var restart []*leftRun
	var errs []error
	for i := range list {
		row := &list[i]
		s.mu.Lock()
		here := s.inMemory[row.ID] != nil
		s.mu.Unlock()
		if here || row.Replica != s.replica || time.Since(row.Created) < time.Minute {
			continue
		}
		t := s.takeRun(ctx, row)
		if errs = append(errs, t.err); t.restart != nil {
			restart = append(restart, t.restart)
		}
	}
	s.restartAll(restart)
	return errors.Join(errs...)
}

// takeLeft takes over the runs that others have left: they are restarted, or end.
func (s *Service) takeLeft(ctx context.Context) error {
	alive := []string{s.replica}
	if s.o.Members != nil {
		alive = s.o.Members.Alive()
	}
	for {
		list, err := s.store.Left(ctx, alive, leftAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		taken := make([]takenRun, len(list))
		var wg sync.WaitGroup
		slots := make(chan struct{}, takeAtOnce)
		for i := range list {
			if list[i].Session == "" {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					taken[i] = s.takeRun(ctx, &list[i])
				})
			}
		}
		wg.Wait()
		for i := range list {
			if list[i].Session != "" { // one after the other, in their order
				taken[i] = s.takeRun(ctx, &list[i])
			}
		}
		var restart []*leftRun
		var errs []error
		left := true
		for _, t := range taken {
			if t.restart != nil {
				restart = append(restart, t.restart)
			}
			errs = append(errs, t.err)
			left = left && !t.took
		}
		s.restartAll(restart)
		if err := errors.Join(errs...); err != nil || left || len(list) < leftAtOnce {
			return err
		}
	}
}

// takenRun is what came of taking a run over.
type takenRun struct {
	took    bool
	restart *leftRun // to be restarted; nil: it has ended, or is another replica's
	err     error
}

// takeRun takes over a run.
func (s *Service) takeRun(ctx context.Context, row *store.Run) takenRun {
	b, err := begunOf(row)
	if err != nil {
		s.log.WarnContext(ctx, "cannot read how a run began", "run", row.ID, "error", err)
	}
	p := &leftRun{
		begun: b, id: row.ID, of: Subject{row.Workflow, row.Agent}, owner: row.Owner, at: row.Created, attempt: row.Attempt + 1, failed: row.Crashes,
	}
	if p.Session != "" { // only a message whose turn has not begun goes on, at the replica that has its session
		if row.State != store.RunQueued {
			p.Again = nil
		} else if first, err := s.isNext(ctx, row); err != nil || !first {
			return takenRun{err: err}
		}
	}
	var last store.RunBatch
	p.tube, last, err = s.readTube(ctx, row.ID)
	switch {
	case errors.Is(err, errBatch):
		s.log.ErrorContext(ctx, "cannot read all events of a run", "run", row.ID, "error", err)
	case err != nil:
		return takenRun{err: err}
	}
	if p.tube == nil {
		p.tube = s.unstored(p)
	}
	if row.Replica != "" && row.State != store.RunQueued { // else it was handed over, or had not begun
		p.failed++
	}
	take := store.Takeover{
		ID: row.ID, FromReplica: row.Replica, FromAttempt: row.Attempt, Replica: s.replica, Crashes: p.failed, State: store.RunRunning,
	}
	if last.Attempt == row.Attempt {
		take.AfterSeq = last.Seq
	}
	message := s.whyNotRestarted(p, time.Now())
	if message == "" {
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
		return takenRun{}
	case err != nil:
		return takenRun{err: err}
	case message == "":
		return takenRun{took: true, restart: p}
	}
	s.endTaken(p, message)
	return takenRun{took: true}
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
	t := tube.New(p.id, TubeOptions(s.o.MaxLog))
	started := mustJSON(struct {
		Run string `json:"run"`
		Subject
		Session string `json:"session,omitempty"`
	}{p.id, p.of, p.Session})
	_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "started", Value: started}) // cannot fail: the tube is new
	return t
}

// endTaken ends a run that was taken over.
func (s *Service) endTaken(p *leftRun, message string) {
	s.noteCut(p)
	over := hasEnded(p.tube)
	r := p.ended(message)
	if s.storeEnd(r, &r.result) && !over {
		s.log.WarnContext(r.Context(), "run cut off: its server ended", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
}

// whyNotRestarted says why a run is not restarted that was cut off, as its clients are told; "" where it is.
func (s *Service) whyNotRestarted(p *leftRun, now time.Time) string {
	switch {
	case p.Again == nil, hasEnded(p.tube):
		return cutMessage
	case p.failed >= MaxAttempts:
		return fmt.Sprintf("%s; it already started %d times", cutMessage, p.failed)
	case now.Sub(p.at) >= s.o.KeyRetention:
		return cutMessage + "; it is too old to restart"
	}
	return ""
}
