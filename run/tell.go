package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// write makes the writer of what happens in the turn, and sends the position in the queue.
func (a *agentRun) write() {
	if a.inQueue() {
		_ = a.m.SendEvent("queued", map[string]int{"position": a.ticket.Status().Position}) // the run may have been canceled
	}
	a.out = &transcript{
		manager: a.m, agent: a.name, maxBytes: a.s.o.MaxResult, tooLarge: func() { a.cancel(errTooMuch) }, storeMedia: a.s.keepFiles(a.spec.owner),
	}
	if so := a.spec.resumed; so != nil && a.answer == nil && so.told.Begun {
		a.out.resume(&so.told)
	}
}

// awaitTurn waits for the turn, and tells what came of it.
func (a *agentRun) awaitTurn(ctx context.Context) error {
	result, err := a.ticket.Wait(context.Background())
	a.followUp()
	switch {
	case a.stop(err), a.answer != nil && a.answer.Told(err):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.out.full:
		return &bot.Failure{Code: codeTooLarge, Message: fmt.Sprintf("the run's result exceeds the limit of %d bytes", a.s.o.MaxResult)}
	case err != nil:
		return a.failure(err)
	}
	if a.answer != nil {
		return nil
	}
	if !a.out.hasText { // a command that was answered beside the lane
		for _, e := range result.Outbound {
			a.out.writeText(e.Content)
		}
	}
	if a.spec.request.Done {
		a.out.send(tube.Event{Kind: tube.Done}) // the values are complete
	}
	return nil
}

// waits tells that the turn waits, and how long.
func (a *agentRun) waits(w turn.Waiting) {
	if !a.isReady() {
		return
	}
	_ = a.m.SendEvent("waiting", struct { // the run may have been canceled
		Position int           `json:"position"`
		For      turn.WaitsFor `json:"for,omitempty"`
		Expected int           `json:"expected,omitempty"`
	}{w.Position, w.For, int(math.Ceil(w.Expected.Seconds()))})
}

// stop cancels the run if a person or a limit ended its turn. It returns false for any other err.
func (a *agentRun) stop(err error) bool {
	switch {
	case errors.Is(err, turn.ErrInterrupted):
		a.m.Stop(errInterrupted)
	case errors.Is(err, turn.ErrStopped):
		a.m.Stop(ErrAsked)
	case errors.Is(err, errErased):
		a.m.Stop(errErased)
	case errors.Is(err, turn.ErrTimeout):
		a.m.Stop(fmt.Errorf("the turn took longer than %s", a.s.o.Turns.Timeout()))
	default:
		return false
	}
	return true
}

// failure is what the run failed of, as users may read it.
func (a *agentRun) failure(err error) error {
	if _, known := bot.Describe(err); known && !IsOverloaded(err) {
		return err
	}
	if disk.Failed(err) {
		a.s.o.Pressure.DiskFailed()
	}
	code := a.s.o.Turns.Code(err)
	message, again := turn.SentenceOf(code, err), turn.Retryable(code, err)
	switch {
	case errors.Is(err, turn.ErrLeaseLost):
		again = true
		message = "the server lost the session during the answer, because the server or its store did not respond for too long; send the message again"
	case code == codeInternal: // the turn has told the log already
		message = "internal error; find it in the server's log as turn " + a.spec.ID
	}
	return &bot.Failure{Code: code, Message: message, Retryable: again, Cause: err}
}

// errTooMuch ends a turn that writes more than a run may.
var errTooMuch = errors.New("the run's result is too large")

// onEvent writes what happens in the turn to the run's tube. It is called by the turn, one event after the other.
func (a *agentRun) onEvent(e turn.Event, err error) {
	if err != nil || a.silent || !a.isReady() {
		return // the turn's end says what it failed of
	}
	var q agent.Question
	isQuestion := e.Kind == agent.ApprovalRequiredEvent && json.Unmarshal(e.Value, &q) == nil
	if so := a.spec.resumed; !isQuestion || so == nil || !so.questions[q.ID] { // else readers know it from before
		a.out.write(e)
	}
	r := a.ownRun
	r.track(e, &q)
	switch {
	case e.Kind == turn.ToolResultEvent:
		r.step.Store(true)
	case e.Kind == turn.FinalEvent:
		r.step.Store(true)
		if e.Final != nil && e.Final.Reason == adapter.FinishLength {
			r.cut.Store(true)
		}
	case isQuestion && a.spec.Unattended: // no person can answer it (AG-40): the caller gets the document after the end
		_ = a.s.o.Agents.Answer(context.Background(), agent.Answer{ // an answer that came before is as good
			Turn: a.spec.ID, ID: q.ID, NoPerson: true, Role: tool.Admin,
		})
	}
}
