package db

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
)

// maxChunk bounds the rows of a statement that names each of them.
const maxChunk = 256

// maxSQLiteBatches is maxChunk for batches in SQLite, whose driver looks up the name of each parameter in a list of all.
const maxSQLiteBatches = 32

// Runs stores the runs of workflows and agents, their events, their idempotency keys, and the replicas that work on them.
//
// Each change of a run names the replica and the attempt that it expects. If the run is another replica's by now, or has ended, the change is
// refused with [store.ErrMoved]. Other errors are those of [Tapes].
type Runs struct{ db *DB }

// Runs returns the store of runs.
func (db *DB) Runs() *Runs { return &Runs{db} }

var errRunMoved = fmt.Errorf("%w: the run is another replica's, or has ended", store.ErrMoved)

// Start stores a run and its key, if key is not nil. If the key leads to another run already, nothing is stored, and Start returns the stored
// key. The same call can be repeated after [store.ErrUnsure].
func (r *Runs) Start(ctx context.Context, run store.Run, key *store.IdempotencyKey) (taken *store.IdempotencyKey, err error) {
	if run.Created.IsZero() {
		run.Created = r.db.clock()
	}
	err = r.db.Update(ctx, func(tx *Tx) {
		if key != nil {
			k := *key
			k.Run = run.ID
			if taken = tx.claimKey(k); taken != nil {
				return
			}
		}
		tx.exec("INSERT INTO runs ("+runColumns+") VALUES ("+parameters(1, 16)+") ON CONFLICT DO NOTHING",
			run.ID, plainText(run.Workflow), plainText(run.Agent), plainText(run.Owner), plainText(run.Session), run.Replica, run.Attempt, run.Crashes, run.State,
			run.Created.UnixMicro(), 0, expiryOf(run.Expires), 0, 0, plainText(string(run.Request)), plainText(string(run.Result)))
	})
	return taken, err
}

// Append stores batches of any number of runs in one transaction. It leaves out the batches of moved runs, which are another replica's or have
// ended, and returns these runs. The same batches can be stored again.
func (r *Runs) Append(ctx context.Context, replica string, batches []store.RunBatch) (moved []string, err error) {
	err = r.db.Update(ctx, func(tx *Tx) { moved = tx.insertBatches(replica, batches) })
	return moved, err
}

// insertBatches inserts batches in few statements, and returns the moved runs. The rows of the runs are not locked: if a run moves at the same
// moment, its batch can be inserted, and readers ignore it because of after_seq.
func (tx *Tx) insertBatches(replica string, batches []store.RunBatch) (moved []string) {
	attempts := tx.attemptsOf(replica, batches)
	var live []store.RunBatch
	for _, b := range batches {
		switch attempt, found := attempts[b.Run]; {
		case b.Seq < 1:
			tx.fail(fmt.Errorf("%w: batch %d of run %s", store.ErrInvalid, b.Seq, b.Run))
		case found && attempt == b.Attempt:
			live = append(live, b)
		case !slices.Contains(moved, b.Run):
			moved = append(moved, b.Run)
		}
	}
	size := maxChunk
	if !tx.db.network {
		size = maxSQLiteBatches
	}
	for len(live) > 0 {
		n := min(1<<(bits.Len(uint(len(live)))-1), size) // a power of two, so that few statements are prepared
		rows := make([]string, n)
		var args []any
		for i, b := range live[:n] {
			rows[i] = "(" + parameters(5*i+1, 5) + ")"
			args = append(args, b.Run, b.Attempt, b.Seq, int64(b.First), notNil(b.Events))
		}
		tx.exec("INSERT INTO run_batches (run, attempt, seq, first, events) VALUES "+strings.Join(rows, ", ")+" ON CONFLICT DO NOTHING", args...)
		live = live[n:]
	}
	return moved
}

