package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tape"
)

// What replicas ask of each other.
const (
	CommandCancel    = "cancel"    // a run
	CommandDecide    = "decide"    // a question for approval of a run
	CommandStart     = "start"     // a run, in a session that the replica has
	CommandLatest    = "latest"    // the id of the run that was started last in a session
	CommandStop      = "stop"      // the turns of a session that is erased, or whose turns are canceled
	CommandAdopt     = "adopt"     // take over a run of who asks, which ends
	commandQuestions = "questions" // the questions for approval that wait in a session
	commandAnswer    = "answer"    // one of these
	commandStarted   = "begun"     // whether a run is there, or about to begin
)

const (
	// commandWait is how long a command may take, but for what has to wait for a place.
	commandWait = 5 * time.Second
	// handWait is how long it is tried to hand a message to the replica that has its session. One that has died is known to have within
	// replicas.TTL, and is asked no more.
	handWait = 12 * time.Second
	// handAgain is between attempts.
	handPause = 50 * time.Millisecond
)

// errNotHere says that a replica does not have what it was asked about.
var errNotHere = errors.New("not here")

// report is an answer: a run, or a problem.
type report struct {
	Run     string     `json:"run,omitempty"`
	Again   bool       `json:"again,omitempty"` // the message came before
	Late    string     `json:"late,omitempty"`  // the run that answers should it come too late to be used
	Problem *wireError `json:"problem,omitempty"`
	Retry   int        `json:"retry,omitempty"` // seconds, of the problem
	NotHere bool       `json:"not_here,omitempty"`

	Questions []agent.Question `json:"questions,omitempty"` // that wait in a session
	Stopped   int              `json:"stopped,omitempty"`   // turns of a session

	left error // why who asks did not wait for the answer
}

func reportOf(err error) report {
	e, ok := errors.AsType[*Error](err)
	if !ok && err != nil { // its context has ended
		e = away()
	}
	if e == nil {
		return report{}
	}
	return report{Problem: encodeError(e), Retry: int(e.Retry / time.Second)}
}

// failure is the error that was told; nil is none.
func (t report) failure() error {
	switch {
	case t.left != nil:
		return t.left
	case t.Problem == nil:
		return nil
	}
	return t.Problem.decode(time.Duration(t.Retry) * time.Second)
}

