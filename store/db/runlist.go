package db

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/store"
)

const (
	listedColumns = "id, workflow, agent, owner, session, replica, attempt, crashes, state, created, ended, expires, bytes, removed"
	runColumns    = listedColumns + ", request, result"
)

// readRun returns a function that reads a row that has runColumns, or listedColumns if complete is false.
func (db *DB) readRun(complete bool) func(read row) store.Run {
	now := db.clock()
	return func(read row) (r store.Run) {
		columns := []any{
			&r.ID, &r.Workflow, &r.Agent, &r.Owner, &r.Session, &r.Replica, &r.Attempt, &r.Crashes, &r.State,
			date{&r.Created},
			date{&r.Ended},
			date{&r.Expires},
			&r.Bytes, &r.Removed,
		}
		if complete {
			columns = append(columns, &r.Request, &r.Result)
		}
		read(columns...)
		if !r.Ended.IsZero() && !r.Expires.IsZero() && !r.Expires.After(now) {
			r.Bytes, r.Removed, r.Request, r.Result = 0, store.RemovedAll, nil, nil
		}
		return r
	}
}

// findRun returns the first run of a query that returns runColumns, or [store.ErrNotFound].
func (r *Runs) findRun(ctx context.Context, query string, args ...any) (run store.Run, err error) {
	tx := r.db.reader(ctx)
	found := rowsOf(tx, r.db.readRun(true), query, args...)
	if len(found) == 0 {
		tx.fail(fmt.Errorf("%w: the run does not exist", store.ErrNotFound))
		return run, tx.err
	}
	return found[0], tx.err
}

// Find returns a run, or [store.ErrNotFound]. For a day after its expiry a run is found, with [store.RemovedAll].
func (r *Runs) Find(ctx context.Context, id string) (store.Run, error) {
	return r.findRun(ctx, "SELECT "+runColumns+" FROM runs WHERE id = $1", plainText(id))
}

// LatestOf returns the newest run of a session that has not expired, or [store.ErrNotFound].
func (r *Runs) LatestOf(ctx context.Context, session string) (store.Run, error) {
	return r.findRun(ctx, "SELECT "+runColumns+" FROM runs WHERE session = $1 AND session <> '' AND (ended = 0 OR expires > $2) ORDER BY created DESC, id DESC LIMIT 1",
		plainText(session), r.db.clock().UnixMicro())
}

// Left returns runs that have not ended and that no replica works on, neither one of those alive nor one that has just joined; the oldest first.
// Those of own are among them unless it is in alive. Those that wait and are suspended are left once their time is over.
func (r *Runs) Left(ctx context.Context, own string, alive []string, limit int) (left []store.Run, err error) {
	tx := r.db.reader(ctx)
	left = rowsOf(tx, r.db.readRun(true), "SELECT "+runColumns+" FROM runs WHERE ended = 0 AND (replica <> '' OR state <> 'waiting') AND (NOT "+
		r.db.lives("runs.replica", "$2")+" OR replica = $3 AND NOT replica"+r.db.in("$2")+") ORDER BY created, id LIMIT $1", limit, list(alive), own)
	if len(left) < limit {
		left = append(left, rowsOf(tx, r.db.readRun(true), "SELECT "+runColumns+" FROM runs WHERE ended = 0 AND replica = '' AND state = 'waiting' AND wake <= $1 ORDER BY wake LIMIT $2",
			r.db.clock().UnixMicro(), limit-len(left))...)
	}
	return left, tx.err
}

