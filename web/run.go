package web

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// Statuses of a run.
const (
	statusRunning     = "running"
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
	statusCanceled    = "canceled"
)

// subject is what a run is of: a workflow or an agent.
type subject struct {
	Workflow string `json:"workflow,omitempty"`
	Agent    string `json:"agent,omitempty"`
}

// attr names it in the log.
func (s subject) attr() slog.Attr {
	if s.Agent != "" {
		return slog.String("agent", s.Agent)
	}
	return slog.String("workflow", s.Workflow)
}

// run is one run: going on, or ended and kept for those who come late.
type run struct {
	id      string
	of      subject
	owner   string // who has started it; "" is the one user of a server that asks nobody who they are
	tube    *tube.Tube
	session string // that it is a turn of, as its owner calls it; "" for none
	keyed   bool   // started with an Idempotency-Key: kept longer, and across restarts
	began   time.Time
	// lost says that the server ended in the middle of the run, and what it had made is not there any more.
	lost bool
	cut  atomic.Bool // an agent's model has come to its limit of tokens
	// heard says that a chat has been told of it to its end; see getUIStream.
	heard atomic.Bool

	// manager is there while the run goes on. It is dropped at the end, since it holds much that only a running run needs.
	manager atomic.Pointer[ling.Manager]

	observer RunObserver // of a run that this server has begun
	caller   string      // whom it is counted for; "" is nobody
	release  func()      // stops counting it; nil where it is not counted

	entry runlog.Entry // in the log of runs; nil where there is none
	place *placed      // where replicas share runs; nil for a server that is alone
	again *again       // nil for a run that is not run again after a restart
	left  atomic.Bool  // it ends here, and is to be run again elsewhere

	account *adapter.Account // pays for its memory, also after its end; nil where nobody counts
	sent    sent             // its document, once it has ended and while somebody is sent it

	span   trace.Span         // while it runs; nil where nobody traces
	traced *trace.SpanContext // of span, also afterwards

	done chan struct{} // closed when the members below are set
	outcome

	// Of an ended run in memory; guarded by runs.mu.
	expires time.Time // when it may be forgotten
	touched time.Time // when it ended, or was read back
	size    int64     // bytes of memory, about
	saved   bool      // it stands on disk, too
}

// lane is the session that the run is a turn of, as tapes and turns call it; "" for none.
func (r *run) lane() string {
	if r.session == "" {
		return ""
	}
	return webchannel.SessionKey(r.owner, r.session)
}

// lane is the same of a run that is to begin.
func (sp *spec) lane() string {
	if sp.session == "" {
		return ""
	}
	return webchannel.SessionKey(sp.owner, sp.session)
}

// outcome is what is kept of an ended run beside its tube. The document is not here: it is the fold of the tube's events.
type outcome struct {
	Status    string                    `json:"status"`
	Reason    string                    `json:"reason,omitempty"`
	Session   string                    `json:"session,omitempty"`
	Usage     map[string]adapter.Usage  `json:"usage,omitempty"`
	Models    map[string][]string       `json:"models,omitempty"`
	Repairs   map[string]map[string]int `json:"repairs,omitempty"`
	Truncated bool                      `json:"truncated,omitempty"`
	Errors    []ling.ErrorData          `json:"errors,omitempty"`
}

// ended says whether the terminal event is there.
func (r *run) ended() bool {
	select {
	case <-r.tube.Ended():
		return true
	default:
		return false
	}
}

// ends are closed when the run has ended for all who read it. What has come of it may be known here before its end is stored: it is
// another one then, where that never happens.
func (r *run) ends() []<-chan struct{} { return []<-chan struct{}{r.done, r.tube.Ended()} }

// final says whether what has come of the run here, which is known, is what comes of it: its end is stored, and no other server goes on with it.
func (r *run) final() bool { return (r.place == nil || r.ended()) && !r.comesAgain() }

// state returns the run's outcome, or what there is so far, with the document that clients may see and what stands beside it.
func (r *run) state() (o outcome, document, reserved []byte) {
	select {
	case <-r.done:
	default:
		if r.followed() {
			return r.goingOn()
		}
		if m := r.manager.Load(); m != nil {
			if r.tube.Held() { // what is not stored may not be seen, nor an end of which not all is
				over := r.ended()
				document, reserved = r.tube.Snapshot(false)
				o = outcomeOf(m.Outcome())
				if !over {
					o.Status, o.Reason = statusRunning, ""
				}
				o.Truncated = o.Truncated || r.cut.Load()
				return o, document, reserved
			}
			res := m.Peek(false)
			o = outcomeOf(res)
			o.Truncated = o.Truncated || r.cut.Load()
			return o, res.Result, res.Reserved
		}
		<-r.done // it has ended since
	}
	if !r.final() {
		document, reserved = r.tube.Snapshot(false)
		o = r.outcome
		o.Status, o.Reason = statusRunning, ""
		return o, document, reserved
	}
	document, reserved = r.text()
	return r.outcome, document, reserved
}

