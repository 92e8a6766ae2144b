package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
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
	failed, looks := false, 0
	for backoff.Sleep(s.ctx, lookForLeft) == nil && !s.Draining() {
		err := s.takeLeft(s.ctx)
		if looks++; err == nil && looks%lookForLost == 0 && s.o.Members != nil {
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
	var resume []*leftRun
	var errs []error
	for i := range list {
		row := &list[i]
		s.mu.Lock()
		here := s.inMemory[row.ID] != nil || s.moving[row.ID] != nil
		s.mu.Unlock()
		if here || row.Replica != s.replica || time.Since(row.Created) < time.Minute {
			continue
		}
		defer s.move(row.ID)()
		t := s.takeRun(ctx, row)
		if errs = append(errs, t.err); t.resume != nil {
			resume = append(resume, t.resume)
		}
	}
	s.resumeAll(resume)
	return errors.Join(errs...)
}

// takeLeft takes over the runs that others have left: they go on, or end.
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
		moved := make([]func(), len(list))
		for i := range list {
			moved[i] = s.move(list[i].ID)
		}
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
		var resume []*leftRun
		var errs []error
		left := true
		for _, t := range taken {
			if t.resume != nil {
				resume = append(resume, t.resume)
			}
			errs = append(errs, t.err)
			left = left && !t.took
		}
		s.resumeAll(resume)
		for _, over := range moved {
			over()
		}
		if err := errors.Join(errs...); err != nil || left || len(list) < leftAtOnce {
			return err
		}
	}
}

// takenRun is what came of taking a run over.
type takenRun struct {
	took   bool
	resume *leftRun // that goes on; nil: it has ended, or is another replica's
	err    error
}

// takeRun takes over a run.
func (s *Service) takeRun(ctx context.Context, row *store.Run) takenRun {
	b, err := begunOf(row)
	if err != nil {
		s.log.WarnContext(ctx, "cannot read how a run began", "run", row.ID, "error", err)
	}
	p := &leftRun{
		begun: b, id: row.ID, of: Subject{row.Workflow, row.Agent}, owner: row.Owner, at: row.Created, attempt: row.Attempt + 1, crashes: row.Crashes,
		queued: row.State == store.RunQueued && row.Attempt == 1, suspended: suspended(row),
	}
	if p.Session != "" && p.Again != nil { // at the replica that has its session
		if first, err := s.isNext(ctx, row); err != nil || !first {
			return takenRun{err: err}
		}
	}
	p.stored, err = s.readStored(ctx, row.ID)
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
		p.crashes++
	}
	take := store.Takeover{
		ID: row.ID, FromReplica: row.Replica, FromAttempt: row.Attempt, Replica: s.replica, Crashes: p.crashes, State: store.RunRunning,
	}
	if p.last.Attempt == row.Attempt {
		take.AfterSeq = p.last.Seq
	}
	end := whyNotResumed(p)
	if end == nil {
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
	case end == nil && p.queued && s.wasSteered(ctx, p):
		s.forgetSteered(p.id, p.attempt)
		return takenRun{took: true}
	case end == nil:
		if err := s.takeTurn(ctx, p); err != nil {
			return takenRun{err: errors.Join(err, s.store.Release(ctx, s.replica, []string{row.ID}))}
		}
		return takenRun{took: true, resume: p}
	}
	s.endTaken(p, *end)
	return takenRun{took: true}
}

// takeTurn takes over the turn of a run that had begun.
func (s *Service) takeTurn(ctx context.Context, p *leftRun) error {
	if p.queued || p.Session == "" || s.o.Turns == nil {
		return nil
	}
	p.questions = openQuestions(p.tube)
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	lane := webchannel.SessionKey(p.owner, p.Session)
	return s.o.Turns.Alone(ctx, lane, turn.Queue, func(ctx context.Context) error {
		t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, lane)
		if err == nil {
			p.told, err = agent.TakeTurn(ctx, t, p.id)
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
	t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, webchannel.SessionKey(p.owner, p.Session))
	if err != nil {
		return false
	}
	for e, err := range t.Read(ctx, tape.Query{Kinds: []tape.Kind{tape.KindMessage}, Newest: true}) {
		if err != nil || e.Date.Before(p.at.Add(-time.Minute)) { // clocks differ
			return false
		}
		if m := tape.MetaOf(e); m.Steered && m.Run == p.id {
			return true
		}
	}
	return false
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
	t := tube.New(p.id, TubeOptions(s.o.MaxLog))
	started := mustJSON(struct {
		Run string `json:"run"`
		Subject
		Session string `json:"session,omitempty"`
	}{p.id, p.of, p.Session})
	_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "started", Value: started}) // cannot fail: the tube is new
	return t
}

// takenEnd is how a run ends that was taken over and does not go on.
type takenEnd struct{ status, code, message string }

// interruptedEnd is that of a run that cannot go on; more is said behind the reason.
func interruptedEnd(more string) takenEnd {
	return takenEnd{StatusInterrupted, codeInternal, cutMessage + more}
}

// endTaken ends a run that was taken over.
func (s *Service) endTaken(p *leftRun, end takenEnd) {
	s.noteCut(p)
	over := hasEnded(p.tube)
	r := p.ended(end)
	if !s.storeEnd(r, &r.result) || over {
		return
	}
	if end.code == codeCrashed {
		s.log.ErrorContext(r.Context(), "run ended: servers crashed again and again during it", "run", r.ID, r.Of.attr(), "crashes", p.crashes)
	} else {
		s.log.WarnContext(r.Context(), "run cut off: its server ended", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
}

// whyNotResumed says how a run ends that was cut off and does not go on; nil where it goes on.
func whyNotResumed(p *leftRun) *takenEnd {
	switch {
	case p.Again == nil, hasEnded(p.tube):
		return new(interruptedEnd(""))
	case p.crashes >= MaxCrashes:
		return &takenEnd{StatusFailed, codeCrashed, fmt.Sprintf("the server stopped %d times in a row during this run, so the run does not continue", p.crashes)}
	}
	return nil
}
