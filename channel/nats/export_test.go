package nats

import (
	"context"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
)

// Alive are owners without leases: they are alive until they are killed.
type Alive struct {
	mu    sync.Mutex
	alive map[string]bool
	last  chan struct{}
}

func (a *Alive) begin(context.Context) (string, <-chan struct{}, func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	owner := newID()
	if a.alive == nil {
		a.alive = map[string]bool{}
	}
	a.alive[owner] = true
	a.last = make(chan struct{})
	return owner, a.last, func() { a.kill(owner) }, nil
}

func (a *Alive) alive_(owner string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.alive[owner]
}

func (a *Alive) kill(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.alive, owner)
}

// Lose takes the lease of the last owner away.
func (a *Alive) Lose(j *Journal) {
	j.mu.Lock()
	owner := j.owner
	j.mu.Unlock()
	a.kill(owner)
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.last)
}

// fakeOwners makes owners of Alive.
type fakeOwners struct{ *Alive }

func (f fakeOwners) alive(_ context.Context, owner string) (bool, error) {
	return f.alive_(owner), nil
}

// OpenWith opens a journal whose owners and clock are the test's.
func OpenWith(ctx context.Context, c *cluster.Cluster, a *Alive, now func() time.Time, o JournalOptions) (*Journal, error) {
	return openJournal(ctx, c, fakeOwners{a}, now, o)
}

// Abandon ends a journal as the end of its process does: nothing is stored any more. Its lease, where it has a real one, goes with its
// cluster.
func (j *Journal) Abandon(a *Alive) {
	j.mu.Lock()
	j.closed = true
	owner := j.owner
	j.mu.Unlock()
	j.stop()
	j.running.Wait()
	if a != nil {
		a.kill(owner)
	}
}

// Purge removes all that is stored.
func (j *Journal) Purge(ctx context.Context) error { return j.log.stream.Purge(ctx) }

// Messages is how many are stored.
func (j *Journal) Messages(ctx context.Context) (uint64, error) {
	info, err := j.log.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	return info.State.Msgs, nil
}

// Publish lets a test stand between the journal and the servers.
func (j *Journal) Publish(between func(context.Context, *client.Msg, func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error)) {
	real := j.log.publish
	j.log.publish = func(ctx context.Context, m *client.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		return between(ctx, m, func() (*jetstream.PubAck, error) { return real(ctx, m, o...) })
	}
}

// LookEvery is how often it is looked who is dead.
const LookEvery = lookEvery

// Pause keeps a journal from noticing anything, as a process that is stopped; Continue ends that.
func (j *Journal) Pause() {
	j.stop()
	j.running.Wait()
}

// Continue goes on.
func (j *Journal) Continue() {
	j.end, j.stop = context.WithCancel(context.Background())
	j.running.Go(func() { j.follow(func() {}) })
	j.running.Go(j.watch)
}

// Others is how many events of others are known that somebody has claimed.
func (j *Journal) Others() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range j.others {
		if o.record.State == claimed {
			n++
		}
	}
	return n
}
