package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

const (
	// RecordEvery is how much of a run the end of the process can take with it.
	RecordEvery = 200 * time.Millisecond
	// maxBatch is how many bytes of events are in a row, about: one that begins anew has all of the document.
	maxBatch = 256 << 10
	// maxAppend is how many bytes of events are in a transaction, about.
	maxAppend = 4 << 20
	// smallLog is how long a log is stored whole in place of what it folds to.
	smallLog = 64 << 10
	// endRetry and endLongest are between attempts to store the end of a run.
	endRetry, endLongest = 50 * time.Millisecond, 2 * time.Second
)

// codeNotDurable is the code of events and lines of the log about what cannot be stored.
const codeNotDurable = "not_durable"

// recorder stores the events of runs a moment after they were sent: those of all runs in one transaction.
type recorder struct {
	s    *Service
	wake chan struct{} // holds one wake-up
	pass sync.Mutex    // one at a time

	mu   sync.Mutex
	runs map[*Run]struct{}
	away bool // the last pass has failed
}

// recording is how far the events of a run are stored.
type recording struct {
	mu      sync.Mutex // held while they are stored
	attempt int
	seq     int // of the next batch
	at      tube.Place
	began   bool            // there is a batch that begins
	pending *store.RunBatch // it may be stored: it is sent once more as it is
	state   string          // that is stored
	crashes int             // likewise
}

// add records a run from now on.
func (c *recorder) add(r *Run) {
	c.mu.Lock()
	c.runs[r] = struct{}{}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// remove records a run no more.
func (c *recorder) remove(r *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, r)
	if len(c.runs) == 0 { // a map does not get smaller by itself
		c.runs = map[*Run]struct{}{}
	}
}

// list returns the runs that are recorded.
func (c *recorder) list() []*Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.runs))
}

// loop records until ctx ends. It sleeps while there are no runs.
func (c *recorder) loop(ctx context.Context) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		for more := true; more; more = len(c.list()) > 0 {
			if backoff.Sleep(ctx, RecordEvery) != nil {
				return
			}
			c.record(ctx)
		}
	}
}

// record stores what runs have sent since the last time.
func (c *recorder) record(ctx context.Context) {
	c.pass.Lock()
	defer c.pass.Unlock()
	list := c.list()
	for _, r := range list {
		c.s.storeProgress(ctx, r)
	}
	c.s.suspendWaiting(list)
	for err := error(nil); len(list) > 0 && err == nil && ctx.Err() == nil; {
		list, err = c.append(ctx, list)
	}
}

// append stores events of the first runs of a list. It returns those of which there may be more.
func (c *recorder) append(ctx context.Context, list []*Run) (rest []*Run, err error) {
	var of []*Run
	var batches []store.RunBatch
	rest = list
	for size, more := 0, false; len(rest) > 0 && size < maxAppend && !more; {
		r := rest[0]
		if b := r.recording.lockNext(r); b != nil {
			of, batches = append(of, r), append(batches, *b)
			size += len(b.Events)
			more = len(b.Events) >= maxBatch
		}
		if !more {
			rest = rest[1:]
		}
	}
	if len(of) == 0 {
		return rest, nil
	}
	moved, err := c.s.store.Append(ctx, c.s.replica, batches)
	for _, r := range of {
		if err == nil {
			r.recording.stored()
		}
		r.recording.mu.Unlock()
		if err == nil && slices.Contains(moved, r.ID) {
			c.s.breakOff(r)
		}
	}
	c.report(ctx, of, err)
	return rest, err
}

// report tells the log and the runs, once each time, that their events cannot be stored.
func (c *recorder) report(ctx context.Context, of []*Run, err error) {
	switch {
	case err == nil && c.away:
		c.s.log.InfoContext(ctx, "storing events of runs again")
	case err != nil && ctx.Err() != nil:
		return
	case err != nil && !c.away:
		c.s.log.ErrorContext(ctx, "cannot store events of runs", "code", codeNotDurable, "error", err)
	}
	if c.away = err != nil; !c.away {
		return
	}
	if errors.Is(err, store.ErrFull) {
		c.s.o.Pressure.DiskFailed()
	}
	for _, r := range of {
		if m := r.manager.Load(); m != nil && !r.warned {
			r.warned = true
			_ = m.SendEvent("warning", map[string]string{
				"code": codeNotDurable, "message": "the server cannot store this run now; a crash would lose the run",
			})
		}
	}
}

