package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

// The terms of a range are the lexemes of a tsvector: its GIN index finds words and beginnings of words, in any script and under any locale.
// The log is a lexeme, too, so that a search costs what there is in the log, and not what there is in all.

const (
	rangesAtOnce = 12   // ranges whose entries one statement reads: a page, mostly
	rangesMost   = 2000 // that a search knows of at once
)

var _ store.Terms = (*Log)(nil)

// lexemeOf is the lexeme of all ranges of a log. A caller's term can be the same; that does no harm.
func lexemeOf(log int64) string { return "\x01" + strconv.FormatInt(log, 10) }

// tsquery is a query as the server has it.
func tsquery(log int64, query []store.Term) string {
	var b strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `'`, `''`)
	for _, term := range query {
		if strings.IndexByte(term.Text, 0) >= 0 {
			continue // no lexeme has it
		}
		b.WriteString("'" + escape.Replace(term.Text) + "'")
		if term.Prefix {
			b.WriteString(":*")
		}
		b.WriteString(" & ")
	}
	return b.String() + "'" + lexemeOf(log) + "'"
}

// Indexed implements [store.Terms].
func (l *Log) Indexed(ctx context.Context, name string, n uint64) (x store.Indexed, err error) {
	if err := store.CheckKey(name); err != nil {
		return x, err
	}
	err = l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, l.sql.indexed, l.id, name, min(n, math.MaxInt64)).Scan(&x.Last, &x.Behind, &x.Start)
		if errors.Is(err, pgx.ErrNoRows) {
			return noLog(name)
		}
		return err
	})
	return x, err
}

// Index implements [store.Terms]. An append does not wait for it: the log is locked for a moment only.
func (l *Log) Index(ctx context.Context, name string, after uint64, ranges []store.TermRange) error {
	log, err := l.find(ctx, name)
	if err != nil || len(ranges) == 0 {
		return err
	}
	taken := false
	err = l.change(ctx, name, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
		var b pgx.Batch
		covered := int64(0)
		for _, r := range ranges {
			covered += r.Entries
			var lexemes []string
			if r.Terms != nil {
				lexemes = append(slices.Clone(r.Terms), lexemeOf(log))
			}
			b.Queue(l.sql.addTerms, log, r.First, r.Last, lexemes)
		}
		b.Queue(l.sql.covered, log, after, ranges[len(ranges)-1].Last, covered)
		answers := tx.SendBatch(ctx, &b)
		defer answers.Close()
		for range ranges {
			if _, err := answers.Exec(); err != nil {
				if taken = database.Duplicate(err); taken { // by another caller, or by an attempt whose answer was lost
					return nil
				}
				return err
			}
		}
		tag, err := answers.Exec()
		if taken = err == nil && tag.RowsAffected() == 0; taken || err != nil {
			return err
		}
		if err := answers.Close(); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	if err == nil && taken {
		return fmt.Errorf("the index of log %q: %w", name, store.ErrMoved)
	}
	return err
}

// find returns the id of a log.
func (l *Log) find(ctx context.Context, name string) (log int64, err error) {
	err = l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, l.sql.find, l.id, name).Scan(&log)
		if errors.Is(err, pgx.ErrNoRows) {
			return noLog(name)
		}
		return err
	})
	return log, err
}

// span is a range of numbers, the ends included.
type span struct{ first, last uint64 }

// Find implements [store.Terms].
func (l *Log) Find(ctx context.Context, name string, query []store.Term, o store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		log, err := l.find(ctx, name)
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		r := reading{l: l, name: name, log: log, from: o.From, before: o.Before, newest: o.Newest}
		if r.before == 0 {
			r.before = math.MaxInt64
		}
		for more := true; more; {
			var spans []span
			if spans, more, err = r.spans(ctx, tsquery(log, query)); err != nil {
				yield(store.Entry{}, err)
				return
			}
			for some := range slices.Chunk(spans, rangesAtOnce) {
				if !r.found(ctx, some, yield) {
					return
				}
			}
		}
	}
}

// spans returns the next ranges that may have what is sought, and whether there may be others.
func (r *reading) spans(ctx context.Context, query string) (spans []span, more bool, err error) {
	sql := r.l.sql.spansOldest
	if r.newest {
		sql = r.l.sql.spansNewest
	}
	err = r.l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		// The planner takes the table for a small one: it does not count what is stored beside it, and would read all of that.
		spans, err = queryWith(ctx, conn, "enable_seqscan", "off", func(row pgx.CollectableRow) (s span, err error) {
			return s, row.Scan(&s.first, &s.last)
		}, sql, query, r.log, min(r.from, math.MaxInt64), r.before)
		return err
	})
	more = len(spans) == rangesMost
	switch {
	case err == nil && len(spans) == 0:
		err = r.l.ended(ctx, r.name, r.log)
	case len(spans) == 1 && spans[0] == span{}: // there is the log, and no such range
		spans = nil
	}
	return spans, more, err
}

// found yields the entries of ranges that are in order, and moves on behind them. It reports false if the reader has enough.
func (r *reading) found(ctx context.Context, spans []span, yield func(store.Entry, error) bool) bool {
	sql := r.l.sql.foundOldest
	if r.newest {
		sql = r.l.sql.foundNewest
	}
	firsts, lasts := make([]uint64, len(spans)), make([]uint64, len(spans))
	for i, s := range spans {
		firsts[i], lasts[i] = s.first, s.last
	}
	inSpans := func(e store.Entry, err error) bool {
		in := slices.ContainsFunc(spans, func(s span) bool { return s.first <= e.N && e.N <= s.last }) && e.N >= r.from && e.N < r.before
		if !in {
			return true
		}
		if r.newest { // a row that two ranges share comes twice
			r.before = e.N
		} else {
			r.from = e.N + 1
		}
		return yield(e, err)
	}
	for r.limit = mostRows; ; {
		p, err := r.page(ctx, sql, r.log, firsts, lasts, min(r.from, math.MaxInt64), r.before)
		if err == nil && p.log == 0 {
			err = r.l.ended(ctx, r.name, r.log)
		}
		if err != nil {
			yield(store.Entry{}, err)
			return false
		}
		if !p.yield(r.newest, 0, math.MaxUint64, inSpans) {
			return false
		}
		if len(p.rows) < mostRows && p.bytes < pageBytes {
			break
		}
	}
	if end := spans[len(spans)-1]; r.newest {
		r.before = min(r.before, end.first)
	} else {
		r.from = max(r.from, end.last+1)
	}
	return true
}
