package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/web/once"
)

func (s *Service) attachLocked(owner, key string, hash [16]byte) (string, error) {
	e, ok := s.keys.get(owner, key)
	if !ok {
		return "", nil
	}
	if e.hash != hash {
		return "", keyReused()
	}
	return e.id(), nil
}

// keyReused is the error of a key that was used before, for another request.
func keyReused() *Error {
	const detail = "belongs to another request; use a new one"
	return &Error{Kind: ErrKeyReused, Detail: "the Idempotency-Key " + detail, Fields: []Field{{Header: "Idempotency-Key", Detail: detail}}}
}

// start starts a run, or finds the one that was started with the same key; then its id is returned alone.
func (s *Service) start(sp spec) (r *Run, id string, p error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp.key != "" && !sp.accepted && s.o.Shared == nil { // whose key has led to the other run until now
		// Looked up and set under one lock, so that requests that come together start one run.
		if id, p := s.attachLocked(sp.owner, sp.key, sp.hash); id != "" || p != nil {
			return nil, id, p
		}
	}
	if s.draining {
		return nil, "", &Error{Kind: ErrDraining, Detail: drainingMessage, Retry: 2 * time.Second}
	}
	// What was taken is not refused any more; there is no more of it than an inbox holds.
	if s.running >= s.o.MaxRuns && !sp.accepted {
		return nil, "", tooManyRuns(s.running)
	}
	release, p := s.admit(&sp)
	if p != nil {
		return nil, "", p
	}
	if sp.id == "" {
		sp.id = NewID()
	}
	r = &Run{
		ID: sp.id, Of: sp.of(), owner: sp.owner, session: sp.session, Keyed: sp.key != "",
		Began: time.Now(), done: make(chan struct{}),
	}
	r.caller, r.release, r.restart = sp.caller, release, sp.restart
	if a := sp.restart; a != nil && a.from > 0 {
		r.Began, r.Keyed = a.began, a.keyed
	}
	r.observer = s.o.Observer.Run(r.Of.Workflow, r.Of.Agent)
	m := s.manager(s.runContext(&sp), &sp, r.observer.First)
	r.span, r.traced = sp.span, contextOf(sp.span)
	r.tube = m.Tube()
	r.account = sp.account
	r.account.Measure(func() int64 { return int64(r.tube.Measure()) })
	r.manager.Store(m)
	for _, f := range sp.filters {
		r.tube.AddFilter(f)
	}
	sp.restart.takeBack(r.tube)
	if s.o.Shared != nil {
		r.where = newLocation(nil)
	}
	if s.o.Shared == nil || sp.accepted {
		s.keepKeyLocked(sp, r.ID)
	}
	if sp.restart != nil && sp.restart.slot.waits() {
		r.machine.enter(stateQueued)
	} else {
		r.machine.enter(stateRunning)
	}
	s.keepInLog(r)
	s.inMemory[r.ID] = r
	if lane := r.Lane(); lane != "" {
		s.inSession[lane] = r
	}
	s.running++
	// As a task, so that an error or a panic of the workflow itself is the run's.
	if err := m.Go(func(ctx context.Context) error {
		if sp.restart != nil {
			if err := sp.restart.slot.wait(ctx); err != nil {
				return err
			}
			if r.machine.is(stateQueued) {
				r.machine.enter(stateRunning)
			}
			r.reopen()
		}
		if sp.restart != nil || sp.inDoubt {
			s.flush(ctx) // an attempt that makes the server crash must be known, and one of two has it
			if ctx.Err() != nil {
				if sp.agent != nil {
					sp.agent.cancel(context.Cause(ctx))
				}
				return context.Cause(ctx)
			}
		}
		return sp.workflow.Run(ctx, m, sp.input)
	}); err != nil {
		m.Report("", err)
	}
	if sp.agent != nil {
		sp.agent.supervise = func() { s.supervise(r, m) } // by its turn
	} else {
		s.works.Go(func() { s.supervise(r, m) })
	}
	return r, r.ID, nil
}

