package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// tell waits for the turn, and tells on m what happens.
func (a *agentRun) tell(ctx context.Context, m *ling.Manager) error {
	if status := a.ticket.Status(); status.Phase == turn.Queued && !status.Slot && status.Position > 0 {
		_ = m.SendEvent("queued", map[string]int{"position": status.Position}) // the run may have been canceled
	}
	a.m = m
	close(a.ready)
	result, err := a.ticket.Wait(context.Background())
	a.followUp(m)
	switch {
	case a.stop(err), a.answer != nil && a.answer.Told(err):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.large:
		return &bot.Failure{Code: codeTooLarge, Message: fmt.Sprintf("the run's result exceeds the limit of %d bytes", a.s.o.MaxResult)}
	case err != nil:
		return a.failure(err)
	}
	if a.answer != nil {
		return nil
	}
	if !a.wrote { // a command that was answered beside the lane
		for _, e := range result.Outbound {
			a.text(e.Content)
		}
	}
	if a.done {
		a.send(tube.Event{Kind: tube.Done})
	}
	return nil
}

// waits tells that the turn waits, and how long.
func (a *agentRun) waits(w turn.Waiting) {
	select {
	case <-a.ready:
	default:
		return // the run has not started yet
	}
	_ = a.m.SendEvent("waiting", struct { // the run may have been canceled
		Position int           `json:"position"`
		For      turn.WaitsFor `json:"for,omitempty"`
		Expected int           `json:"expected,omitempty"`
	}{w.Position, w.For, int(math.Ceil(w.Expected.Seconds()))})
}

