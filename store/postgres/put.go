package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

const maxCall = 256 << 20 // the server takes messages of at most 1 GiB

// answer is what the server says of a put.
type answer struct {
	outcome string
	record  store.Record
}

// Put implements [store.Table]. The puts of a call may have 256 MiB together.
func (t *Table) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	records, errs := make([]store.Record, len(puts)), make([]error, len(puts))
	var valid []*store.Put
	var places []int // of them, in the call
	bytes := 0
	for i := range puts {
		if errs[i] = puts[i].Check(); errs[i] == nil {
			valid, places = append(valid, &puts[i]), append(places, i)
			bytes += len(puts[i].Meta) + len(puts[i].Body)
		}
	}
	if len(valid) == 0 {
		return records, errs
	}
	var answers []answer
	err := fmt.Errorf("%w: the puts of a call have %d bytes, at most %d are allowed", store.ErrTooLarge, bytes, maxCall)
	if bytes <= maxCall {
		answers, err = t.puts.write(ctx, valid, bytes)
	}
	for n, i := range places {
		if err != nil {
			errs[i] = err
		} else {
			records[i], errs[i] = answers[n].result(valid[n])
		}
	}
	return records, errs
}

// isDurable reports whether one of the puts asks for that.
func (t *Table) isDurable(puts []*store.Put) bool {
	return t.o.Durability == store.Synced && slices.ContainsFunc(puts, func(p *store.Put) bool { return !p.Lazy })
}

// committed records what a transaction has done.
func (t *Table) committed(puts []*store.Put) {
	switch {
	case t.isDurable(puts):
		t.lazy.Store(false)
		t.e.notify(strconv.FormatInt(int64(t.id), 10))
	case t.o.Durability == store.Synced:
		t.lazy.Store(true)
	}
	t.nudge() // its own watchers need no notice
}

// send calls the function that makes the changes. It is a transaction of its own.
func (t *Table) send(ctx context.Context, conn *pgx.Conn, puts []*store.Put) ([]answer, error) {
	n := len(puts)
	keys, ids, afters := make([]string, n), make([][]byte, n), make([]int64, n)
	metas, bodies, lives, deletes := make([][]byte, n), make([][]byte, n), make([]int64, n), make([]bool, n)
	for i, p := range puts {
		keys[i], ids[i], afters[i], metas[i], bodies[i] = p.Key, p.ID[:], after(p.After), p.Meta, p.Body
		lives[i], deletes[i] = p.Life.Microseconds(), p.Delete
		if p.Meta == nil {
			metas[i] = []byte{}
		}
		if p.Life > 0 && lives[i] == 0 {
			lives[i] = 1
		}
	}
	rows, err := conn.Query(ctx, t.e.sql.put, t.id, t.isDurable(puts), t.e.channel, t.o.MaxRecords, t.o.MaxBytes, t.o.Oldest, keys, ids, afters, metas, bodies, lives, deletes)
	if err != nil {
		return nil, err
	}
	answers, err := pgx.CollectRows(rows, scanAnswer)
	if err == nil && len(answers) != n {
		err = fmt.Errorf("%d answers of %d puts", len(answers), n)
	}
	return answers, err
}

// after is a revision as the server has it.
func after(rev uint64) int64 {
	switch {
	case rev == store.AnyRev:
		return -1
	case rev > math.MaxInt64:
		return math.MaxInt64 // no record has it
	}
	return int64(rev)
}

func scanAnswer(row pgx.CollectableRow) (a answer, err error) {
	var made, rev *uint64
	var s scanned
	if err := row.Scan(&a.outcome, &made, &rev, &a.record.Meta, &s.at, &s.expires); err != nil {
		return a, err
	}
	if rev != nil && made != nil {
		a.record.Made, a.record.Rev = *made, *rev
	}
	s.into(&a.record)
	return a, nil
}

// result is what the caller of a put gets.
func (a answer) result(p *store.Put) (store.Record, error) {
	a.record.Key = p.Key
	switch a.outcome {
	case "done", "same":
		return a.record, nil
	case "moved":
		return store.Record{}, &store.Moved{Record: a.record}
	case "absent":
		return store.Record{}, fmt.Errorf("key %q: %w", p.Key, store.ErrNotFound)
	case "full":
		return store.Record{}, store.ErrFull
	}
	return store.Record{}, fmt.Errorf("the database has answered %q to a put", a.outcome)
}
