package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/tape"
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

// Told is what a tape has of a turn: what its readers were told by replies that are written, and by results.
type Told struct {
	Begun, Ended bool
	Text         string // of all replies, as the turn's text events have it together
	Reasoning    string
	Calls        []tool.Call
	Results      map[int]json.RawMessage // by the index of the call; null if it failed
	Citations    int
	Media        int
	Failure      error // of a turn that has ended
}

// ReadTurn reads what a tape has of a turn.
func ReadTurn(ctx context.Context, t *tape.Tape, turnID string) (Told, error) {
	r, err := readRecord(ctx, t, turnID)
	return r.Told, err
}

// record is what a tape has of a turn.
type record struct {
	Told
	status     string              // of the end
	failure    error               // what the turn failed of
	command    command.Reply       // of a turn that is a command
	asked      []tape.Entry        // the prompt and what was steered
	approvals  map[string]decision // by the question's id
	steps      int                 // that have ended
	text       string              // of the last of them
	finish     string              // of the last of them
	more       bool                // the model reads what came after it
	begun      bool                // it has ended with an anchor that a tool asked for
	handoffs   int                 // because a model refused a request
	paragraphs                     // of Text
	now        step                // has not ended
}

// step is a step whose end is not on the tape.
type step struct {
	replied  bool // the reply is there
	text     string
	calls    int  // index of its first call in Calls
	open     int  // index of its first call that the agent runs
	runs     bool // it has such calls
	anchored bool // the anchor that a tool asked for is there
}

// decision is the data of an event entry of an approval.
type decision struct{ ID, Decision, By, Reason string }

func (d decision) approved() bool { return d.Decision == "approve" }

// readRecord reads the entries of a turn, from the end of the tape back to the turn's first.
func readRecord(ctx context.Context, t *tape.Tape, id string) (*record, error) {
	r := &record{approvals: map[string]decision{}}
	r.Results = map[int]json.RawMessage{}
	var entries []tape.Entry
	for e, err := range t.Read(ctx, tape.Query{Newest: true}) {
		if err != nil {
			return r, err
		}
		var name string
		var data json.RawMessage
		if e.Kind == tape.KindEvent {
			name, data = eventOf(e)
		}
		if name == entryAborted { // by a later turn
			var d struct{ Turn string }
			if _ = json.Unmarshal(data, &d); d.Turn == id {
				r.Ended, r.status = true, statusCanceled
			}
			continue
		}
		if !bytes.Contains(e.Meta, []byte(id)) || tape.MetaOf(e).Turn != id {
			continue
		}
		entries = append(entries, e)
		if name == entryStart || name == entryCommand {
			break
		}
	}
	for _, e := range slices.Backward(entries) {
		r.add(e)
	}
	if r.Ended {
		r.Failure = r.outcome()
	}
	return r, nil
}

// add adds the next entry of the turn.
func (r *record) add(e tape.Entry) {
	var p struct {
		Role, Kind, Message string
		Content             json.RawMessage
		Calls               []tape.Call
		IDs                 []string
		Results             []json.RawMessage
	}
	_ = json.Unmarshal(e.Payload, &p) // what cannot be read says nothing
	var text string
	_ = json.Unmarshal(p.Content, &text) // parts are no text
	switch e.Kind {
	case tape.KindEvent:
		r.event(eventOf(e))
	case tape.KindMessage:
		if p.Role != adapter.Assistant {
			r.ask(e)
			return
		}
		r.reply(text)
		r.now.runs = false
		if tape.MetaOf(e).Partial && r.failure == nil { // the turn was about to end
			r.failure = turn.ErrStopped
		}
	case tape.KindReasoning:
		r.Reasoning += text
	case tape.KindToolCall:
		r.reply(text)
		r.now.open, r.now.runs = len(r.Calls), true
		for _, c := range p.Calls {
			r.Calls = append(r.Calls, tool.Call{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
		}
		if tape.MetaOf(e).Partial && r.failure == nil {
			r.failure = turn.ErrStopped
		}
	case tape.KindToolResult:
		for i, result := range p.Results {
			if i < len(p.IDs) {
				r.result(p.IDs[i], result)
			}
		}
	case tape.KindAnchor:
		if r.now.replied {
			r.now.anchored = true
		} else if tape.AnchorOf(e).Name == anchorOverflow {
			r.handoffs++
		}
	case tape.KindError:
		r.failure = &codedError{p.Kind, p.Message}
	}
}

// ask adds a message of the user, unless it repeats one behind an anchor.
func (r *record) ask(e tape.Entry) {
	refs := tape.MetaOf(e).Refs
	if slices.ContainsFunc(r.asked, func(o tape.Entry) bool { return slices.Contains(refs, o.ID) }) {
		return
	}
	r.more = r.more || len(r.asked) > 0
	r.asked = append(r.asked, e)
}

// reply adds the text of a reply.
func (r *record) reply(text string) {
	r.now.replied, r.now.text = true, text
	if text != "" {
		r.Text += r.paragraphs.add(r.steps+1, text) + text
	}
}

// result adds the result of a call of this step.
func (r *record) result(id string, value json.RawMessage) {
	for i := r.now.calls; i < len(r.Calls); i++ {
		if _, there := r.Results[i]; r.Calls[i].ID != id || there {
			continue
		}
		var failed struct{ Error *tool.Error }
		if bytes.HasPrefix(value, []byte(`{"error":{"kind":`)) && json.Unmarshal(value, &failed) == nil {
			value = json.RawMessage("null")
		}
		r.Results[i] = value
		return
	}
}

// event adds an event.
func (r *record) event(name string, data json.RawMessage) {
	var list []json.RawMessage
	switch name {
	case entryStart:
		r.Begun = true
	case entryEnd:
		var d ended
		_ = json.Unmarshal(data, &d)
		r.Ended, r.status = true, d.Status
	case entryCommand:
		r.Begun, r.Ended = true, true
		_ = json.Unmarshal(data, &r.command)
		r.Text = r.command.Output
	case entryCitations:
		_ = json.Unmarshal(data, &list)
		r.Citations += len(list)
	case entryMedia:
		_ = json.Unmarshal(data, &list)
		r.Media += len(list)
	case entryApproval:
		var d decision
		_ = json.Unmarshal(data, &d)
		r.approvals[d.ID] = d
	case entryStep:
		var d stepped
		if _ = json.Unmarshal(data, &d); d.Status == statusAutoHandoff {
			return
		}
		r.steps, r.finish, r.text = d.Step, d.Finish, r.now.text
		r.more, r.begun = r.now.runs, r.now.anchored
		r.now = step{calls: len(r.Calls)}
	}
}

// approved reports whether a person has approved exactly this call.
func (r *record) approved(c tool.Call) bool {
	if r == nil || !r.approvals[questionID(c.Key, 0)].approved() {
		return false
	}
	// A hook that has changed the arguments may do it otherwise this time.
	return slices.ContainsFunc(r.Calls[r.now.calls:], func(o tool.Call) bool { return o.ID == c.ID && bytes.Equal(o.Arguments, c.Arguments) })
}

// outcome returns the error of a turn that has ended.
func (r *record) outcome() error {
	switch {
	case r.status == statusOK:
		return nil
	case r.status == statusCanceled:
		return turn.ErrStopped
	case r.failure != nil:
		return r.failure
	}
	return &codedError{turn.CodeInternal, "agent: the turn has failed"}
}

// restore takes over what another process has done of the turn.
func (r *run) restore(p *record) {
	if !p.Begun {
		return
	}
	r.past = p
	r.asked, r.steps, r.text, r.finish = p.asked, p.steps, p.text, p.finish
	r.handoffs, r.begun, r.paragraphs = p.handoffs, p.begun, p.paragraphs
}

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
		r.text, more = p.now.text, p.now.runs
		if err := r.resumeCalls(); err != nil {
			return false, err
		}
	}
	switch {
	case r.left:
		return false, errLeft
	case r.ctx.Err() != nil:
		return false, context.Cause(r.ctx)
	}
	return !more && (r.inbox == nil || r.inbox.CloseIfEmpty()), nil
}

