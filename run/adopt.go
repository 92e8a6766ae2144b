package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/runlog"
)

const (
	// adoptAtOnce is how many runs of a replica that died are taken over at the same time, by each replica.
	adoptAtOnce = 16
	// lookForLeft is how often it is looked whether somebody has died without a word that was heard.
	lookForLeft = 30 * time.Second
	// While what is shared cannot be reached it is tried again, at first soon, then less often.
	adoptRetry, adoptLongest = 100 * time.Millisecond, 2 * time.Second
	// cutWait is how long the end of a run waits for its session's tape to say so, too.
	cutWait = 500 * time.Millisecond
)

// watchReplicas takes over what others leave, until the server ends: each run of a replica that is not there any more gets one of those
// who are (CL-07).
func (s *Service) watchReplicas() {
	gone := make(chan string, 64) // more are found with the next look
	stop := s.shared.Watch(func(replica string) {
		select {
		case gone <- replica:
		default:
		}
	})
	defer stop()
	tick := time.NewTicker(lookForLeft)
	defer tick.Stop()
	s.adoptAll("")
	for {
		select {
		case <-s.ctx.Done():
			return
		case replica := <-gone:
			s.adoptAll(replica)
		case <-tick.C:
			s.adoptAll("")
		}
	}
}

// adoptAll takes over what a replica has left, or where none is named all that are not there.
func (s *Service) adoptAll(replica string) {
	pauses := backoff.New(adoptRetry, adoptLongest)
	for s.ctx.Err() == nil && !s.Draining() {
		list, err := s.leftBy(replica)
		if err == nil {
			s.adoptEach(list)
			return
		}
		s.log.WarnContext(s.ctx, "cannot read a dead replica's work; retrying", "replica", replica, "error", err)
		_ = backoff.Sleep(s.ctx, pauses.NextBackOff())
	}
}

// leftBy lists runs whose replica is not there.
func (s *Service) leftBy(replica string) ([]runlog.Going, error) {
	ctx, cancel := context.WithTimeout(s.ctx, SharedWait)
	defer cancel()
	list, err := s.shared.Runs.Running(ctx, replica)
	if err != nil {
		return nil, err
	}
	here := map[string]bool{}
	for _, id := range s.shared.Replicas() { // after the list: who has written has come before
		here[id] = true
	}
	var left []runlog.Going
	for _, g := range list {
		if g.Replica != s.shared.replica() && (!here[g.Replica] || g.Replica == replica) {
			left = append(left, g)
		}
	}
	return left, nil
}

func (s *Service) adoptEach(list []runlog.Going) {
	slots := make(chan struct{}, adoptAtOnce)
	var wg sync.WaitGroup
	for _, g := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.adopt(s.ctx, g.ID, g.Replica)
		})
	}
	wg.Wait()
}

// adopt takes a run over from a replica that is gone, or that hands it over because it goes; false where it did not get it. Of all who try,
// one does.
func (s *Service) adopt(ctx context.Context, id, from string) bool {
	pauses := backoff.New(adoptRetry, adoptLongest)
	for {
		if s.Draining() || s.ctx.Err() != nil {
			return false
		}
		left, err := s.shared.Runs.Adopt(ctx, id, from)
		switch {
		case err == nil:
			s.continueRun(left)
			return true
		case errors.Is(err, runlog.ErrFenced), errors.Is(err, runlog.ErrEnded), errors.Is(err, runlog.ErrUnknown), errors.Is(err, runlog.ErrClosed):
			return false
		}
		if backoff.Sleep(ctx, pauses.NextBackOff()) != nil {
			return false
		}
	}
}

// continueRun goes on with a run that was another replica's: it is run again, or ends.
func (s *Service) continueRun(left *runlog.Left) {
	p, err := readLeft(left)
	if err != nil {
		s.log.Error("cannot read a stored run", "run", wording.Clip(left.ID), "error", err)
		e := s.shared.Runs.Keep(runlog.Run{ID: left.ID, Opening: left.Opening, Tube: left.Tube})
		_ = left.Tube.Close(StatusInterrupted) // it may have ended
		e.End([]byte("{}"))
		return
	}
	message := s.whyNotRestarted(p, time.Now())
	if message == "" && !hasEnded(p.tube) { // an end that is stored was seen
		r, err := s.restartRun(p)
		if err == nil {
			s.wg.Go(func() { s.grantSlots([]*Run{r}) })
			return
		}
		if s.Draining() {
			return // whoever takes over what this one leaves, runs it
		}
		message = cutMessage + "; it cannot restart"
		s.log.Warn("cannot restart a run", "run", p.Run, "error", err)
	}
	s.noteCut(p)
	s.endLeft(p, left, message)
}
