package run

import (
	"context"
	"maps"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/web/once"
)

// Inspection is what tests of other packages see of a service, and do with it. The product does not use it.
type Inspection struct{ s *Service }

// Inspect returns an inspection.
func (s *Service) Inspect() Inspection { return Inspection{s} }

// Times may be changed.
func (i Inspection) Times() *Times { return &i.s.o.Times }

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

// Serve answers another replica.
func (i Inspection) Serve(ctx context.Context, r control.Request) ([]byte, error) {
	return i.s.serve(ctx, r)
}

// Options may be changed while nothing runs.
func (i Inspection) Options() *Options { return &i.s.o }
