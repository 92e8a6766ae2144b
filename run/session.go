package run

import (
	"context"
	"errors"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// TapesRetry is when to come back to a store that is away: mostly it is being started.
const TapesRetry = 5 * time.Second

// SessionError is the error of this package for an error of the store of sessions.
func (s *Service) SessionError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // the caller has gone
	case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrDeleted):
		return refuse(ErrUnknown, "unknown session")
	case errors.Is(err, tape.ErrNameCollision):
		s.log.ErrorContext(ctx, "two sessions have the same hash", "error", err)
		return refuse(ErrBusy, "this session id cannot be used; choose another one")
	case errors.Is(err, tape.ErrInvalid): // an id that no session can have
		return refuse(ErrUnknown, "unknown session: "+Unfit(err))
	case errors.Is(err, tape.ErrTooMany):
		return overLimit(LimitSessions, "the server reached its limit of sessions; use an existing session, or delete some", SessionsRetry)
	case errors.Is(err, tape.ErrTooManyOfOwner):
		return &Error{Kind: ErrLimited, Limit: LimitSessions, Detail: "you reached the limit of sessions of one caller; use an existing session, or delete some with DELETE /v1/sessions/{id}", Retry: SessionsRetry}
	case errors.Is(err, tape.ErrTooLarge):
		return refuse(ErrTooLarge, "the entry is too large for the session's tape")
	}
	if vfs.Failed(err) {
		s.log.ErrorContext(ctx, "cannot store or read a session: disk failed", "error", err)
		s.o.Pressure.DiskFailed()
		return diskFull()
	}
	if IsOverloaded(err) { // a database that is away; the store's log says why
		return &Error{Kind: ErrAway, Detail: "the server cannot reach the sessions at the moment; retry later", Retry: TapesRetry}
	}
	e := internal("the server cannot use the session's tape; find the cause in its log under this id")
	s.log.ErrorContext(ctx, "cannot use a tape", "id", e.ID, "error", err)
	return e
}

// IsOverloaded reports whether an error has that code, as those of a store that cannot be reached: no model has taken too long then.
func IsOverloaded(err error) bool {
	coded, ok := errors.AsType[turn.Coded](err)
	return ok && coded.ErrorCode() == codeOverloaded
}
