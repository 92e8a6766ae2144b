package agent

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// derive returns 26 lower-case letters and digits, 130 bits of a hash of the parts.
func derive(parts ...any) string {
	sum := sha256.Sum256(encode(parts))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
}

// callKey returns the key of the call at an index of this step, see [tool.Key].
func (r *run) callKey(index int) string { return derive("call", r.scope, r.steps, index) }

// questionID returns the id of the question about a call: 0 whether it may run, n > 0 whether it may run for the nth time after a crash.
func questionID(key string, n int) string { return derive("question", key, n) }

// resume ends the step that another process has not ended. over reports whether the turn has its answer.
func (r *run) resume() (over bool, err error) {
	p := r.past
	if p == nil {
		return false, nil
	}
	if p.failure != nil {
		return false, p.failure
	}
	more := p.more || p.steps == 0
	if p.now.replied {
		r.steps++
		r.text, r.finish, more = p.now.text, p.now.finish(), p.now.runs
		if err := r.resumeCalls(); err != nil {
			return false, err
		}
	}
	if r.ctx.Err() != nil {
		return false, context.Cause(r.ctx)
	}
	return !more && (r.inbox == nil || r.inbox.CloseIfEmpty()), nil
}

// resumeCalls gives each call of the step a result, and ends the step.
func (r *run) resumeCalls() error {
	p := r.past
	settings, err := r.tape.Settings(r.ctx)
	if err != nil {
		return err
	}
	var calls []tool.Call
	r.asks = map[string]string{}
	for i := p.now.open; i < len(p.Calls); i++ {
		c := p.Calls[i]
		c.Key, c.Asked = r.callKey(i-p.now.open), p.now.asked
		if result, there := p.Results[i]; there {
			r.restoreHandoff(c, result)
			continue
		}
		t, _ := r.agent.tools.Find(c.Name)
		if failure := r.resumeCall(t, c, settings); failure != nil {
			res, err := r.writeResult(tool.Result{ID: c.ID, Name: c.Name, Err: failure})
			if err != nil {
				return err
			}
			r.emit(turn.Event{Kind: turn.ToolResultEvent, Results: []tool.Result{res}})
			continue
		}
		if r.asks[c.Key] != "" { // by a new question
			c.Asked = time.Time{}
		}
		calls = append(calls, c)
	}
	if err := r.finishStep(&reply{finish: p.now.finish()}, r.tools(), calls); err != nil {
		return err
	}
	r.begun = r.begun || p.now.anchored
	return nil
}

// resumeCall returns the error of a call without a result, or nil if the call is to run: it has not begun, it may run twice, or a person is to be
// asked if it runs again. t is nil for a tool that is unknown; it may have been known before.
func (r *run) resumeCall(t *tool.Tool, c tool.Call, settings map[string]json.RawMessage) *tool.Error {
	answer, answered := r.past.approvals[questionID(c.Key, 0)]
	if answered && !answer.approved() {
		return answer.denial(answer.By != "" || answer.Reason == "")
	}
	if t == nil {
		return unknownOutcome()
	}
	waits := r.agent.needsApproval(t) && !answered && !remembers(settings[settingApproval+t.Name], r.agent.fingerprint(t, r.session))
	if waits || t.Idempotent {
		return nil
	}
	question, denied := r.past.nextQuestion(c.Key)
	if denied || !r.agent.options.AskUnknown {
		return unknownOutcome()
	}
	r.asks[c.Key] = question
	return nil
}

// finish is why the reply ended, as far as the tape says.
func (s step) finish() string {
	if s.runs {
		return adapter.FinishToolCalls
	}
	return adapter.FinishStop
}

// restoreHandoff restores the anchor that a call has asked for, unless it is on the tape.
func (r *run) restoreHandoff(c tool.Call, result json.RawMessage) {
	if r.past.now.anchored || string(result) == "null" || !tool.Named("tape.handoff", c.Name) {
		return
	}
	var in tapeHandoffIn
	if json.Unmarshal(c.Arguments, &in) == nil && !r.begun {
		r.handoff = in.handoff()
	}
}

// denial is the error of a call that was denied, by a person or for want of one.
func (d decision) denial(byPerson bool) *tool.Error {
	message := "the call was not run"
	if byPerson {
		message = "a person denied the call"
	}
	if d.Reason != "" {
		message += ": " + d.Reason
	}
	return &tool.Error{Kind: tool.KindDenied, Message: message}
}

// unknownOutcome is the error of a call that was running when the server stopped.
func unknownOutcome() *tool.Error {
	return &tool.Error{
		Kind:    tool.KindUnknownOutcome,
		Message: "the server stopped while the tool ran, so the outcome is unknown: the call may have had its effect",
	}
}
