package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/ling"
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
		list, err := s.store.Left(ctx, s.replica, alive, leftAtOnce)
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
	var releases []func()
	s.mu.Lock()
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
	s.mu.Unlock()
	for _, r := range lost {
		s.breakOff(r)
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
	var group errgroup.Group
	group.SetLimit(takeAtOnce)
	for i := range list {
		recoverOne := func() (err error) {
			taken[i], err = s.recoverRun(ctx, &list[i])
			return err
		}
		if list[i].Session == "" {
			group.Go(recoverOne)
		} else { // one after the other, in their order
			err = errors.Join(err, recoverOne())
		}
	}
	err = errors.Join(err, group.Wait())
	taken = slices.DeleteFunc(taken, func(p *leftRun) bool { return p == nil })
	goOn := slices.DeleteFunc(slices.Clone(taken), func(p *leftRun) bool { return p.end != nil })
	// A turn that has begun comes before a message of its session whose start was lost, even if the message is older.
	slices.SortStableFunc(goOn, func(p, q *leftRun) int { return cmp.Compare(q.begun(), p.begun()) })
	s.resumeAll(goOn)
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
	err = s.store.Take(ctx, take)
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
		return p, nil
	}
	used := false
	if row.State == store.RunQueued {
		used, err = s.wasSteered(ctx, p)
	}
	if err == nil && !used {
		err = s.continueTurn(ctx, p)
	}
	switch {
	case err != nil:
		return nil, errors.Join(err, s.store.Release(ctx, s.replica, []string{p.ID}))
	case used:
		s.forgetSteered(p.ID, p.attempt)
		return nil, nil
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
func (s *Service) wasSteered(ctx context.Context, p *leftRun) (bool, error) {
	if p.Session == "" || s.o.Tapes == nil {
		return false, nil
	}
	t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, p.Lane())
	switch {
	case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrDeleted):
		return false, nil
	case err != nil:
		return false, err
	}
	return agent.WasSteered(ctx, t, p.Began, func(m tape.Meta) bool { return m.Run == p.ID })
}

// forgetSteered removes what is stored of a message that another run has used. What cannot be removed now is when it is taken over.
func (s *Service) forgetSteered(id string, attempt int) {
	ctx, cancel := context.WithTimeout(s.working, storeWait)
	defer cancel()
	end := store.RunEnd{ID: id, Replica: s.replica, Attempt: attempt, State: StatusCompleted, Result: []byte("{}"), Expires: time.Now()}
	if err := s.store.End(ctx, end); err != nil && !errors.Is(err, store.ErrMoved) {
		s.log.WarnContext(ctx, "cannot forget a steered message", "run", id, "error", err)
	}
}

// isNext reports whether a message that waits can be taken over here: no other replica has its session, nor a run in it that came before.
func (s *Service) isNext(ctx context.Context, row *store.Run) (bool, error) {
	if s.elsewhere(ctx, row.Session) != nil {
		return false, nil
	}
	earlier, err := s.hasEarlier(ctx, row.Session, row.Created)
	return !earlier, err
}