// stop cancels the run where its turn was ended by somebody: false where err says something else.
func (a *agentRun) stop(err error) bool {
	switch {
	case errors.Is(err, turn.ErrInterrupted):
		a.own.Stop(errInterrupted)
	case errors.Is(err, turn.ErrStopped):
		a.own.Stop(ErrAsked)
	case errors.Is(err, errErased):
		a.own.Stop(errErased)
	case errors.Is(err, turn.ErrTimeout):
		a.own.Stop(fmt.Errorf("the turn took longer than %s", a.s.o.Turns.Timeout()))
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
	if vfs.Failed(err) {
		a.s.o.Pressure.DiskFailed()
	}
	code := a.s.o.Turns.Code(err)
	message, again := turn.SentenceOf(code, err), turn.Retryable(code, err)
	switch {
	case errors.Is(err, turn.ErrLeaseLost):
		again = true
		message = "the server lost the session during the answer, because the server or its store did not respond for too long; send the message again"
	case code == codeInternal: // the turn has told the log already
		message = "internal error; find it in the server's log as turn " + a.id
	}
	return &bot.Failure{Code: code, Message: message, Retryable: again, Cause: err}
}

// take writes what happens in the turn to the run's tube. It is called by the turn, one event after the other.
func (a *agentRun) take(e turn.Event, err error) {
	if err != nil || a.m == nil || a.silent {
		return // the turn's end says what it failed of
	}
	switch e.Kind {
	case turn.TextEvent:
		a.text(e.Delta)
	case turn.ReasoningEvent:
		a.append([]byte("$reasoning_context"), e.Delta)
	case turn.ToolCallEvent:
		for _, c := range e.Calls {
			a.call(c)
		}
	case turn.ToolResultEvent:
		for _, r := range e.Results {
			a.result(r)
		}
	case turn.CitationEvent:
		if e.Citation != nil {
			a.beside("$citations", a.cited, e.Citation)
			a.cited++
		}
	case turn.MediaEvent:
		if e.Media != nil {
			a.media(e.Media)
		}
	case turn.UsageEvent:
		if u := e.Usage; u != nil {
			a.m.Used(a.name, u.Model, u.Usage)
		}
	case turn.ErrorEvent:
		if e.Err != nil {
			a.m.Report(a.name, &bot.Failure{Code: e.Err.Code, Message: e.Err.Message})
		}
	case turn.FinalEvent:
		if e.Final != nil && e.Final.Reason == adapter.FinishLength && a.ownRun != nil {
			a.ownRun.cut.Store(true)
		}
	default: // approval_required, approval_resolved, handoff, and what plugins add
		if len(e.Value) == 0 {
			return
		}
		_ = a.m.SendEvent(string(e.Kind), e.Value) // a name that is none is nobody's event
		if e.Kind == agent.ApprovalRequiredEvent && (a.unattended || a.own != a.m) {
			a.deny(e.Value)
		}
	}
}

// text is a piece of the answer. What stands before calls and after them are two paragraphs, where it does not see to that itself.
func (a *agentRun) text(delta string) {
	if delta == "" {
		return
	}
	if a.gap && a.wrote && !a.line && delta[0] != '\n' {
		delta = "\n\n" + delta
	}
	a.wrote, a.gap, a.line = true, false, strings.HasSuffix(delta, "\n")
	a.append(nil, delta)
}

// append appends to the string at a uri.
func (a *agentRun) append(uri []byte, text string) {
	a.pending = jsonuri.AppendEscaped(a.pending[:0], text)
	a.send(tube.Event{Kind: tube.Append, URI: uri, Value: a.pending})
}

// set sets the value at a numbered uri. A string that is set is sent as one that is appended to.
func (a *agentRun) set(name string, number int, value []byte) {
	a.send(tube.Event{Kind: tube.Set, URI: []byte(name + "/" + strconv.Itoa(number)), Value: value})
}

// send sends an event, unless it makes the result too large: then the turn ends.
func (a *agentRun) send(e tube.Event) {
	if a.size += len(e.Value); a.size > a.s.o.MaxResult {
		if !a.large {
			a.large = true
			a.cancel(errTooMuch)
		}
		return
	}
	_, _ = a.m.Tube().Send(e) // a run that has just been canceled takes no more
}

// errTooMuch ends a turn that writes more than a run may.
var errTooMuch = errors.New("the run's result is too large")

// call tells a call of a tool.
func (a *agentRun) call(c tool.Call) {
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	number, known := a.calls[c.ID]
	if !known {
		number = a.told
		a.told++
	}
	a.calls[c.ID] = number
	a.last, a.gap = number, true
	arguments := c.Arguments
	if !json.Valid(arguments) {
		arguments, _ = json.Marshal(string(arguments))
	}
	value, err := rawjson.Marshal(tool.Call{ID: c.ID, Name: c.Name, Arguments: arguments})
	if err != nil {
		return // strings and what was JSON before: cannot be
	}
	a.set("$tools", number, value)
}

// beside tells a source, or an image or a sound.
func (a *agentRun) beside(name string, number int, what any) {
	if value, err := rawjson.Marshal(what); err == nil {
		a.set(name, number, value)
	}
}

// media tells an image or a sound that the model made. Data are kept as a file of the run's caller.
func (a *agentRun) media(m *adapter.Media) {
	made := struct {
		Type  string `json:"type"`
		URL   string `json:"url"`
		Bytes int    `json:"bytes,omitempty"`
	}{m.Type, m.URL, 0}
	if kind, data, ok := adapter.OpenDataURL(m.URL); ok {
		url, err := a.s.o.Files.Keep(a.m.Context(), a.spec.owner, kind, data)
		if url == "" {
			a.m.Report(a.name, bot.MediaFailure(err))
			return
		}
		made.URL, made.Bytes = url, len(data)
	}
	a.beside("$media", a.made, made)
	a.made++
}

// result tells what came of a call. What a tool says of its failure is for the model.
func (a *agentRun) result(r tool.Result) {
	number, ok := a.calls[r.ID]
	if !ok {
		number = a.last
	}
	delete(a.calls, r.ID)
	if r.Err == nil {
		a.set("$tool_results", number, r.Value())
		return
	}
	a.set("$tool_results", number, []byte("null"))
	f := &bot.Failure{Code: codeInternal, Message: "the tool " + r.Name + " has failed", Cause: r.Err}
	switch r.Err.Kind {
	case tool.KindUnknown:
		f.Code, f.Message = codeOutput, "the model called an unknown tool: "+wording.Clip(r.Name)
	case tool.KindArguments:
		f.Code, f.Message = codeOutput, "the model called the tool "+r.Name+" with invalid arguments"
	case tool.KindDenied:
		f.Code, f.Message = codeForbidden, "the tool "+r.Name+" was not allowed to run"
	case tool.KindTimeout:
		f.Message = "the tool " + r.Name + " took too long"
	case tool.KindInterrupted:
		return // with the turn, whose end says so
	}
	a.m.Report(a.name, f)
}

// deny answers a question that nobody can answer (AG-40): the caller gets the document when all is over.
func (a *agentRun) deny(question json.RawMessage) {
	var q agent.Question
	if json.Unmarshal(question, &q) != nil {
		return
	}
	_ = a.s.o.Agents.Answer(context.Background(), agent.Answer{ // an answer that came before is as good
		Turn: a.id, ID: q.ID, Nobody: true, Role: tool.Admin,
	})
}
