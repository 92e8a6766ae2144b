package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/store"
)

// errGone says that a run was known once.
var errGone = errors.New("web: the run has expired")

// errDamaged says that what is kept of a run cannot be read.
var errDamaged = errors.New("web: the record of the run is damaged")

// errUnknown says that a run is not known.
var errUnknown = errors.New("web: unknown run")

// leaveLocked forgets a run that goes on elsewhere.
func (s *Service) leaveLocked(r *Run) {
	if !r.machine.is(runHandedOver) {
		r.machine.enter(runMoved)
	}
	r.where.leave()
	s.removeLocked(r)
}

// retention is how long an ended run can be attached to.
func (s *Service) retention(keyed bool) time.Duration {
	if keyed {
		return max(s.o.Retention, s.o.KeyRetention)
	}
	return s.o.Retention
}

// keepLocked counts an ended run as kept in memory.
func (s *Service) keepLocked(r *Run, now time.Time) {
	r.machine.enter(runEnded)
	r.touched = now
	r.size = int64(r.tube.Bytes()) + sizeOfRun
	s.kept = append(s.kept, r)
	s.keptBytes += r.size
	r.account.Settle(2 * r.size) // with the document, as it is sent
}

// sizeOfRun is what an ended run takes beside its log, about.
const sizeOfRun = 4 << 10

// get finds a run by its id for somebody, reading it back where it has left memory. Another's run is an unknown run, and is found to be so as
// soon. Errors: errUnknown, errGone, errDamaged, the cause of ctx, and an *[adapter.Error] where there is no memory to read it back.
func (s *Service) get(ctx context.Context, who access.Principal, id string) (*Run, error) {
	if !ValidID(id) {
		return nil, errUnknown
	}
	for {
		if err := s.awaitMove(ctx, id); err != nil {
			return nil, err
		}
		s.mu.Lock()
		r := s.inMemory[id]
		s.mu.Unlock()
		if r != nil && !r.Moved() {
			if !r.owned(who) {
				return nil, errUnknown
			}
			return r, nil
		}
		loaded, wait := s.loadOnce(id)
		if wait == nil {
			r, err := s.load(ctx, who, id)
			loaded()
			if r != nil || err != nil {
				return r, err
			}
			continue // it has come into memory meanwhile
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// loadOnce lets one at a time read a run back, until loaded is called; wait is closed when another has.
func (s *Service) loadOnce(id string) (loaded func(), wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := s.loading[id]; wait != nil {
		return nil, wait
	}
	over := make(chan struct{})
	s.loading[id] = over
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loading, id)
		close(over)
	}, nil
}

// load reads an ended run back from the store.
func (s *Service) load(ctx context.Context, who access.Principal, id string) (*Run, error) {
	s.mu.Lock()
	here := s.inMemory[id]
	s.mu.Unlock()
	if here != nil && !here.Moved() {
		return nil, nil
	}
	row, err := s.store.Find(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !who.Sees(row.Owner):
		return nil, errUnknown
	case err != nil:
		return nil, s.storeError(ctx, err)
	case row.Ended.IsZero() && row.Replica != s.replica && s.o.Members != nil && slices.Contains(s.o.Members.Alive(), row.Replica):
		return nil, &Elsewhere{row.Replica}
	case suspended(&row):
		if err := s.wake(ctx, &row); err != nil {
			return nil, err
		}
		return nil, nil // it is in memory now, or another replica's
	case row.Ended.IsZero(): // its end is being stored, or nobody has taken it yet
		return nil, away()
	case row.Removed != store.RemovedNothing, !row.Expires.IsZero() && !time.Now().Before(row.Expires):
		return nil, errGone
	}
	account := s.o.Ledger.Open()
	if err := account.Reserve(ctx, 2*row.Bytes); err != nil {
		account.Release()
		return nil, err
	}
	r, err := s.readEnded(ctx, &row)
	if err != nil {
		account.Release()
		return nil, err
	}
	r.account = account
	now := time.Now()
	s.mu.Lock()
	s.inMemory[id] = r
	s.keepLocked(r, now)
	s.mu.Unlock()
	s.trim(now)
	return r, nil
}

// readEnded reads an ended run.
func (s *Service) readEnded(ctx context.Context, row *store.Run) (*Run, error) {
	b, err := begunOf(row)
	r := &Run{
		ID: row.ID, Of: Subject{row.Workflow, row.Agent}, owner: row.Owner, session: b.Session, Keyed: b.Keyed, Began: row.Created,
		done: make(chan struct{}), expires: row.Expires,
	}
	if err == nil {
		err = json.Unmarshal(row.Result, &r.result)
	}
	if err == nil {
		var so stored
		so, err = s.readStored(ctx, row.ID)
		r.tube = so.tube
	}
	switch {
	case err == nil && r.tube != nil && hasEnded(r.tube):
		close(r.done)
		return r, nil
	case errors.Is(err, store.ErrAway), errors.Is(err, store.ErrFull):
		return nil, s.storeError(ctx, err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	s.log.ErrorContext(ctx, "cannot read an ended run", "run", row.ID, "error", err)
	return nil, errDamaged
}

// inLane finds the run that was started last in a session, by its lane: nil where none is in memory.
func (s *Service) inLane(lane string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inSession[lane]
}

// trim drops ended runs out of memory, which can be read back: the least recently touched first, while there are too many bytes of them, and
// those that have been there for long.
func (s *Service) trim(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.kept) > 0 && (s.keptBytes > s.o.MemoryOfEnded || now.Sub(s.kept[0].touched) >= KeepInMemory) {
		s.dropLocked(s.kept[0])
	}
}

// dropLocked takes an ended run out of memory. It is one of kept.
func (s *Service) dropLocked(r *Run) {
	i := slices.Index(s.kept, r)
	if i < 0 {
		return
	}
	r.machine.enter(runDropped)
	s.kept = slices.Delete(s.kept, i, i+1)
	s.keptBytes -= r.size
	s.freed += r.size
	s.removeLocked(r)
}

// removeLocked takes a run out of memory.
func (s *Service) removeLocked(r *Run) {
	if s.inMemory[r.ID] == r {
		delete(s.inMemory, r.ID)
	}
	if lane := r.Lane(); lane != "" && s.inSession[lane] == r {
		delete(s.inSession, lane)
	}
	r.account.Release()
}

// sweep drops what has expired. It says whether much memory has become free while nothing runs.
func (s *Service) sweep(now time.Time) (idle bool) {
	s.trim(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Clone(s.kept) {
		if !now.Before(r.expires) {
			s.dropLocked(r)
		}
	}
	if len(s.inMemory) == 0 { // a map does not get smaller by itself
		s.inMemory, s.inSession = map[string]*Run{}, map[string]*Run{}
	}
	idle = s.running == 0 && s.freed >= giveBack
	if idle {
		s.freed = 0
	}
	return idle
}