// storeEnd stores the end of a run with all events before it. It waits for a store that cannot be reached, and after a while it breaks readers
// off. It is false where that end does not count: the run is another replica's, or the server ends first.
func (s *Service) storeEnd(r *Run) bool {
	v := r.recording
	v.mu.Lock()
	defer v.mu.Unlock()
	end := store.RunEnd{
		ID: r.ID, Replica: s.replica, Attempt: v.attempt, State: r.result.Status, Result: mustJSON(r.result), Expires: time.Now().Add(s.retention(r.Keyed)),
	}
	if r.key != "" && r.mayBeRetried() {
		end.FreeKey = &store.IdempotencyKey{Owner: r.owner, Key: r.key, Run: r.ID}
	}
	for b := v.next(r); b != nil; b = v.next(r) {
		end.Batches = append(end.Batches, *b)
		v.stored()
	}
	defer time.AfterFunc(graceWait, r.leave).Stop()
	err := retry(s.working, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), storeWait)
		defer cancel()
		err := s.store.End(ctx, end)
		if err != nil && !errors.Is(err, store.ErrMoved) {
			s.log.WarnContext(r.Context(), "cannot store the end of a run; retrying", "run", r.ID, "error", err)
		}
		if errors.Is(err, store.ErrFull) {
			s.o.Pressure.DiskFailed()
		}
		return err
	})
	if err == nil {
		v.state = end.State
		return true
	}
	if !errors.Is(err, store.ErrMoved) {
		s.log.ErrorContext(r.Context(), "cannot store the end of a run", "code", codeNotDurable, "run", r.ID, "error", err)
	}
	s.breakOff(r)
	return false
}

// retry calls a function of the store until it succeeds, the run has moved, or ctx ends.
func retry(ctx context.Context, call func() error) error {
	for pauses := backoff.New(endRetry, endLongest); ; {
		err := call()
		if err == nil || errors.Is(err, ErrMoved) || errors.Is(err, store.ErrMoved) || backoff.Sleep(ctx, pauses.NextBackOff()) != nil {
			return err
		}
	}
}

// storeState stores the state of a run, and how many servers in a row it has crashed. It is called with the recording locked.
func (s *Service) storeState(ctx context.Context, r *Run, state string, crashes int) error {
	v := r.recording
	if v.state == state && v.crashes == crashes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	err := s.store.SetState(ctx, r.ID, s.replica, v.attempt, state, crashes)
	switch {
	case err == nil:
		v.state, v.crashes = state, crashes
		return nil
	case errors.Is(err, store.ErrMoved):
		s.breakOff(r)
		return ErrMoved
	}
	return s.storeError(ctx, err)
}

// leaveQueue begins the work of a run that was queued. The store knows it before: the work is not begun twice then, and if it makes the server
// crash, that is counted. It waits for a store that is away. A message is left to the replica that gets the run before it, where that run has moved
// or is suspended.
func (s *Service) leaveQueue(ctx context.Context, r *Run) error {
	if r.machine.is(stateRunning) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, graceWait)
	defer cancel()
	if r.goesOn && r.Session != "" {
		earlier := false
		err := retry(ctx, func() (err error) {
			earlier, err = s.hasEarlier(ctx, r.Lane(), r.Began)
			return err
		})
		switch {
		case err != nil:
			return s.storeError(ctx, err)
		case earlier && r.machine.enterFrom(stateQueued, stateHandedOver):
			s.passOn(r)
		}
	}
	if !r.machine.enterFrom(stateQueued, stateRunning) {
		return errElsewhere
	}
	r.recording.mu.Lock()
	defer r.recording.mu.Unlock()
	return retry(ctx, func() error { return s.storeState(ctx, r, store.RunRunning, r.recording.crashes) })
}

// passOn leaves a run that has not begun to the replica that has its session.
func (s *Service) passOn(r *Run) {
	s.breakOff(r)
	s.starts.Enter() // a server that ends waits for it
	s.wg.Go(func() {
		defer s.starts.Leave()
		ctx, cancel := context.WithTimeout(context.Background(), storeWait)
		defer cancel()
		_ = r.awaitDone(ctx)
		if err := s.store.Release(ctx, s.replica, []string{r.ID}); err != nil {
			s.log.WarnContext(r.Context(), "cannot leave a run to another replica; it is taken as after a crash", "run", r.ID, "error", err)
		}
	})
}

// storeProgress stores whether a run waits for a person, and that it has finished a step since a crash. The next pass tries again.
func (s *Service) storeProgress(ctx context.Context, r *Run) {
	v := r.recording
	if !v.mu.TryLock() {
		return
	}
	defer v.mu.Unlock()
	if v.state != store.RunRunning && v.state != store.RunWaiting { // it is queued, or has ended
		return
	}
	state, crashes := store.RunRunning, v.crashes
	if r.waits() {
		state = store.RunWaiting
	}
	if r.step.Load() {
		crashes = 0
	}
	_ = s.storeState(ctx, r, state, crashes)
}

// errElsewhere is why the work of a run ends here that goes on elsewhere.
var errElsewhere = fmt.Errorf("%w: %w", ErrMoved, turn.ErrHandedOver)

// breakOff ends a run here that goes on elsewhere, and breaks its readers off.
func (s *Service) breakOff(r *Run) {
	s.recorder.remove(r)
	r.leave()
	r.stop(errElsewhere)
}
