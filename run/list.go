package run

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/store"
)

// List lists runs that somebody may see, the newest first: their own; for who administers, those of all, or of the owner that q names. next is
// the cursor of the rest; "" is the end. Errors: ErrInvalid for a cursor that no list has returned, ErrAway.
func (s *Service) List(ctx context.Context, who access.Principal, q store.RunQuery) (list []store.Run, next string, err error) {
	if !who.Administers() {
		owner := who.Owner()
		q.Owner = &owner
	}
	list, next, err = s.store.List(ctx, q)
	switch {
	case errors.Is(err, store.ErrCursor):
		return nil, "", misfitting(Field{Parameter: "after", Detail: "expected the value of next from an earlier answer"})
	case err != nil:
		return nil, "", s.storeError(ctx, err)
	}
	return list, next, nil
}

// CancelOwner cancels the runs of an owner that go on on this replica, and returns how many. elsewhere has the ids of those that go on on other
// replicas, or that no replica works on yet. It does not wait for their ends, and a run that starts meanwhile can be missing in both.
// Error: ErrAway, also after it has canceled runs.
func (s *Service) CancelOwner(ctx context.Context, owner string) (canceled int, elsewhere []string, err error) {
	canceled = s.CancelOf(owner)
	q := store.RunQuery{Owner: &owner, States: []string{store.RunQueued, store.RunRunning, store.RunWaiting}, Limit: cancelPage}
	for {
		list, next, err := s.store.List(ctx, q)
		if err != nil {
			return canceled, elsewhere, s.storeError(ctx, err)
		}
		for _, r := range list {
			if r.Replica != s.replica {
				elsewhere = append(elsewhere, r.ID)
			}
		}
		if next == "" {
			return canceled, elsewhere, nil
		}
		q.Cursor = next
	}
}

// cancelPage is how many runs CancelOwner lists at once.
const cancelPage = 200

// CancelOf cancels the runs of an owner that go on here, and returns how many. It does not wait.
func (s *Service) CancelOf(owner string) (count int) {
	s.mu.Lock()
	var list []*Run
	for _, r := range s.inMemory {
		if r.owner == owner && r.manager.Load() != nil {
			list = append(list, r)
		}
	}
	s.mu.Unlock()
	for _, r := range list {
		if cancelRun(r, ErrAsked) {
			count++
		}
	}
	return count
}
