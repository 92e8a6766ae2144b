// Package leased finds out by leases which replicas are alive, and lets one of them alone ask a platform for events.
package leased

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/cluster/replicas"
)

// owners hold a lease each, under a name that nobody had before.
type owners struct{ *replicas.Leases }

// Owners returns the owners of one table.
func Owners(m *replicas.Members, table string) (owner.Owners, error) {
	l, err := m.Leases(table)
	if err != nil {
		return nil, fmt.Errorf("join the replicas: %w", err)
	}
	return owners{l}, nil
}

func (o owners) Begin(ctx context.Context) (name string, lost <-chan struct{}, release func(), err error) {
	name = rand.Text()
	lease, err := o.Lease(ctx, name, true)
	if err != nil {
		return "", nil, nil, err
	}
	return name, lease.Lost(), lease.Release, nil
}

func (o owners) Alive(ctx context.Context, name string) (bool, error) {
	_, _, ok, err := o.Holder(ctx, name)
	return ok, err
}

// Pollers is a [channel.Exclusive] of replicas: a lease for each name. If a replica dies, the next one takes its lease over when the others
// take it for dead.
type Pollers struct{ leases *replicas.Leases }

var _ channel.Exclusive = (*Pollers)(nil)

// errTaken is why a context ends.
var errTaken = errors.New("channel: the other replicas consider this one dead, and one of them may do its work")

// OpenPollers joins the other replicas.
func OpenPollers(m *replicas.Members) (*Pollers, error) {
	l, err := m.Leases("pollers")
	if err != nil {
		return nil, fmt.Errorf("join the replicas that ask platforms for events: %w", err)
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
