package cluster_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// database is a store with a clock that the test sets.
type database struct {
	mu      sync.Mutex
	now     func() time.Time
	rows    map[string]cluster.Replica
	secret  []byte
	down    bool            // each call fails
	hangs   bool            // each call waits for the end of its context
	stopped map[string]bool // replicas whose heartbeats fail
	pause   time.Duration   // of the process that reads the replicas next, before it has the response
}

var errDown = errors.New("the database is down")

func newDatabase(now func() time.Time) *database {
	return &database{now: now, rows: map[string]cluster.Replica{}, stopped: map[string]bool{}}
}

// set changes the database.
func (d *database) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// stop makes the heartbeats of a replica fail, or succeed again.
func (d *database) stop(id string, stopped bool) { d.set(func() { d.stopped[id] = stopped }) }

func (d *database) call(ctx context.Context, f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hangs {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return ctx.Err()
	}
	if d.down {
		return errDown
	}
	f()
	return nil
}

func (d *database) Beat(ctx context.Context, r cluster.Replica) (err error) {
	return cmp.Or(d.call(ctx, func() {
		if d.stopped[r.ID] {
			err = errDown
			return
		}
		r.Seen = d.now()
		d.rows[r.ID] = r
	}), err)
}

func (d *database) Replicas(ctx context.Context) (list []cluster.Replica, now time.Time, err error) {
	var pause time.Duration
	err = d.call(ctx, func() {
		list, now = slices.Collect(maps.Values(d.rows)), d.now()
		pause, d.pause = d.pause, 0
	})
	time.Sleep(pause)
	return list, now, err
}

func (d *database) Leave(ctx context.Context, id string) error {
	return d.call(ctx, func() { delete(d.rows, id) })
}

func (d *database) Secret(ctx context.Context, fresh []byte) (secret []byte, err error) {
	err = d.call(ctx, func() {
		if d.secret == nil {
			d.secret = fresh
		}
		secret = d.secret
	})
	return secret, err
}

// join joins a replica that is closed with the test.
func join(t *testing.T, d *database, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.Store = d
	dead := &deaths{Handler: slog.DiscardHandler, at: map[string][]time.Time{}}
	if o.Log == nil {
		o.Log = slog.New(dead)
	}
	c, err := cluster.Join(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	deathsOf.Store(c, dead)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