// manager makes what a run works with.
func (s *Service) manager(ctx context.Context, sp *spec, first func()) *ling.Manager {
	of := sp.of()
	m := ling.New(ctx, sp.config, &ling.Options{
		Run: sp.id, Models: s.o.Models, Log: s.log, MaxBots: s.o.MaxBots, MaxTasks: s.o.MaxTasks,
		MaxResult: s.o.MaxResult, MaxLog: s.o.MaxLog, Workflow: of.Workflow, Agent: of.Agent, Model: sp.model, Session: sp.session,
		Keep: func(ctx context.Context, kind string, data []byte) (string, error) {
			return s.o.Files.Keep(ctx, sp.owner, kind, data)
		},
		First: first, From: sp.restart.firstEvent(), Held: s.journal != nil && s.journal.Holds(),
	})
	if sp.params != nil {
		m.SetCustomParams(sp.params)
	}
	if len(sp.history) > 0 {
		m.SetHistory(sp.history...)
	}
	m.SetMedia(sp.files...)
	return m
}

// keepKey notes which run a request with a key has led to, where that was there before.
func (s *Service) keepKey(sp spec, run string) {
	if s.o.Shared != nil {
		if sp.key != "" {
			s.moveKeyNow(sp, run)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepKeyLocked(sp, run)
}

func (s *Service) keepKeyLocked(sp spec, run string) {
	if sp.key == "" {
		return
	}
	if s.o.Shared != nil {
		s.moveKey(sp, run)
		return
	}
	e := s.keys.put(sp.owner, sp.key, sp.hash, run)
	if s.disk != nil {
		if err := s.disk.addKey(e, lineage{sp.of(), sp.owner}); err != nil {
			// The run goes on: the key holds until a restart, and whoever runs the server can read why.
			s.log.Error("cannot store an idempotency key", "run", run, "error", err)
			s.notKept(err)
		}
	}
}

// notKept reports a disk that has failed.
func (s *Service) notKept(err error) {
	if vfs.Failed(vfs.Explain(err)) {
		s.o.Pressure.DiskFailed()
	}
}

// claimed is what a key says of its run, should that never be seen.
type claimed struct {
	Subject
	Replica string `json:"replica,omitempty"` // that has claimed it, and is to see to its beginning
}

// claimKey lets the key of a request lead to its run, on all replicas. earlier is the one that it leads to already.
func (s *Service) claimKey(ctx context.Context, sp *spec) (earlier once.Claim, p error) {
	ctx, cancel := context.WithTimeout(ctx, SharedWait)
	defer cancel()
	c, ok, err := s.o.Shared.Keys.Claim(ctx, once.Claim{
		Owner: sp.owner, Key: sp.key, Hash: sp.hash, Run: sp.id, Of: mustJSON(claimed{sp.of(), s.o.Shared.replica()}),
	})
	switch {
	case err != nil:
		return once.Claim{}, s.keyError(ctx, err)
	case ok:
		return once.Claim{}, nil
	case c.Hash != sp.hash:
		return once.Claim{}, keyReused()
	}
	return c, nil
}

// findKey finds the run that a key leads to, on all replicas; one without a run is none.
func (s *Service) findKey(ctx context.Context, owner, key string, hash [16]byte) (c once.Claim, p error) {
	ctx, cancel := context.WithTimeout(ctx, SharedWait)
	defer cancel()
	c, ok, err := s.o.Shared.Keys.Find(ctx, owner, key)
	switch {
	case err != nil:
		return once.Claim{}, s.keyError(ctx, err)
	case !ok:
		return once.Claim{}, nil
	case c.Hash != hash:
		return once.Claim{}, keyReused()
	}
	return c, nil
}

// starting knows the runs that are about to begin here, so that others can ask for them.
type starting struct {
	mu  sync.Mutex
	ids map[string]int
}

func (b *starting) enter(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids == nil {
		b.ids = map[string]int{}
	}
	b.ids[id]++
}

func (b *starting) leave(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids[id]--; b.ids[id] == 0 {
		delete(b.ids, id)
	}
}

func (b *starting) has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id] > 0
}

func (s *Service) keyError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx) // the client disconnected
	}
	s.log.WarnContext(ctx, "cannot look up an idempotency key", "error", err)
	return away()
}

// forgetKey frees the key of a request whose run could not be started, if this start has claimed it. A copy of the request may have started
// under the id at another replica, where this one was taken for dead: then the key leads to that run.
func (s *Service) forgetKey(ctx context.Context, sp *spec) {
	if !sp.claimed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SharedWait)
	defer cancel()
	if _, err := s.o.Shared.Runs.Find(ctx, sp.id); err == nil {
		return
	}
	if err := s.o.Shared.Keys.Forget(ctx, sp.owner, sp.key, sp.id); err != nil {
		s.log.WarnContext(ctx, "cannot free the idempotency key of a refused run", "error", err)
	}
}

