package run

import (
	"context"
	"errors"

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
	if !cancelRun(run, ErrAsked) {
		return &Error{Kind: ErrEnded, Detail: "the run has ended", Run: run.ID}
	}
	return nil
}

// Leave cancels a run whose client disconnected and had asked for that. It does not wait.
func (s *Service) Leave(run *Run) { cancelRun(run, ErrLeft) }

// CancelRevoked cancels the active runs of this replica whose API key is revoked, and returns how many. It does not wait.
func (s *Service) CancelRevoked(revoked func(keyTag string) bool) (count int) {
	return s.cancelRuns(errKeyRevoked, func(r *Run) bool { return r.keyTag != "" && revoked(r.keyTag) })
}

// cancelPage is how many runs CancelOwner lists at once.
const cancelPage = 200

// CancelOwner cancels the active runs of an owner on this replica, and returns how many. elsewhere has the ids of the runs that are active on
// other replicas, or that no replica works on yet. It does not wait for their ends. A run that starts meanwhile can be missing in both.
// Error: ErrAway, also after it has canceled runs.
func (s *Service) CancelOwner(ctx context.Context, owner string) (canceled int, elsewhere []string, err error) {
	canceled = s.cancelRuns(ErrAsked, func(r *Run) bool { return r.owner == owner })
	q := store.RunQuery{Owner: &owner, States: []string{store.RunQueued, store.RunRunning, store.RunWaiting}, Limit: cancelPage}
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
		if match(r) && cancelRun(r, cause) {
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

// cancelRun ends an active run. It returns false if the run has ended already; its readers may not have seen the end yet. It does not wait.
func cancelRun(r *Run, cause error) bool {
	m := r.manager.Load()
	return m != nil && m.Stop(cause)
}