// sent is the document of a run that has ended, as text. All who are sent it at the same time share it: it may be large, and they may be
// many.
type sent struct {
	mu                 sync.Mutex // held while it is made
	users              int
	made               bool
	document, reserved []byte
}

// hold says that somebody follows the run, until release is called: what is made for one of them is kept for the others, and the memory that
// it takes counts.
func (r *run) hold() (release func()) {
	r.account.Retain()
	r.sent.mu.Lock()
	r.sent.users++
	r.sent.mu.Unlock()
	return func() {
		s := &r.sent
		s.mu.Lock()
		if s.users--; s.users == 0 && s.made {
			s.made, s.document, s.reserved = false, nil, nil
			r.account.Sent(false)
		}
		s.mu.Unlock()
		r.account.Release()
	}
}

// text returns the document of the run, which has ended.
func (r *run) text() (document, reserved []byte) {
	s := &r.sent
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made {
		return s.document, s.reserved
	}
	document, reserved = r.tube.Snapshot(false)
	if s.users > 0 {
		s.made, s.document, s.reserved = true, document, reserved
		r.account.Sent(true)
	}
	return document, reserved
}

func outcomeOf(res ling.Result) outcome {
	return outcome{
		Status: res.Status, Reason: res.Reason, Session: res.Session, Usage: res.Usage, Models: res.Models, Repairs: res.Repairs,
		Truncated: res.Truncated, Errors: res.Errors,
	}
}

// document is the aggregated document of the run: {"run","session"?,"status","reason"?,"result","usage","models","errors"}, with repairs
// and truncated where there are any, and what stands beside the document where asked for. The result's text goes in as it is: encoding
// it again would take time and change how its numbers and strings are written. It comes in parts, since a copy would take memory.
func (r *run) document(reserved bool) [][]byte {
	o, document, beside := r.state()
	return o.document(r.id, document, beside, reserved)
}

func (o outcome) document(id string, document, beside []byte, reserved bool) [][]byte {
	head := append([]byte(`{"run":"`), id...)
	head = append(head, '"')
	if o.Session != "" {
		head = appendMember(head, "session", o.Session)
	}
	head = appendMember(head, "status", o.Status)
	if o.Reason != "" {
		head = appendMember(head, "reason", o.Reason)
	}
	head = append(head, `,"result":`...)
	if len(document) == 0 {
		document = []byte("{}")
	}
	parts := [][]byte{head, document}
	if reserved {
		if len(beside) == 0 {
			beside = []byte("{}")
		}
		parts = append(parts, []byte(`,"reserved":`), beside)
	}
	if o.Usage == nil {
		o.Usage = map[string]adapter.Usage{}
	}
	tail := appendMember(nil, "usage", o.Usage)
	if o.Models == nil {
		o.Models = map[string][]string{}
	}
	tail = appendMember(tail, "models", o.Models)
	if len(o.Repairs) > 0 {
		tail = appendMember(tail, "repairs", o.Repairs)
	}
	if o.Truncated {
		tail = appendMember(tail, "truncated", true)
	}
	if o.Errors == nil {
		o.Errors = []ling.ErrorData{}
	}
	tail = appendMember(tail, "errors", o.Errors)
	return append(parts, append(tail, "}\n"...))
}

func appendMember(dst []byte, name string, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // cannot be: strings, numbers and maps of them
		panic(err)
	}
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, text...)
}

// empty says whether a document holds nothing.
func empty(document []byte) bool { return len(document) == 0 || string(document) == "{}" }

// cause is the error that made a run fail: the first fatal one, or else the last that was not handled.
func (o outcome) cause() (ling.ErrorData, bool) {
	for _, e := range o.Errors {
		if e.Fatal {
			return e, true
		}
	}
	for _, e := range slices.Backward(o.Errors) {
		if !e.Handled {
			return e, true
		}
	}
	return ling.ErrorData{}, false
}

// refusal is the answer of a run that has failed before it had made anything: nil for all others.
func (o outcome) refusal(id string, document, beside []byte) *problem {
	if o.Status != statusFailed || !empty(document) || !empty(beside) {
		return nil
	}
	cause, ok := o.cause()
	if !ok {
		return nil
	}
	p := failureProblem(cause)
	p.Run = id
	for _, e := range o.Errors {
		if e.Pointer != "" {
			p.Errors = append(p.Errors, misfit{Pointer: e.Pointer, Detail: e.Message})
		}
	}
	return p
}

// failureProblem makes the problem of what has failed in a run. Where waiting helps, it says how long to wait: as long as the model's
// server asks, and 5 s at least.
func failureProblem(cause ling.ErrorData) *problem {
	p := newProblem(cause.Code, cause.Message)
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		p.retryAfter = max(5*time.Second, time.Duration(cause.RetryAfter)*time.Second)
	}
	return p
}

func itoa(i int) string { return strconv.Itoa(i) }

// plural writes a count with its unit.
func plural(n int64, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return strconv.FormatInt(n, 10) + " " + unit
}