// hasEarlier reports whether a session, by its lane, has an active run from before a time that this replica does not have.
func (s *Service) hasEarlier(ctx context.Context, lane string, began time.Time) (bool, error) {
	list, _, err := s.store.List(ctx, store.RunQuery{Session: lane, States: store.LiveStates, Limit: maxQueued})
	return slices.ContainsFunc(list, func(r store.Run) bool { return r.Created.Before(began) && r.Replica != s.replica }), err
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

// leftRun is a run that its replica has left.
type leftRun struct {
	origin
	stored
	queued  bool // its turn has not begun for certain
	attempt int  // of the replica that takes it over
	crashes int  // in a row
	told    agent.Told
	end     *ling.ErrorData // why it does not go on; nil: it does
	// suspended says that it waited for people, and nothing was lost. questions are the ids of those that readers know.
	suspended bool
	questions map[string]bool

	// Of a workflow: it begins when the one before it has begun, or has been canceled.
	after, begins chan struct{}
}

// begun is 1 for a run whose turn has begun and has not ended, else 0.
func (p *leftRun) begun() int {
	if p.told.Begun && !p.told.Ended {
		return 1
	}
	return 0
}

// cutMessage is the error of a run that ended with its server.
const cutMessage = "the server stopped during this run; the run's events so far are kept"

// otherKey follows why a run with an Idempotency-Key was cut off.
const otherKey = "; start it again with another Idempotency-Key"

// Epoch is how many event numbers each attempt of a run has, and its end after a crash. No attempt sends so many events, so a number never means
// two events, even if the first one was not stored. Numbers stay far below 2⁵³.
const Epoch = 1 << 32

// firstEvent returns the number of the first event of the next attempt. No reader has seen it, or one behind it.
func (p *leftRun) firstEvent() uint64 {
	return max((p.tube.Len()/Epoch+1)*Epoch, uint64(p.attempt-1)*Epoch)
}

// endLeft ends a run that was taken over and does not go on.
func (s *Service) endLeft(p *leftRun) {
	over := hasEnded(p.tube)
	if !over {
		p.tube.Leap(p.firstEvent())
		if p.Keyed {
			p.end.Message += otherKey
		}
		status := StatusInterrupted
		if p.end.Code == codeCrashed {
			status = StatusFailed
		}
		_, _ = p.tube.Send(tube.Event{Kind: tube.Named, Name: "error", Value: mustJSON(p.end)}) // cannot fail: it goes on
		_ = p.tube.Close(status)
	}
	r := newRun(p.origin)
	r.tube, r.recording = p.tube, &recording{attempt: p.attempt, seq: 1}
	r.result = r.resultOf(ling.ResultOf(p.tube))
	r.result.Session = p.Session
	close(r.done)
	switch {
	case !s.storeEnd(r), over:
	case p.end.Code == codeCrashed:
		s.log.ErrorContext(r.Context(), "run ended: servers crashed again and again during it", "run", r.ID, r.Of.attr(), "crashes", p.crashes)
	default:
		s.log.WarnContext(r.Context(), "run cut off: its server ended", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
}

// interrupted is the error of a run that cannot go on. reason follows the sentence.
func interrupted(reason string) *ling.ErrorData {
	return &ling.ErrorData{Code: codeInternal, Message: cutMessage + reason, Retryable: true, Fatal: true}
}

// whyNotResumed returns how a run ends that was cut off and does not go on; nil where it goes on.
func whyNotResumed(p *leftRun) *ling.ErrorData {
	switch {
	case p.Again == nil, hasEnded(p.tube):
		return interrupted("")
	case p.crashes >= MaxCrashes:
		message := fmt.Sprintf("the server stopped %d times in a row during this run, so the run does not continue", p.crashes)
		return &ling.ErrorData{Code: codeCrashed, Message: message, Fatal: true}
	}
	return nil
}

// MaxCrashes is how many servers in a row a run may crash before it finishes a step: the run may be the reason.
const MaxCrashes = 3

// resumeAll lets runs go on, the oldest first. What cannot go on ends.
func (s *Service) resumeAll(list []*leftRun) {
	for _, p := range list {
		err := s.resume(p)
		switch {
		case passes(err):
			s.log.Info("cannot resume a run now; it is handed over", "run", p.ID, "error", err)
			if err := s.store.Release(s.ctx, s.replica, []string{p.ID}); err != nil {
				s.log.Warn("cannot hand runs over; they are taken as after a crash", "error", err)
			}
		case err != nil:
			s.log.Warn("cannot resume a run", "run", p.ID, "error", err)
			p.end = interrupted("; it cannot continue, because its workflow or agent has changed")
			s.endLeft(p)
		}
	}
}

// passes reports whether a run that cannot go on now may go on later, or elsewhere.
func passes(err error) bool {
	return errors.Is(err, ErrDraining) || errors.Is(err, ErrAway) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrBusy)
}

// resume lets a run go on that was taken over.
func (s *Service) resume(p *leftRun) error {
	who := access.Principal{Name: cmp.Or(p.owner, access.Local.Name), Role: p.Role}
	sp, err := s.prepare(who, p.Again, p.ID) // what it may run, it was asked when it began
	if err != nil {
		return err
	}
	if sp.Again == nil {
		return errors.New("its workflow does not allow it (resume: false)")
	}
	sp.origin, sp.resumed, sp.queued = p.origin, p, true
	if !p.suspended { // else readers have seen what is stored, and nothing more
		p.tube.Leap(p.firstEvent())
	}
	if sp.agent == nil {
		_, err = s.start(sp)
		return err
	}
	sp.agent.policy = turn.Queue
	sp.agent.envelope.Resumed = true
	_, host, err := s.startAgent(sp)
	if host != nil {
		err = errors.New("another turn took its message")
	}
	return err
}
