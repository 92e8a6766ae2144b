// Package clustertest gives tests several replicas in one process, which share a database.
package clustertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

// Replica is a member of a cluster.
type Replica struct {
	*cluster.Cluster

	db *replicaDB
}

// Open opens a database in memory. It is closed when the test ends.
func Open(t testing.TB) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Join adds a replica. It leaves when the test ends.
func Join(t testing.TB, d *db.DB) *Replica {
	t.Helper()
	r := &Replica{db: &replicaDB{Runs: d.Runs()}}
	var err error
	if r.Cluster, err = cluster.Join(t.Context(), cluster.Options{Store: r.db}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // a dead replica cannot leave
	return r
}

// Leases returns leases of the replica.
func (r *Replica) Leases(kind string) *cluster.Leases { return r.Cluster.Leases(kind, r.db) }

// Stop separates the replica from the others: it sends no heartbeats and gets no answers about replicas and leases.
func (r *Replica) Stop() { r.db.stopped.Store(true) }

// Continue ends Stop.
func (r *Replica) Continue() { r.db.stopped.Store(false) }

// Kill ends the replica as the end of its process does: it leaves its row and its leases.
func (r *Replica) Kill() {
	r.Stop()
	_ = r.Close() // cannot leave
}

// replicaDB is the database as one replica sees it.
type replicaDB struct {
	*db.Runs
	stopped atomic.Bool
}

func (d *replicaDB) check() error {
	if d.stopped.Load() {
		return fmt.Errorf("%w: the replica was stopped by its test", store.ErrAway)
	}
	return nil
}

func (d *replicaDB) Beat(ctx context.Context, r cluster.Replica) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Runs.Beat(ctx, store.Replica(r))
}

func (d *replicaDB) Replicas(ctx context.Context) (list []cluster.Replica, now time.Time, err error) {
	if err := d.check(); err != nil {
		return nil, now, err
	}
	all, now, err := d.Runs.Replicas(ctx)
	for _, r := range all {
		list = append(list, cluster.Replica(r))
	}
	return list, now, err
}

func (d *replicaDB) Leave(ctx context.Context, id string) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Runs.Leave(ctx, id)
}

func (d *replicaDB) TakeLease(ctx context.Context, name, replica string, alive []string) (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	return d.Runs.TakeLease(ctx, name, replica, alive)
}

func (d *replicaDB) FreeLease(ctx context.Context, name, replica string) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Runs.FreeLease(ctx, name, replica)
}

func (d *replicaDB) LeaseHolder(ctx context.Context, name string) (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	return d.Runs.LeaseHolder(ctx, name)
}

func (d *replicaDB) LeasesOf(ctx context.Context, replica string) ([]string, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return d.Runs.LeasesOf(ctx, replica)
}
