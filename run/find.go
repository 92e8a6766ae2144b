package run

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
)

// Find finds a run for somebody. Errors: ErrUnknown, which another's run is, too, ErrExpired, ErrDamaged, ErrAway and ErrOverloaded.
func (s *Service) Find(ctx context.Context, who access.Principal, id string) (*Run, error) {
	r, err := s.get(ctx, who, id)
	return r, s.findError(ctx, id, err)
}

// findError is the error for the caller of one that get returned.
func (s *Service) findError(ctx context.Context, id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errGone):
		return &Error{Kind: ErrExpired, Detail: "this run ended too long ago and is no longer stored", Run: id}
	case errors.Is(err, errDamaged):
		return &Error{Kind: ErrDamaged, Detail: DamagedMessage, Run: id}
	case errors.Is(err, errUnknown):
		return unknownRun()
	case isFull(err):
		return noRoom()
	}
	return err // an error for the caller already, or the client disconnected
}

// Room waits for the memory that the document of a run takes which goes on. One that has ended has paid for it.
func (s *Service) Room(ctx context.Context, r *Run) (free func(), err error) {
	if r.Ended() || s.o.Ledger == nil {
		return func() {}, nil
	}
	a := s.o.Ledger.Open()
	if err := a.Reserve(ctx, int64(r.tube.Bytes())); err != nil {
		a.Release()
		if isFull(err) {
			err = noRoom()
		}
		return nil, err
	}
	return a.Release, nil
}

// isFull reports whether there was no memory.
func isFull(err error) bool {
	_, full := errors.AsType[*adapter.Error](err)
	return full
}

// noRoom is the error of a document that there is no memory for.
func noRoom() *Error {
	return littleMemory("the server has no memory for this run's document; retry later; the run continues")
}

// DamagedMessage is told to those who come back to a run whose file cannot be read.
const DamagedMessage = "the stored data of this run is damaged; find the cause in the server's log under the run's id"
