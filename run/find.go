package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/store"
)

// List lists the runs that a caller may see, the newest first: its own runs, or for an admin all runs, or those of q.Owner. next is the
// cursor of the rest; "" is the end. Errors: [store.ErrCursor], ErrAway.
func (s *Service) List(ctx context.Context, who access.Principal, q store.RunQuery) (list []store.Run, next string, err error) {
	if !who.Administers() {
		q.Owner = new(who.Owner())
	}
	list, next, err = s.store.List(ctx, q)
	if err != nil && !errors.Is(err, store.ErrCursor) {
		err = s.storeError(ctx, err)
	}
	return list, next, err
}

// Latest returns the run that was started last in a session of a caller. It returns nil if the session has no run, or the run has ended and
// left memory. Errors: those of Find.
func (s *Service) Latest(ctx context.Context, who access.Principal, session string) (*Run, error) {
	if s.ChannelOf(who, session) != "" {
		return nil, nil
	}
	lane := webchannel.SessionKey(who.Owner(), session)
	s.mu.Lock()
	here := s.inSession[lane]
	s.mu.Unlock()
	if here != nil && !here.Moved() && !here.Ended() {
		return here, nil // the store may have a later row: of a message that this run was given
	}
	row, err := s.store.LatestOf(ctx, lane)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, s.storeError(ctx, err)
	case row.Ended.IsZero():
		return s.Find(ctx, who, row.ID)
	case here != nil && here.ID == row.ID:
		return here, nil
	}
	return nil, nil
}

// Find returns a run, and reads it back if it has left memory. To a caller without rights it is an unknown run, before its events are read.
// Errors: ErrUnknown, ErrExpired, ErrDamaged, ErrAway, ErrOverloaded, an [*Elsewhere], and the cause of ctx.
func (s *Service) Find(ctx context.Context, who access.Principal, id string) (*Run, error) {
	if !ValidID(id) {
		return nil, unknownRun()
	}
	for {
		r, release, err := s.acquire(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case r != nil && !who.Sees(r.owner):
			return nil, unknownRun()
		case r != nil:
			return r, nil
		}
		r, err = s.load(ctx, who, id)
		release()
		if r != nil || err != nil {
			return r, err
		}
	}
}

func unknownRun() *Error { return refuse(ErrUnknown, "unknown run; it never existed or has expired") }

// load reads an ended run back from the store. It returns no run if it has woken one. Errors: those of Find.
func (s *Service) load(ctx context.Context, who access.Principal, id string) (*Run, error) {
	row, err := s.store.Find(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !who.Sees(row.Owner):
		return nil, unknownRun()
	case err != nil:
		return nil, s.storeError(ctx, err)
	case s.isElsewhere(&row):
		return nil, &Elsewhere{row.Replica}
	case suspended(&row): // it is in memory then, or at another replica
		return nil, s.wake(ctx, &row)
	case row.Ended.IsZero(): // its end is being stored, or no replica has taken it over yet
		return nil, away()
	case row.Removed != store.RemovedNothing, !row.Expires.IsZero() && !time.Now().Before(row.Expires):
		return nil, &Error{Kind: ErrExpired, Detail: "this run ended too long ago and is no longer stored", Run: id}
	}
	account, err := s.reserve(ctx, 2*row.Bytes)
	if err != nil {
		return nil, err
	}
	r, err := s.readEnded(ctx, &row)
	if err != nil {
		account.Release()
		return nil, err
	}
	r.account = account
	s.mu.Lock()
	s.inMemory[id] = r
	s.keepLocked(r, row.Expires)
	s.mu.Unlock()
	return r, nil
}

// readEnded reads the events and the result of an ended run.
func (s *Service) readEnded(ctx context.Context, row *store.Run) (*Run, error) {
	o, err := originOf(row)
	so, unread := s.readStored(ctx, row.ID)
	r := newRun(o)
	r.tube, r.Again = so.tube, nil
	close(r.done)
	err = errors.Join(err, unread, json.Unmarshal(row.Result, &r.result))
	switch {
	case err == nil && r.tube != nil && hasEnded(r.tube):
		return r, nil
	case errors.Is(err, store.ErrAway), errors.Is(err, store.ErrFull):
		return nil, s.storeError(ctx, err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	s.log.ErrorContext(ctx, "cannot read an ended run", "run", row.ID, "error", err)
	return nil, &Error{Kind: ErrDamaged, Detail: DamagedMessage, Run: row.ID}
}

// DamagedMessage is the sentence for readers of a run whose stored data cannot be read.
const DamagedMessage = "the stored data of this run is damaged; find the cause in the server's log under the run's id"

// Room waits for memory for the document of an active run. An ended run has paid for it.
func (s *Service) Room(ctx context.Context, r *Run) (free func(), err error) {
	if r.Ended() || s.o.Ledger == nil {
		return func() {}, nil
	}
	account, err := s.reserve(ctx, int64(r.tube.Bytes()))
	return account.Release, err
}

// reserve waits for memory for a document, and returns the account that holds it.
func (s *Service) reserve(ctx context.Context, bytes int64) (*adapter.Account, error) {
	account := s.o.Ledger.Open()
	err := account.Reserve(ctx, bytes)
	if err == nil {
		return account, nil
	}
	account.Release()
	if _, full := errors.AsType[*adapter.Error](err); full {
		err = littleMemory("the server has no memory for this run's document; retry later; the run continues")
	}
	return nil, err
}

// retention is how long an ended run can be read.
func (s *Service) retention(keyed bool) time.Duration {
	if keyed {
		return max(s.o.Retention, s.o.KeyRetention)
	}
	return s.o.Retention
}

// keepLocked adds an ended run to those that are kept in memory. It expires at a time; zero is never.
func (s *Service) keepLocked(r *Run, expires time.Time) {
	now := time.Now()
	r.machine.enter(stateEnded)
	r.drop = now.Add(KeepInMemory)
	if !expires.IsZero() && expires.Before(r.drop) {
		r.drop = expires
	}
	r.size = int64(r.tube.Bytes()) + sizeOfRun
	s.kept = append(s.kept, r)
	s.keptBytes += r.size
	r.account.Settle(2 * r.size) // with the document, as it is sent
	s.trimLocked(now)
}

// sizeOfRun is about what an ended run takes in addition to its log.
const sizeOfRun = 4 << 10

// trimLocked drops ended runs from memory; they can be read back. It drops those whose time is over, and the oldest ones until the bytes of the rest
// are within the limit.
func (s *Service) trimLocked(now time.Time) {
	s.kept = slices.DeleteFunc(s.kept, func(r *Run) bool {
		drop := r.erased || !now.Before(r.drop) || s.keptBytes > s.o.MemoryOfEnded
		if drop {
			r.machine.enter(stateDropped)
			s.keptBytes -= r.size
			s.removeLocked(r)
		}
		return drop
	})
}

// removeLocked removes a run from the maps, and releases its memory.
func (s *Service) removeLocked(r *Run) {
	if s.inMemory[r.ID] == r {
		delete(s.inMemory, r.ID)
	}
	if lane := r.Lane(); lane != "" && s.inSession[lane] == r {
		delete(s.inSession, lane)
	}
	r.account.Release()
}

// Flush stores what waits to be stored. Runs need no call of it.
func (s *Service) Flush(ctx context.Context) { s.recorder.record(ctx) }
