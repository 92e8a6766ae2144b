package run

import (
	"context"
	"maps"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/once"
)

// Inspection is what tests of other packages see of a service, and do with it. The product does not use it.
type Inspection struct{ s *Service }

// Inspect returns an inspection.
func (s *Service) Inspect() Inspection { return Inspection{s} }

// Times may be changed.
func (i Inspection) Times() *Times { return &i.s.o.Times }

// Own finds a run whose place this is; nil is none.
func (i Inspection) Own(id string) *Run { return i.s.own(id) }

// Latest finds the run that was started last in a session, among those in memory, by its lane; nil is none.
func (i Inspection) Latest(lane string) *Run { return i.s.inLane(lane) }

// ForgetLatest forgets which runs were started last in their sessions.
func (i Inspection) ForgetLatest() {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	clear(i.s.inSession)
}

// Expire has an id known as one of a run that has expired.
func (i Inspection) Expire(id, owner string) {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	i.s.expired.add(id, owner)
}

// PutKey lets a key lead to a run.
func (i Inspection) PutKey(key string, req *Request, id string) {
	if _, _, err := i.s.shared.Keys.Claim(context.Background(), once.Claim{Key: key, Hash: req.Hash(), Run: id}); err != nil {
		panic(err)
	}
}

// InMemory are the runs in memory.
func (i Inspection) InMemory() map[string]*Run {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return maps.Clone(i.s.inMemory)
}

// Flush waits until all is stored.
func (i Inspection) Flush(ctx context.Context) { i.s.flush(ctx) }

// Refuse refuses new runs.
func (i Inspection) Refuse() { i.s.drain() }

// Stopped reports whether no run can work any more.
func (i Inspection) Stopped() bool { return i.s.working.Err() != nil }

// Adopt takes a run over from another replica.
func (i Inspection) Adopt(ctx context.Context, id, from string) bool { return i.s.adopt(ctx, id, from) }

// AdoptAll takes over what all dead replicas have left.
func (i Inspection) AdoptAll() { i.s.adoptAll("") }

// Continue continues a run that was taken over.
func (i Inspection) Continue(left *runlog.Left) { i.s.continueRun(left) }

// Serve answers another replica.
func (i Inspection) Serve(ctx context.Context, r control.Request) ([]byte, error) {
	return i.s.serve(ctx, r)
}

// Start starts a run for an owner, whose message has an admission already where that is not zero.
func (i Inspection) Start(req *Request, owner string, admission channel.Admission) (*Run, error) {
	sp, err := i.s.prepare(access.Local, req)
	if err != nil {
		return nil, err
	}
	sp.owner = owner
	sp.setID(sp.newID())
	if sp.agent != nil {
		sp.agent.admission = admission
	}
	took := i.s.place(sp)
	return took.run, took.err
}

// Tube has the events of a run.
func (i Inspection) Tube(r *Run) *tube.Tube { return r.tube }

// Reads reports whether somebody reads a run.
func (i Inspection) Reads(r *Run) bool {
	r.sent.mu.Lock()
	defer r.sent.mu.Unlock()
	return r.sent.users > 0
}

// Attempt is how often a restartable run has crashed.
func (i Inspection) Attempt(r *Run) int { return r.restart.attempt }

// Manager is what a run works with; nil if it has ended.
func (i Inspection) Manager(r *Run) *ling.Manager { return r.manager.Load() }

// Options may be changed while nothing runs.
func (i Inspection) Options() *Options { return &i.s.o }
