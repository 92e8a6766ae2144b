package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/store"
)

// Start starts the run that is asked for, or finds the one that the same request has started before.
func (s *Service) Start(ctx context.Context, req *Request) (*Run, Outcome, error) {
	var st started
	for done := false; !done; {
		start := func() (any, error) {
			st, done = s.startOnce(ctx, req), true
			return nil, nil
		}
		if req.Key == "" {
			_, _ = start()
		} else { // of several requests with one key, the first one is started, and then the others look again
			_, _, _ = s.starting.Do(req.Who.Owner()+"\x00"+req.Key, start)
		}
	}
	switch {
	case st.taken != nil:
		return s.replayed(ctx, req, *st.taken)
	case st.host != "":
		return s.steered(ctx, req, st.spec, st.host)
	}
	return st.run, Outcome{}, st.err
}

// started is what became of a start: a run, the run whose turn takes its message, the run that its key leads to, or an error.
type started struct {
	spec  *spec
	run   *Run
	host  string
	taken *store.IdempotencyKey
	err   error
}

// startOnce starts the run of a request, unless its key leads to a run.
func (s *Service) startOnce(ctx context.Context, req *Request) (st started) {
	if req.Key != "" {
		// Before anything else is checked: what was started once does not depend on what could be started now.
		k, ok, err := s.store.FindKey(ctx, req.Who.Owner(), req.Key)
		if err != nil {
			return started{err: s.storeError(ctx, err)}
		}
		if ok {
			return started{taken: &k}
		}
	}
	if st.spec, st.err = s.checked(ctx, req); st.err != nil {
		return st
	}
	if st.spec.agent == nil {
		st.run, st.err = s.start(st.spec)
	} else if st.err = s.bringHere(ctx, st.spec.Lane()); st.err == nil {
		st.run, st.host, st.err = s.startAgent(st.spec)
	}
	if other, ok := errors.AsType[*keyTaken](st.err); ok {
		st.taken = &other.IdempotencyKey
	}
	return st
}

// replayed finds the run that a key leads to.
func (s *Service) replayed(ctx context.Context, req *Request, k store.IdempotencyKey) (*Run, Outcome, error) {
	if k.Hash != req.Hash() {
		return nil, Outcome{}, refuse(ErrKeyReused, "the Idempotency-Key belongs to another request; use a new one")
	}
	r, err := s.Find(ctx, req.Who, k.Run)
	switch {
	case err == nil:
		s.traceReplay(ctx, req.Trace, r)
	case errors.Is(err, ErrUnknown):
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
	if req.Key != "" {
		sp.hash = req.Hash()
	}
	return sp, s.room(ctx, req, sp)
}

// steered finds the run whose turn took a message: one that answers it by itself where the caller waits for the document.
func (s *Service) steered(ctx context.Context, req *Request, sp *spec, host string) (*Run, Outcome, error) {
	out := Outcome{Steered: true}
	if !sp.Unattended {
		out.FollowUp = sp.ID
	} else if r := sp.agent.answering(ctx); r != nil {
		return r, out, nil
	}
	r, err := s.Find(ctx, req.Who, host)
	return r, out, err
}

// charge counts a run for the server and for its caller, until release is called. It refuses a run beyond a limit, unless the run was
// accepted before.
func (s *Service) charge(sp *spec) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return nil, draining()
	case s.runs.Count() >= s.o.MaxRuns && !sp.accepted():
		return nil, tooManyRuns(s.runs.Count())
	}
	var releaseCaller func()
	if s.o.Limits != nil && sp.Caller != "" {
		var refusal *access.Refusal
		if releaseCaller, refusal = s.o.Limits.Run(sp.Caller); refusal != nil && !sp.accepted() {
			return nil, &Error{Kind: ErrLimited, Detail: refusal.Detail, Limit: refusal.Reason, Retry: refusal.RetryAfter}
		}
	}
	s.runs.Enter()
	s.starts.Enter() // start leaves it
	return func() {
		if releaseCaller != nil {
			releaseCaller()
		}
		s.runs.Leave()
	}, nil
}

