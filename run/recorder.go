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
}

func newRecorder(s *Service) *recorder {
	return &recorder{s: s, wake: make(chan struct{}, 1), runs: map[*Run]struct{}{}}
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
		c.s.storeWaiting(ctx, r)
	}
	c.s.storeSteps(ctx, list)
	c.s.suspendWaiting(list)
	for len(list) > 0 && ctx.Err() == nil {
		n, more, err := c.some(ctx, list)
		if err != nil {
			return
		}
		if more { // of the last of them
			n--
		}
		list = list[n:]
	}
}

// some stores events of the first runs of list. It returns of how many, and whether there may be more of the last.
func (c *recorder) some(ctx context.Context, list []*Run) (n int, more bool, err error) {
	var of []*Run
	var batches []store.RunBatch
	size := 0
	for _, r := range list {
		if size >= maxAppend || more {
			break
		}
		n++
		v := r.recording
		if !v.mu.TryLock() {
			continue // its end is being stored
		}
		b := v.next(r)
		if b == nil {
			v.mu.Unlock()
			continue
		}
		of, batches = append(of, r), append(batches, *b)
		size += len(b.Events)
		more = len(b.Events) >= maxBatch
	}
	if len(of) == 0 {
		return n, false, nil
	}
	moved, err := c.s.store.Append(ctx, c.s.replica, batches)
	for _, r := range of {
		if err == nil {
			r.recording.stored()
		}
		r.recording.mu.Unlock()
	}
	c.report(ctx, of, err)
	for _, r := range of {
		if err == nil && slices.Contains(moved, r.ID) {
			c.remove(r)
			r.breakOff()
		}
	}
	return n, more, err
}

// report tells the log and the runs, once each time, that their events cannot be stored.
func (c *recorder) report(ctx context.Context, of []*Run, err error) {
	if err == nil {
		if c.away {
			c.away = false
			c.s.log.InfoContext(ctx, "storing events of runs again")
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	if !c.away {
		c.away = true
		c.s.log.ErrorContext(ctx, "cannot store events of runs", "code", codeNotDurable, "error", err)
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
func (s *Service) storeEnd(r *Run, o *Result) bool {
	v := r.recording
	v.mu.Lock()
	defer v.mu.Unlock()
	defer s.recorder.remove(r)
	end := store.RunEnd{
		ID: r.ID, Replica: s.replica, Attempt: v.attempt, State: o.Status, Result: mustJSON(o), Expires: time.Now().Add(s.retention(r.Keyed)),
	}
	if r.key != "" && r.mayBeRetried(*o) {
		end.FreeKey = &store.IdempotencyKey{Owner: r.owner, Key: r.key, Run: r.ID}
	}
	for b := v.next(r); b != nil; b = v.next(r) {
		end.Batches = append(end.Batches, *b)
		v.stored()
	}
	pauses, since := backoff.New(endRetry, endLongest), time.Now()
	leaving := s.leaving
	var late <-chan time.Time
	for {
		ctx, cancel := context.WithTimeout(context.Background(), storeWait)
		err := s.store.End(ctx, end)
		cancel()
		switch {
		case err == nil:
			return true
		case errors.Is(err, store.ErrMoved):
			r.breakOff()
			return false
		}
		s.log.WarnContext(r.Context(), "cannot store the end of a run; retrying", "run", r.ID, "error", err)
		if errors.Is(err, store.ErrFull) {
			s.o.Pressure.DiskFailed()
		}
		if time.Since(since) >= s.o.Times.Grace {
			r.where.leave()
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-leaving:
			leaving, late = nil, time.After(s.o.Times.Stored)
		case <-late:
			s.log.ErrorContext(r.Context(), "cannot store the end of a run", "code", codeNotDurable, "run", r.ID, "error", err)
			r.breakOff()
			return false
		}
	}
}

// storeState stores the state of a run.
func (s *Service) storeState(ctx context.Context, r *Run, state string) error {
	if r.recording.state == state {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	err := s.store.SetState(ctx, r.ID, s.replica, r.recording.attempt, state)
	switch {
	case err == nil:
		r.recording.state = state
		return nil
	case errors.Is(err, store.ErrMoved):
		r.breakOff()
		return ErrMoved
	}
	return s.storeError(ctx, err)
}

// storeBegun stores that the turn of a run begins, which is not done twice then. It waits for a store that is away.
func (s *Service) storeBegun(ctx context.Context, r *Run) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Times.Grace)
	defer cancel()
	r.recording.mu.Lock()
	defer r.recording.mu.Unlock()
	for pauses := backoff.New(endRetry, endLongest); ; {
		err := s.storeState(ctx, r, store.RunRunning)
		if err == nil || errors.Is(err, ErrMoved) || backoff.Sleep(ctx, pauses.NextBackOff()) != nil {
			return err
		}
	}
}

// storeWaiting stores whether a run waits for somebody's answer. What cannot be stored now is with the next pass.
func (s *Service) storeWaiting(ctx context.Context, r *Run) {
	state := store.RunRunning
	if r.waits() {
		state = store.RunWaiting
	}
	if v := r.recording; r.machine.is(runRunning) && v.mu.TryLock() {
		defer v.mu.Unlock()
		if v.state != state && v.state != store.RunQueued {
			_ = s.storeState(ctx, r, state)
		}
	}
}

// storeSteps stores which runs have finished a step since a crash.
func (s *Service) storeSteps(ctx context.Context, list []*Run) {
	var of []*Run
	var ids []string
	for _, r := range list {
		if r.crashes > 0 && r.step.Load() {
			of, ids = append(of, r), append(ids, r.ID)
		}
	}
	if len(ids) == 0 || s.store.Stepped(ctx, s.replica, ids) != nil { // the next pass tries again
		return
	}
	for _, r := range of {
		r.crashes = 0
	}
}

// errElsewhere is why the work of a run ends here that goes on elsewhere.
var errElsewhere = fmt.Errorf("%w: %w", ErrMoved, turn.ErrHandedOver)

// breakOff ends a run here that goes on elsewhere, and breaks its readers off.
func (r *Run) breakOff() {
	r.where.leave()
	if m := r.manager.Load(); m != nil {
		m.Stop(errElsewhere)
	}
}