// moveKey lets the key of a message lead to the run that it was given to, or back to its own, a moment later.
func (s *Service) moveKey(sp spec, to string) {
	s.moving.Go(func() { s.moveKeyNow(sp, to) })
}

func (s *Service) moveKeyNow(sp spec, to string) {
	ctx, cancel := context.WithTimeout(context.Background(), SharedWait)
	defer cancel()
	keys := s.o.Shared.Keys
	c, ok, err := keys.Find(ctx, sp.owner, sp.key)
	if err == nil && ok && c.Run != to {
		_, err = keys.Move(ctx, sp.owner, sp.key, c.Run, to)
	}
	if err != nil {
		s.log.WarnContext(ctx, "cannot link an idempotency key to its run", "run", to, "error", err)
	}
}

// lostStart is the error of a run that was accepted, and of which nothing was stored: its replica died too soon.
func lostStart(id string) *Error { return &Error{Kind: ErrExpired, Detail: LostMessage, Run: id} }

// Start starts the run that is asked for, or finds the one that the same request has started before.
func (s *Service) Start(ctx context.Context, req *Request) (r *Run, out Outcome, err error) {
	if r, out, err = s.startRun(ctx, req); err == nil && out.Kind == Replayed {
		s.traceReplay(ctx, req.Trace, r)
	}
	return r, out, err
}

func (s *Service) startRun(ctx context.Context, req *Request) (*Run, Outcome, error) {
	var hash [16]byte
	size := max(len(req.Input), req.Size)
	begun := "" // the run that the key leads to, where it is to begin anew
	if req.Key != "" {
		heavy.Do(size, func() { hash = req.Hash() })
		// Before anything else is looked at: what was started once does not depend on what could be started now.
		c, err := s.attach(ctx, req.Who.Owner(), req.Key, hash)
		if err != nil {
			return nil, Outcome{}, err
		}
		if c.Run != "" {
			if r, anew, err := s.awaitStart(ctx, req, &c); !anew {
				return r, Outcome{Kind: Replayed}, err
			}
			begun = c.Run
		}
	}
	sp, err := s.checked(ctx, req, size)
	if err != nil {
		return nil, Outcome{}, err
	}
	sp.hash = hash
	if s.o.Shared != nil {
		r, out, done, err := s.startShared(ctx, req, &sp, begun)
		if done || err != nil {
			return r, out, err
		}
		defer s.starting.leave(sp.id)
	}
	var r *Run
	var id string
	var again bool
	if sp.agent != nil {
		r, id, again, err = s.startAgent(sp)
	} else {
		r, id, err = s.start(sp)
		again = r == nil
	}
	if err != nil {
		s.forgetKey(ctx, &sp)
		return nil, Outcome{}, err
	}
	if r != nil && r.where != nil {
		switch err := s.awaitAccepted(ctx, r, &sp); { // from now on it is found everywhere
		case err != nil:
			return nil, Outcome{}, err
		case r.Moved() && begun != "": // somebody else has begun it at the same time
			r, _, err := s.awaitStart(ctx, req, &once.Claim{Run: r.ID})
			return r, Outcome{Kind: Replayed}, err
		}
	}
	return s.started(ctx, req, &sp, r, id, again)
}

// checked checks a request, and returns the run that it is for.
func (s *Service) checked(ctx context.Context, req *Request, size int) (sp spec, err error) {
	if err := MayStart(req.Who, req); err != nil {
		return sp, err
	}
	if s.o.Pressure.LowMemory() {
		return sp, littleMemory(nothingBegins)
	}
	if err := s.noEngine(); err != nil {
		return sp, err
	}
	if err := s.admitFiles(req); err != nil {
		return sp, err
	}
	heavy.Do(size, func() { sp, err = s.prepare(req.Who, req) })
	if err != nil {
		return sp, err
	}
	sp.asked, sp.keeps = req.Account, s.bytesKept(req, &sp)
	sp.key, sp.caller, sp.trace = req.Key, req.Caller, req.Trace
	if err := s.room(ctx, req, &sp); err != nil {
		return sp, err
	}
	if sp.agent != nil {
		sp.agent.unattended = req.Unattended
	}
	return sp, nil
}