// attemptsOf returns the attempts of those runs of batches that a replica works on.
func (tx *Tx) attemptsOf(replica string, batches []store.RunBatch) map[string]int {
	ids := make([]string, len(batches))
	for i, b := range batches {
		ids[i] = b.Run
	}
	attempts := map[string]int{}
	for read := range tx.rows("SELECT id, attempt FROM runs WHERE replica = $1 AND ended = 0 AND id"+tx.db.in("$2"), replica, list(ids)) {
		var run string
		var attempt int
		read(&run, &attempt)
		attempts[run] = attempt
	}
	return attempts
}

// SetState changes the state and the crashes of a run that has not ended.
func (r *Runs) SetState(ctx context.Context, id, replica string, attempt int, state string, crashes int) error {
	return r.db.change(ctx, errRunMoved, "UPDATE runs SET state = $1, crashes = $2 WHERE id = $3 AND replica = $4 AND attempt = $5 AND ended = 0",
		state, crashes, id, replica, attempt)
}

// End stores the last batches and the end of a run. The same end can be stored again.
func (r *Runs) End(ctx context.Context, e store.RunEnd) error {
	return r.db.Update(ctx, func(tx *Tx) {
		tx.insertBatches(e.Replica, e.Batches)
		n := tx.exec(`UPDATE runs SET state = $1, result = $2, ended = $3, expires = $4,
			bytes = (SELECT CAST(coalesce(sum(length(events)), 0) AS BIGINT) FROM run_batches WHERE run = $5)
			WHERE id = $5 AND replica = $6 AND attempt = $7 AND ended = 0`,
			e.State, plainText(string(e.Result)), tx.db.clock().UnixMicro(), expiryOf(e.Expires), e.ID, e.Replica, e.Attempt)
		// It may be stored by a call that failed later.
		if n == 0 && !tx.exists("SELECT 1 FROM runs WHERE id = $1 AND replica = $2 AND attempt = $3 AND state = $4 AND ended > 0", e.ID, e.Replica, e.Attempt, e.State) {
			tx.fail(errRunMoved)
		}
		if k := e.FreeKey; k != nil {
			tx.exec("DELETE FROM idempotency_keys WHERE owner = $1 AND key = $2 AND run = $3", plainText(k.Owner), hashOfKey(k.Owner, k.Key), e.ID)
		}
	})
}

// Suspend stores that a run waits and that no replica works on it, until a time.
func (r *Runs) Suspend(ctx context.Context, id, replica string, attempt int, wake time.Time) error {
	return r.db.change(ctx, errRunMoved, "UPDATE runs SET replica = '', state = 'waiting', wake = $1 WHERE id = $2 AND replica = $3 AND attempt = $4 AND ended = 0",
		wake.UnixMicro(), id, replica, attempt)
}

// Release hands over those of the runs that the replica works on.
func (r *Runs) Release(ctx context.Context, replica string, ids []string) error {
	return r.db.change(ctx, nil, "UPDATE runs SET replica = '' WHERE replica = $1 AND ended = 0 AND id"+r.db.in("$2"), replica, list(ids))
}

// Take makes a replica the one that works on a run. Of several replicas that take a run, one
// gets it. After [store.ErrUnsure], Find tells whether it was this one.
func (r *Runs) Take(ctx context.Context, t store.Takeover) error {
	return r.db.Update(ctx, func(tx *Tx) {
		n := tx.exec("UPDATE runs SET replica = $1, attempt = attempt + 1, crashes = $2, state = $3 "+
			"WHERE id = $4 AND replica = $5 AND attempt = $6 AND ended = 0 AND ($7 = '' OR state = $7)",
			t.Replica, t.Crashes, t.State, t.ID, t.FromReplica, t.FromAttempt, t.FromState)
		if n == 0 {
			tx.fail(errRunMoved)
		}
		tx.exec("INSERT INTO run_batches (run, attempt, seq, first, events, after_seq) VALUES ($1, $2, 0, 0, $3, $4)", t.ID, t.FromAttempt+1, []byte{}, t.AfterSeq)
	})
}

// execIn runs statements that have a list of texts as $1.
func (tx *Tx) execIn(texts []string, queries ...string) {
	for _, query := range queries {
		tx.exec(query, list(texts))
	}
}
