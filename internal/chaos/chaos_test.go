//go:build nightly && unix

package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
)

// play lets so many sessions live at once, at least so many in all and as long as faults are made, and compares in the end.
func (w *world) play(least, atOnce int, long time.Duration, between time.Duration, faults ...fault) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	over, broken := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(broken)
		if len(faults) > 0 {
			w.breakThings(ctx, faults, between, over)
		}
	}()
	var clients sync.WaitGroup
	var next atomic.Int64
	var enough sync.Once
	for range atOnce {
		clients.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= least && time.Since(w.began) >= long {
					enough.Do(func() { close(over) })
					select {
					case <-broken:
						return
					default: // others must see the rest of the faults
					}
				}
				newSession(w, i).live(ctx)
			}
		})
	}
	clients.Wait()
	cancel()
	<-broken
	w.check()
}

// A server that is alone: what survives its end does so in its folder.
func TestAReplicaThatIsAloneKeepsWhatItHasSaid(t *testing.T) {
	t.Parallel() // most of it is waiting
	w := newWorld(t, setup{replicas: 1})
	w.play(24, 12, 0, 800*time.Millisecond, killReplica, restartReplica)
	t.Logf("seed %d%s", *seed, w.table())
}

// CL-05, CL-06, CL-07, CL-08, CL-09, CL-14: three replicas and a database that dies, too.
func TestReplicasThatShareADatabaseKeepWhatTheyHaveSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{replicas: 3})
	w.play(30, 12, 0, 800*time.Millisecond, killReplica, rollingRestart, killDatabase)
	t.Logf("seed %d%s", *seed, w.table())
}

// CL-05 to CL-10, and CL-14, in long: as many sessions as are asked for, and all faults.
func TestChaos(t *testing.T) {
	if *sessions == 0 {
		t.Skip("long: go test ./internal/chaos -run TestChaos -timeout 0 -args -sessions 1000")
	}
	faults := []fault{
		killReplica, killReplica, restartReplica, rollingRestart, stopReplica, killDatabase, crashDatabase, restartDatabase, stopDatabase,
	}
	const replicas = 3
	t.Run("on loopback", func(t *testing.T) {
		w := newWorld(t, setup{replicas: replicas})
		w.play(*sessions, *at, *duration, 4*time.Second, faults...)
		fmt.Printf("\n%d replicas on loopback; seed %d, %v.\n%s",
			replicas, *seed, time.Since(w.began).Round(time.Second), w.table())
	})
	t.Run("in network namespaces", func(t *testing.T) {
		network, err := fleet.NewNetwork()
		if err != nil {
			t.Skip(err)
		}
		w := newWorld(t, setup{replicas: replicas, network: network})
		w.play(*sessions/5, *at, *duration/5, 4*time.Second, append(partitions(network), faults...)...)
		fmt.Printf("\n%d replicas, each in a network namespace; seed %d, %v.\n%s",
			replicas, *seed, time.Since(w.began).Round(time.Second), w.table())
	})
}
