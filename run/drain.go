package run

import (
	"context"
	"slices"
	"time"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/runlog"
)

// handOver asks the other replicas to take over the runs that are cut off here and can go on there. Those that nobody takes now are left for
// whoever does.
func (s *Service) handOver(ctx context.Context) (handed, left int) {
	list := s.detachRestartable(ctx, s.restartable()) // first, since nobody can take over what is written to
	me := s.shared.replica()
	others := slices.DeleteFunc(slices.Clone(s.shared.Replicas()), func(id string) bool { return id == me })
	for i, r := range list {
		n := i % max(1, len(others))
		if s.handTo(ctx, r, me, slices.Concat(others[n:], others[:n])) {
			handed++
		}
	}
	return handed, len(list) - handed
}

// handTo asks replicas to take a run over, one after the other, until one does.
func (s *Service) handTo(ctx context.Context, r *Run, me string, others []string) bool {
	for _, replica := range others {
		_, ok, err := s.ask(ctx, replica, &command{name: CommandAdopt, run: r.ID, from: me})
		if err != nil {
			s.log.WarnContext(r.Context(), "another replica cannot take over a run", "run", r.ID, "replica", replica, "error", err)
		}
		if ok {
			return true
		}
	}
	return false
}

// adoptable reports whether another replica can restart the run: its log lets this one leave it.
func (r *Run) adoptable() bool {
	_, ok := r.entry.(runlog.Leaver)
	return ok && r.restart != nil
}

// restartable are the runs that go on and would be run again after a restart.
func (s *Service) restartable() (list []*Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.inMemory {
		if r.adoptable() && !r.Moved() && r.manager.Load() != nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *Run) int { return a.Began.Compare(b.Began) })
	return list
}

// dropFollowed breaks off those who read runs of other replicas: they are served there.
func (s *Service) dropFollowed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.inMemory {
		if r.followed() && !r.Ended() {
			r.where.leave()
		}
	}
}

// drain refuses new runs from now on and returns a channel that is closed when nothing runs any more.
func (s *Service) drain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.draining = true
		if s.running == 0 {
			close(s.quiet)
		}
	}
	return s.quiet
}

// Draining reports whether the service refuses new runs because it is shutting down.
func (s *Service) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// closingMessage is what clients are told about a run that a server has broken off which was told to go.
const closingMessage = "the server shut down during this run; the run's events so far are kept"

// closing is why a run ends when the server does.
func (r *Run) closing() error {
	message := closingMessage
	if r.Keyed {
		message += "; start it again with another Idempotency-Key"
	}
	return &bot.Failure{Code: codeDraining, Message: message, Retryable: true, Cause: errClosing}
}

// interrupt ends all runs that go on, for the server ends, and waits for them. Their logs end with "interrupted", so that a
// client that comes back after a restart is told; of replicas, those that another one is to run again have no end. Work that ignores its
// cancellation is waited for as long as ctx goes on.
func (s *Service) interrupt(ctx context.Context) (count int) {
	var left []*Run
	s.mu.Lock()
	for _, r := range s.inMemory {
		m := r.manager.Load()
		switch {
		case m == nil, r.Ended(), r.Moved():
		case r.adoptable():
			left = append(left, r)
		default:
			count++
			m.Stop(r.closing())
		}
	}
	s.mu.Unlock()
	s.detachRestartable(ctx, left)
	s.leaveOnce.Do(func() { close(s.leaving) })
	s.awaitWork(ctx)
	s.stopWork(errClosing)
	return count
}

// awaitWork waits until no run works, or ctx has ended: then the log names the runs that still work.
func (s *Service) awaitWork(ctx context.Context) {
	over := make(chan struct{})
	go func() { // ends with the work, which nothing else can end
		s.works.Wait()
		s.turns.Wait(nil)
		close(over)
	}()
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.inMemory {
		if r.manager.Load() != nil {
			s.log.ErrorContext(r.Context(), "a run ignores its cancellation", "run", r.ID, r.Of.attr())
		}
	}
}

// detachRestartable ends runs here that another replica runs again, whether it is asked to or finds them. Nothing is written to them any more when
// it returns; what was said until then is stored, and that to go is no crash of theirs. It returns those that had not ended before.
func (s *Service) detachRestartable(ctx context.Context, list []*Run) []*Run {
	ctx, cancel := context.WithTimeout(ctx, storedWait)
	defer cancel()
	list = slices.DeleteFunc(list, func(r *Run) bool {
		return !r.machine.enterFrom(runRunning, runHandedOver) && !r.machine.enterFrom(runQueued, runHandedOver) // it has ended
	})
	if len(list) == 0 {
		return nil
	}
	for _, r := range list {
		r.reopen()
	}
	s.flush(ctx)
	for _, r := range list {
		r.entry.(runlog.Leaver).Leave()
		r.where.leave()
		if m := r.manager.Load(); m != nil {
			m.Stop(ErrMoved)
		}
	}
	s.flush(ctx) // for what is on its way
	return list
}

const (
	// sharedWait is for an answer of those who keep what is shared.
	SharedWait = 5 * time.Second
	// stopWait is how long Drain and Close wait for runs that they have canceled.
	stopWait = 5 * time.Second
	// storedWait is how long Close waits for the end of a run to be stored.
	storedWait = 3 * time.Second
)
