package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// queueOptions are those of the events of channels.
func queueOptions(shared *replicas, log *slog.Logger) kernel.QueueOptions {
	o := kernel.QueueOptions{Replica: rand.Text(), Log: log}
	if shared != nil {
		o.Replica, o.Alive = shared.ID(), shared.Alive
		o.Only = &pollers{shared.Leases("pollers", shared.runs)}
	}
	return o
}

// pollers let one of the replicas poll a platform: there is a lease for each name. If a replica dies, another one takes its leases over.
type pollers struct{ leases *cluster.Leases }

// errTaken is why a context ends.
var errTaken = errors.New("channel: another replica may do the work of this one")

// pollPause is the longest pause between attempts while the database is away.
const pollPause = time.Second

// Only implements [channel.Exclusive]. While the database is away, it waits.
func (p *pollers) Only(ctx context.Context, name string) (alone context.Context, release func(), err error) {
	lease, err := p.lease(ctx, name)
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

// lease returns the lease of a name when this replica has it.
func (p *pollers) lease(ctx context.Context, name string) (tape.Lease, error) {
	for pauses := backoff.New(pollPause/10, pollPause); ; {
		lease, err := p.leases.Lease(ctx, name, true)
		if !errors.Is(err, store.ErrAway) && !errors.Is(err, store.ErrUnsure) {
			return lease, err
		}
		if err := backoff.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return nil, err
		}
	}
}