// resumeCalls gives each call of the step a result. A call that another process has begun runs again if its tool is idempotent.
func (r *run) resumeCalls() error {
	p := r.past
	r.asks = map[string]string{}
	repeats := map[string]bool{} // tools whose calls are to be asked about
	var calls []tool.Call
	settings, err := r.tape.Settings(r.ctx)
	if err != nil {
		return err
	}
	for i := p.now.open; i < len(p.Calls); i++ {
		c := p.Calls[i]
		c.Key = r.callKey(i - p.now.open)
		if result, there := p.Results[i]; there {
			r.restoreHandoff(c, result)
			continue
		}
		t, known := r.agent.tools.Find(c.Name)
		answer, answered := p.approvals[questionID(c.Key, 0)]
		asks := known && t.Approval == tool.Always && !remembers(settings[settingApproval+t.Name], r.agent.fingerprint(t, r.session))
		var fails *tool.Error
		switch {
		case answered && !answer.approved():
			fails = answer.denial()
		case known && (asks && !answered || t.Idempotent):
			calls = append(calls, c)
		case known && r.agent.options.AskUnknown:
			if id, ask := p.nextQuestion(c.Key); ask {
				r.asks[c.Key], repeats[t.Name] = id, true
				calls = append(calls, c)
				break
			}
			fallthrough
		default: // a tool that is unknown now may have run before
			fails = unknownOutcome()
		}
		if fails == nil {
			continue
		}
		res, err := r.writeResult(tool.Result{ID: c.ID, Name: c.Name, Err: fails})
		if err != nil {
			return err
		}
		r.emit(turn.Event{Kind: turn.ToolResultEvent, Results: []tool.Result{res}})
	}
	tools := slices.Clone(r.tools())
	for i, t := range tools {
		if repeats[t.Name] {
			tools[i] = t.With(tool.WithApproval(tool.Always))
		}
	}
	if err := r.finishStep(&reply{finish: p.now.finish()}, tools, calls); err != nil {
		return err
	}
	r.begun = r.begun || p.now.anchored
	return nil
}

// finish is why the reply ended, as far as the tape says.
func (s step) finish() string {
	if s.runs {
		return adapter.FinishToolCalls
	}
	return adapter.FinishStop
}

// nextQuestion returns the id of the question whether a call runs again; false if a person has denied that before.
func (r *record) nextQuestion(key string) (id string, ask bool) {
	for n := 1; ; n++ {
		id = questionID(key, n)
		answer, answered := r.approvals[id]
		if !answered || !answer.approved() {
			return id, !answered
		}
	}
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

// denial is the error of a call that was denied.
func (d decision) denial() *tool.Error {
	message := "a person denied the call"
	switch {
	case d.By == "" && d.Reason != "":
		message = "the call was not run: " + d.Reason
	case d.Reason != "":
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
