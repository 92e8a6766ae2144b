package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Errors of [Agent.Answer].
var (
	ErrNoQuestion = errors.New("agent: unknown question, or it is no longer open")
	ErrAnswered   = errors.New("agent: the question was already answered, or its time is over")
	ErrRole       = errors.New("agent: your role may not approve this tool; ask an operator or admin")
	// ErrNotWritten says that the decision may be lost: the question may be asked again.
	ErrNotWritten = errors.New("agent: the decision could not be written")
)

// Question asks a person whether one call may run. It is the value of an approval_required event.
type Question struct {
	Session string `json:"-"`
	Turn    string `json:"-"`
	// ID names the question in every answer. It is derived from the key of the call: the same after a restart, and unlike the model's ids never
	// that of another call.
	ID        string          `json:"id"`
	Call      string          `json:"call"`               // the model's id of the call, for display
	Subagent  string          `json:"subagent,omitempty"` // the id of the call whose subagent makes this call; "" is the turn's own call
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // as they will be used
	Expires   time.Time       `json:"expires"`
	Repeat    bool            `json:"repeat,omitempty"` // the call was running when the server stopped, and may have had its effect
	Role      tool.Role       `json:"-"`                // that an answer needs
	grant     string          // the fingerprint of the tool
	answer    chan Answer     // takes one
	written   chan error      // takes the outcome of writing the decision to the tape
	over      bool            // it was answered, or ran out of time
}

// notify sends the outcome of writing the decision to the person who answered.
func (q *Question) notify(err error) {
	select {
	case q.written <- err:
	default: // it was sent before
	}
}

// ReadQuestionID returns the id as the server writes it; false if text is no id of a question. Case does not matter, because people type it.
func ReadQuestionID(text string) (id string, ok bool) {
	id = strings.ToLower(text)
	ok = len(text) == 26 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
	return id, ok
}

// Answer is a person's decision about a question. The caller makes sure that they may write to the session.
type Answer struct {
	// Session and Turn say where the question was asked; one of them is enough.
	Session, Turn string
	ID            string // of the question
	Approve       bool
	NoPerson      bool   // no person can decide, as Reason says: the answer is a denial
	Reason        string // for a denial, told to the model
	Remember      bool   // also approve later calls of the tool in this session
	By            string // who, for the tape
	Name          string // the same for people; "" is By
	Role          tool.Role
}

// maxAnswered is how many answered questions are remembered. A second answer to one of them gets ErrAnswered and not ErrNoQuestion.
const maxAnswered = 1024

// questions are the calls that wait for approval. The zero value is ready.
type questions struct {
	mu   sync.Mutex
	list []*Question // those that are open, and the last ones that are over; oldest first
}

// fits reports whether an answer is for this question.
func (q *Question) fits(a *Answer) bool {
	return q.ID == a.ID && (a.Session != "" || a.Turn != "") &&
		(a.Session == "" || q.Session == a.Session) && (a.Turn == "" || q.Turn == a.Turn)
}

// ask opens a question. The oldest one that is over is forgotten if there are too many.
func (qs *questions) ask(q *Question) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if over := slices.IndexFunc(qs.list, func(o *Question) bool { return o.over }); over >= 0 && len(qs.list) >= maxAnswered {
		qs.list = slices.Delete(qs.list, over, over+1)
	}
	qs.list = append(qs.list, q)
}

// close ends a question, and forgets it if another process asks it now. It returns false if the question was over before.
func (qs *questions) close(q *Question, forget bool) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if forget {
		qs.list = slices.DeleteFunc(qs.list, func(o *Question) bool { return o == q })
	}
	wasOver := q.over
	q.over = true
	return !wasOver
}

