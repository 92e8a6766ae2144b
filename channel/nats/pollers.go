package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/cluster"
)

// Pollers is a channel.Exclusive of replicas: a lease for each name. Of a replica that dies the next one takes it over when the others
// take it for dead.
type Pollers struct{ leases *cluster.Leases }

var _ channel.Exclusive = (*Pollers)(nil)

const pollerLeases = "pollers"

// errTaken is why a context ends.
var errTaken = errors.New("channel: the other replicas consider this one dead, and one of them may do its work")

// OpenPollers joins the other replicas.
func OpenPollers(ctx context.Context, c *cluster.Cluster) (*Pollers, error) {
	l, err := c.Leases(ctx, pollerLeases)
	if err != nil {
		return nil, fmt.Errorf("join those who ask platforms for events: %w", err)
	}
	return &Pollers{l}, nil
}

// Only implements [channel.Exclusive].
func (p *Pollers) Only(ctx context.Context, name string) (alone context.Context, release func(), err error) {
	lease, err := p.leases.Lease(ctx, name, true)
	if err != nil {
		return nil, nil, err
	}
	alone, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-lease.Lost():
			end(errTaken)
		case <-alone.Done():
		}
	})
	return alone, func() {
		end(nil)
		watch.Wait()
		lease.Release()
	}, nil
}
