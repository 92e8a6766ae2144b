package run

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/web/once"
)

// Start starts the run that is asked for, or finds the one that the same request has started before.
func (s *Service) Start(ctx context.Context, req *Request) (r *Run, out Outcome, err error) {
	if r, out, err = s.startRun(ctx, req); err == nil && out.Kind == Replayed {
		s.traceReplay(ctx, req.Trace, r)
	}
	return r, out, err
}

func (s *Service) startRun(ctx context.Context, req *Request) (*Run, Outcome, error) {
	var hash [16]byte
	var earlier once.Claim // of the key
	if req.Key != "" {
		hash = req.Hash()
		// Before anything else is looked at: what was started once does not depend on what could be started now.
		var err error
		if earlier, err = s.findKey(ctx, req.Who.Owner(), req.Key, hash); err != nil {
			return nil, Outcome{}, err
		}
	}
	var sp *spec
	for {
		key := keyFree
		if earlier.Run != "" {
			var r *Run
			var err error
			if r, key, err = s.awaitStart(ctx, req, hash, &earlier); key == keyHeld || key == keySpent {
				return r, Outcome{Kind: Replayed}, err
			}
		}
		if sp == nil {
			var err error
			if sp, err = s.checked(ctx, req); err != nil {
				return nil, Outcome{}, err
			}
			sp.hash = hash
		}
		if err := s.roomFor(sp); err != nil && sp.agent == nil {
			return nil, Outcome{}, err // before its key is claimed, and freed; a message may be steered
		}
		sp.inDoubt = key == keyUnstarted
		if sp.inDoubt {
			sp.keyState.enter(keyUnstarted)
			sp.setID(earlier.Run)
		} else {
			sp.setID(sp.newID())
		}
		leave := s.starting.enter(sp)
		var err error
		if earlier, err = s.claimKey(ctx, sp); err == nil && earlier.Run == "" {
			defer leave()
			return s.startHere(ctx, req, sp)
		}
		leave()
		if err != nil {
			return nil, Outcome{}, err
		}
	}
}

// checked checks a request, and returns the run that it is for.
func (s *Service) checked(ctx context.Context, req *Request) (*spec, error) {
	if err := MayStart(req.Who, req); err != nil {
		return nil, err
	}
	if s.o.Pressure.LowMemory() {
		return nil, littleMemory(nothingBegins)
	}
	if err := s.noEngine(); err != nil {
		return nil, err
	}
	if err := s.admitFiles(req); err != nil {
		return nil, err
	}
	sp, err := s.prepare(req.Who, req)
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

// startHere starts a run whose key is claimed, or hands its message to the replica that has its session.
func (s *Service) startHere(ctx context.Context, req *Request, sp *spec) (*Run, Outcome, error) {
	if sp.agent != nil {
		if t, ok := s.forwardMessage(ctx, req, sp); ok {
			return s.forwarded(ctx, req, sp, t)
		}
	}
	took := s.place(sp)
	if took.err != nil {
		s.forgetKey(ctx, sp)
		return nil, Outcome{}, took.err
	}
	r := took.run
	if r == nil {
		return s.steered(ctx, req, sp, took.id)
	}
	switch err := s.awaitAccepted(ctx, r, sp); { // from now on it is found everywhere
	case err != nil:
		return nil, Outcome{}, err
	case r.Moved() && sp.inDoubt: // another replica has started it at the same time
		r, _, err := s.pollStart(ctx, req, sp.hash, &once.Claim{Run: r.ID}) // awaitStart would wait for this call
		return r, Outcome{Kind: Replayed}, err
	}
	if r.restart != nil {
		s.flush(ctx) // it is promised that a restart does not end it
	}
	return r, Outcome{}, nil
}

// place starts a run at this replica, or gives its message to a turn that goes on.
func (s *Service) place(sp *spec) taken {
	sp.start.enter(startPlaced)
	if sp.agent != nil {
		return s.startAgent(sp)
	}
	r, err := s.start(sp)
	return taken{run: r, id: sp.id, err: err}
}

// steered finds the run whose turn took a message: one that answers it by itself where the caller waits for the document.
func (s *Service) steered(ctx context.Context, req *Request, sp *spec, host string) (*Run, Outcome, error) {
	out := Outcome{Kind: Steered}
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
	sp.start.enter(startCharged)
	return release, nil
}

// start charges a run, makes it, and gives its opening to the log. Its work begins then.
func (s *Service) start(sp *spec) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	release, err := s.chargeLocked(sp)
	if err != nil {
		sp.start.enter(startRefused)
		return nil, err
	}
	r, m := s.newRun(sp)
	r.release = release
	if sp.restart != nil && sp.restart.slot.waits() {
		r.machine.enter(runQueued)
	} else {
		r.machine.enter(runRunning)
	}
	s.keepInLog(r)
	sp.start.enter(startLogged)
	s.inMemory[r.ID] = r
	if lane := r.Lane(); lane != "" {
		s.inSession[lane] = r
	}
	// As a task, so that an error or a panic of the workflow itself is the run's.
	if err := m.Go(func(ctx context.Context) error { return s.work(ctx, r, m, sp) }); err != nil {
		m.Report("", err)
	}
	if sp.agent != nil {
		sp.agent.supervise = func() { s.supervise(r, m) } // by its turn
	} else {
		s.works.Go(func() { s.supervise(r, m) })
	}
	sp.start.enter(startRunning)
	return r, nil
}

// newRun makes a run, and what it works with.
func (s *Service) newRun(sp *spec) (*Run, *ling.Manager) {
	r := &Run{
		ID: sp.id, Of: sp.of(), owner: sp.owner, session: sp.session, key: sp.key, Keyed: sp.key != "",
		Began: time.Now(), done: make(chan struct{}), caller: sp.caller, keyTag: sp.keyTag, restart: sp.restart,
	}
	if a := sp.restart; a != nil && a.from > 0 {
		r.Began, r.Keyed = a.began, a.keyed
	}
	r.observer = s.o.Observer.Run(r.Of.Workflow, r.Of.Agent)
	m := s.manager(s.runContext(sp), sp, r.observer.First)
	r.span, r.traced = sp.span, contextOf(sp.span)
	r.tube = m.Tube()
	r.pay(sp.account)
	r.manager.Store(m)
	for _, f := range sp.filters {
		r.tube.AddFilter(f)
	}
	sp.restart.takeBack(r.tube)
	if r.tube.Held() {
		r.where = newLocation()
	}
	return r, m
}

// work is the work of a run.
func (s *Service) work(ctx context.Context, r *Run, m *ling.Manager, sp *spec) error {
	if sp.restart != nil {
		if err := sp.restart.slot.wait(ctx); err != nil {
			return err
		}
		r.machine.enterFrom(runQueued, runRunning)
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
		First: first, From: sp.restart.firstEvent(), Held: s.shared.Runs.Holds(),
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