// answer gives an answer to the question it is for, and returns the question.
func (qs *questions) answer(a Answer) (*Question, error) {
	if id, ok := ReadQuestionID(a.ID); ok {
		a.ID = id
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range slices.Backward(qs.list) {
		switch {
		case !q.fits(&a):
			continue
		case q.over:
			return nil, ErrAnswered
		case a.Role < q.Role:
			return nil, ErrRole
		}
		q.over = true
		q.answer <- a // there is room: each question ends once
		return q, nil
	}
	return nil, ErrNoQuestion
}

// open returns the questions that wait in a session, oldest first; "" is any session.
func (qs *questions) open(session string) (list []Question) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.list {
		if !q.over && (session == "" || q.Session == session) {
			list = append(list, *q)
		}
	}
	return list
}

// Answer gives a person's decision to the question that waits for it. It returns when the tape has the decision; the call goes on in its turn.
// Errors are [ErrNoQuestion], [ErrAnswered], [ErrRole] and [ErrNotWritten].
func (a *Agent) Answer(ctx context.Context, answer Answer) error {
	answer.Reason = oneLine(strings.TrimSpace(answer.Reason), 300)
	q, err := a.questions.answer(answer)
	if err != nil {
		return err
	}
	select {
	case err := <-q.written:
		if err != nil && !errors.Is(err, ErrAnswered) {
			err = fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ShareQuestions lets the agent know the questions of another one, and the other way round: each can answer all of them. It must be
// called before any turn.
func (a *Agent) ShareQuestions(other *Agent) { a.questions = other.questions }

// Questions lists the calls of a session that wait for approval, oldest first.
func (a *Agent) Questions(session string) []Question { return a.questions.open(session) }

// Waiting is how many calls wait for approval, in all sessions.
func (a *Agent) Waiting() int { return len(a.questions.open("")) }

// settingApproval begins the names of the settings that remember an approval.
const settingApproval = "approval."

// fingerprint identifies what a person approves when they approve a tool for the session: a changed tool has another one, as has the tool of
// another agent, or in a fork of the session. It is the value of such a setting.
func (a *Agent) fingerprint(t *tool.Tool, session string) string {
	return derive("tool", t.Name, t.Description, t.Parameters(), t.Role, a.options.Name, session)
}

// remembers reports whether the setting of a tool approves the tool as it is now.
func remembers(setting json.RawMessage, fingerprint string) bool {
	var granted string
	return json.Unmarshal(setting, &granted) == nil && granted == fingerprint
}

// Remembered lists the tools that were approved for the session of a tape.
func (a *Agent) Remembered(ctx context.Context, t *tape.Tape) ([]string, error) {
	settings, err := t.Settings(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, one := range a.tools.Tools() {
		if remembers(settings[settingApproval+one.Name], a.fingerprint(one, t.Session())) {
			names = append(names, one.Name)
		}
	}
	return names, nil
}

// approve asks the reader of the turn, or the chat, whether a call may run. The error is the denial.
func (a *Agent) approve(ctx context.Context, t *tool.Tool, c tool.Call) error {
	of := runOf(ctx)
	r := of.root()
	settings, err := r.tape.Settings(r.ctx) // the time of a question that is asked again may be over
	if err != nil {
		return err
	}
	grant := a.fingerprint(t, r.session)
	id := r.asks[c.Key]
	repeat := id != ""
	if !repeat {
		if remembers(settings[settingApproval+t.Name], grant) || r.past.approved(t.Name, c) {
			return nil
		}
		id = questionID(c.Key, 0)
	}
	expires, _ := ctx.Deadline()
	question := &Question{
		Session: r.session, Turn: r.id, ID: id, Call: c.ID, Subagent: of.of, Tool: t.Name, Arguments: c.Arguments, Expires: expires,
		Repeat: repeat, Role: t.Role, grant: grant,
		answer: make(chan Answer, 1), written: make(chan error, 1),
	}
	if by := r.turn.Envelope().Approver; by != nil && (by.None || by.Role < t.Role) {
		return r.decided(ctx, question, Answer{NoPerson: true}, "")
	}
	a.questions.ask(question)
	defer func() {
		a.questions.close(question, false)
		question.Arguments = nil         // the question is remembered without them
		question.notify(turn.ErrStopped) // for who has answered a turn that has panicked
	}()
	if why := r.put(ctx, question); why != "" {
		return r.decided(ctx, question, Answer{NoPerson: true, Reason: why}, "")
	}
	select {
	case answer := <-question.answer:
		return r.decided(ctx, question, answer, "")
	case <-ctx.Done():
	}
	if answered := !a.questions.close(question, r.handedOver()); answered && !r.handedOver() { // at the same moment, too late
		<-question.answer
		question.notify(ErrAnswered)
	}
	if r.ctx.Err() != nil {
		return r.decided(ctx, question, Answer{Reason: "the turn ended"}, ReasonEnded)
	}
	return r.decided(ctx, question, Answer{Reason: "no answer came in time"}, ReasonTimeout)
}

// Reasons of an approval_resolved event without a decision of a person.
const (
	ReasonTimeout    = "timeout"
	ReasonUnattended = "unattended" // no person could decide
	ReasonEnded      = "ended"      // the turn ended
)

// noApprover is the reason of a denial if no person can decide.
const noApprover = "this conversation has no approver"

// put asks a question. If no person can answer it, it returns the reason.
func (r *run) put(ctx context.Context, q *Question) (why string) {
	if r.turn.Streaming() {
		runOf(ctx).emitFromTool(ctx, turn.Event{Kind: ApprovalRequiredEvent, Value: encode(q)})
		return ""
	}
	e := r.turn.Envelope()
	if e.ChatID == "" {
		return noApprover
	}
	arguments, _, _ := q.Shown()
	text, ok := q.Text()
	if !ok || !FitsMessage(arguments) {
		return "its arguments cannot be shown in one message"
	}
	delivered, err := r.turn.Dispatch(ctx, e.Reply(text))
	if err != nil {
		r.agent.log.WarnContext(ctx, "cannot ask for approval", "session", r.session, "turn", r.id, "error", adapter.RedactError(err))
	}
	if !delivered {
		return noApprover
	}
	return ""
}

// decision is the data of an event entry of an approval, and the value of an approval_resolved event.
type decision struct {
	ID       string `json:"id"`
	Call     string `json:"call"`
	Subagent string `json:"subagent,omitempty"` // of the event
	Tool     string `json:"tool,omitempty"`     // of the entry
	Decision string `json:"decision"`
	Content  string `json:"content,omitempty"`  // of the entry: the hash of the call
	Remember string `json:"remember,omitempty"` // of the event; "session": later calls of the tool are approved, too
	By       string `json:"by,omitempty"`       // who decided
	Reason   string `json:"reason,omitempty"`
}

// decided records the outcome of a question, and sends it to the reader. code is the reason of the event if no person has decided. The error of a
// denial is for the model.
func (r *run) decided(ctx context.Context, q *Question, answer Answer, code string) error {
	if r.handedOver() {
		q.notify(context.Cause(r.ctx))
		return context.Cause(r.ctx) // the other process asks
	}
	if answer.NoPerson {
		answer.Approve, answer.Reason, code = false, cmp.Or(answer.Reason, noApprover), ReasonUnattended
	}
	d := decision{
		ID: q.ID, Call: q.Call, Tool: q.Tool, Decision: "deny", Content: contentHash(q.Tool, q.Arguments), By: answer.By, Reason: answer.Reason,
	}
	if answer.Approve {
		d.Decision = "approve"
	}
	entries := []tape.Entry{tape.NewEvent(entryApproval, d)}
	if answer.Approve && answer.Remember && !q.Repeat {
		entries = append(entries, tape.NewSetting(settingApproval+q.Tool, q.grant))
		d.Remember = "session"
	}
	err := r.append(entries...)
	q.notify(err)
	if err == nil && !answer.Approve {
		err = d.denial(code == "")
	}
	d.Subagent, d.Tool, d.Content, d.By, d.Reason = q.Subagent, "", "", cmp.Or(answer.Name, answer.By), code
	runOf(ctx).emitFromTool(ctx, turn.Event{Kind: ApprovalResolvedEvent, Calls: []tool.Call{{ID: q.Call, Name: q.Tool}}, Value: encode(d)})
	return err
}
