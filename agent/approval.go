package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Errors of [Agent.Answer].
var (
	ErrNoQuestion = errors.New("agent: no such call waits for approval")
	ErrAnswered   = errors.New("agent: the call was answered before, or its time is over")
	ErrRole       = errors.New("agent: the tool asks for somebody with a higher role")
)

// Question is a call that waits for somebody's approval. It is what an approval_required event has as its value.
type Question struct {
	Session   string          `json:"-"`
	Turn      string          `json:"-"`
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // as they will be used
	Expires   time.Time       `json:"expires"`
	Role      tool.Role       `json:"-"` // that an answer needs
}

// Answer is somebody's decision about a call. The caller makes sure that they may write to the session.
type Answer struct {
	// Session and Turn say whose call is meant; one of them is enough.
	Session, Turn string
	Call          string
	Approve       bool
	Nobody        bool   // nobody is there to decide, which is a denial
	Reason        string // for a denial, told to the model
	Remember      bool   // also approve later calls of the tool in this session
	By            string // who, for the tape
	Role          tool.Role
}

// settled is how many answered questions are remembered, so that a second answer is told apart from one to an unknown call.
const settled = 1024

// questions are the calls that wait for approval. The zero value is ready.
type questions struct {
	mu   sync.Mutex
	open []*question
	over []questionID // the last ones that were answered or ran out of time, oldest first
}

type questionID struct{ session, turn, call string }

type question struct {
	Question
	answer chan Answer // takes one
}

func (id questionID) is(a *Answer) bool {
	return id.call == a.Call && (a.Session != "" || a.Turn != "") &&
		(a.Session == "" || id.session == a.Session) && (a.Turn == "" || id.turn == a.Turn)
}

func (q *question) id() questionID { return questionID{q.Session, q.Turn, q.Call} }

// ask opens a question.
func (qs *questions) ask(q Question) *question {
	asked := &question{Question: q, answer: make(chan Answer, 1)}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.open = append(qs.open, asked)
	return asked
}

// close ends a question; false where it was answered before.
func (qs *questions) close(q *question) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	i := slices.Index(qs.open, q)
	if i < 0 {
		return false
	}
	qs.settle(i)
	return true
}

// settle moves a question to those that are over.
func (qs *questions) settle(i int) {
	if len(qs.over) == settled {
		qs.over = slices.Delete(qs.over, 0, 1)
	}
	qs.over = append(qs.over, qs.open[i].id())
	qs.open = slices.Delete(qs.open, i, i+1)
}

// take gives an answer to the question it is for.
func (qs *questions) take(a Answer) error {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for i, q := range qs.open {
		if !q.id().is(&a) {
			continue
		}
		if a.Role < q.Role {
			return ErrRole
		}
		qs.settle(i)
		q.answer <- a // there is room: each question is taken from the open ones once
		return nil
	}
	if slices.ContainsFunc(qs.over, func(id questionID) bool { return id.is(&a) }) {
		return ErrAnswered
	}
	return ErrNoQuestion
}

// list returns what waits in a session, oldest first.
func (qs *questions) list(session string) []Question {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	var out []Question
	for _, q := range qs.open {
		if q.Session == session {
			out = append(out, q.Question)
		}
	}
	return out
}

// Answer gives somebody's decision to a call that waits for it. It returns at once; the call goes on in its turn.
// Errors are [ErrNoQuestion], [ErrAnswered] and [ErrRole].
func (a *Agent) Answer(_ context.Context, answer Answer) error {
	answer.Reason = oneLine(strings.TrimSpace(answer.Reason), 300)
	return a.questions.take(answer)
}

// Questions lists the calls of a session that wait for approval, oldest first.
func (a *Agent) Questions(session string) []Question { return a.questions.list(session) }

// Waiting is how many calls wait for approval, in all sessions.
func (a *Agent) Waiting() int {
	qs := &a.questions
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return len(qs.open)
}

// settingApproval begins the names of the settings that remember an approval.
const settingApproval = "approval."

// granted is the value of such a setting.
const granted = "granted"

