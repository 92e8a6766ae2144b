package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

const (
	pageRecords = 500
	pageBytes   = 1 << 20
)

// Table is a [store.Table].
type Table struct {
	e  *Engine
	o  store.TableOptions
	id int32

	lazy atomic.Bool // a lazy put may not be durable yet

	puts queue[*store.Put, answer]

	nudged chan struct{} // there is perhaps a change
	feed   feed
}

// Get implements [store.Table].
func (t *Table) Get(ctx context.Context, key string) (r store.Record, err error) {
	if err := store.CheckKey(key); err != nil {
		return r, err
	}
	err = t.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var s scanned
		err := conn.QueryRow(ctx, t.e.sql.get, t.id, key).Scan(&r.Key, &r.Made, &r.Rev, &s.at, &s.expires, &r.Meta, &r.Body)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("key %q: %w", key, store.ErrNotFound)
		}
		s.into(&r)
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	return r, nil
}

// Peek implements [store.Table]. It is Get: the primary key finds a record as cheaply as anything would.
func (t *Table) Peek(ctx context.Context, key string) (store.Record, error) { return t.Get(ctx, key) }

// scanned are the times of a row, which may be null.
type scanned struct{ at, expires *time.Time }

func (s scanned) into(r *store.Record) {
	if s.at != nil {
		r.At = *s.at
	}
	if s.expires != nil {
		r.Expires = *s.expires
	}
}

// Range implements [store.Table].
func (t *Table) Range(ctx context.Context, prefix string, bodies bool) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for after, last := "", false; !last; {
			var records []store.Record
			var err error
			if records, last, err = t.page(ctx, prefix, after, bodies); err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, r := range records {
				after = r.Key
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// noName reports whether no name begins with a prefix.
func noName(prefix string) bool {
	return strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// behindAll returns the first string behind all that begin with a prefix.
func behindAll(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(prefix[last]+1)
}

// page reads records behind a key. last is true if there are no more.
func (t *Table) page(ctx context.Context, prefix, after string, bodies bool) (records []store.Record, last bool, err error) {
	if noName(prefix) {
		return nil, true, nil
	}
	var end *string
	if prefix != "" {
		end = new(behindAll(prefix))
	}
	err = t.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		records = nil
		rows, err := conn.Query(ctx, t.e.sql.page, t.id, after, prefix, end, bodies, pageRecords, pageBytes)
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			var r store.Record
			var s scanned
			if err := rows.Scan(&r.Key, &r.Made, &r.Rev, &s.at, &s.expires, &r.Meta, &r.Body, &n); err != nil {
				return err
			}
			s.into(&r)
			records = append(records, r)
		}
		last = len(records) == n && n < pageRecords
		return rows.Err()
	})
	return records, last, err
}
