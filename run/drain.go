package run

import (
	"context"
	"slices"
	"time"

	"github.com/lingserve/lingserve/bot"
)

// handOver leaves the runs that can go on to other servers, or to the next one here. Their events are stored and their work has ended before
// others may take them over, and the end of this server does not count as a crash.
func (s *Service) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storedWait)
	defer cancel()
	s.mu.Lock()
	var queued, running []*Run
	for _, r := range s.inMemory {
		switch {
		case !r.goesOn || r.manager.Load() == nil:
		case r.machine.enterFrom(stateQueued, stateHandedOver):
			queued = append(queued, r)
		case r.machine.enterFrom(stateRunning, stateHandedOver):
			running = append(running, r)
		}
	}
	s.mu.Unlock()
	list := slices.Concat(queued, running)
	if len(list) == 0 {
		return
	}
	for _, r := range list {
		r.leave() // its end counts no more, for some get the slots of others now
	}
	s.recorder.record(ctx)
	s.leave(ctx, queued) // first, so that none of them gets its turn meanwhile
	s.leave(ctx, running)
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), storedWait)
	defer cancel()
	if err := s.store.Release(ctx, s.replica, idsOf(list)); err != nil {
		s.log.WarnContext(ctx, "cannot hand runs over; they are taken as after a crash", "error", err)
	}
	s.log.InfoContext(ctx, "runs go on at another server, or after the restart", "runs", len(list))
}

// leave ends the work of runs here.
func (s *Service) leave(ctx context.Context, list []*Run) {
	for _, r := range list {
		s.recorder.remove(r)
		r.breakOff()
	}
	for _, r := range list {
		_ = r.awaitDone(ctx)
	}
}

// Draining reports whether the service refuses new runs because it is shutting down.
func (s *Service) Draining() bool { return s.Load().Draining }

// closingMessage is the error of a run that was ended because its server shuts down.
const closingMessage = "the server shut down during this run; the run's events so far are kept"

// closing is why a run ends when the server does.
func (r *Run) closing() error {
	message := closingMessage
	if r.Keyed {
		message += otherKey
	}
	return &bot.Failure{Code: codeDraining, Message: message, Retryable: true, Cause: errClosing}
}

// interrupt ends all active runs, because the server shuts down, and waits for them. Those that can continue are handed over; the others end as
// interrupted, so that clients learn it after the restart. It waits for work that ignores its cancellation until ctx ends.
func (s *Service) interrupt(ctx context.Context) (count int) {
	s.starts.Wait(ctx.Done()) // or a run that is stored meanwhile would not be handed over
	s.handOver(ctx)
	for _, r := range s.active() {
		if !r.Ended() && !r.Moved() && r.stop(r.closing()) {
			count++
		}
	}
	time.AfterFunc(storedWait, s.stopStoring)
	s.runs.Wait(ctx.Done())
	s.turns.Wait(ctx.Done())
	if ctx.Err() != nil {
		for _, r := range s.active() {
			s.log.ErrorContext(r.Context(), "a run ignores its cancellation", "run", r.ID, r.Of.attr())
		}
	}
	s.stopWork(errClosing)
	return count
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
)
