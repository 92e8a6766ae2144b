package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// Read implements tape.Store.
func (s *Store) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		r, err := s.load(ctx, name)
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		tape.Select(ctx, s.source(ctx, r, q), q)(yield)
	}
}

// source is a tape as it was when its row was read: entries do not change, and those that follow have greater ids.
type source struct {
	s   *Store
	ctx context.Context
	row row
	q   tape.Query
	// What the database leaves out by itself, where the text of entries is not asked for: there a step belongs together.
	kinds    []string
	from, to time.Time
	words    []string
	more     bool // candidates, behind those that were found
}

func (s *Store) source(ctx context.Context, r row, q tape.Query) *source {
	src := &source{s: s, ctx: ctx, row: r, q: q}
	if q.Text != "" {
		var f tape.Folder
		src.words = f.Words(q.Text)
	}
	if len(src.words) == 0 {
		for _, k := range q.Kinds {
			src.kinds = append(src.kinds, pack(string(k)))
		}
		src.from, src.to = q.From, q.To
	}
	return src
}

// Entries implements tape.Source.
func (src *source) Entries(after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	before = min(before, src.row.info.LastID+1)
	if len(src.words) > 0 && src.row.info.Entries > headMost {
		return src.search(after, before, newest)
	}
	most := chunkFirst
	if len(src.words) == 0 && src.q.Limit > 0 {
		most = min(most, src.q.Limit)
	}
	return src.span(after, before, newest, most)
}

// A chunk is what is read at once and held in memory: so many entries at most, and so many bytes, beyond which only the last entry goes.
const (
	chunkFirst = 128 // a view is seldom longer
	chunkMost  = 1024
	chunkBytes = 1 << 20
)

// span yields all entries with after < id < before, in chunks; the first has at most so many.
func (src *source) span(after, before int64, newest bool, most int) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		var chunk []tape.Entry
		for before-after >= 2 {
			var size int
			var err error
			if chunk, size, err = src.chunk(chunk[:0], after, before, newest, most); err != nil {
				yield(tape.Entry{}, err)
				return
			}
			for i := range chunk {
				e := chunk[i]
				chunk[i] = tape.Entry{} // it may go when the reader has done with it
				if newest {
					before = e.ID
				} else {
					after = e.ID
				}
				if !yield(e, nil) {
					return
				}
			}
			if len(chunk) < most && size < chunkBytes {
				return
			}
			most = min(2*max(most, chunkFirst/2), chunkMost)
		}
	}
}

// chunk appends the next entries to dst, and returns how many bytes they have.
func (src *source) chunk(dst []tape.Entry, after, before int64, newest bool, most int) ([]tape.Entry, int, error) {
	order := "ASC"
	if newest {
		order = "DESC"
	}
	args := []any{src.row.id, after, before, most}
	where := `tape = $1 AND id > $2 AND id < $3`
	if src.kinds != nil {
		args = append(args, src.kinds)
		where += fmt.Sprintf(` AND kind = ANY ($%d)`, len(args))
		if slices.Equal(src.kinds, []string{string(tape.KindAnchor)}) {
			where += ` AND anchor IS NOT NULL` // of which there is an index
		}
	}
	if !src.from.IsZero() {
		args = append(args, src.from)
		where += fmt.Sprintf(` AND date >= $%d`, len(args))
	}
	if !src.to.IsZero() {
		args = append(args, src.to)
		where += fmt.Sprintf(` AND date <= $%d`, len(args))
	}
	// The length of what is stored elsewhere is known without fetching it. Without the tape's row there is no row at all.
	sql := `SELECT e.id, e.kind, e.payload, e.meta, e.date FROM tapes t LEFT JOIN LATERAL (
			SELECT * FROM (
				SELECT id, kind, payload, meta, date,
					sum(octet_length(payload)::bigint + octet_length(meta)) OVER (ORDER BY id ` + order + ` ROWS UNBOUNDED PRECEDING)
						- octet_length(payload) - octet_length(meta) AS ahead
				FROM entries WHERE ` + where + ` ORDER BY id ` + order + ` LIMIT $4
			) part WHERE ahead < ` + fmt.Sprint(chunkBytes) + `
		) e ON true WHERE t.id = $1 ORDER BY e.id ` + order
	return src.fetch(dst, sql, args)
}

