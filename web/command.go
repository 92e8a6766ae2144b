package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// What replicas ask of each other.
const (
	commandCancel    = "cancel"    // a run
	commandDecide    = "decide"    // a question for approval of a run
	commandStart     = "start"     // a run, in a session that the replica has
	commandLatest    = "latest"    // the id of the run that was started last in a session
	commandStop      = "stop"      // the turns of a session that is erased, or whose turns are canceled
	commandAdopt     = "adopt"     // take over a run of who asks, which ends
	commandQuestions = "questions" // the questions for approval that wait in a session
	commandAnswer    = "answer"    // one of these
	commandBegun     = "begun"     // whether a run is there, or about to begin
)

const (
	// commandWait is how long a command may take, but for what has to wait for a place.
	commandWait = 5 * time.Second
	// handWait is how long it is tried to hand a message to the replica that has its session. One that has died is known to have within
	// cluster.TTL, and is asked no more.
	handWait = 12 * time.Second
	// handAgain is between attempts.
	handAgain = 50 * time.Millisecond
)

// errNotHere says that a replica does not have what it was asked about.
var errNotHere = errors.New("not here")

// report is an answer: a run, or a problem.
type report struct {
	Run     string   `json:"run,omitempty"`
	Again   bool     `json:"again,omitempty"` // the message came before
	Late    string   `json:"late,omitempty"`  // the run that answers should it come too late to be used
	Problem *problem `json:"problem,omitempty"`
	Retry   int      `json:"retry,omitempty"` // seconds, of the problem
	NotHere bool     `json:"not_here,omitempty"`

	Questions []agent.Question `json:"questions,omitempty"` // that wait in a session
	Stopped   int              `json:"stopped,omitempty"`   // turns of a session

	unknown bool // nobody knows what became of it, as the problem says
}

func reportOf(p *problem) report {
	if p == nil {
		return report{}
	}
	return report{Problem: p, Retry: int(p.retryAfter / time.Second)}
}

// problem is the one that was told.
func (t report) problem() *problem {
	if t.Problem != nil {
		t.Problem.retryAfter = time.Duration(t.Retry) * time.Second
	}
	return t.Problem
}

// decision is what is asked with commandDecide.
type decision struct {
	ID       string           `json:"id"` // of the question
	Approve  bool             `json:"approve"`
	Reason   string           `json:"reason,omitempty"`
	Remember bool             `json:"remember,omitempty"`
	Nobody   bool             `json:"nobody,omitempty"`
	Who      access.Principal `json:"who"`
}

// onBehalf says for whom a run is canceled, a session's run is looked for, or its turns are ended.
type onBehalf struct {
	Who     access.Principal `json:"who"`
	Cancels bool             `json:"cancels,omitempty"` // of commandStop: the session stays
}

// message is what is asked with commandStart.
type message struct {
	Ask    *ask             `json:"ask"`
	ID     string           `json:"id"` // of the run
	Who    access.Principal `json:"who"`
	Key    string           `json:"key,omitempty"` // which leads to the run already
	Hash   [16]byte         `json:"hash"`
	Caller string           `json:"caller,omitempty"`
	Alone  bool             `json:"alone,omitempty"` // the caller waits for the document
	Doubt  bool             `json:"doubt,omitempty"` // another replica may have taken it: the tape says so
}

