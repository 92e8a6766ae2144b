package aisdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Calls that a person has to approve. From version 6 on, a client knows of them: it gets a request for approval, its stream ends, and it
// sends the answers in its message. Clients of version 5 know nothing of that. They get a data part, and answer it with another request
// while the stream goes on. All clients get a data part for a call that they have not seen, such as a subagent's.

// approvals are the questions of a stream.
type approvals struct {
	over      bool
	questions []*asked     // questions that are data parts, as they came
	early     []tube.Event // questions of a snapshot, which has them before their calls
}

// asked is a question that is a data part.
type asked struct {
	id      string
	data    []byte // of its event
	decided bool
}

// Over says that the stream ends here, although the run may go on: the client has to answer what was asked.
func (e *Encoder) Over() bool { return e.over }

// Questions returns the ids of the questions that the client has to answer.
func (e *Encoder) Questions() (ids []string) {
	for _, c := range e.pending {
		if c.asked {
			ids = append(ids, c.question)
		}
	}
	return ids
}

// Continue lets a stream that was over go on, for the client that has answered the questions of these ids. What follows is another
// stream, whose chunks continue the message that the client has.
func (e *Encoder) Continue(ids ...string) {
	for _, c := range e.pending {
		if slices.Contains(ids, c.question) {
			c.asked = false
		}
	}
	e.over, e.began = false, false
}

// waiting says whether nothing can happen before the client has answered.
func (e *Encoder) waiting() bool {
	for _, c := range e.pending {
		if !c.asked {
			return false
		}
	}
	return len(e.pending) > 0
}

// wait ends the stream where nothing can happen before the client has answered. It is called where that may have become true.
func (e *Encoder) wait(dst []byte) []byte {
	if !e.waiting() {
		return dst
	}
	e.over = true
	dst = e.endStep(e.closeAll(dst))
	dst = e.finished(dst, "tool-calls", nil)
	return append(dst, done...)
}

// appendQuestion asks the client to approve a call.
func (e *Encoder) appendQuestion(dst []byte, ev tube.Event) []byte {
	var q struct {
		ID, Call, Subagent string
		Arguments          json.RawMessage
	}
	if json.Unmarshal(ev.Value, &q) != nil {
		return dst
	}
	if ev.Part {
		e.dropEarly(q.ID) // a run asks again after a restart of the server
		ev.Value, ev.Part = bytes.Clone(ev.Value), false
		e.early = append(e.early, ev)
		return dst
	}
	if e.o.Version >= Version6 && q.Subagent == "" {
		for _, c := range e.pending {
			if c.real == q.Call && !c.asked {
				c.question, c.undecided = q.ID, true
				c.asked = e.o.Answered == nil || !e.o.Answered(ev.N, q.ID)
				if !rawjson.Same(q.Arguments, c.input) { // a hook has changed them: the client shows what will run
					dst = c.appendInput(dst, q.Arguments)
				}
				return e.wait(frame.Chunk(dst, "tool-approval-request", "approvalId", c.question, "toolCallId", c.id))
			}
		}
	}
	a := &asked{id: q.ID, data: bytes.Clone(ev.Value)}
	e.questions = append(e.questions, a)
	return e.ask(dst, a, nil)
}

// dropEarly removes the early question of an id, and reports whether there was one.
func (e *Encoder) dropEarly(id string) bool {
	n := len(e.early)
	e.early = slices.DeleteFunc(e.early, func(ev tube.Event) bool {
		var q struct{ ID string }
		return json.Unmarshal(ev.Value, &q) == nil && q.ID == id
	})
	return len(e.early) < n
}

// appendEarly appends the early questions after their calls.
func (e *Encoder) appendEarly(dst []byte) []byte {
	early := e.early
	e.early = nil
	dst = e.open(dst, "")
	for _, ev := range early {
		dst = e.appendQuestion(dst, ev)
	}
	return dst
}

// ask sends a question that is a data part, or what was decided.
func (e *Encoder) ask(dst []byte, a *asked, decision []byte) []byte {
	dst = append(frame.Text(frame.Begin(dst, "data-approval"), "id", a.id), `,"data":{"run":`...)
	dst = frame.Quote(dst, e.o.Run)
	for i, object := range [][]byte{a.data, decision} {
		for name, value := range rawjson.Members(object) {
			if name == "run" || i > 0 && (name == "id" || name == "call" || name == "subagent") {
				continue
			}
			dst = append(append(frame.Quote(append(dst, ','), name), ':'), value...)
		}
	}
	return frame.End(append(dst, '}'))
}

// appendDecision appends what was decided about a call.
func (e *Encoder) appendDecision(dst, data []byte) []byte {
	var r struct{ ID, Call, Decision, Reason string }
	if json.Unmarshal(data, &r) != nil {
		return dst
	}
	r.ID = cmp.Or(r.ID, r.Call)
	if e.dropEarly(r.ID) {
		return dst // the call's result says it
	}
	for _, a := range e.questions {
		if a.id == r.ID && !a.decided {
			a.decided = true
			return e.ask(dst, a, data)
		}
	}
	for _, c := range e.pending {
		if c.question != r.ID || !c.undecided {
			continue
		}
		c.asked, c.undecided, c.deny = false, false, r.Decision != "approve"
		if e.o.Version < Version7 { // an older one knows what itself has answered, and no more
			return dst
		}
		dst = frame.Text(frame.Begin(dst, "tool-approval-response"), "approvalId", c.question)
		dst = frame.Member(dst, "approved", strconv.FormatBool(!c.deny))
		if why := reasons[r.Reason]; why != "" {
			dst = frame.Text(dst, "reason", why)
		}
		return frame.End(dst)
	}
	return dst
}

// reasons are the texts for calls without a decision.
var reasons = map[string]string{
	"timeout":    "no answer came in time",
	"unattended": "the platform had no person to answer",
	"ended":      "the answer ended before",
}