// fetch appends the entries that a query of this form gives, and returns how many bytes they have.
func (src *source) fetch(dst []tape.Entry, sql string, args []any) (_ []tape.Entry, size int, err error) {
	start := len(dst)
	err = src.s.do(src.ctx, func(ctx context.Context, conn *pgx.Conn) error {
		dst, size = dst[:start], 0
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		there := false
		for rows.Next() {
			there = true
			raw := rows.RawValues()
			if raw[0] == nil { // there is the tape and no such entry
				continue
			}
			var id int64
			var kind, payload, meta []byte
			var date time.Time
			if err := rows.Scan(&id, &kind, &payload, &meta, &date); err != nil {
				return err
			}
			size += len(payload) + len(meta)
			dst = append(dst, entry(id, kind, payload, meta, date))
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return erasedUnless(there)
	})
	return dst, size, err
}

// erasedUnless is the error of a tape that is not there any more.
func erasedUnless(there bool) error {
	if there {
		return nil
	}
	return fmt.Errorf("%w: the session was erased while it was read", tape.ErrDeleted)
}

// Anchors implements tape.Source. The last one is known.
func (src *source) Anchors() iter.Seq2[tape.AnchorRef, error] {
	return func(yield func(tape.AnchorRef, error) bool) {
		last := src.row.info.LastAnchor
		if last.ID == 0 || !yield(last, nil) {
			return
		}
		for before := last.ID; ; {
			refs, err := src.anchors(before)
			if err != nil {
				yield(tape.AnchorRef{}, err)
				return
			}
			for _, a := range refs {
				if !yield(a, nil) {
					return
				}
				before = a.ID
			}
			if len(refs) < chunkMost {
				return
			}
		}
	}
}

// anchors are the next ones before an id, newest first.
func (src *source) anchors(before int64) (refs []tape.AnchorRef, err error) {
	err = src.s.do(src.ctx, func(ctx context.Context, conn *pgx.Conn) error {
		refs = refs[:0]
		rows, err := conn.Query(ctx, `SELECT e.id, e.anchor, e.date FROM tapes t LEFT JOIN LATERAL (
				SELECT id, anchor, date FROM entries WHERE tape = $1 AND id < $2 AND anchor IS NOT NULL ORDER BY id DESC LIMIT $3
			) e ON true WHERE t.id = $1 ORDER BY e.id DESC`, src.row.id, before, chunkMost)
		if err != nil {
			return err
		}
		defer rows.Close()
		there := false
		for rows.Next() {
			there = true
			if rows.RawValues()[0] == nil {
				continue
			}
			var a tape.AnchorRef
			if err := rows.Scan(&a.ID, &a.Name, &a.Date); err != nil {
				return err
			}
			a.Name, a.Date = unpack(a.Name), a.Date.UTC()
			refs = append(refs, a)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return erasedUnless(there)
	})
	return refs, err
}

// Sessions implements tape.Store. The list is read in pages: a session that is used while it goes on may be missing, or be in it twice.
func (s *Store) Sessions(ctx context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		if s.db.Closed() {
			yield(tape.Info{}, tape.ErrClosed)
			return
		}
		last, err := q.Last()
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		begun := q.After != ""
		for left := q.Limit; ; {
			most := pageMost
			if q.Limit > 0 {
				most = min(most, left)
			}
			page, err := s.page(ctx, q, begun, last, most)
			if err != nil {
				yield(tape.Info{}, err)
				return
			}
			for _, i := range page {
				if !yield(i, nil) {
					return
				}
				begun, last = true, i
			}
			if left -= len(page); len(page) < most || q.Limit > 0 && left == 0 {
				return
			}
		}
	}
}

// Count implements [tape.Counter].
func (s *Store) Count(ctx context.Context) (n int, err error) {
	if s.db.Closed() {
		return 0, tape.ErrClosed
	}
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM tapes WHERE listed`).Scan(&n)
	})
	return n, err
}

const pageMost = 1000 // sessions of a page

// groupColumn is the group of a session, as an index has it.
const groupColumn = `left(split_part(session, '#', 1), 128)`

// page is the next page of a list of sessions.
func (s *Store) page(ctx context.Context, q tape.SessionQuery, begun bool, last tape.Info, most int) (page []tape.Info, err error) {
	where := `listed`
	// An index has the order, unless the prefix is a part of a group. The planner does not see it while there are few statistics, as after a restore
	// or an upgrade: it would rather read and sort all sessions than follow the index to the limit.
	ordered := true
	var args []any
	add := func(condition string, values ...any) {
		numbers := make([]any, len(values))
		for i, v := range values {
			args = append(args, v)
			numbers[i] = len(args)
		}
		where += " AND " + fmt.Sprintf(condition, numbers...)
	}
	if q.Workspace != "" {
		add(`place = left($%d, 256) AND workspace = $%[1]d`, pack(q.Workspace))
	}
	if q.Prefix != "" {
		add(`starts_with(session, $%d)`, pack(q.Prefix))
		// The index has the beginning of the session's group.
		group, _, whole := strings.Cut(pack(q.Prefix), "#")
		if r := []rune(group); len(r) > 128 {
			group = string(r[:128])
		}
		if whole {
			add(groupColumn+` = $%d`, group)
		} else {
			ordered = false
			add(groupColumn+` >= $%d`, group)
			if end, ok := beyond(group); ok {
				add(groupColumn+` < $%d`, end)
			}
		}
	}
	if begun {
		add(`(updated < $%d OR updated = $%[1]d AND name > $%[2]d)`, last.Updated, pack(last.Tape))
		add(`updated <= $%d`, last.Updated) // for the index
	}
	args = append(args, most)
	sql := `SELECT ` + rowColumns + ` FROM tapes WHERE ` + where + fmt.Sprintf(` ORDER BY updated DESC, name LIMIT $%d`, len(args))
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		page = page[:0]
		var b pgx.Batch // one transaction
		if ordered {
			b.Queue(`SELECT set_config('enable_sort', 'off', true)`)
		}
		b.Queue(sql, args...)
		answers := conn.SendBatch(ctx, &b)
		defer answers.Close()
		if ordered {
			if _, err := answers.Exec(); err != nil {
				return err
			}
		}
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanRow(rows)
			if err != nil {
				return err
			}
			page = append(page, r.info)
		}
		return rows.Err()
	})
	return page, err
}

// Delete implements tape.Store: the tape, its forks, and all that belongs to them go in one transaction.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	return s.do(database.Long(ctx, eraseTime), func(ctx context.Context, conn *pgx.Conn) error {
		return erase(ctx, conn, func(tx pgx.Tx) (ids []int64, err error) {
			// The tape first: whoever makes a fork of it holds it until the fork is there, and nobody makes one after that.
			if ids, err = locked(ctx, tx, `SELECT id FROM tapes WHERE name = $1 FOR UPDATE`, name); err != nil {
				return nil, err
			}
			forks, err := locked(ctx, tx, `SELECT id FROM tapes WHERE name > $1 AND name < $2 ORDER BY name FOR UPDATE`, name+".", name+"/")
			return append(ids, forks...), err
		})
	})
}

// locked are the ids of rows that the statement locks.
func locked(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]int64, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// erase removes the tapes whose rows find locks, with all that belongs to them.
func erase(ctx context.Context, conn *pgx.Conn, find func(pgx.Tx) ([]int64, error)) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`, database.Milliseconds(eraseTime)); err != nil {
		return err
	}
	ids, err := find(tx)
	if err != nil || len(ids) == 0 {
		return err
	}
	for _, table := range []string{"entries", "blocks", "blobs"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE tape = ANY ($1)`, ids); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM tapes WHERE id = ANY ($1)`, ids); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
