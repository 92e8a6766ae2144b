package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/store"
)

// Start starts the run of a request, or finds the one that the same request has started before.
func (s *Service) Start(ctx context.Context, req *Request) (*Run, Outcome, error) {
	sp, r, host, err := s.startOnce(ctx, req)
	taken, replayed := errors.AsType[*keyTaken](err)
	switch {
	case replayed:
		return s.replayed(ctx, req, taken.IdempotencyKey)
	case host != nil:
		r, out := steered(ctx, sp, host)
		return r, out, nil
	}
	return r, Outcome{}, err
}

// startOnce starts the run of a request, or returns the run whose turn takes its message. The error is keyTaken if the key of the
// request leads to a run.
func (s *Service) startOnce(ctx context.Context, req *Request) (sp *spec, r, host *Run, err error) {
	if req.Key != "" {
		_, release, err := s.acquire(ctx, req.Who.Owner()+"\x00"+req.Key)
		if err != nil {
			return nil, nil, nil, err
		}
		defer release()
		// Before anything else is checked: what was started once does not depend on what could be started now.
		k, ok, err := s.store.FindKey(ctx, req.Who.Owner(), req.Key)
		switch {
		case err != nil:
			return nil, nil, nil, s.storeError(ctx, err)
		case ok:
			return nil, nil, nil, &keyTaken{k}
		}
	}
	if sp, err = s.checked(ctx, req); err != nil {
		return nil, nil, nil, err
	}
	if sp.agent == nil {
		r, err = s.start(sp)
	} else if err = s.bringHere(ctx, sp.Lane()); err == nil {
		r, host, err = s.startAgent(sp)
	}
	return sp, r, host, err
}

// replayed finds the run that a key leads to.
func (s *Service) replayed(ctx context.Context, req *Request, k store.IdempotencyKey) (*Run, Outcome, error) {
	if k.Hash != req.Hash() {
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
		return nil, littleMemory("the server is close to its memory limit and starts no new runs; retry later")
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

// steered returns the run that shows what comes of a message that the turn of another run, its host, has taken: one that answers it by itself
// if the caller waits for the document, else the host.
func steered(ctx context.Context, sp *spec, host *Run) (*Run, Outcome) {
	out := Outcome{Steered: true}
	if !sp.Unattended {
		out.FollowUp = sp.ID
	} else if r := sp.agent.answering(ctx); r != nil {
		return r, out
	}
	return host, out
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
		detail := wording.Plural(int64(s.runs.Count()), "run") + " are active, the server's limit; retry later"
		return nil, overLimit(LimitAllRuns, detail, runsRetry)
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
	if sp.agent != nil { // its turn is the work, and ends it
		return r, nil
	}
	// As a task, so that an error or a panic of the workflow itself is the run's.
	if err := m.Go(func(ctx context.Context) error { return s.work(ctx, r, m, sp) }); err != nil {
		m.Report("", err)
	}
	m.CloseLater(func(err error) { s.finish(r, m, err) }) // in the last goroutine of the run
	return r, nil
}

// makeRun makes a run, and what it works with.
func (s *Service) makeRun(sp *spec) (*Run, *ling.Manager) {
	r, so := newRun(sp.origin), sp.resumed
	r.key, r.goesOn, r.Again = sp.request.Key, sp.Again != nil, nil
	r.recording = &recording{attempt: 1, seq: 1, state: sp.state()}
	if so != nil {
		r.recording.crashes, r.recording.attempt, r.asked = so.crashes, so.attempt, so.questions
		if sp.agent == nil {
			so.after, so.begins = s.lastResumed, make(chan struct{})
			s.lastResumed = so.begins
		}
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

// work is the work of a workflow's run.
func (s *Service) work(ctx context.Context, r *Run, m *ling.Manager, sp *spec) error {
	if err := s.awaitSlot(ctx, r, sp.resumed); err != nil {
		return err
	}
	if err := s.leaveQueue(ctx, r); err != nil {
		return err
	}
	return sp.workflow.Run(ctx, m, sp.input)
}

// awaitSlot waits until a run that is resumed may work: the oldest first, and only while there is memory. The time before does not count as the
// run's.
func (s *Service) awaitSlot(ctx context.Context, r *Run, so *leftRun) error {
	if so == nil {
		return nil
	}
	r.late.Stop()
	defer close(so.begins)
	select {
	case <-so.after:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case s.slots <- struct{}{}:
		r.hasSlot = true
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for s.o.Pressure.LowMemory() {
		if err := backoff.Sleep(ctx, memoryPause); err != nil {
			return err
		}
	}
	r.late.Reset(s.o.RunTimeout)
	s.log.InfoContext(r.Context(), "run resumed", "run", r.ID, r.Of.attr(), "attempt", so.attempt)
	return nil
}

const (
	// RestartsAtOnce is how many resumed runs work at the same time. All that ten thousand clients had begun in an hour would
	// otherwise ask the models in one second, beside those who ask now, and be refused there.
	RestartsAtOnce = 16
	// memoryPause is between checks whether there is memory to resume the next run.
	memoryPause = 250 * time.Millisecond
)

// manager makes what a run works with.
func (s *Service) manager(ctx context.Context, sp *spec, r *Run) *ling.Manager {
	o := &ling.Options{
		Run: sp.ID, Models: s.o.Models, Log: s.log, MaxBots: s.o.MaxBots, MaxTasks: s.o.MaxTasks,
		MaxResult: s.o.MaxResult, MaxLog: s.o.MaxLog, Workflow: sp.Of.Workflow, Agent: sp.Of.Agent, Model: sp.model, Session: sp.Session,
		HoldEnd: true, Media: sp.files, Keep: s.keepFiles(sp.owner), First: r.observer.First, Finished: func() { r.step.Store(true) },
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
	return m
}

// keepFiles keeps what models make for an owner.
func (s *Service) keepFiles(owner string) func(ctx context.Context, kind string, data []byte) (url string, err error) {
	return func(ctx context.Context, kind string, data []byte) (string, error) {
		return s.o.Files.Keep(ctx, owner, kind, data)
	}
}
