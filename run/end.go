package run

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// noteCut writes on the tape of a run's session that its turn has no end, unless another turn is there that says so itself. Readers see the
// end of the run behind that, so that who goes on with the session then does not meet it.
func (s *Service) noteCut(p *leftRun) {
	if p.Session == "" || s.o.Turns == nil || s.o.Tapes == nil || hasEnded(p.tube) {
		return
	}
	lane := webchannel.SessionKey(p.owner, p.Session)
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Times.Cut)
	defer cancel()
	if s.elsewhere(ctx, lane) != nil {
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
		s.log.DebugContext(ctx, "next turn will note the cut-off one", "run", p.id, "error", err)
	}
}

// supervise waits for a run's end.
func (s *Service) supervise(r *Run, m *ling.Manager) {
	if r.resumed != nil {
		if r.resumed.slot.wait(m.Context()) == nil { // its time begins when it does
			defer r.resumed.slot.leave()
		}
	}
	late := s.limitTime(m)
	err := m.Close()
	late.Stop()
	s.finish(r, m, err)
}

// superviseLater is supervise for a run that is not resumed, without a goroutine that waits: the last goroutine of the run ends it.
func (s *Service) superviseLater(r *Run, m *ling.Manager) {
	s.works.Add(1)
	late := s.limitTime(m)
	m.CloseLater(func(err error) {
		defer s.works.Done()
		late.Stop()
		s.finish(r, m, err)
	})
}

// limitTime stops a run that takes too long.
func (s *Service) limitTime(m *ling.Manager) *time.Timer {
	return time.AfterFunc(s.o.RunTimeout, func() { m.Stop(fmt.Errorf("the run took longer than %s", s.o.RunTimeout)) })
}

// finish stores and shows the end of a run whose work is over. err is what the run has failed of.
func (s *Service) finish(r *Run, m *ling.Manager, err error) {
	if o := r.resultOf(m.Outcome()); !r.Moved() && s.storeEnd(r, &o) {
		r.tube.ShowEnd()
	} else {
		s.recorder.remove(r)
	}
	s.ended(r, m, err)
}

// StatusMoved is what observers are told of a run that goes on at another replica, or has ended there: no client is told that.
const StatusMoved = "moved"

// ended keeps what is kept of a run. closeErr is what it has failed of.
func (s *Service) ended(r *Run, m *ling.Manager, closeErr error) {
	o := r.resultOf(m.Outcome())
	r.result = o
	away := r.Moved() // its end is not here
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

	now := time.Now()
	s.mu.Lock()
	if away {
		s.leaveLocked(r)
	} else {
		r.expires = now.Add(s.retention(r.Keyed))
		s.keepLocked(r, now)
		if r.erased {
			s.dropLocked(r)
		}
	}
	s.endedLocked()
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
