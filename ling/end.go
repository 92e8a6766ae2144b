package ling

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// Close waits for bots, tasks and callbacks, and for what these start, then ends the tube: "completed", or "failed" where a
// bot or task has; "canceled" where Stop or Cancel was called or the context has ended. It may be called right after the
// first bot was started, and more than once: all calls wait for the end. It returns what the run failed of, nil where it is
// completed.
func (m *Manager) Close() error {
	first := false
	_ = m.wait(context.Background(), func() bool {
		if m.active > 0 {
			return false
		}
		first = !m.ending
		m.over, m.ending = true, true
		return true
	})
	if first {
		m.end()
		close(m.sent)
	}
	<-m.sent // the tube's end may be shown later
	return m.failure()
}

// CloseLater calls Close when nothing runs any more, and closed with its result: in the goroutine of the last bot or task, so that no goroutine
// waits for the end of each run. Call it once.
func (m *Manager) CloseLater(closed func(error)) {
	m.mu.Lock()
	running := m.active > 0
	if running {
		m.closed = closed
	}
	m.mu.Unlock()
	if !running {
		go func() { closed(m.Close()) }()
	}
}

// Cancel stops everything below and returns when nothing runs any more; the tube ends with "canceled" and reason is the
// cause's text. cause may be nil. Where the run has ended before, or is just ending, it returns [tube.ErrEnded].
func (m *Manager) Cancel(cause error) error {
	if !m.Stop(cause) {
		<-m.sent
		return tube.ErrEnded
	}
	m.Close()
	return nil
}

// Stop is Cancel that does not wait, for callbacks and tasks: the caller must call Close, which waits and ends the tube. It is false where
// the end has begun: then the run ends as it would have.
func (m *Manager) Stop(cause error) bool {
	if cause == nil {
		cause = context.Canceled
	}
	_, ending := m.startNoMore(&m.canceled, cause)
	if !ending {
		m.cancel(cause)
	}
	return !ending
}

// stopFor ends the run because of a limit: not canceled by somebody, but failed.
func (m *Manager) stopFor(cause error) {
	if first, _ := m.startNoMore(&m.fatal, cause); first {
		m.report(ErrorData{Fatal: true}, cause)
		m.cancel(cause)
	}
}

// startNoMore keeps the run from starting anything, for a cause that is kept in place if it is the first there. Nothing happens where the end has
// begun.
func (m *Manager) startNoMore(place *error, cause error) (first, ending bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending {
		return false, true
	}
	if first = *place == nil; first {
		*place = cause
	}
	m.over = true
	m.turn()
	return first, false
}

// wait waits until condition, which is called with the lock held, or the end of ctx.
func (m *Manager) wait(ctx context.Context, condition func() bool) error {
	for {
		m.mu.Lock()
		ok, turned := condition(), m.turned
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end sends the terminal event. Nothing runs any more.
func (m *Manager) end() {
	m.mu.Lock()
	if m.canceled == nil && m.fatal == nil && m.ctx.Err() != nil {
		m.canceled = context.Cause(m.ctx)
	}
	switch {
	case m.fatal != nil, m.canceled == nil && len(m.failures) > 0:
		m.sum.Status = "failed"
	case errors.Is(m.canceled, ErrInterrupted):
		m.sum.Status = "interrupted"
	case m.canceled != nil:
		m.sum.Status = "canceled"
	default:
		m.sum.Status = "completed"
	}
	status, cause := m.sum.Status, m.canceled
	clear(m.writers)
	clear(m.open)
	clear(m.reported)
	clear(m.handlers)
	m.mu.Unlock()
	switch status {
	case "canceled":
		m.tube.Cancel(reason(cause))
	case "interrupted":
		m.report(ErrorData{Fatal: true}, interruption(cause))
		fallthrough
	default:
		m.tube.Close(status)
	}
	m.cancel(ErrEnded) // frees what waits for the context
	m.mu.Lock()
	m.turn()
	m.mu.Unlock()
}

// interruption is the "error" event of a run that was interrupted.
func interruption(cause error) *bot.Failure {
	if f, known := bot.Describe(cause); known {
		return &f
	}
	return &bot.Failure{Code: codeDraining, Message: "the server is shutting down; the run's events so far are kept", Retryable: true, Cause: cause}
}

// codeDraining is the protocol's for work that a server which goes has broken off.
const codeDraining = "draining"

// reason is what a canceled event says.
func reason(cause error) string {
	switch {
	case errors.Is(cause, context.Canceled):
		return "canceled"
	case errors.Is(cause, context.DeadlineExceeded):
		return "the time limit was reached"
	}
	return cause.Error()
}