// started says what came of a start. r is nil if another run has the request: that with the id, or one that is not known yet.
func (s *Service) started(ctx context.Context, req *Request, sp *spec, r *Run, id string, again bool) (*Run, Outcome, error) {
	if r != nil {
		if r.restart != nil {
			s.flush(ctx) // it is promised that a restart does not end it
		}
		return r, Outcome{}, nil
	}
	out := Outcome{Kind: Replayed}
	if !again {
		out.Kind = Steered
		if sp.agent.unattended {
			if r := sp.agent.answering(ctx); r != nil {
				return r, out, nil
			}
		} else {
			out.FollowUp = sp.agent.id
		}
	}
	r, err := s.Find(ctx, req.Who, id)
	return r, out, err
}

// startShared is what comes before a run can be started here, where there are other replicas: done says that it is not to be, since it was
// started before, or elsewhere. Else sp.id is noted as about to begin. begun is its id where it is to begin anew.
func (s *Service) startShared(ctx context.Context, req *Request, sp *spec, begun string) (r *Run, out Outcome, done bool, err error) {
	switch {
	case begun != "":
		if sp.id, sp.inDoubt = begun, true; sp.agent != nil {
			sp.rename(begun)
			sp.agent.inDoubt = true
		}
	case sp.agent != nil:
		sp.id = sp.agent.id
	default:
		sp.id = NewID()
	}
	s.starting.enter(sp.id)
	defer func() {
		if done || err != nil {
			s.starting.leave(sp.id)
		}
	}()
	if sp.key != "" {
		// A key that leads to this run may have been freed meanwhile, by a copy of the request that was refused: it is claimed once more.
		earlier, err := s.claimKey(ctx, sp)
		if err != nil {
			return nil, out, false, err
		}
		if sp.claimed = earlier.Run == ""; !sp.claimed && earlier.Run != begun {
			r, _, err := s.awaitStart(ctx, req, &once.Claim{Run: earlier.Run})
			return r, Outcome{Kind: Replayed}, true, err
		}
	}
	if sp.agent != nil {
		if t, ok := s.forwardMessage(ctx, req.Who, req, sp); ok {
			r, out, err := s.forwarded(ctx, req, sp, t)
			return r, out, true, err
		}
	}
	return nil, out, false, nil
}

