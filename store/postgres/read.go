package postgres

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

// A page of a read has so many rows at most, and about pageBytes.
const (
	firstRows = 128 // a view of a session is seldom longer
	mostRows  = 1024
)

// page is what one statement reads of a log.
type page struct {
	log         int64 // its id
	first, last uint64
	trimmed     bool
	rows        []entryRow
	bytes       int
}

// reading is a read of a log on its way.
type reading struct {
	l      *Log
	name   string
	log    int64 // id; 0: not yet known
	from   uint64
	before uint64
	newest bool
	marks  bool
	limit  int // of rows
}

// next reads a page. It returns ErrNotFound if there is no log, and ErrDeleted or ErrExpired if there is none any more.
func (r *reading) next(ctx context.Context) (p page, err error) {
	sql, log, name := r.l.sql.open.of(r.newest, r.marks), any(r.l.id), r.name
	if r.log != 0 {
		sql, log = r.l.sql.more.of(r.newest, r.marks), any(r.log)
	}
	before := uint64(math.MaxInt64)
	if r.before != 0 {
		before = min(r.before, before)
	}
	p, err = r.page(ctx, sql, log, name, min(r.from, math.MaxInt64), before, r.limit)
	switch {
	case err != nil:
		return page{}, err
	case p.log == 0 && r.log != 0:
		return page{}, r.l.ended(ctx, r.name, r.log)
	case p.log == 0:
		return page{}, noLog(r.name)
	case p.trimmed && r.from != 0 && r.from < p.first && (!r.newest || r.log == 0):
		return page{}, fmt.Errorf("log %q: %w: it begins with entry %d now", r.name, store.ErrExpired, p.first)
	}
	r.log = p.log
	return p, nil
}

// page reads what a statement finds.
func (r *reading) page(ctx context.Context, sql string, args ...any) (p page, err error) {
	err = r.l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		p = page{}
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var first *uint64
			var n *int
			var mark *bool
			var data []byte
			if err := rows.Scan(&p.log, &p.first, &p.last, &p.trimmed, &first, &n, &mark, &data); err != nil {
				return err
			}
			if first != nil {
				p.rows = append(p.rows, entryRow{start: *first, n: *n, mark: *mark, data: data})
				p.bytes += len(data)
			}
		}
		return rows.Err()
	})
	return p, err
}

// ended returns why a log that was read is not there any more.
func (l *Log) ended(ctx context.Context, name string, log int64) error {
	deleted := !l.parted
	if l.parted {
		err := l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, l.sql.gone, log).Scan(&deleted)
		})
		if err != nil {
			return err
		}
	}
	if deleted {
		return fmt.Errorf("log %q: %w", name, store.ErrDeleted)
	}
	return fmt.Errorf("log %q: %w", name, store.ErrExpired)
}

// advance sets from and before to what follows a page, and reports whether there may be more.
func (r *reading) advance(p page) bool {
	if len(p.rows) == 0 {
		return false
	}
	more := len(p.rows) == r.limit || p.bytes >= pageBytes
	last := p.rows[len(p.rows)-1]
	if r.newest {
		r.before = last.start
	} else {
		r.from = max(r.from, last.start+uint64(last.n))
	}
	r.limit = min(2*max(r.limit, firstRows/2), mostRows)
	return more
}

// yield gives entries of a page whose numbers are at least from and below before. It reports false if the reader has enough.
func (p *page) yield(newest bool, from, before uint64, yield func(store.Entry, error) bool) bool {
	for i := range p.rows {
		r := &p.rows[i]
		all := r.entries()
		for k := range all {
			if newest {
				k = len(all) - 1 - k
			}
			e := store.Entry{N: r.start + uint64(k), Data: all[k], Mark: r.mark}
			if e.N < from || e.N >= before {
				continue
			}
			var err error
			if e.Data == nil {
				e, err = store.Entry{N: e.N}, fmt.Errorf("entry %d: %w", e.N, store.ErrDamaged)
			}
			if !yield(e, err) {
				return false
			}
		}
		r.data = nil // it may go when the reader has done with it
	}
	return true
}

// Read implements [store.Log].
func (l *Log) Read(ctx context.Context, name string, o store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := store.CheckKey(name); err != nil {
			yield(store.Entry{}, err)
			return
		}
		r := reading{l: l, name: name, from: o.From, before: o.Before, newest: o.Newest, marks: o.Marks, limit: firstRows}
		if o.Limit > 0 {
			r.limit = min(r.limit, o.Limit)
		}
		left := o.Limit
		counted := func(e store.Entry, err error) bool {
			left--
			return yield(e, err) && left != 0
		}
		for more := true; more; {
			first := r.log == 0
			from, before := r.from, r.before
			p, err := r.next(ctx)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			if first { // what comes later is not read
				r.before = p.last + 1
				if o.Before != 0 {
					r.before = min(r.before, o.Before)
				}
				before = r.before
			}
			more = r.advance(p)
			if !p.yield(o.Newest, from, before, counted) {
				return
			}
			if err := context.Cause(ctx); err != nil {
				yield(store.Entry{}, err)
				return
			}
		}
	}
}
