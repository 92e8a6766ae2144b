package run

import (
	"context"
	"errors"
	"time"

	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run/transcript"
	"github.com/lingserve/lingserve/store"
)

// Start starts the run that is asked for, or finds the one that the same request has started before.
func (s *Service) Start(ctx context.Context, req *Request) (r *Run, out Outcome, err error) {
	if r, out, err = s.startRun(ctx, req); err == nil && out.Replayed {
		s.traceReplay(ctx, req.Trace, r)
	}
	return r, out, err
}

func (s *Service) startRun(ctx context.Context, req *Request) (*Run, Outcome, error) {
	var hash [16]byte
	unlock := func() {}
	if req.Key != "" {
		hash = req.Hash()
		owner := req.Who.Owner()
		unlock = s.keyLocks.lock(owner, req.Key)
		defer unlock()
		// Before anything else is looked at: what was started once does not depend on what could be started now.
		if k, ok, err := s.store.FindKey(ctx, owner, req.Key); err != nil {
			return nil, Outcome{}, s.storeError(ctx, err)
		} else if ok {
			return s.replayed(ctx, req, k, hash)
		}
	}
	sp, err := s.checked(ctx, req)
	if err != nil {
		return nil, Outcome{}, err
	}
	sp.hash = hash
	if sp.agent == nil {
		err = s.roomFor(sp)
	} else if err = s.awaitSession(ctx, sp.lane()); err == nil { // a message may be steered
		err = s.elsewhere(ctx, sp.lane())
	}
	if err != nil {
		return nil, Outcome{}, err
	}
	took := s.place(sp)
	unlock()
	if taken, ok := errors.AsType[*keyTaken](took.err); ok {
		return s.replayed(ctx, req, taken.IdempotencyKey, hash)
	}
	switch {
	case took.err != nil:
		return nil, Outcome{}, took.err
	case took.run == nil:
		return s.steered(ctx, req, sp, took.id)
	}
	return took.run, Outcome{}, nil
}

// replayed finds the run that a key leads to.
func (s *Service) replayed(ctx context.Context, req *Request, k store.IdempotencyKey, hash [16]byte) (*Run, Outcome, error) {
	if k.Hash != hash {
		return nil, Outcome{}, refuse(ErrKeyReused, "the Idempotency-Key belongs to another request; use a new one")
	}
	r, err := s.Find(ctx, req.Who, k.Run)
	if errors.Is(err, ErrUnknown) {
		err = &Error{Kind: ErrExpired, Detail: "the run of this Idempotency-Key is no longer stored", Run: k.Run}
	}
	return r, Outcome{Replayed: true}, err
}

// checked checks a request, and returns the run that it is for.
func (s *Service) checked(ctx context.Context, req *Request) (*spec, error) {
	if err := MayStart(req.Who, req); err != nil {
		return nil, err
	}
	if s.o.Pressure.LowMemory() {
		return nil, littleMemory(nothingBegins)
	}
	if err := s.admitFiles(req); err != nil {
		return nil, err
	}
	sp, err := s.prepare(req.Who, req, NewID())
	if err != nil {
		return nil, err
	}
	sp.asked = req.Account
	sp.key, sp.caller, sp.keyTag, sp.trace = req.Key, req.Caller, req.KeyTag, req.Trace
	if err := s.room(ctx, req, sp); err != nil {
		return nil, err
	}
	if sp.agent != nil {
		sp.agent.unattended = req.Unattended
	}
	return sp, nil
}

// place starts a run, or gives its message to a turn that goes on.
func (s *Service) place(sp *spec) taken {
	if sp.agent != nil {
		return s.startAgent(sp)
	}
	r, err := s.start(sp)
	return taken{run: r, id: sp.id, err: err}
}

// steered finds the run whose turn took a message: one that answers it by itself where the caller waits for the document.
func (s *Service) steered(ctx context.Context, req *Request, sp *spec, host string) (*Run, Outcome, error) {
	out := Outcome{Steered: true}
	if !sp.agent.unattended {
		out.FollowUp = sp.agent.id
	} else if r := sp.agent.answering(ctx); r != nil {
		return r, out, nil
	}
	r, err := s.Find(ctx, req.Who, host)
	return r, out, err
}

// roomFor says why a run cannot start here now; nil if it can.
func (s *Service) roomFor(sp *spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomLocked(sp)
}

// roomLocked is roomFor. What was accepted before is not refused for want of room; there is no more of it than an inbox holds.
func (s *Service) roomLocked(sp *spec) error {
	switch {
	case s.draining:
		return &Error{Kind: ErrDraining, Detail: drainingMessage, Retry: 2 * time.Second}
	case s.running >= s.o.MaxRuns && !sp.accepted():
		return tooManyRuns(s.running)
	}
	return nil
}

// chargeLocked counts a run for the server and for its caller. The lock of runs is held.
func (s *Service) chargeLocked(sp *spec) (release func(), err error) {
	if err := s.roomLocked(sp); err != nil {
		return nil, err
	}
	if release, err = s.admit(sp); err != nil {
		return nil, err
	}
	s.running++
	return release, nil
}