// Batches calls each with the batches of a run, by attempt and seq. It fails with the error of each, with [store.ErrNotFound], or with
// [store.ErrExpired] if the events were removed, perhaps while it read them.
func (r *Runs) Batches(ctx context.Context, id string, each func(store.RunBatch) error) error {
	var last store.RunBatch
	tx := r.db.reader(ctx)
	for limit, more := firstRows, true; more; limit = pageRows {
		var page []store.RunBatch
		page, more = readPage(tx, limit, readBatch, `SELECT run, attempt, seq, first, events FROM run_batches b
			WHERE run = $1 AND (attempt, seq) > ($2, $3) AND seq > 0 AND NOT EXISTS
			(SELECT 1 FROM run_batches m WHERE m.run = b.run AND m.attempt = b.attempt + 1 AND m.seq = 0 AND m.after_seq < b.seq) ORDER BY attempt, seq LIMIT $4`,
			plainText(id), last.Attempt, last.Seq)
		if tx.checkEvents(id); tx.err != nil {
			return tx.err
		}
		for _, last = range page {
			if err := each(last); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEvents fails if the events of a run cannot be read.
func (tx *Tx) checkEvents(id string) {
	var removed store.Removed
	found := tx.scanOne([]any{&removed}, "SELECT CASE WHEN ended > 0 AND expires <= $2 THEN 2 ELSE removed END FROM runs WHERE id = $1",
		plainText(id), tx.db.clock().UnixMicro())
	switch {
	case !found:
		tx.fail(fmt.Errorf("%w: the run does not exist", store.ErrNotFound))
	case removed != store.RemovedNothing:
		tx.fail(fmt.Errorf("%w: the events of the run were removed", store.ErrExpired))
	}
}

func readBatch(read row) (b store.RunBatch, size int) {
	var first int64
	read(&b.Run, &b.Attempt, &b.Seq, &first, &b.Events)
	b.First = uint64(first)
	return b, len(b.Events)
}

// List returns a page of the runs that q selects and that have not expired, the newest first, without Request and Result. next is the cursor
// of the next page; "" after the last. A cursor that List did not return is [store.ErrCursor].
func (r *Runs) List(ctx context.Context, q store.RunQuery) (list []store.Run, next string, err error) {
	limit := min(cmp.Or(q.Limit, 50), pageRows)
	var where conditions
	where.add("(ended = 0 OR expires > ?)", r.db.clock().UnixMicro())
	if q.Owner != nil {
		where.add("owner = ?", plainText(*q.Owner))
	}
	for _, c := range [][2]string{{"workflow = ?", q.Workflow}, {"agent = ?", q.Agent}, {"session <> '' AND session = ?", q.Session}} {
		if c[1] != "" {
			where.add(c[0], plainText(c[1]))
		}
	}
	if len(q.States) > 0 {
		var states []any
		for _, state := range q.States {
			states = append(states, plainText(state))
		}
		where.add("state IN (?"+strings.Repeat(", ?", len(states)-1)+")", states...)
		isEnd := func(state string) bool { return !slices.Contains(store.LiveStates, state) }
		if !slices.ContainsFunc(q.States, isEnd) { // an index has those that have not ended
			where.add("ended < 1")
		}
	}
	if !q.From.IsZero() {
		where.add("created >= ?", q.From.UnixMicro())
	}
	if !q.To.IsZero() {
		where.add("created < ?", q.To.UnixMicro())
	}
	if q.Cursor != "" {
		created, id, err := parseCursor(q.Cursor)
		if err != nil {
			return nil, "", err
		}
		where.add("(created, id) < (?, ?)", created, id)
	}
	args := append(where.args, limit+1)
	tx := r.db.reader(ctx)
	list = rowsOf(tx, r.db.readRun(false), "SELECT "+listedColumns+" FROM runs WHERE removed < 2"+where.sql.String()+
		" ORDER BY created DESC, id DESC LIMIT "+parameters(len(args), 1), args...)
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1]
		next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.Created.UnixMicro(), last.ID))
	}
	return list, next, tx.err
}

func parseCursor(cursor string) (created int64, id string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d %s", &created, &id)
	}
	if err != nil || string(text) != plainText(string(text)) {
		return 0, "", store.ErrCursor
	}
	return created, id, nil
}

// conditions are those of a WHERE clause, behind the first one.
type conditions struct {
	sql  strings.Builder
	args []any
}

// add adds a condition, in which each ? is the next of values.
func (c *conditions) add(condition string, values ...any) {
	for _, v := range values {
		c.args = append(c.args, v)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.sql.WriteString(" AND " + condition)
}
