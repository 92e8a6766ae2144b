package aisdk

import (
	"bytes"
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
	questions []*question // those that are data parts, as they came
	early     []*question // of a snapshot, which has them before their calls
}

// question is a question for approval.
type question struct {
	ID, Call, Subagent string
	Arguments          json.RawMessage

	n       uint64 // of its event
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

// wait ends the stream if nothing can happen before the client has answered. It is called where that may have become true.
func (e *Encoder) wait(dst []byte) []byte {
	if len(e.pending) == 0 || slices.ContainsFunc(e.pending, func(c *call) bool { return !c.asked }) {
		return dst
	}
	e.over = true
	dst = e.endStep(e.closeAll(dst))
	dst = e.finished(dst, "tool-calls", nil)
	return append(dst, done...)
}

// appendRequired appends the question of an event, or stores it until its call is there.
func (e *Encoder) appendRequired(dst []byte, ev tube.Event) []byte {
	q := &question{n: ev.N, data: bytes.Clone(ev.Value)}
	if json.Unmarshal(q.data, q) != nil {
		return dst
	}
	if ev.Part {
		e.dropEarly(q.ID) // a run asks again after a restart of the server
		e.early = append(e.early, q)
		return dst
	}
	return e.appendQuestion(dst, q)
}

// appendQuestion asks the client to approve a call.
func (e *Encoder) appendQuestion(dst []byte, q *question) []byte {
	isOf := func(c *call) bool { return c.real == q.Call && !c.asked }
	i := slices.IndexFunc(e.pending, isOf)
	if e.o.Version < Version6 || q.Subagent != "" || i < 0 {
		e.questions = append(e.questions, q)
		return e.appendApproval(dst, q, nil)
	}
	c := e.pending[i]
	c.question, c.undecided = q.ID, true
	c.asked = e.o.Answered == nil || !e.o.Answered(q.n, q.ID)
	if !rawjson.Same(q.Arguments, c.input) { // a hook has changed them: the client shows what will run
		dst = c.appendInput(dst, q.Arguments)
	}
	return e.wait(frame.Chunk(dst, "tool-approval-request", "approvalId", c.question, "toolCallId", c.id))
}

// dropEarly removes the early question of an id, and reports whether there was one.
func (e *Encoder) dropEarly(id string) bool {
	n := len(e.early)
	e.early = slices.DeleteFunc(e.early, func(q *question) bool { return q.ID == id })
	return len(e.early) < n
}

// appendEarly appends the early questions after their calls.
func (e *Encoder) appendEarly(dst []byte) []byte {
	early := e.early
	e.early = nil
	for _, q := range early {
		dst = e.appendQuestion(e.open(dst, ""), q)
	}
	return dst
}

// appendApproval appends a question that is a data part, with what was decided.
func (e *Encoder) appendApproval(dst []byte, q *question, decision []byte) []byte {
	dst = append(frame.Text(frame.Begin(dst, "data-approval"), "id", q.ID), `,"data":{"run":`...)
	dst = frame.Quote(dst, e.o.Run)
	for i, object := range [][]byte{q.data, decision} {
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
	var d struct{ ID, Decision, Reason string }
	if json.Unmarshal(data, &d) != nil || e.dropEarly(d.ID) {
		return dst // the call's result says it
	}
	for _, q := range e.questions {
		if q.ID == d.ID && !q.decided {
			q.decided = true
			return e.appendApproval(dst, q, data)
		}
	}
	i := slices.IndexFunc(e.pending, func(c *call) bool { return c.question == d.ID && c.undecided })
	if i < 0 {
		return dst
	}
	c := e.pending[i]
	c.asked, c.undecided, c.deny = false, false, d.Decision != "approve"
	if e.o.Version < Version7 { // an older one knows what itself has answered, and no more
		return dst
	}
	dst = frame.Text(frame.Begin(dst, "tool-approval-response"), "approvalId", c.question)
	dst = frame.Member(dst, "approved", strconv.FormatBool(!c.deny))
	if why := reasons[d.Reason]; why != "" {
		dst = frame.Text(dst, "reason", why)
	}
	return frame.End(dst)
}

// reasons are the texts for calls without a decision.
var reasons = map[string]string{
	"timeout":    "no answer came in time",
	"unattended": "the platform had no person to answer",
	"ended":      "the answer ended before",
}
