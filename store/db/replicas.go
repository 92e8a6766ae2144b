package db

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/store"
)

// replicaLife is how long a replica that does not beat is listed.
const replicaLife = time.Hour

// Beat stores that a replica is alive. It sets Seen itself: on PostgreSQL by the clock of the database.
func (r *Runs) Beat(ctx context.Context, replica store.Replica) error {
	return r.db.Update(ctx, func(tx *Tx) {
		tx.exec(`INSERT INTO replicas (id, address, version, seen) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET
			address = excluded.address, version = excluded.version, seen = excluded.seen`, replica.ID, replica.Address, replica.Version, tx.now().UnixMicro())
	})
}

// Replicas lists all replicas. Compare Seen with now, which is of the same clock.
func (r *Runs) Replicas(ctx context.Context) (list []store.Replica, now time.Time, err error) {
	tx := r.db.reader(ctx)
	list = rowsOf(tx, func(read row) (r store.Replica) {
		read(&r.ID, &r.Address, &r.Version, date{&r.Seen})
		return r
	}, "SELECT id, address, version, seen FROM replicas ORDER BY id")
	now = tx.now()
	return list, now, tx.err
}

// Leave removes a replica.
func (r *Runs) Leave(ctx context.Context, id string) error {
	return r.db.change(ctx, nil, "DELETE FROM replicas WHERE id = $1", id)
}

// Secret returns the secret that all replicas share. The first call stores fresh as the secret.
func (r *Runs) Secret(ctx context.Context, fresh []byte) (secret []byte, err error) {
	err = r.db.Update(ctx, func(tx *Tx) {
		tx.exec("INSERT INTO settings (key, value) VALUES ('secret', $1) ON CONFLICT DO NOTHING", fresh)
		tx.scanOne([]any{&secret}, "SELECT value FROM settings WHERE key = 'secret'")
	})
	return secret, err
}

// now returns the time of the clock that all replicas share.
func (tx *Tx) now() (now time.Time) {
	if tx.db.sharedClock == "" {
		return dateOf(tx.db.clock().UnixMicro())
	}
	tx.scanOne([]any{date{&now}}, tx.db.sharedClock)
	return now
}

// sweepReplicas removes replicas that have not been seen for long, and the leases of those and of replicas that have left.
func (db *DB) sweepReplicas(ctx context.Context) error {
	return db.Update(ctx, func(tx *Tx) {
		tx.exec("DELETE FROM replicas WHERE seen <= $1", tx.now().Add(-replicaLife).UnixMicro())
		tx.exec("DELETE FROM leases WHERE NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = leases.replica)")
	})
}
