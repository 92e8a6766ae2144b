package run

import (
	"context"
	"maps"
	"time"

	"github.com/lingserve/lingserve/store"
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

// Expire stores a run of somebody that has expired.
func (i Inspection) Expire(id, owner string) {
	ctx, s := context.Background(), i.s.store
	_, err := s.Start(ctx, store.Run{ID: id, Owner: owner, Replica: i.s.replica, Attempt: 1, State: store.RunRunning}, nil)
	if err == nil {
		err = s.End(ctx, store.RunEnd{ID: id, Replica: i.s.replica, Attempt: 1, State: store.RunCompleted, Expires: time.Now().Add(-time.Second)})
	}
	if err != nil {
		panic(err)
	}
}

// PutKey lets a key lead to a run.
func (i Inspection) PutKey(key string, req *Request, id string) {
	k := store.IdempotencyKey{Key: key, Hash: req.Hash(), Run: id, Expires: time.Now().Add(time.Hour)}
	if _, err := i.s.store.PutKey(context.Background(), k); err != nil {
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
func (i Inspection) Flush(ctx context.Context) { i.s.recorder.record(ctx) }

// Options may be changed while nothing runs.
func (i Inspection) Options() *Options { return &i.s.o }
