package run

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/bot"
)

// handOver leaves the runs that can go on to whoever takes them, and returns how many. What was said until then is stored, their work has ended
// before others may take them, and that to go is no crash of theirs.
func (s *Service) handOver(ctx context.Context) (handed int) {
	ctx, cancel := context.WithTimeout(ctx, storedWait)
	defer cancel()
	s.mu.Lock()
	var list []*Run
	for _, r := range s.inMemory {
		if r.goesOn && r.manager.Load() != nil && (r.machine.enterFrom(runRunning, runHandedOver) || r.machine.enterFrom(runQueued, runHandedOver)) {
			list = append(list, r)
			r.where.leave() // its end counts no more, for some get the slots of others now
		}
	}
	s.mu.Unlock()
	if len(list) == 0 {
		return 0
	}
	s.leave(ctx, list)
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), storedWait)
	defer cancel()
	if err := s.store.Release(ctx, s.replica, ids); err != nil {
		s.log.WarnContext(ctx, "cannot hand runs over; they are taken as after a crash", "error", err)
	}
	return len(list)
}

// leave stores what runs have said, and ends their work here: messages that wait leave first, so that none of them gets its turn meanwhile.
func (s *Service) leave(ctx context.Context, list []*Run) {
	s.recorder.record(ctx)
	for _, r := range list {
		s.recorder.remove(r)
	}
	for _, queued := range []bool{true, false} {
		var some []*Run
		for _, r := range list {
			if r.queued.Load() == queued {
				some = append(some, r)
				r.breakOff()
			}
		}
		for _, r := range some {
			select {
			case <-r.done:
			case <-ctx.Done():
			}
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

// interrupt ends all runs that go on, for the server ends, and waits for them. Those that can go on are handed over; the others end
// with "interrupted", so that a client that comes back after a restart is told. Work that ignores its cancellation is waited for as long as ctx
// goes on.
func (s *Service) interrupt(ctx context.Context) (count int) {
	if handed := s.handOver(ctx); handed > 0 {
		s.log.InfoContext(ctx, "runs go on at another server, or after the restart", "runs", handed)
	}
	s.mu.Lock()
	for _, r := range s.inMemory {
		if m := r.manager.Load(); m != nil && !r.Ended() && !r.Moved() {
			count++
			m.Stop(r.closing())
		}
	}
	s.mu.Unlock()
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

const (
	// storeWait is for an answer of the store.
	storeWait = 5 * time.Second
	// stopWait is how long Drain and Close wait for runs that they have canceled.
	stopWait = 5 * time.Second
	// storedWait is how long Close waits for the end of a run to be stored.
	storedWait = 3 * time.Second
	// graceWait is how long readers wait for the end of a run to be stored.
	graceWait = time.Minute
	// cutWait is how long the end of a run waits for its session's tape to say so, too.
	cutWait = 500 * time.Millisecond
)
