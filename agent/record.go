package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

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

// TakeTurn takes a turn over from another process, and returns what the tape has of it. The entry that it writes keeps the other process from
// writing, which may only have stood still. It writes none for a turn that has not begun, or has ended.
func TakeTurn(ctx context.Context, t *tape.Tape, turnID string) (Told, error) {
	told, err := ReadTurn(ctx, t, turnID)
	if err != nil || !told.Begun || told.Ended {
		return told, err
	}
	if _, err := t.Append(ctx, tape.NewEvent(entryResumed, nil).With(tape.Meta{Turn: turnID})); err != nil {
		return told, err
	}
	return ReadTurn(ctx, t, turnID)
}

// WasSteered reports whether a message that came at a time was given to a turn that ran: it is on the tape, and its [tape.Meta] matches.
func WasSteered(ctx context.Context, t *tape.Tape, came time.Time, match func(tape.Meta) bool) (bool, error) {
	for e, err := range t.Read(ctx, tape.Query{Kinds: []tape.Kind{tape.KindMessage}, Newest: true}) {
		if err != nil || e.Date.Before(came.Add(-time.Minute)) { // clocks differ
			return false, err
		}
		if m := tape.MetaOf(e); m.Steered && match(m) {
			return true, nil
		}
	}
	return false, nil
}

// record is what a tape has of a turn.
type record struct {
	Told
	progress                          // of the steps that have ended
	status    string                  // of the end
	failure   error                   // what the turn failed of
	command   command.Reply           // of a turn that is a command
	approvals map[string]decision     // by the question's id
	outcomes  map[int]json.RawMessage // like Results, with what calls failed of
	more      bool                    // the model reads what came after the last step
	now       step                    // has not ended
}

// step is a step whose end is not on the tape.
type step struct {
	replied  bool // the reply is there
	text     string
	calls    int  // index of its first call in Calls
	open     int  // index of its first call that the agent runs
	runs     bool // it has such calls
	anchored bool // the anchor that a tool asked for is there
	asked    time.Time
}

// contentHash identifies what a person has decided about.
func contentHash(name string, arguments json.RawMessage) string {
	return derive("content", name, string(arguments))
}

func (d decision) approved() bool { return d.Decision == "approve" }

// readRecord reads the entries of a turn, from the end of the tape back to the turn's first.
func readRecord(ctx context.Context, t *tape.Tape, id string) (*record, error) {
	r := &record{approvals: map[string]decision{}, outcomes: map[int]json.RawMessage{}}
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
			if decode[struct{ Turn string }](data).Turn == id {
				r.Ended, r.status = true, StatusCanceled
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
	p := tape.PayloadOf(e)
	text := decode[string](p.Content)               // parts are no text
	if tape.MetaOf(e).Partial && r.failure == nil { // the turn was about to end
		r.failure = turn.ErrStopped
	}
	switch e.Kind {
	case tape.KindEvent:
		r.event(p.Name, p.Data)
	case tape.KindMessage:
		if p.Role != adapter.Assistant {
			r.ask(e)
			return
		}
		r.reply(text)
		r.now.runs = false
	case tape.KindReasoning:
		r.Reasoning += text
	case tape.KindToolCall:
		r.reply(text)
		r.now.open, r.now.runs, r.now.asked = len(r.Calls), true, e.Date
		for _, c := range p.ToolCalls() {
			r.Calls = append(r.Calls, tool.Call{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
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
		r.failure = &turn.EventError{Code: p.Kind, Message: p.Message}
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
		r.outcomes[i] = value
		var failed struct{ Error *tool.Error }
		if bytes.HasPrefix(value, []byte(`{"error":{"kind":`)) && json.Unmarshal(value, &failed) == nil {
			value = json.RawMessage("null")
		}
		r.Results[i] = value
		return
	}
}

// decode reads a value of the tape. What cannot be read is zero: it says nothing.
func decode[V any](data json.RawMessage) (v V) {
	_ = json.Unmarshal(data, &v)
	return v
}

// event adds an event.
func (r *record) event(name string, data json.RawMessage) {
	switch name {
	case entryStart:
		r.Begun = true
	case entryEnd:
		r.Ended, r.status = true, decode[Ended](data).Status
	case entryCommand:
		r.Begun, r.Ended = true, true
		r.command = decode[command.Reply](data)
		r.Text = r.command.Output
	case entryCitations:
		r.Citations += len(decode[[]json.RawMessage](data))
	case entryMedia:
		r.Media += len(decode[[]json.RawMessage](data))
	case entryApproval:
		d := decode[decision](data)
		r.approvals[d.ID] = d
	case entryStep:
		d := decode[stepped](data)
		if d.Usage != nil {
			r.usage = *d.Usage
		}
		if d.Status == statusAutoHandoff {
			return
		}
		r.steps, r.finish, r.text = d.Step, d.Finish, r.now.text
		r.more, r.begun = r.now.runs, r.now.anchored
		r.now = step{calls: len(r.Calls), open: len(r.Calls)}
	}
}

// approved reports whether a person has approved this call, with these arguments: a hook may change them differently this time.
func (r *record) approved(name string, c tool.Call) bool {
	if r == nil {
		return false
	}
	d := r.approvals[questionID(c.Key, 0)]
	return d.approved() && d.Content == contentHash(name, c.Arguments)
}

// outcome returns the error of a turn that has ended.
func (r *record) outcome() error {
	switch {
	case r.status == StatusOK:
		return nil
	case r.status == StatusCanceled:
		return turn.ErrStopped
	case r.failure != nil:
		return r.failure
	}
	return &turn.EventError{Code: turn.CodeInternal, Message: "agent: the turn has failed"}
}

// nextQuestion returns the id of the next question whether a call runs again; denied reports whether a person has denied that before.
func (r *record) nextQuestion(key string) (id string, denied bool) {
	for n := 1; ; n++ {
		id = questionID(key, n)
		if answer, answered := r.approvals[id]; !answered || !answer.approved() {
			return id, answered
		}
	}
}

// paragraphs are kept apart by empty lines: the texts of two steps are two paragraphs. Without an empty line, the last word before a tool was
// called and the first word behind it would be read as one.
type paragraphs struct {
	spoke    int // the last step with more than line breaks
	newlines int // at the end of the text
}

// add adds text of a step. It returns the line breaks that are missing before the text; what they are does not depend on its pieces.
func (p *paragraphs) add(step int, text string) (gap string) {
	words := strings.TrimLeft(text, "\n")
	p.newlines += len(text) - len(words)
	if words == "" {
		return ""
	}
	if p.spoke != 0 && p.spoke != step {
		gap = "\n\n"[:max(0, 2-p.newlines)]
	}
	p.spoke = step
	p.newlines = len(words) - len(strings.TrimRight(words, "\n"))
	return gap
}