// start charges a run, stores it, and makes it. Its work begins then.
func (s *Service) start(sp *spec) (*Run, error) {
	release, err := s.charge(sp)
	if err != nil {
		return nil, err
	}
	defer s.starts.Leave()
	if err := s.storeStart(sp); err != nil {
		release()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, m := s.makeRun(sp)
	r.release = release
	if sp.queued {
		r.machine.enter(stateQueued)
	} else {
		r.machine.enter(stateRunning)
	}
	s.recorder.add(r)
	s.inMemory[r.ID] = r
	if lane := r.Lane(); lane != "" {
		s.inSession[lane] = r
	}
	r.late = time.AfterFunc(s.o.RunTimeout, func() { m.Stop(fmt.Errorf("the run took longer than %s", s.o.RunTimeout)) })
	// As a task, so that an error or a panic of the workflow itself is the run's.
	if err := m.Go(func(ctx context.Context) error { return s.work(ctx, r, m, sp) }); err != nil {
		m.Report("", err)
	}
	if sp.agent == nil { // else its turn waits for its end
		m.CloseLater(func(err error) { s.finish(r, m, err) }) // in the last goroutine of the run
	}
	return r, nil
}

// makeRun makes a run, and what it works with.
func (s *Service) makeRun(sp *spec) (*Run, *ling.Manager) {
	r, so := newRun(sp.origin), sp.resumed
	r.key, r.goesOn, r.Again = sp.request.Key, sp.Again != nil, nil
	r.recording = &recording{attempt: 1, seq: 1, state: sp.state()}
	if so != nil {
		r.recording.crashes, r.recording.attempt, r.asked = so.crashes, so.attempt, so.questions
	}
	r.observer = s.o.Observer.Run(r.Of.Workflow, r.Of.Agent)
	m := s.manager(s.runContext(sp), sp, r)
	if r.span = sp.span; r.span != nil {
		r.traced = r.span.SpanContext()
	}
	r.tube = m.Tube()
	r.account = sp.account
	r.account.Measure(func() int64 { return int64(r.tube.Measure()) })
	r.manager.Store(m)
	if so != nil {
		so.canceled = m.Context().Done()
	}
	for _, f := range sp.request.filters() {
		r.tube.AddFilter(f)
	}
	if so != nil && sp.agent != nil && sp.agent.answer == nil && so.told.Begun {
		parts, send := correctDocument(r.tube, so.told)
		if !so.suspended || len(parts) > 0 {
			m.Restarted([]ling.Part{{Bot: sp.agent.name}}, parts)
		}
		send()
	}
	return r, m
}

// work is the work of a run.
func (s *Service) work(ctx context.Context, r *Run, m *ling.Manager, sp *spec) error {
	if sp.agent == nil { // else its turn does
		err := s.awaitSlot(ctx, r, sp.resumed)
		if err == nil {
			err = s.leaveQueue(ctx, r)
		}
		if err != nil {
			return err
		}
	}
	return sp.workflow.Run(ctx, m, sp.input)
}

// awaitSlot waits until a run that is resumed may work. The time before does not count as the run's.
func (s *Service) awaitSlot(ctx context.Context, r *Run, so *leftRun) error {
	if so == nil {
		return nil
	}
	r.late.Stop()
	select {
	case <-so.slot:
		r.hasSlot = true
		r.late.Reset(s.o.RunTimeout)
		s.log.InfoContext(r.Context(), "run resumed", "run", r.ID, r.Of.attr(), "attempt", so.attempt)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// manager makes what a run works with.
func (s *Service) manager(ctx context.Context, sp *spec, r *Run) *ling.Manager {
	o := &ling.Options{
		Run: sp.ID, Models: s.o.Models, Log: s.log, MaxBots: s.o.MaxBots, MaxTasks: s.o.MaxTasks,
		MaxResult: s.o.MaxResult, MaxLog: s.o.MaxLog, Workflow: sp.Of.Workflow, Agent: sp.Of.Agent, Model: sp.model, Session: sp.Session,
		HoldEnd: true, Keep: s.keepFiles(sp.owner), First: r.observer.First, Finished: func() { r.step.Store(true) },
	}
	if so := sp.resumed; so != nil {
		o.Resumed = &ling.Resumed{Tube: so.tube, Notes: so.notes, Attempt: so.attempt}
	}
	m := ling.New(ctx, sp.config, o)
	if sp.request.Params != nil {
		m.SetCustomParams(sp.request.Params)
	}
	if len(sp.history) > 0 {
		m.SetHistory(sp.history...)
	}
	m.SetMedia(sp.files...)
	return m
}

// keepFiles keeps what models make for an owner.
func (s *Service) keepFiles(owner string) func(ctx context.Context, kind string, data []byte) (url string, err error) {
	return func(ctx context.Context, kind string, data []byte) (string, error) {
		return s.o.Files.Keep(ctx, owner, kind, data)
	}
}
