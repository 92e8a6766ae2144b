// Package leased finds out by leases which replicas are alive, and lets only one of them poll a platform for events.
package leased

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// owners are leases. Each process has one, under a random name.
type owners struct{ *cluster.Leases }

// Owners returns the owners of one table. The kind of the leases names the table.
func Owners(l *cluster.Leases) owner.Owners { return owners{l} }

func (o owners) Begin(ctx context.Context) (name string, lost <-chan struct{}, release func(), err error) {
	name = rand.Text()
	lease, err := o.Lease(ctx, name, true)
	if err != nil {
		return "", nil, nil, err
	}
	return name, lease.Lost(), lease.Release, nil
}

// Alive implements [owner.Owners]. It takes the lease of a dead owner away, so that an owner that was only stopped learns that others consider it
// dead.
func (o owners) Alive(ctx context.Context, name string) (bool, error) {
	replica, err := o.Holder(ctx, name)
	if replica != "" || err != nil {
		return replica != "", err
	}
	lease, err := o.Lease(ctx, name, false)
	if errors.Is(err, tape.ErrLeased) { // its replica is back, or another replica does the same now
		return true, nil
	}
	if err != nil {
		return false, err
	}
	lease.Release()
	return false, nil
}

// Pollers is a [channel.Exclusive] of replicas: a lease for each name. If a replica dies, another one takes its leases over.
type Pollers struct{ leases *cluster.Leases }

var _ channel.Exclusive = (*Pollers)(nil)

// errTaken is why a context ends.
var errTaken = errors.New("channel: another replica may do the work of this one")

// maxPause is the longest pause between attempts while the database is away; each is shortened by up to half.
const maxPause = time.Second

// OpenPollers returns pollers. The leases must be of a kind that has no other use.
func OpenPollers(l *cluster.Leases) *Pollers { return &Pollers{l} }

// Only implements [channel.Exclusive]. While the database is away, it waits.
func (p *Pollers) Only(ctx context.Context, name string) (alone context.Context, release func(), err error) {
	lease, err := p.take(ctx, name)
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

func (p *Pollers) take(ctx context.Context, name string) (tape.Lease, error) {
	for pauses := backoff.New(maxPause/10, maxPause); ; {
		lease, err := p.leases.Lease(ctx, name, true)
		if !errors.Is(err, store.ErrAway) && !errors.Is(err, store.ErrUnsure) {
			return lease, err
		}
		if err := backoff.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return nil, err
		}
	}
}
