package nats

import (
	"context"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
)

// OpenOutboxWith opens an outbox whose owners are the test's.
func OpenOutboxWith(ctx context.Context, c *cluster.Cluster, a *Alive, o OutboxOptions) (*Outbox, error) {
	return openOutbox(ctx, c, fakeOwners{a}, o)
}

// Purge removes all that is stored.
func (o *Outbox) Purge(ctx context.Context) error { return o.log.stream.Purge(ctx) }

// Abandon ends an outbox as the end of its process does: nothing is stored any more.
func (o *Outbox) Abandon(a *Alive) {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.stop()
	o.running.Wait()
	o.Die(a)
}

// Die makes the others take an outbox for dead.
func (o *Outbox) Die(a *Alive) {
	o.mu.Lock()
	owner := o.owner
	o.mu.Unlock()
	a.kill(owner)
}

// Pause keeps an outbox from hearing anything, as a process that is stopped.
func (o *Outbox) Pause() {
	o.stop()
	o.running.Wait()
}

// Continue goes on.
func (o *Outbox) Continue() {
	o.end, o.stop = context.WithCancel(context.Background())
	o.running.Go(func() { o.follow(func() {}) })
	o.running.Go(o.watch)
}

// Late is how many ends are still to be stored.
func (o *Outbox) Late() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.late)
}

// Messages is how many are stored.
func (o *Outbox) Messages(ctx context.Context) (uint64, error) {
	info, err := o.log.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	return info.State.Msgs, nil
}

// Publish lets a test stand between the outbox and the servers.
func (o *Outbox) Publish(between func(context.Context, *client.Msg, func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error)) {
	real := o.log.publish
	o.log.publish = func(ctx context.Context, m *client.Msg, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
		return between(ctx, m, func() (*jetstream.PubAck, error) { return real(ctx, m, options...) })
	}
}