// command is what one replica asks of another, or of itself. Each command has some of the members.
type command struct {
	id      string // of the request, so that it is served once; "" is a new one
	name    string
	run     string
	session string // by its lane
	from    string // of CommandAdopt: who asks

	Who     access.Principal `json:"who"`               // whom it is for
	Cancels bool             `json:"cancels,omitempty"` // of CommandStop: the session stays

	ID       string `json:"id,omitempty"` // of the question; of CommandStart, of the run
	Approve  bool   `json:"approve,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Remember bool   `json:"remember,omitempty"`
	Nobody   bool   `json:"nobody,omitempty"`

	Ask    *Request `json:"ask,omitempty"`
	Key    string   `json:"key,omitempty"` // which leads to the run already
	Hash   [16]byte `json:"hash,omitzero"`
	Caller string   `json:"caller,omitempty"`
	KeyTag string   `json:"key_tag,omitempty"`
	Alone  bool     `json:"alone,omitempty"` // the caller waits for the document
	Doubt  bool     `json:"doubt,omitempty"` // another replica may have taken it: the tape says so
}

// encode is the command as a request to another replica.
func (c *command) encode() (r control.Request, err error) {
	r = control.Request{ID: cmp.Or(c.id, NewID()), Command: c.name, Run: c.run, Session: c.session, Body: []byte(c.from)}
	if c.name != CommandAdopt {
		r.Body, err = json.Marshal(c)
	}
	return r, err
}

// decodeCommand reads what another replica asks.
func decodeCommand(r control.Request) (c *command, err error) {
	c = &command{id: r.ID, name: r.Command, run: r.Run, session: r.Session}
	switch r.Command {
	case CommandAdopt:
		c.from = string(r.Body)
	case commandStarted: // has no body
	default:
		err = json.Unmarshal(r.Body, c)
	}
	return c, err
}

// answer is the decision as the agent takes it.
func (c *command) answer() agent.Answer {
	return agent.Answer{
		Turn: c.run, Session: c.session, ID: c.ID, Approve: c.Approve, Reason: c.Reason, Remember: c.Remember, Nobody: c.Nobody,
		By: deciderName(c.Who), Role: c.Who.Role,
	}
}

// serve does what another replica asks.
func (s *Service) serve(ctx context.Context, r control.Request) ([]byte, error) {
	c, err := decodeCommand(r)
	if err != nil {
		return nil, err
	}
	t, err := s.execute(ctx, c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// execute executes a command. It names the principal that it is for, with its role and scopes, and is checked here as if the principal had
// asked this replica: what the other replica has checked, it may have checked wrongly.
func (s *Service) execute(ctx context.Context, c *command) (t report, err error) {
	switch c.name {
	case CommandCancel:
		return s.serveCancel(c), nil
	case CommandDecide:
		return s.serveDecision(ctx, c), nil
	case CommandStart:
		return s.serveStart(ctx, c), nil
	case CommandLatest:
		if run := s.inLane(c.session); run != nil && run.owned(c.Who) {
			run.awaitEvent(ctx, run.tube.From()) // who asks is to find it
			t.Run = run.ID
		}
	case CommandStop:
		return s.serveStop(c), nil
	case commandQuestions:
		return s.serveQuestions(c), nil
	case commandAnswer:
		return s.serveAnswer(ctx, c), nil
	case commandStarted:
		t.NotHere = s.own(c.run) == nil && s.starting.decided(c.run) == nil
	case CommandAdopt:
		t.NotHere = !s.adopt(ctx, c.run, c.from)
	default:
		return t, errors.New("unknown command of a newer version: " + wording.Clip(c.name))
	}
	return t, nil
}

// own finds a run that this replica has; nil is none.
func (s *Service) own(id string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.inMemory[id]; r != nil && !r.followed() && !r.Moved() {
		return r
	}
	return nil
}

func (s *Service) serveCancel(c *command) report {
	r, t := s.ownOf(c)
	if r == nil {
		return t
	}
	if !cancelRun(r, ErrAsked) {
		return reportOf(endedRun(c.run))
	}
	return report{Run: c.run}
}

func (s *Service) serveDecision(ctx context.Context, c *command) report {
	r, t := s.ownOf(c)
	if r == nil {
		return t
	}
	return reportOf(s.answerQuestion(ctx, r, c.answer()))
}

// ownOf finds a run of this replica for whom a command is; nil is none, and t says why.
func (s *Service) ownOf(c *command) (r *Run, t report) {
	switch r = s.own(c.run); {
	case r == nil:
		return nil, report{NotHere: true}
	case !r.owned(c.Who):
		return nil, reportOf(unknownRun())
	}
	return r, t
}

// serveStart starts a run, or gives its message to the turn that goes on.
func (s *Service) serveStart(ctx context.Context, m *command) report {
	if m.Ask == nil {
		return reportOf(refuse(ErrInternal, "there is no message"))
	}
	asked := *m.Ask
	if asked.Session == m.ID { // the run's own session, which the caller has not named
		asked.Session = ""
	}
	if p := MayStart(m.Who, &asked); p != nil {
		return reportOf(p)
	}
	sp, p := s.prepare(m.Who, m.Ask)
	if p != nil {
		return reportOf(p)
	}
	if sp.agent == nil {
		return reportOf(refuse(ErrInternal, "the message is for no session"))
	}
	if m.Doubt { // who had the session before can write no more
		switch run, err := s.takenBefore(ctx, sp.lane(), m.ID); {
		case err != nil:
			return report{NotHere: true} // nobody knows still
		case run != "":
			return report{Run: run, Again: true}
		}
	}
	sp.key, sp.hash, sp.caller, sp.keyTag = m.Key, m.Hash, m.Caller, m.KeyTag
	sp.setID(m.ID)
	sp.agent.unattended = m.Alone
	took := s.place(sp)
	if took.err != nil {
		return reportOf(took.err)
	}
	t := report{Run: took.id}
	if took.run == nil { // a turn took it
		if t.Late = sp.agent.id; m.Alone {
			if run := sp.agent.answering(ctx); run != nil {
				t.Run, t.Late = run.ID, ""
			}
		}
	}
	s.flush(ctx) // so that whoever asks for it finds it
	return t
}

// ask asks a replica. ok is false where it does not have what it was asked about, or is not there any more: nothing was done. Whoever may
// ask the same once more gives the request an id.
func (s *Service) ask(ctx context.Context, replica string, c *command) (t report, ok bool, err error) {
	r, err := c.encode()
	if err != nil {
		return t, false, err
	}
	answer, err := s.shared.Control.Ask(ctx, replica, r)
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

// notExecuted says that nothing was done of what somebody was asked who has answered with this error, or was not reached: it may be asked of
// another one. Else nobody knows.
func notExecuted(err error) bool {
	refused, ok := errors.AsType[*control.Error](err)
	return errors.Is(err, control.ErrAway) || ok && refused.Code == codeOverloaded
}

// askOwner asks the replica that has a run. Where it dies meanwhile, another one has the run soon.
func (s *Service) askOwner(ctx context.Context, run *Run, c *command) (t report, p error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	c.id, c.run = NewID(), run.ID
	pauses, doubt := backoff.New(5*time.Millisecond, time.Second), false
	for {
		f, err := s.shared.Runs.Find(ctx, run.ID)
		switch {
		case err == nil && f.Ended && !doubt: // else by this, perhaps
			return t, endedRun(run.ID)
		case errors.Is(err, runlog.ErrUnknown):
			return t, unknownRun()
		case err == nil:
			var ok bool
			if t, ok, err = s.ask(ctx, f.Replica, c); err == nil && ok {
				return t, t.failure()
			}
			if err == nil && f.Ended {
				return t, endedRun(run.ID)
			}
			doubt = doubt || err != nil && !notExecuted(err)
		}
		if code, ok := errors.AsType[*control.Error](err); ok && !notExecuted(err) {
			s.log.ErrorContext(ctx, "command failed at another replica", "run", run.ID, "command", c.name, "error", code)
			return t, refuse(ErrInternal, "the run's replica failed to execute the command; find the cause in its log")
		}
		if backoff.Sleep(ctx, pauses.NextBackOff()) != nil {
			s.log.WarnContext(ctx, "a run's replica does not answer", "run", run.ID, "command", c.name, "error", cmp.Or(err, errNotHere))
			if errors.Is(ctx.Err(), context.Canceled) {
				return t, context.Cause(ctx) // the caller has gone
			}
			e := away()
			if doubt {
				e.Kind, e.Detail = ErrUnknownOutcome, "the run's replica did not answer, so the result is unknown; check the run, then retry"
			}
			return t, e
		}
	}
}

// Cancel ends a run that goes on, on whichever replica.
func (s *Service) Cancel(ctx context.Context, who access.Principal, run *Run) error {
	if !run.followed() {
		if !cancelRun(run, ErrAsked) {
			return endedRun(run.ID)
		}
		return nil
	}
	if run.Ended() {
		return endedRun(run.ID)
	}
	_, p := s.askOwner(ctx, run, &command{name: CommandCancel, Who: who})
	return p
}

// CancelRevoked cancels the runs of this server whose API key was revoked, as revoked says of a key's tag, and returns how many. It does not wait.
func (s *Service) CancelRevoked(revoked func(keyTag string) bool) (count int) {
	s.mu.Lock()
	var list []*Run
	known := map[string]bool{}
	for _, r := range s.inMemory {
		if r.keyTag == "" || r.manager.Load() == nil {
			continue
		}
		gone, ok := known[r.keyTag]
		if !ok {
			gone = revoked(r.keyTag)
			known[r.keyTag] = gone
		}
		if gone {
			list = append(list, r)
		}
	}
	s.mu.Unlock()
	for _, r := range list {
		if cancelRun(r, errKeyRevoked) {
			count++
		}
	}
	return count
}

// errKeyRevoked is why a run ends whose API key was revoked.
var errKeyRevoked = errors.New("the API key that started the run was revoked")

// Leave cancels a run whose client asked for that and has gone. It does not wait.
func (s *Service) Leave(run *Run) {
	if !run.followed() {
		cancelRun(run, ErrLeft)
		return
	}
	s.moving.Go(func() {
		ctx, cancel := context.WithTimeout(s.working, commandWait)
		defer cancel()
		_ = s.Cancel(ctx, access.Principal{Name: cmp.Or(run.owner, access.Local.Name)}, run) // its owner has left
	})
}

// holder is the replica that has the turns of a session now, where that is another one; "" is none, or that it is not known.
func (s *Service) holder(ctx context.Context, lane string) string {
	replica, err := s.elsewhere(ctx, lane)
	if err != nil {
		s.log.WarnContext(ctx, "unknown which replica has a session", "error", err)
		return ""
	}
	return replica
}

func (s *Service) holderOf(ctx context.Context, lane string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	replica, err := s.shared.Holder(ctx, tape.Name(s.o.Workspace, lane))
	if err != nil || replica == s.shared.replica() {
		return "", err
	}
	return replica, nil
}

// stopAt ends the turns of a session that is erased.
func (s *Service) stopAt(ctx context.Context, replica, lane string) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	if _, _, err := s.ask(ctx, replica, &command{name: CommandStop, session: lane, Who: access.From(ctx)}); err != nil {
		s.log.WarnContext(ctx, "erased session waits for its turns", "replica", replica, "error", err)
	}
}

// Latest finds the run that was started last in a session of somebody, on any replica: nil where none is known.
func (s *Service) Latest(ctx context.Context, who access.Principal, session string) *Run {
	if s.ChannelOf(who, session) != "" {
		return nil
	}
	lane := webchannel.SessionKey(who.Owner(), session)
	if run := s.inLane(lane); run != nil && !run.Moved() && !run.Ended() {
		return run
	}
	replica := s.holder(ctx, lane)
	if replica == "" {
		return s.inLane(lane)
	}
	asking, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	t, ok, err := s.ask(asking, replica, &command{name: CommandLatest, session: lane, Who: who})
	if err != nil || !ok || t.Run == "" {
		return s.inLane(lane)
	}
	run, err := s.get(ctx, who, t.Run)
	if err != nil {
		return nil
	}
	return run
}

// awayMessage is told to those who would begin something that cannot be kept.
const awayMessage = "the server cannot reach the store that replicas share; retry later"
