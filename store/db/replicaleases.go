package db

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// unknownReplicaLife is how long a replica that a caller does not know keeps what it has: the caller has read the list of replicas before that
// replica joined.
const unknownReplicaLife = 5 * time.Second

// lives returns the condition that the replica of a row is in a list, or that the database has seen it within unknownReplicaLife.
func (db *DB) lives(replica, param string) string {
	now := "(" + db.sharedClock + ")"
	if db.sharedClock == "" {
		now = strconv.FormatInt(db.clock().UnixMicro(), 10)
	}
	return fmt.Sprintf("(%[1]s%[2]s OR EXISTS (SELECT 1 FROM replicas p WHERE p.id = %[1]s AND p.seen > %[3]s - %[4]d))",
		replica, db.in(param), now, unknownReplicaLife.Microseconds())
}

// TakeLease gives a lease to a replica if it is free, or if its holder is neither in alive nor a replica that the database has seen within the
// last 5 s. It returns the holder, which is the replica itself if it got or had the lease. The same call can be repeated after
// [store.ErrUnsure].
func (r *Runs) TakeLease(ctx context.Context, name, replica string, alive []string) (holder string, err error) {
	err = r.db.Update(ctx, func(tx *Tx) {
		// A holder that keeps the lease is written again, so that one statement returns it.
		tx.scanOne([]any{&holder}, `INSERT INTO leases (name, replica) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET replica = CASE
			WHEN `+tx.db.lives("leases.replica", "$3")+` THEN leases.replica ELSE excluded.replica END RETURNING replica`,
			name, replica, list(append([]string{replica}, alive...)))
	})
	return holder, err
}

// FreeLease frees a lease, unless another replica has it.
func (r *Runs) FreeLease(ctx context.Context, name, replica string) error {
	return r.db.change(ctx, nil, "DELETE FROM leases WHERE name = $1 AND replica = $2", name, replica)
}

// LeaseHolder returns the replica that has a lease; "" means none.
func (r *Runs) LeaseHolder(ctx context.Context, name string) (replica string, err error) {
	tx := r.db.reader(ctx)
	tx.scanOne([]any{&replica}, "SELECT replica FROM leases WHERE name = $1", name)
	return replica, tx.err
}

// LeasesOf returns the names of the leases of a replica.
func (r *Runs) LeasesOf(ctx context.Context, replica string) (names []string, err error) {
	tx := r.db.reader(ctx)
	names = tx.texts("SELECT name FROM leases WHERE replica = $1 ORDER BY name", replica)
	return names, tx.err
}
