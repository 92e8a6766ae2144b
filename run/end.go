package run

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/store"
)

var (
	// ErrLeft cancels a run whose client disconnected and had asked for that.
	ErrLeft = errors.New("the client disconnected")
	// ErrAsked cancels a run by request.
	ErrAsked = errors.New("canceled by request")
	// errKeyRevoked cancels a run whose API key was revoked.
	errKeyRevoked = errors.New("the API key that started the run was revoked")
)

// Cancel ends an active run. Error: ErrEnded.
func (s *Service) Cancel(run *Run) error {
	if !run.stop(ErrAsked) {
		return &Error{Kind: ErrEnded, Detail: "the run has ended", Run: run.ID}
	}
	return nil
}

// Leave cancels a run whose client disconnected and had asked for that. It does not wait.
func (s *Service) Leave(run *Run) { run.stop(ErrLeft) }

// CancelRevoked cancels the active runs of this replica whose API key is revoked, and returns how many. It does not wait.
func (s *Service) CancelRevoked(revoked func(keyTag string) bool) (count int) {
	return s.cancelRuns(errKeyRevoked, func(r *Run) bool { return r.KeyTag != "" && revoked(r.KeyTag) })
}

// cancelPage is how many runs CancelOwner lists at once.
const cancelPage = 200

// CancelOwner cancels the active runs of an owner on this replica, and returns how many. elsewhere has the ids of the runs that are active on
// other replicas, or that no replica works on yet. It does not wait for their ends. A run that starts meanwhile can be missing in both.
// Error: ErrAway, also after it has canceled runs.
func (s *Service) CancelOwner(ctx context.Context, owner string) (canceled int, elsewhere []string, err error) {
	canceled = s.cancelRuns(ErrAsked, func(r *Run) bool { return r.owner == owner })
	q := store.RunQuery{Owner: &owner, States: store.LiveStates, Limit: cancelPage}
	for more := true; more; more = q.Cursor != "" {
		var list []store.Run
		if list, q.Cursor, err = s.store.List(ctx, q); err != nil {
			return canceled, elsewhere, s.storeError(ctx, err)
		}
		for _, r := range list {
			if r.Replica != s.replica {
				elsewhere = append(elsewhere, r.ID)
			}
		}
	}
	return canceled, elsewhere, nil
}

// cancelRuns cancels the active runs of this replica that match, and returns how many. It does not wait.
func (s *Service) cancelRuns(cause error, match func(*Run) bool) (count int) {
	for _, r := range s.active() {
		if match(r) && r.stop(cause) {
			count++
		}
	}
	return count
}

// active returns the active runs of this replica.
func (s *Service) active() (list []*Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.inMemory {
		if r.manager.Load() != nil {
			list = append(list, r)
		}
	}
	return list
}

// stop ends an active run. It returns false if the run has ended already; its readers may not have seen the end yet. It does not wait.
func (r *Run) stop(cause error) bool {
	m := r.manager.Load()
	return m != nil && m.Stop(cause)
}

// finish stores and shows the end of a run whose work is over. err is what the run has failed of.
func (s *Service) finish(r *Run, m *ling.Manager, err error) {
	if r.late.Stop(); r.hasSlot {
		<-s.slots
	}
	r.result = r.resultOf(m.Outcome())
	if !r.Moved() && s.storeEnd(r) {
		r.tube.ShowEnd()
	}
	s.recorder.remove(r)
	s.ended(r, m, err)
}

// StatusMoved is the status that observers get of a run that continues or has ended at another replica. No client gets it.
const StatusMoved = "moved"

// ended keeps what is kept of a run. closeErr is what it has failed of.
func (s *Service) ended(r *Run, m *ling.Manager, closeErr error) {
	o := r.result
	away := r.Moved() // its end is not here
	r.manager.Store(nil)
	close(r.done)

	status, message := o.Status, "run ended"
	if away {
		status, message = StatusMoved, "run continues at another replica"
	}
	code, level := "", slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("run", r.ID), r.Of.attr(), slog.String("status", status),
		slog.Duration("took", time.Since(r.Began)), slog.Uint64("events", r.tube.Len()%Epoch),
	}
	if cause, ok := o.Cause(); ok && !away && o.Status != StatusCompleted {
		code = cause.Code
		attrs = append(attrs, slog.String("code", code))
		if r.Session == "" && code != codeInternal && o.Status == StatusFailed { // else there is a line of the turn, or of what is internal
			level = trail.Level(code)
		}
		if closeErr != nil {
			attrs = append(attrs, slog.Any("error", closeErr))
		}
	}
	s.log.LogAttrs(m.Context(), level, message, attrs...)
	r.endSpan(code)
	r.observer.End(status, code)

	s.mu.Lock()
	if away {
		r.machine.enter(stateMoved)
		s.removeLocked(r)
	} else {
		s.keepLocked(r, time.Now().Add(s.retention(r.Keyed)))
	}
	s.mu.Unlock()
	s.chargeTokens(r)
}

// mayBeRetried reports whether the same request may be sent again: the run failed for a reason that passes, and made nothing.
func (r *Run) mayBeRetried() bool {
	if cause, ok := r.result.Cause(); !ok || r.result.Status != StatusFailed || !cause.Retryable {
		return false
	}
	document, reserved := r.text()
	return isEmptyObject(document) && isEmptyObject(reserved)
}

// isEmptyObject reports whether a document of a tube holds nothing.
func isEmptyObject(document []byte) bool { return len(document) == 0 || string(document) == "{}" }