// attach finds the run that the same principal has started with a key, on whichever replica.
func (s *Service) attach(ctx context.Context, owner, key string, hash [16]byte) (c once.Claim, err error) {
	if s.o.Shared != nil {
		return s.findKey(ctx, owner, key, hash)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Run, err = s.attachLocked(owner, key, hash)
	return c, err
}

// forwarded is what came of a message that another replica was handed.
func (s *Service) forwarded(ctx context.Context, req *Request, sp *spec, t report) (*Run, Outcome, error) {
	if err := t.failure(); err != nil {
		if !t.unknown {
			s.forgetKey(ctx, sp)
		}
		return nil, Outcome{}, err
	}
	out := Outcome{FollowUp: t.Late}
	switch {
	case t.Again:
		out.Kind = Replayed
	case t.Late != "":
		out.Kind = Steered
	}
	r, _, err := s.awaitStart(ctx, req, &once.Claim{Run: t.Run})
	if codeOf(err) == codeOverloaded { // which would say that it was not taken
		err = doubtful(sp, t.Run, "a run accepted the message, but the server cannot read this run now")
	}
	return r, out, err
}

// awaitStart finds a run that was begun, perhaps on another replica and a moment ago. Meanwhile its key may come to lead to another one,
// whose turn takes the message. anew says of the run of a key that it never began, and may now, under the same id: should it have begun
// after all, the log of runs takes what one of them writes.
func (s *Service) awaitStart(ctx context.Context, req *Request, c *once.Claim) (found *Run, anew bool, err error) {
	if s.o.Shared == nil {
		r, err := s.Find(ctx, req.Who, c.Run)
		return r, false, err
	}
	waiting, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	r, err := s.findAccepted(ctx, waiting, req.Who, c.Run)
	there := true
	for look := 0; errors.Is(err, ErrUnknown); look++ {
		if by := claimant(c); by != "" && look%startAsk == 1 {
			if there, anew = s.notStarted(waiting, req, c.Run, by); anew {
				return nil, true, nil
			}
		}
		select {
		case <-time.After(startPause):
			if req.Key != "" {
				if now, err := s.findKey(waiting, req.Who.Owner(), req.Key, req.Hash()); err == nil && now.Run != "" && now.Run != c.Run {
					c = &once.Claim{Run: now.Run}
				}
			}
			r, err = s.findAccepted(ctx, waiting, req.Who, c.Run)
		case <-waiting.Done():
			switch {
			case ctx.Err() != nil:
				return nil, false, context.Cause(ctx) // the client disconnected
			case claimant(c) != "" && there:
				return nil, false, away() // it is about to begin
			}
			return nil, false, lostStart(c.Run)
		}
	}
	return r, false, err
}

// findAccepted finds a run. One that begins here is there when the log of runs has taken it, and not another replica's: it waits for that as long
// as the context waiting goes on.
func (s *Service) findAccepted(ctx, waiting context.Context, who access.Principal, id string) (*Run, error) {
	r, err := s.Find(ctx, who, id)
	if err != nil || r.followed() {
		return r, err
	}
	if r.awaitEvent(waiting, r.tube.From()); r.Moved() {
		return nil, unknownRun()
	}
	return r, nil
}

// claimant is the replica that has let a key lead to its run; "" where that does not matter.
func claimant(c *once.Claim) string {
	var by claimed
	_ = json.Unmarshal(c.Of, &by) // what an earlier version has stored
	return by.Replica
}

// notStarted asks the replica that was to begin a run whether it did. One that has died could have, and what it did is known of a workflow
// that does nothing before it is written down, and of a message, which its tape has.
func (s *Service) notStarted(ctx context.Context, req *Request, id, replica string) (there, anew bool) {
	t, _, err := s.ask(ctx, replica, control.Request{Command: commandStarted, Run: id})
	switch {
	case err != nil:
		return true, false // it is asked again
	case t.NotHere:
		return true, true
	case slices.Contains(s.o.Shared.Replicas(), replica):
		return true, false
	}
	if req.Workflow != "" {
		w, ok := s.o.Workflows.Get(req.Workflow)
		return false, ok && w.Info().Restart && req.Session == ""
	}
	return false, req.Agent != ""
}

const (
	// begunWait is how long it may take until of a run that was begun on another replica something is stored, and begunPause is between
	// looks for it.
	startWait  = 5 * time.Second
	startPause = 20 * time.Millisecond
	// begunAsk is after how many looks the replica is asked that was to begin it.
	startAsk = 10
)

// Find finds a run for somebody. Errors: ErrUnknown, which another's run is, too, ErrExpired, ErrDamaged, ErrAway and ErrOverloaded.
func (s *Service) Find(ctx context.Context, who access.Principal, id string) (*Run, error) {
	r, err := s.get(ctx, who, id)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, errGone):
		return nil, &Error{Kind: ErrExpired, Detail: "this run ended too long ago and is no longer stored", Run: id}
	case errors.Is(err, errDamaged):
		return nil, &Error{Kind: ErrDamaged, Detail: DamagedMessage, Run: id}
	case errors.Is(err, errUnknown):
		return nil, unknownRun()
	case isAway(err) && ctx.Err() == nil:
		return nil, away()
	case vfs.Failed(err):
		return nil, overLimit(LimitDisk, "the server's disk has failed, so it cannot read this run now; retry later", DiskRetry)
	case isFull(err):
		return nil, noRoom()
	}
	return nil, err // the client disconnected
}

// Room waits for the memory that the document of a run takes which goes on. One that has ended has paid for it.
func (s *Service) Room(ctx context.Context, r *Run) (free func(), err error) {
	if r.Ended() || s.o.Ledger == nil {
		return func() {}, nil
	}
	a := s.o.Ledger.Open()
	if err := a.Reserve(ctx, int64(r.tube.Bytes())); err != nil {
		a.Release()
		if isFull(err) {
			err = noRoom()
		}
		return nil, err
	}
	return a.Release, nil
}

// isFull reports whether there was no memory.
func isFull(err error) bool {
	_, full := errors.AsType[*adapter.Error](err)
	return full
}

// noRoom is the error of a document that there is no memory for.
func noRoom() *Error {
	return littleMemory("the server has no memory for this run's document; retry later; the run continues")
}

// DamagedMessage is told to those who come back to a run whose file cannot be read.
const DamagedMessage = "the stored data of this run is damaged; find the cause in the server's log under the run's id"