// serve does what another replica asks. A request names the principal that it is for, with its role and scopes, and is checked here as if
// the principal had asked this replica: what the other replica has checked, it may have checked wrongly.
func (s *Server) serve(ctx context.Context, r control.Request) ([]byte, error) {
	var t report
	var by onBehalf
	switch r.Command {
	case commandCancel, commandLatest, commandStop, commandQuestions:
		if err := json.Unmarshal(r.Body, &by); err != nil {
			return nil, err
		}
	}
	switch r.Command {
	case commandCancel:
		t = s.serveCancel(by.Who, r.Run)
	case commandDecide:
		var d decision
		if err := json.Unmarshal(r.Body, &d); err != nil {
			return nil, err
		}
		t = s.serveDecision(ctx, r.Run, d)
	case commandStart:
		var m message
		if err := json.Unmarshal(r.Body, &m); err != nil || m.Ask == nil {
			return nil, errors.Join(err, errors.New("no message"))
		}
		t = s.serveStart(ctx, m)
	case commandLatest:
		if run := s.runs.inLane(r.Session); run != nil && run.owned(by.Who) {
			run.awaitEvent(ctx, run.tube.From()) // who asks is to find it
			t.Run = run.id
		}
	case commandStop:
		t = s.serveStop(by, r.Session)
	case commandQuestions:
		t = s.serveQuestions(by.Who, r.Session)
	case commandAnswer:
		var d decision
		if err := json.Unmarshal(r.Body, &d); err != nil {
			return nil, err
		}
		t = s.serveAnswer(ctx, r.Session, d)
	case commandBegun:
		t.NotHere = s.runs.own(r.Run) == nil && !s.beginning.has(r.Run)
	case commandAdopt:
		if !s.adopt(ctx, r.Run, string(r.Body)) {
			t.NotHere = true
		}
	default:
		return nil, errors.New("unknown command of a newer version: " + clip(r.Command))
	}
	return json.Marshal(t)
}

// own finds a run that this replica has; nil is none.
func (rs *runs) own(id string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.inMemory[id]; r != nil && !r.followed() && !r.isGone() {
		return r
	}
	return nil
}

func (s *Server) serveCancel(who access.Principal, id string) report {
	r := s.runs.own(id)
	switch {
	case r == nil:
		return report{NotHere: true}
	case !r.owned(who):
		return reportOf(unknownRun())
	}
	if !cancelRun(r, errAsked) {
		return reportOf(endedProblem(id))
	}
	return report{Run: id}
}

func unknownRun() *problem {
	return newProblem(codeNotFound, "unknown run; it never existed or has expired")
}

func endedProblem(id string) *problem {
	p := newProblem(codeConflict, "the run has ended")
	p.Run = id
	return p
}

func (s *Server) serveDecision(ctx context.Context, id string, d decision) report {
	r := s.runs.own(id)
	switch {
	case r == nil:
		return report{NotHere: true}
	case !r.owned(d.Who):
		return reportOf(unknownRun())
	}
	return reportOf(s.answerQuestion(ctx, r, agent.Answer{
		Turn: id, ID: d.ID, Approve: d.Approve, Reason: d.Reason, Remember: d.Remember, Nobody: d.Nobody, By: deciderName(d.Who), Role: d.Who.Role,
	}))
}

// serveStart starts a run, or gives its message to the turn that goes on.
func (s *Server) serveStart(ctx context.Context, m message) report {
	asked := *m.Ask
	if asked.Session == m.ID { // the run's own session, which the caller has not named
		asked.Session = ""
	}
	if p := mayStart(m.Who, &asked); p != nil {
		return reportOf(p)
	}
	sp, p := s.prepare(m.Who, m.Ask)
	if p != nil {
		return reportOf(p)
	}
	if sp.agent == nil {
		return reportOf(newProblem(codeInternal, "the message is for no session"))
	}
	if m.Doubt { // who had the session before can write no more
		switch run, err := s.takenBefore(ctx, sp.lane(), m.ID); {
		case err != nil:
			return report{NotHere: true} // nobody knows still
		case run != "":
			return report{Run: run, Again: true}
		}
	}
	sp.key, sp.hash, sp.caller = m.Key, m.Hash, m.Caller
	sp.rename(m.ID)
	sp.agent.alone = m.Alone
	run, id, again, p := s.startAgent(sp)
	if p != nil {
		return reportOf(p)
	}
	t := report{Run: id, Again: again}
	if run == nil && !again {
		if t.Late = sp.agent.id; m.Alone {
			if run = sp.agent.answering(ctx); run != nil {
				t.Run, t.Late = run.id, ""
			}
		}
	}
	if run != nil {
		t.Run = run.id
	}
	s.runs.flush(ctx) // so that whoever asks for it finds it
	return t
}