// approve asks whoever follows the turn whether a call may run.
func (a *Agent) approve(ctx context.Context, q tool.Question) (tool.Decision, error) {
	s := sceneOf(ctx)
	r := s.run.root()
	settings, err := r.tape.Settings(ctx)
	if err != nil {
		return tool.Decision{}, err
	}
	if string(settings[settingApproval+q.Tool.Name]) == `"`+granted+`"` {
		return tool.Decision{Approved: true}, nil
	}
	asked := a.questions.ask(Question{
		Session: r.session, Turn: r.id, Call: q.Call.ID, Tool: q.Tool.Name, Arguments: q.Call.Arguments, Expires: q.Expires, Role: q.Tool.Role,
	})
	defer a.questions.close(asked)
	if !r.put(ctx, asked.Question, s) {
		return tool.Decision{}, r.unattended(asked.Question, s)
	}
	select {
	case answer := <-asked.answer:
		if answer.Nobody {
			return tool.Decision{}, r.unattended(asked.Question, s)
		}
		return tool.Decision{Approved: answer.Approve, Reason: answer.Reason}, r.decided(asked.Question, answer, "", s)
	case <-ctx.Done():
	}
	if !a.questions.close(asked) { // the answer came at the same moment: too late, but it is said so
		<-asked.answer
	}
	why, code := "nobody answered in time", reasonTimeout
	if r.ctx.Err() != nil {
		why, code = "the turn ended", reasonEnded
	}
	return tool.Decision{}, errors.Join(context.Cause(ctx), r.decided(asked.Question, Answer{Reason: why}, code, s))
}

// What an approval_resolved event has as its reason where nobody has decided.
const (
	reasonTimeout    = "timeout"
	reasonUnattended = "unattended" // nobody could
	reasonEnded      = "ended"      // the turn did
)

// unattended writes down that a call is not run because nobody can approve it. The error is what the model reads.
func (r *run) unattended(q Question, s *scene) error {
	const why = "nobody is there to approve it"
	if err := r.decided(q, Answer{Reason: why}, reasonUnattended, s); err != nil {
		return err
	}
	return &tool.Error{Kind: tool.KindDenied, Message: "the call was not run: " + why}
}

// put asks a question; false where nobody can answer.
func (r *run) put(ctx context.Context, q Question, s *scene) bool {
	if r.turn.Streaming() {
		s.say(turn.Event{Kind: ApprovalRequiredEvent, Value: encode(q)})
		return true
	}
	e := r.turn.Envelope()
	if r.turn.Router() == nil || e.ChatID == "" || utf8.RuneCount(q.Arguments) > maxShown {
		return false
	}
	ask := e.Reply(fmt.Sprintf("The tool %s is to be called with\n\n%s\n\nWrite ,approve %s to let it run, or ,deny %s.",
		q.Tool, q.Arguments, q.Call, q.Call))
	delivered, err := r.turn.Dispatch(ctx, ask)
	if err != nil {
		r.agent.log.WarnContext(ctx, "a question for approval was not delivered", "session", r.session, "turn", r.id, "error", adapter.RedactError(err))
	}
	return delivered
}

// maxShown is how much of a call's arguments a chat shows, in characters. What is longer cannot be approved there.
const maxShown = 3000

// resolved is the value of an approval_resolved event.
type resolved struct {
	Call     string `json:"call"`
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
}

// decided writes down what became of a question, and tells the reader. The code says why, where nobody has decided.
func (r *run) decided(q Question, answer Answer, code string, s *scene) error {
	decision := "deny"
	if answer.Approve {
		decision = "approve"
	}
	data := map[string]any{"call": q.Call, "tool": q.Tool, "decision": decision}
	if answer.By != "" {
		data["by"] = answer.By
	}
	if answer.Reason != "" {
		data["reason"] = answer.Reason
	}
	entries := []tape.Entry{tape.NewEvent(entryApproval, data)}
	if answer.Approve && answer.Remember {
		entries = append(entries, tape.NewSetting(settingApproval+q.Tool, granted))
	}
	_, err := r.append(entries...)
	s.say(turn.Event{Kind: ApprovalResolvedEvent, Value: encode(resolved{q.Call, decision, code})})
	return err
}