// uncharge takes back what chargeLocked did for a run that could not be stored.
func (s *Service) uncharge(release func()) {
	if release != nil {
		release()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endedLocked()
}

// endedLocked says that a run goes on no more. The lock of runs is held.
func (s *Service) endedLocked() {
	s.running--
	if s.draining && s.running == 0 {
		close(s.quiet)
	}
}

// start charges a run, stores it, and makes it. Its work begins then.
func (s *Service) start(sp *spec) (*Run, error) {
	s.mu.Lock()
	release, err := s.chargeLocked(sp)
	s.mu.Unlock()
	if err == nil {
		if err = s.storeStart(sp); err != nil {
			s.uncharge(release)
		}
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, m := s.newRun(sp)
	r.release = release
	if sp.resumed != nil && sp.resumed.slot.waits() {
		r.machine.enter(runQueued)
	} else {
		r.machine.enter(runRunning)
	}
	s.recorder.add(r)
	s.inMemory[r.ID] = r
	if lane := r.Lane(); lane != "" {
		s.inSession[lane] = r
	}
	// As a task, so that an error or a panic of the workflow itself is the run's.
	if err := m.Go(func(ctx context.Context) error { return s.work(ctx, r, m, sp) }); err != nil {
		m.Report("", err)
	}
	switch {
	case sp.agent != nil:
		sp.agent.supervise = func() { s.supervise(r, m) } // by its turn
	case sp.resumed != nil:
		s.works.Go(func() { s.supervise(r, m) })
	default:
		s.superviseLater(r, m)
	}
	return r, nil
}

// newRun makes a run, and what it works with.
func (s *Service) newRun(sp *spec) (*Run, *ling.Manager) {
	r := &Run{
		ID: sp.id, Of: sp.of(), owner: sp.owner, session: sp.session, key: sp.key, Keyed: sp.key != "",
		Began: time.Now(), done: make(chan struct{}), caller: sp.caller, keyTag: sp.keyTag, goesOn: sp.request != nil, resumed: sp.resumed,
		where: newLocation(), recording: &recording{attempt: 1, seq: 1, state: sp.state()},
	}
	if so := sp.resumed; so != nil {
		r.Began, r.Keyed, r.crashes, r.recording.attempt = so.at, so.Keyed, so.crashes, so.attempt
	}
	r.observer = s.o.Observer.Run(r.Of.Workflow, r.Of.Agent)
	m := s.manager(s.runContext(sp), sp, r)
	r.span, r.traced = sp.span, contextOf(sp.span)
	r.tube = m.Tube()
	r.pay(sp.account)
	r.manager.Store(m)
	for _, f := range sp.filters {
		r.tube.AddFilter(f)
	}
	if so := sp.resumed; so != nil && sp.agent != nil && sp.agent.answer == nil && so.told.Begun {
		parts, takeBack := transcript.TakeBack(r.tube, so.told)
		if !so.suspended || len(parts) > 0 {
			m.Restarted([]ling.Part{{Bot: sp.agent.name}}, parts)
		}
		takeBack()
	}
	r.queued.Store(sp.queued)
	return r, m
}

// work is the work of a run.
func (s *Service) work(ctx context.Context, r *Run, m *ling.Manager, sp *spec) error {
	if sp.resumed != nil && sp.agent == nil {
		if err := sp.resumed.slot.wait(ctx); err != nil {
			return err
		}
		if !r.machine.enterFrom(runQueued, runRunning) {
			return errElsewhere
		}
		r.recording.mu.Lock()
		err := s.storeState(ctx, r, store.RunRunning) // an attempt that makes the server crash must be known
		r.recording.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return sp.workflow.Run(ctx, m, sp.input)
}

// manager makes what a run works with. A run of nil is one that nobody sees.
func (s *Service) manager(ctx context.Context, sp *spec, r *Run) *ling.Manager {
	of := sp.of()
	o := &ling.Options{
		Run: sp.id, Models: s.o.Models, Log: s.log, MaxBots: s.o.MaxBots, MaxTasks: s.o.MaxTasks,
		MaxResult: s.o.MaxResult, MaxLog: s.o.MaxLog, Workflow: of.Workflow, Agent: of.Agent, Model: sp.model, Session: sp.session,
		Keep: func(ctx context.Context, kind string, data []byte) (string, error) {
			return s.o.Files.Keep(ctx, sp.owner, kind, data)
		},
		HoldEnd: true,
	}
	if r != nil {
		o.First, o.Finished = r.observer.First, r.stepped
		if so := sp.resumed; so != nil {
			o.Resumed = &ling.Resumed{Tube: so.tube, Notes: so.notes, Attempt: so.attempt}
		}
	}
	m := ling.New(ctx, sp.config, o)
	if sp.params != nil {
		m.SetCustomParams(sp.params)
	}
	if len(sp.history) > 0 {
		m.SetHistory(sp.history...)
	}
	m.SetMedia(sp.files...)
	return m
}
