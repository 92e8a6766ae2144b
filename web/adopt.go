package web

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
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
func (s *Server) watchReplicas() {
	gone := make(chan string, 64) // more are found with the next look
	stop := s.o.Shared.Watch(func(replica string) {
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
func (s *Server) adoptAll(replica string) {
	wait := adoptRetry
	for s.ctx.Err() == nil && !s.runs.isDraining() {
		list, err := s.leftBy(replica)
		if err == nil {
			s.adoptEach(list)
			return
		}
		s.log.WarnContext(s.ctx, "cannot read a dead replica's work; retrying", "replica", replica, "error", err)
		select {
		case <-time.After(wait):
			wait = min(2*wait, adoptLongest)
		case <-s.ctx.Done():
		}
	}
}

// leftBy lists runs whose replica is not there.
func (s *Server) leftBy(replica string) ([]runlog.Going, error) {
	ctx, cancel := context.WithTimeout(s.ctx, sharedWait)
	defer cancel()
	list, err := s.o.Shared.Runs.Running(ctx, replica)
	if err != nil {
		return nil, err
	}
	here := map[string]bool{}
	for _, id := range s.o.Shared.Replicas() { // after the list: who has written has come before
		here[id] = true
	}
	var left []runlog.Going
	for _, g := range list {
		if g.Replica != s.o.Shared.replica() && (!here[g.Replica] || g.Replica == replica) {
			left = append(left, g)
		}
	}
	return left, nil
}

func (s *Server) adoptEach(list []runlog.Going) {
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
func (s *Server) adopt(ctx context.Context, id, from string) bool {
	wait := adoptRetry
	for {
		if s.runs.isDraining() || s.ctx.Err() != nil {
			return false
		}
		left, err := s.o.Shared.Runs.Adopt(ctx, id, from)
		switch {
		case err == nil:
			s.takeOver(left)
			return true
		case errors.Is(err, runlog.ErrFenced), errors.Is(err, runlog.ErrEnded), errors.Is(err, runlog.ErrUnknown), errors.Is(err, runlog.ErrClosed):
			return false
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, adoptLongest)
		case <-ctx.Done():
			return false
		}
	}
}

// takeOver goes on with a run that was another replica's: it is run again, or ends.
func (s *Server) takeOver(left *runlog.Left) {
	p, err := replayedFrom(left)
	if err != nil {
		s.log.Error("cannot read a stored run", "run", clip(left.ID), "error", err)
		e := s.runs.journal.Keep(runlog.Run{ID: left.ID, Opening: left.Opening, Tube: left.Tube})
		_ = left.Tube.Close(statusInterrupted) // it may have ended
		e.End([]byte("{}"))
		return
	}
	message := s.runs.again(p, time.Now())
	if message == "" && !isOver(p.tube) { // an end that is stored was seen
		r, err := s.runAgain(p, s.slots)
		if err == nil {
			s.begins(r)
			return
		}
		if s.runs.isDraining() {
			return // whoever takes over what this one leaves, runs it
		}
		message = cutMessage + "; it cannot restart"
		s.log.Warn("cannot restart a run", "run", p.Run, "error", err)
	}
	s.noteCut(p)
	s.runs.endLeft(p, left, message)
}

// noteCut writes on the tape of a run's session that its turn has no end, unless another turn is there that says so itself. Readers see the
// end of the run behind that, so that who goes on with the session then does not meet it.
func (s *Server) noteCut(p *replayed) {
	if p.Session == "" || s.o.Turns == nil || s.o.Tapes == nil || isOver(p.tube) {
		return
	}
	lane := webchannel.SessionKey(p.Owner, p.Session)
	ctx, cancel := context.WithTimeout(s.ctx, cmp.Or(s.cutWait, cutWait))
	defer cancel()
	if replica, err := s.holderOf(ctx, lane); err != nil || replica != "" {
		return
	}
	if err := s.o.Turns.Alone(ctx, lane, turn.Reject, func(ctx context.Context) error {
		t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, lane)
		if err != nil {
			return err
		}
		cut, err := agent.Aborted(ctx, t)
		if err != nil || len(cut) == 0 {
			return err
		}
		_, err = t.Append(ctx, cut...)
		return err
	}); err != nil {
		s.log.DebugContext(ctx, "next turn will note the cut-off one", "run", p.Run, "error", err)
	}
}

// begins gives a run that is run again its turn.
func (s *Server) begins(r *run) { s.wg.Go(func() { s.beginAgain([]*run{r}, s.slots) }) }

// endLeft ends a run that was another replica's, for all who read it.
func (rs *runs) endLeft(p *replayed, left *runlog.Left, message string) {
	over := isOver(p.tube)
	r := p.run(message)
	r.place = newPlaced(nil)
	r.account = rs.o.Ledger.Open()
	r.account.Measure(func() int64 { return int64(r.tube.Measure()) })
	r.entry = rs.journal.Keep(runlog.Run{ID: r.id, Opening: left.Opening, Tube: r.tube, Trouble: r.trouble})
	r.keepEnd()
	if !over {
		rs.log.WarnContext(r.context(), "run cut off: its replica died", "run", r.id, "events", r.tube.Len()%epoch)
	}
	now := time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.expires, r.saved = now.Add(rs.retention(r.keyed)), true
	if old := rs.inMemory[r.id]; old != nil && old.followed() && !old.isGone() {
		r.account.Release()
		return // those who read it have it already
	}
	rs.inMemory[r.id] = r
	rs.keepLocked(r, now)
}
