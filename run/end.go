package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// noteCut writes on the tape of a run's session that its turn has no end, unless another turn is there that says so itself. Readers see the
// end of the run behind that, so that who goes on with the session then does not meet it.
func (s *Service) noteCut(p *leftRun) {
	if p.Session == "" || s.o.Turns == nil || s.o.Tapes == nil || hasEnded(p.tube) {
		return
	}
	lane := webchannel.SessionKey(p.Owner, p.Session)
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Times.Cut)
	defer cancel()
	if replica, err := s.elsewhere(ctx, lane); err != nil || replica != "" {
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

// endLeft ends a run that was another replica's, for all who read it.
func (s *Service) endLeft(p *leftRun, left *runlog.Left, message string) {
	over := hasEnded(p.tube)
	r := p.run(message)
	r.where = newLocation()
	r.pay(s.o.Ledger.Open())
	r.entry = s.shared.Runs.Keep(runlog.Run{ID: r.ID, Opening: left.Opening, Tube: r.tube, Trouble: r.trouble})
	r.keepEnd()
	if !over {
		s.log.WarnContext(r.Context(), "run cut off: its replica died", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.expires, r.saved = now.Add(s.retention(r.Keyed)), true
	if old := s.inMemory[r.ID]; old != nil && old.followed() && !old.Moved() {
		r.account.Release()
		return // those who read it have it already
	}
	s.inMemory[r.ID] = r
	s.keepLocked(r, now)
}

// supervise waits for a run's end, on a stack that is kept small: there is one for each run.
func (s *Service) supervise(r *Run, m *ling.Manager) {
	if r.restart != nil {
		if r.restart.slot.wait(m.Context()) == nil { // its time begins when it does
			defer r.restart.slot.leave()
		}
	}
	late := time.AfterFunc(s.o.RunTimeout, func() { m.Stop(fmt.Errorf("the run took longer than %s", s.o.RunTimeout)) })
	err := m.Close()
	late.Stop()
	s.awaitStored(r)
	s.ended(r, m, err)
}

// StatusMoved is what observers are told of a run that goes on at another replica, or has ended there: no client is told that.
const StatusMoved = "moved"

// ended keeps what is kept of a run. closeErr is what it has failed of.
func (s *Service) ended(r *Run, m *ling.Manager, closeErr error) {
	o := r.resultOf(m.Outcome())
	r.result = o
	away := r.Moved() || r.adoptable() && r.restarts() // its end is not here
	if !away && r.mayBeRetried(o) {
		s.releaseKey(r) // before its client is answered, who may retry at once
	}
	close(r.done)
	r.manager.Store(nil)

	status := o.Status
	if away {
		status = StatusMoved
	}
	code, level := "", slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("run", r.ID), r.Of.attr(), slog.String("status", status),
		slog.Duration("took", time.Since(r.Began)), slog.Uint64("events", r.tube.Len()%Epoch),
	}
	if cause, ok := o.Cause(); ok && !away && o.Status != StatusCompleted {
		code = cause.Code
		attrs = append(attrs, slog.String("code", code))
		if r.session == "" && code != codeInternal && o.Status == StatusFailed { // else there is a line of the turn, or of what is internal
			level = trail.Level(code)
		}
		if closeErr != nil {
			attrs = append(attrs, slog.Any("error", closeErr))
		}
	}
	if away {
		s.log.LogAttrs(m.Context(), slog.LevelInfo, "run continues at another replica", attrs...)
	} else {
		s.log.LogAttrs(m.Context(), level, "run ended", attrs...)
	}
	r.endSpan(code)
	r.observer.End(status, code)
	s.release(r)

	if !away {
		r.keepEnd()
	}
	if r.Keyed && s.disk != nil && !r.restarts() { // saved at once where there is a key, whose promise holds across a crash
		s.save(r)
		s.disk.settler.keepUp()
	}
	now := time.Now()
	s.mu.Lock()
	s.running--
	if away {
		s.leaveLocked(r)
	} else {
		r.expires, r.saved = now.Add(s.retention(r.Keyed)), r.saved || r.tube.Held()
		s.keepLocked(r, now)
	}
	if s.draining && s.running == 0 {
		close(s.quiet)
	}
	s.mu.Unlock()
	s.trim(now)
}

// mayBeRetried reports whether the same request may be sent again: the run failed for a reason that passes, and made nothing.
func (r *Run) mayBeRetried(o Result) bool {
	if cause, ok := o.Cause(); !ok || o.Status != StatusFailed || !cause.Retryable {
		return false
	}
	document, reserved := r.tube.Snapshot(false)
	return isEmptyObject(document) && isEmptyObject(reserved)
}

// isEmptyObject reports whether a document of a tube holds nothing.
func isEmptyObject(document []byte) bool { return len(document) == 0 || string(document) == "{}" }

// cancelRun ends a run that goes on; false when it has ended already, though its readers may not have seen that yet. It does not wait.
func cancelRun(r *Run, cause error) bool {
	m := r.manager.Load()
	return m != nil && m.Stop(cause)
}

// errFull is why a run ends of which too much waits to be stored.
var errFull = errors.New("the store of this run was unreachable for too long, so the server cannot store its events any more")

// watchFull ends a run of which too much waits to be stored.
func (s *Service) watchFull(r *Run) {
	select {
	case <-r.tube.Full():
	case <-r.done:
		return
	case <-r.moved():
		return
	case <-s.leaving: // its end need not be stored
		return
	}
	if m := r.manager.Load(); m != nil {
		m.Report("", &bot.Failure{Code: codeOverloaded, Message: errFull.Error(), Cause: errFull})
		m.Stop(errFull)
	}
}

// awaitStored waits until the end of a run is stored: then it has ended for all who read it.
func (s *Service) awaitStored(r *Run) {
	if !r.tube.Held() {
		return
	}
	leaving, late := s.leaving, (<-chan time.Time)(nil)
	for {
		select {
		case <-r.tube.Ended():
			return
		case <-r.moved():
			return
		case <-leaving:
			leaving, late = nil, time.After(s.o.Times.Stored)
		case <-late:
			return
		}
	}
}

// ErrLeft is why a run is canceled whose client asked for that when it leaves.
var ErrLeft = errors.New("the client disconnected")

// ErrAsked is why a run ends that somebody canceled.
var ErrAsked = errors.New("canceled by request")
