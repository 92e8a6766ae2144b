package nats

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/cluster"
)

// owners know who of those that have events is alive.
type owners interface {
	// begin makes an owner, which is alive until release is called or lost is closed.
	begin(context.Context) (owner string, lost <-chan struct{}, release func(), err error)
	alive(_ context.Context, owner string) (bool, error)
}

// leased are owners that hold a lease each, under a name that nobody had before.
type leased struct{ *cluster.Leases }

func (l leased) begin(ctx context.Context) (owner string, lost <-chan struct{}, release func(), err error) {
	owner = newID()
	lease, err := l.Lease(ctx, owner, true)
	if err != nil {
		return "", nil, nil, err
	}
	return owner, lease.Lost(), lease.Release, nil
}

func (l leased) alive(ctx context.Context, owner string) (bool, error) {
	_, _, ok, err := l.Holder(ctx, owner)
	return ok, err
}

const (
	// lookEvery is how often it is looked whether the owners of events that wait are alive: one request each.
	lookEvery = 500 * time.Millisecond
	lookWait  = 2 * time.Second // for an answer
)