// rename gives a run that is a turn another id.
func (sp *spec) rename(id string) {
	if sp.session == sp.agent.id {
		sp.session = id
	}
	sp.agent.id, sp.agent.envelope.ID = id, id
	if _, ok := sp.agent.envelope.Extra[turn.ExtraRun]; ok {
		sp.agent.envelope.Extra[turn.ExtraRun] = id
	}
}

// ask asks a replica. ok is false where it does not have what it was asked about, or is not there any more: nothing was done. Whoever may
// ask the same once more gives the request an id.
func (s *Server) ask(ctx context.Context, replica string, r control.Request) (t report, ok bool, err error) {
	r.ID = cmp.Or(r.ID, newRunID())
	answer, err := s.o.Shared.Control.Ask(ctx, replica, r)
	switch {
	case errors.Is(err, control.ErrGone) && !errors.Is(err, control.ErrLost):
		return t, false, nil
	case err != nil:
		return t, false, err
	}
	if err := json.Unmarshal(answer, &t); err != nil {
		return t, false, err
	}
	return t, !t.NotHere, nil
}

// undone says that nothing was done of what somebody was asked who has answered with this error, or was not reached: it may be asked of
// another one. Else nobody knows.
func undone(err error) bool {
	refused, ok := errors.AsType[*control.Error](err)
	return errors.Is(err, control.ErrAway) || ok && refused.Code == codeOverloaded
}

// askOwner asks the replica that has a run. Where it dies meanwhile, another one has the run soon.
func (s *Server) askOwner(ctx context.Context, run *run, r control.Request) (t report, p *problem) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	r.ID, r.Run = newRunID(), run.id
	wait, doubt := 5*time.Millisecond, false
	for {
		f, err := s.o.Shared.Runs.Find(ctx, run.id)
		switch {
		case err == nil && f.Ended && !doubt: // else by this, perhaps
			return t, endedProblem(run.id)
		case errors.Is(err, runlog.ErrUnknown):
			return t, newProblem(codeNotFound, "unknown run; it never existed or has expired")
		case err == nil:
			var ok bool
			if t, ok, err = s.ask(ctx, f.Replica, r); err == nil && ok {
				return t, t.problem()
			}
			if err == nil && f.Ended {
				return t, endedProblem(run.id)
			}
			doubt = doubt || err != nil && !undone(err)
		}
		if code, ok := errors.AsType[*control.Error](err); ok && !undone(err) {
			s.log.ErrorContext(ctx, "command failed at another replica", "run", run.id, "command", r.Command, "error", code)
			return t, newProblem(codeInternal, "the run's replica failed to execute the command; find the cause in its log")
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-ctx.Done():
			s.log.WarnContext(ctx, "a run's replica does not answer", "run", run.id, "command", r.Command, "error", cmp.Or(err, errNotHere))
			if errors.Is(ctx.Err(), context.Canceled) {
				panic(http.ErrAbortHandler) // the client disconnected
			}
			p := awayProblem()
			if doubt {
				p.Detail = "the run's replica did not answer, so the result is unknown; check the run, then retry"
			}
			return t, p
		}
	}
}

// cancelAnywhere ends a run that goes on, on whichever replica.
func (s *Server) cancelAnywhere(ctx context.Context, who access.Principal, run *run) *problem {
	if !run.followed() {
		if !cancelRun(run, errAsked) {
			return endedProblem(run.id)
		}
		return nil
	}
	if run.ended() {
		return endedProblem(run.id)
	}
	_, p := s.askOwner(ctx, run, control.Request{Command: commandCancel, Body: mustJSON(onBehalf{Who: who})})
	return p
}

// leaveRun cancels a run whose client asked for that and has gone.
func (s *Server) leaveRun(run *run) {
	if !run.followed() {
		cancelRun(run, errLeft)
		return
	}
	s.runs.moving.Go(func() {
		ctx, cancel := context.WithTimeout(s.runs.ctx, commandWait)
		defer cancel()
		defer func() { _ = recover() }()                                                             // nobody is there to be answered
		_ = s.cancelAnywhere(ctx, access.Principal{Name: cmp.Or(run.owner, access.Local.Name)}, run) // its owner has left
	})
}

