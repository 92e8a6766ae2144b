//go:build nightly && unix

package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
)

// fault is something that breaks, and is whole again when it returns.
type fault struct {
	name string
	do   func(context.Context, *world, *rand.Rand)
}

var (
	killReplica = fault{"kill -9 of a replica", func(ctx context.Context, w *world, random *rand.Rand) {
		r := w.someReplica(random)
		w.happened("kill -9 of %s", r.Name)
		r.Kill()
		pause(ctx, time.Duration(random.IntN(1500))*time.Millisecond)
		w.start(ctx, r)
	}}
	restartReplica = fault{"SIGTERM of a replica", func(ctx context.Context, w *world, random *rand.Rand) {
		r := w.someReplica(random)
		w.happened("SIGTERM of %s", r.Name)
		if err := r.Stop(); err != nil {
			w.fail("%v", err)
		}
		w.start(ctx, r)
	}}
	rollingRestart = fault{"all replicas restarted one by one", func(ctx context.Context, w *world, _ *rand.Rand) {
		w.happened("a rolling restart")
		for i, r := range w.fleet.Replicas {
			if i > 0 {
				w.happened("a rolling restart, of %s", r.Name) // each may have a run go on elsewhere
			}
			if err := r.Stop(); err != nil {
				w.fail("%v", err)
			}
			w.start(ctx, r)
		}
	}}
	stopReplica = fault{"SIGSTOP of a replica for 10 s", func(ctx context.Context, w *world, random *rand.Rand) {
		r := w.someReplica(random)
		w.happened("SIGSTOP of %s for 10 s", r.Name)
		w.must(r.Pause())
		pause(ctx, 10*time.Second)
		w.must(r.Resume())
	}}
	killDatabase = fault{"kill -9 of PostgreSQL", func(ctx context.Context, w *world, random *rand.Rand) {
		w.happened("kill -9 of PostgreSQL")
		defer w.outage()()
		w.must(w.database.Kill())
		pause(ctx, time.Duration(random.IntN(8000))*time.Millisecond)
		w.must(w.database.Restart())
	}}
	crashDatabase = fault{"kill -9 of a process of PostgreSQL", func(_ context.Context, w *world, _ *rand.Rand) {
		w.happened("kill -9 of a process of PostgreSQL")
		defer w.outage()()
		w.must(w.database.CrashOne())
	}}
	restartDatabase = fault{"restart of PostgreSQL", func(ctx context.Context, w *world, random *rand.Rand) {
		w.happened("restart of PostgreSQL")
		defer w.outage()()
		w.must(w.database.Shutdown())
		pause(ctx, time.Duration(random.IntN(2000))*time.Millisecond)
		w.must(w.database.Restart())
	}}
	stopDatabase = fault{"SIGSTOP of PostgreSQL for 10 s", func(ctx context.Context, w *world, _ *rand.Rand) {
		w.happened("SIGSTOP of PostgreSQL for 10 s")
		defer w.outage()()
		w.must(w.database.Pause())
		pause(ctx, 10*time.Second)
		w.must(w.database.Resume())
	}}
)

// database is what the PostgreSQL server is called in a network.
const database = "db"

// partitions are the faults of a network: the database, or a replica, that nobody reaches.
func partitions(network *fleet.Network) []fault {
	part := func(w *world, ctx context.Context, name string, d time.Duration) {
		w.happened("nobody reaches %s for %v", name, d)
		w.must(network.Part(name))
		pause(ctx, d)
		w.must(network.Join(name))
	}
	return []fault{
		{"PostgreSQL cut off for some seconds", func(ctx context.Context, w *world, random *rand.Rand) {
			defer w.outage()()
			part(w, ctx, database, time.Duration(5+random.IntN(10))*time.Second)
		}},
		{"a replica cut off for some seconds", func(ctx context.Context, w *world, random *rand.Rand) {
			part(w, ctx, w.someReplica(random).Name, time.Duration(5+random.IntN(10))*time.Second)
		}},
	}
}

func (w *world) someReplica(random *rand.Rand) *fleet.Replica {
	return w.fleet.Replicas[random.IntN(len(w.fleet.Replicas))]
}

func (w *world) must(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}

// start starts a replica again.
func (w *world) start(ctx context.Context, r *fleet.Replica) {
	began := time.Now()
	if err := r.Start(ctx); err != nil {
		if ctx.Err() == nil {
			w.fail("%v", err)
		}
		return
	}
	w.took("until a restarted replica serves", time.Since(began))
}

// breakThings makes one of the faults after the other, in an order of its own each round, until over is closed; at least each once.
func (w *world) breakThings(ctx context.Context, faults []fault, between time.Duration, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(*seed, 1<<41))
	for round := 0; ; round++ {
		order := slices.Clone(faults)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, f := range order {
			pause(ctx, between/2+time.Duration(random.Int64N(int64(between))))
			if ctx.Err() != nil {
				return
			}
			select {
			case <-over:
				if round > 0 {
					return
				}
			default:
			}
			w.count("fault: " + f.name)
			f.do(ctx, w, random)
		}
	}
}
