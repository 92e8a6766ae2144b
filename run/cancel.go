package run

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/access"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

var (
	// ErrLeft is why a run is canceled whose client asked for that when it leaves.
	ErrLeft = errors.New("the client disconnected")
	// ErrAsked is why a run ends that somebody canceled.
	ErrAsked = errors.New("canceled by request")
	// errKeyRevoked is why a run ends whose API key was revoked.
	errKeyRevoked = errors.New("the API key that started the run was revoked")
)

// Cancel ends a run that goes on. Error: ErrEnded.
func (s *Service) Cancel(run *Run) error {
	if !cancelRun(run, ErrAsked) {
		return endedRun(run.ID)
	}
	return nil
}

// Leave cancels a run whose client asked for that and has gone. It does not wait.
func (s *Service) Leave(run *Run) { cancelRun(run, ErrLeft) }

// CancelRevoked cancels the runs of this server whose API key was revoked, as revoked says of a key's tag, and returns how many. It does not wait.
func (s *Service) CancelRevoked(revoked func(keyTag string) bool) (count int) {
	s.mu.Lock()
	var list []*Run
	known := map[string]bool{}
	for _, r := range s.inMemory {
		if r.keyTag == "" || r.manager.Load() == nil {
			continue
		}
		gone, ok := known[r.keyTag]
		if !ok {
			gone = revoked(r.keyTag)
			known[r.keyTag] = gone
		}
		if gone {
			list = append(list, r)
		}
	}
	s.mu.Unlock()
	for _, r := range list {
		if cancelRun(r, errKeyRevoked) {
			count++
		}
	}
	return count
}

// cancelRun ends a run that goes on; false when it has ended already, though its readers may not have seen that yet. It does not wait.
func cancelRun(r *Run, cause error) bool {
	m := r.manager.Load()
	return m != nil && m.Stop(cause)
}

// elsewhere is an [Elsewhere] where another replica has the turns of a session, by its lane.
func (s *Service) elsewhere(ctx context.Context, lane string) error {
	if s.o.Holder == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	replica, err := s.o.Holder(ctx, tape.Name(s.o.Workspace, lane))
	switch {
	case err != nil:
		return s.storeError(ctx, err)
	case replica == "" || replica == s.replica:
		return nil
	}
	return &Elsewhere{replica}
}

// Latest finds the run that was started last in a session of somebody: nil where it has ended and left memory, or there is none. Errors:
// those of Find.
func (s *Service) Latest(ctx context.Context, who access.Principal, session string) (*Run, error) {
	if s.ChannelOf(who, session) != "" {
		return nil, nil
	}
	lane := webchannel.SessionKey(who.Owner(), session)
	if run := s.inLane(lane); run != nil && !run.Moved() && !run.Ended() {
		return run, nil
	}
	row, err := s.store.LatestOf(ctx, lane)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, s.storeError(ctx, err)
	}
	if !row.Ended.IsZero() {
		if run := s.inLane(lane); run != nil && run.ID == row.ID {
			return run, nil
		}
		return nil, nil
	}
	return s.Find(ctx, who, row.ID)
}