// holder is the replica that has the turns of a session now, where that is another one; "" is none, or that it is not known.
func (s *Server) holder(ctx context.Context, lane string) string {
	replica, err := s.holderOf(ctx, lane)
	if err != nil {
		s.log.WarnContext(ctx, "unknown which replica has a session", "error", err)
		return ""
	}
	return replica
}

func (s *Server) holderOf(ctx context.Context, lane string) (string, error) {
	if s.o.Shared == nil || s.o.Tapes == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	replica, err := s.o.Shared.Holder(ctx, tape.Name(s.o.Workspace, lane))
	if err != nil || replica == s.o.Shared.replica() {
		return "", err
	}
	return replica, nil
}

// startElsewhere hands a message to the replica that has its session. ok is false where it is to be started here. It is asked for again
// with the same id, of whoever has the session then, until it is known what became of it: as long as that is not, it is not started here.
func (s *Server) startElsewhere(ctx context.Context, who access.Principal, a *ask, sp *spec) (t report, ok bool) {
	waiting, cancel := context.WithTimeout(ctx, s.handWait)
	defer cancel()
	as := *a
	if as.Session == "" {
		as.Session = sp.session
	}
	for {
		replica, err := s.holderOf(waiting, sp.lane())
		switch {
		case err != nil:
			s.log.WarnContext(ctx, "unknown which replica has a session", "error", err)
		case replica == "" && !sp.agent.doubt:
			return t, false
		case replica == "":
			var run string
			if run, err = s.takenBefore(waiting, sp.lane(), sp.agent.id); err == nil {
				return report{Run: run, Again: true}, run != ""
			}
		default:
			t, ok, err = s.handMessage(waiting, replica, who, &as, sp)
			if ok {
				return t, true
			}
		}
		if !sp.agent.doubt {
			if err == nil || !errors.Is(err, control.ErrAway) {
				return t, false // it waits here until it can have the session
			}
			return reportOf(awayProblem()), true
		}
		select {
		case <-time.After(handAgain):
		case <-waiting.Done():
			if ctx.Err() != nil {
				panic(http.ErrAbortHandler) // the client disconnected
			}
			s.log.WarnContext(ctx, "a session's replica does not answer", "replica", replica, "run", sp.agent.id, "error", cmp.Or(err, errNotHere))
			const why = "the session's replica did not answer, so it may or may not have accepted the message"
			return report{Problem: doubtful(sp, sp.agent.id, why), Retry: int(tapesRetry / time.Second), unknown: true}, true
		}
	}
}

// handMessage asks a replica once to take a message; ok is false where it was not taken, or nobody knows.
func (s *Server) handMessage(ctx context.Context, replica string, who access.Principal, a *ask, sp *spec) (t report, ok bool, err error) {
	body, err := json.Marshal(message{
		Ask: a, ID: sp.agent.id, Who: who, Key: sp.key, Hash: sp.hash, Caller: sp.caller, Alone: sp.agent.alone, Doubt: sp.agent.doubt,
	})
	if err != nil {
		return t, false, err
	}
	t, ok, err = s.ask(ctx, replica, control.Request{ID: sp.agent.id, Command: commandStart, Session: sp.lane(), Body: body})
	switch {
	case err == nil && t.Problem != nil && t.Problem.Code == codeDraining:
		return report{}, false, nil // when it has gone the session can be had here
	case err != nil && !undone(err):
		sp.agent.doubt = true
	case err != nil:
		s.log.WarnContext(ctx, "cannot forward a message to another replica", "replica", replica, "error", err)
	}
	return t, ok, err
}

// takenBefore finds the run whose turn has taken a message, by the tape of its session; "" is none.
func (s *Server) takenBefore(ctx context.Context, lane, id string) (run string, err error) {
	for e, err := range s.o.Tapes.Read(ctx, tape.Name(s.o.Workspace, lane), tape.Query{Newest: true, Limit: mostTaken}) {
		switch {
		case errors.Is(err, tape.ErrNotFound):
			return "", nil
		case err != nil:
			s.log.WarnContext(ctx, "unknown whether a message was accepted", "run", id, "error", err)
			return "", err
		}
		if m := tape.MetaOf(e); m.Turn == id || m.Run == id {
			return m.Turn, nil
		}
	}
	return "", nil
}

// mostTaken is how many entries are looked at for a message that may have been taken: it was a moment ago.
const mostTaken = 1000

// doubtful is the answer for a message that was taken, or may have been, by a run that cannot be shown: it must not be sent again, unless
// that finds the first one.
func doubtful(sp *spec, run, why string) (p *problem) {
	if sp.key != "" {
		p = newProblem(codeOverloaded, why+"; retry with the same Idempotency-Key")
		p.retryAfter = tapesRetry
	} else { // with 503 a balancer would send it again
		p = newProblem(codeInternal, why+"; read the session to find out. With an Idempotency-Key you can retry safely")
		p.ID = run
	}
	p.Run = run
	return p
}

// stopElsewhere ends the turns of a session that is erased.
func (s *Server) stopElsewhere(ctx context.Context, replica, lane string) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	if _, _, err := s.ask(ctx, replica, control.Request{Command: commandStop, Session: lane, Body: mustJSON(onBehalf{Who: access.From(ctx)})}); err != nil {
		s.log.WarnContext(ctx, "erased session waits for its turns", "replica", replica, "error", err)
	}
}

// latest finds the run that was started last in a session of somebody, on any replica: nil where none is known.
func (s *Server) latest(r *http.Request, session string) *run {
	if s.channelOf(who(r), session) != "" {
		return nil
	}
	lane := webchannel.SessionKey(who(r).Owner(), session)
	if run := s.runs.inLane(lane); run != nil && !run.isGone() {
		if !run.ended() || s.o.Shared == nil {
			return run
		}
	}
	replica := s.holder(r.Context(), lane)
	if replica == "" {
		return s.runs.inLane(lane)
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandWait)
	defer cancel()
	t, ok, err := s.ask(ctx, replica, control.Request{Command: commandLatest, Session: lane, Body: mustJSON(onBehalf{Who: who(r)})})
	if err != nil || !ok || t.Run == "" {
		return s.runs.inLane(lane)
	}
	run, err := s.runs.get(r.Context(), who(r), t.Run)
	if err != nil {
		return nil
	}
	return run
}

// handOver asks the other replicas to take over the runs that are cut off here and can go on there. Those that nobody takes now are left for
// whoever does.
func (s *Server) handOver() (handed, left int) {
	list := s.runs.movable()
	s.runs.leaveBehind(list) // first, since nobody can take over what is written to
	var others []string
	me := s.o.Shared.replica()
	for _, id := range s.o.Shared.Replicas() {
		if id != me {
			others = append(others, id)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandWait)
	defer cancel()
	for i, r := range list {
		n := i % max(1, len(others))
		if s.handTo(ctx, r, me, slices.Concat(others[n:], others[:n])) {
			handed++
		}
	}
	return handed, len(list) - handed
}

// handTo asks replicas to take a run over, one after the other, until one does.
func (s *Server) handTo(ctx context.Context, r *run, me string, others []string) bool {
	for _, replica := range others {
		_, ok, err := s.ask(ctx, replica, control.Request{Command: commandAdopt, Run: r.id, Body: []byte(me)})
		if err != nil {
			s.log.WarnContext(r.context(), "another replica cannot take over a run", "run", r.id, "replica", replica, "error", err)
		}
		if ok {
			return true
		}
	}
	return false
}

// movable are the runs that go on and would be run again after a restart.
func (rs *runs) movable() (list []*run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.inMemory {
		if r.again != nil && !r.followed() && !r.isGone() && r.manager.Load() != nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *run) int { return a.began.Compare(b.began) })
	return list
}

// dropFollowed breaks off those who read runs of other replicas: they are served there.
func (rs *runs) dropFollowed() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.inMemory {
		if r.followed() && !r.ended() {
			r.place.leave()
		}
	}
}
