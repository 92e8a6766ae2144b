package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// Append implements tape.Store.
func (s *Store) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if err := tape.CheckName(name); err != nil {
		return 0, err
	}
	checked, err := b.Check()
	if err != nil {
		return 0, err
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	w := &writing{s: s, name: name, batch: b, checked: checked, token: token()}
	first, err := w.run(ctx)
	if s.observer != nil && (err != nil || w.size > 0) { // a batch that happens once may have been there
		s.observer.Appended(len(checked), w.size, err)
	}
	if err != nil {
		return 0, err
	}
	if w.loose >= looseMost && slices.ContainsFunc(w.entries, tape.BeginsStep) {
		s.indexer.add(w.tape)
	}
	return first, nil
}

// writing is one batch on its way.
type writing struct {
	s       *Store
	name    string
	batch   tape.Batch
	checked []tape.Entry
	token   int64 // by which the batch is known again

	// Of the last try:
	entries []tape.Entry // with ids and dates
	tape    int64        // id of the tape's row
	made    bool         // by it
	size    int64        // of what was written
	loose   int64        // entries that the index does not have
}

// errDoubt is the error of a try whose commit was not answered.
var errDoubt = errors.New("tape/postgres: a commit was not answered")

// errTaken is the error of a try to make a tape that another one made at that moment.
var errTaken = errors.New("tape/postgres: another has made the tape")

// run tries until the batch is written or cannot be.
func (w *writing) run(ctx context.Context) (first int64, err error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		if err := w.s.db.Refuse(); err != nil {
			return 0, explain(ctx, err)
		}
		w.size = 0
		err := w.s.db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			first, err = w.try(ctx, conn)
			return err
		})
		if errors.Is(err, errDoubt) {
			var there bool
			if there, err = w.there(ctx, err); err != nil {
				return 0, err
			}
			if there {
				return w.entries[0].ID, nil
			}
			continue // nothing of it was written
		}
		if errors.Is(err, errTaken) {
			continue // and now it is there
		}
		if !w.s.db.Again(ctx, err, pause) {
			if err != nil {
				first = 0
				w.size = 0
			}
			return first, explain(ctx, err)
		}
	}
}

// try writes the batch in one transaction: the tape's row is locked, then all of it goes in one message, the commit too.
func (w *writing) try(ctx context.Context, conn *pgx.Conn) (first int64, err error) {
	defer func() {
		if err != nil && conn.PgConn().TxStatus() != 'I' && !conn.IsClosed() {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
			defer cancel()
			_, _ = conn.Exec(end, `ROLLBACK`) // else the connection is closed
		}
	}()
	r, err := w.lock(ctx, conn)
	if err != nil {
		return 0, err
	}
	w.entries = slices.Clone(w.checked)
	var size int64
	written, err := w.batch.Number(w.entries, r.info, time.Now(), func(after int64) iter.Seq2[tape.Entry, error] {
		return metas(ctx, conn, r.id, after)
	})
	if err != nil || written > 0 {
		if written > 0 {
			_, err = conn.Exec(ctx, `ROLLBACK`)
		}
		return written, err
	}
	r.info.AddBatch(w.batch, w.entries)
	for _, e := range w.entries {
		size += sizeOf(e)
	}
	r.info.Bytes += size
	r.loose += int64(len(w.entries))
	// From here on it is not broken off for a caller who has gone: nobody would know whether it was written.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if w.made = r.id == 0; w.made {
		if r.id, err = w.make(ctx, conn, r.info); err != nil {
			return 0, err
		}
	}
	w.tape = r.id
	if err := w.write(ctx, conn, r); err != nil {
		return 0, err
	}
	w.size, w.loose = size, r.loose
	return w.entries[0].ID, nil
}

// lock begins the transaction and locks the row of the tape: of one that does not exist, there is none.
func (w *writing) lock(ctx context.Context, conn *pgx.Conn) (row, error) {
	var b pgx.Batch
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`)
	lease, held := w.s.keeper.token(sessionOf(w.name))
	if held {
		// Whoever takes the lease waits until this is over.
		b.Queue(`SELECT true FROM leases WHERE name = $1 AND token = $2 FOR SHARE`, sessionOf(w.name), lease)
	}
	b.Queue(`SELECT `+rowColumns+` FROM tapes WHERE name = $1 FOR NO KEY UPDATE`, w.name)
	answers := conn.SendBatch(ctx, &b)
	_, err := answers.Exec()
	if held && err == nil {
		var ours bool
		if err = answers.QueryRow().Scan(&ours); errors.Is(err, pgx.ErrNoRows) {
			err = fmt.Errorf("%w: the session's lease was lost", tape.ErrLeased)
		}
	}
	var r row
	if err == nil {
		if r, err = scanRow(answers.QueryRow()); errors.Is(err, pgx.ErrNoRows) {
			r, err = row{info: tape.Info{Tape: w.name}}, nil
		}
	}
	return r, errors.Join(err, answers.Close())
}

// make makes the row of a tape. A fork is made only while its session is there, which cannot be erased then.
func (w *writing) make(ctx context.Context, conn *pgx.Conn, i tape.Info) (id int64, err error) {
	if tape.IsFork(w.name) {
		var there bool
		err := conn.QueryRow(ctx, `SELECT true FROM tapes WHERE name = $1 FOR KEY SHARE`, sessionOf(w.name)).Scan(&there)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, unknown(sessionOf(w.name))
		}
		if err != nil {
			return 0, err
		}
	}
	id, err = insertTape(ctx, conn, w.name, !tape.IsFork(w.name), i)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errTaken
	}
	return id, err
}

// insertTape makes a row of tapes, unless there is one of the name: then there is no row in the answer. It waits for another one that
// makes it at the same moment.
func insertTape(ctx context.Context, conn *pgx.Conn, name string, listed bool, i tape.Info) (id int64, err error) {
	err = conn.QueryRow(ctx, `INSERT INTO tapes (name, listed, `+infoColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (name) DO NOTHING RETURNING id`,
		append([]any{name, listed}, values(i)...)...).Scan(&id)
	return id, err
}

// write sends the entries, what is now known of the tape, and the commit.
func (w *writing) write(ctx context.Context, conn *pgx.Conn, r row) error {
	var b pgx.Batch
	queueEntries(&b, r.id, w.entries, &w.token)
	b.Queue(`UPDATE tapes SET (`+infoColumns+`, loose) = ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) WHERE id = $1`,
		append(append([]any{r.id}, values(r.info)...), r.loose)...)
	b.Queue(`COMMIT`)
	return commit(ctx, conn, &b)
}

// commit sends statements, the last of which is a commit. Where it cannot be known whether that was done, the error is errDoubt.
func commit(ctx context.Context, conn *pgx.Conn, b *pgx.Batch) error {
	answers := conn.SendBatch(ctx, b)
	var err error
	var last pgconn.CommandTag
	for range b.Len() {
		if last, err = answers.Exec(); err != nil {
			break
		}
	}
	err = errors.Join(err, answers.Close())
	switch pg, ok := errors.AsType[*pgconn.PgError](err); {
	case err == nil && last.String() == "COMMIT":
		return nil
	case err == nil:
		return errors.New("tape/postgres: the database has rolled a transaction back")
	case ok && !database.Broken(err) && pg.Severity != "FATAL" && pg.Severity != "PANIC":
		return err // a statement was refused, and with it what followed
	}
	return fmt.Errorf("%w: %w", errDoubt, err)
}

// insertMost and insertBytes bound what one statement carries.
const (
	insertMost  = 2000
	insertBytes = 16 << 20
)

// queueEntries queues the statements that insert entries. The first entry gets the batch's token, where there is one.
func queueEntries(b *pgx.Batch, id int64, entries []tape.Entry, batch *int64) {
	if len(entries) == 1 {
		e := entries[0]
		b.Queue(`INSERT INTO entries (tape, id, date, batch, kind, anchor, payload, meta) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			id, e.ID, e.Date, batch, pack(string(e.Kind)), anchorOf(e), string(e.Payload), string(e.Meta))
		return
	}
	for len(entries) > 0 {
		var ids []int64
		var dates []time.Time
		var kinds, payloads, metas []string
		var anchors []*string
		n := 0
		for size := int64(0); n < len(entries) && n < insertMost && (n == 0 || size+sizeOf(entries[n]) <= insertBytes); n++ {
			e := entries[n]
			size += sizeOf(e)
			ids, dates, kinds = append(ids, e.ID), append(dates, e.Date), append(kinds, pack(string(e.Kind)))
			anchors, payloads, metas = append(anchors, anchorOf(e)), append(payloads, string(e.Payload)), append(metas, string(e.Meta))
		}
		b.Queue(`INSERT INTO entries (tape, id, date, batch, kind, anchor, payload, meta)
			SELECT $1, e.id, e.date, CASE WHEN e.id = $2 THEN $3::bigint END, e.kind, e.anchor, e.payload, e.meta
			FROM unnest($4::bigint[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[]) AS e (id, date, kind, anchor, payload, meta)`,
			id, ids[0], batch, ids, dates, kinds, anchors, payloads, metas)
		entries, batch = entries[n:], nil
	}
}

// anchorOf is the name of an anchor, nil for anything else.
func anchorOf(e tape.Entry) *string {
	if e.Kind != tape.KindAnchor {
		return nil
	}
	return new(pack(tape.AnchorOf(e).Name))
}

// metas yields the entries after an id that have a meta, without their payloads: all that a merge looks at.
func metas(ctx context.Context, conn *pgx.Conn, id, after int64) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		rows, err := conn.Query(ctx, `SELECT id, meta FROM entries WHERE tape = $1 AND id > $2 AND meta <> '' ORDER BY id`, id, after)
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var e tape.Entry
			var meta []byte
			if err := rows.Scan(&e.ID, &meta); err != nil {
				yield(tape.Entry{}, err)
				return
			}
			e.Meta = meta
			if !yield(e, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(tape.Entry{}, err)
		}
	}
}

// there finds out whether the batch was written whose commit was not answered. It waits until the server has ended that transaction. The
// cause is the error that it ended with.
func (w *writing) there(ctx context.Context, cause error) (there bool, err error) {
	w.s.db.Lost(cause)
	// Whoever has called may have gone: the answer is wanted all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), doubtTime)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := w.s.db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			tx, err := conn.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if w.made {
				// Its row is seen by nobody before the commit, but keeps others from making it.
				_, err := insertTape(ctx, conn, w.name, false, tape.Info{})
				if err == nil {
					there = false
					return nil
				}
				if !errors.Is(err, pgx.ErrNoRows) {
					return err
				}
			}
			var id int64
			if err := tx.QueryRow(ctx, `SELECT id FROM tapes WHERE id = $1 FOR NO KEY UPDATE`, w.tape).Scan(&id); errors.Is(err, pgx.ErrNoRows) {
				if w.made { // that of another is there
					there = false
					return nil
				}
				return fmt.Errorf("%w: the tape was erased while it was written to", tape.ErrNotFound)
			} else if err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM entries WHERE tape = $1 AND id = $2 AND batch = $3)`,
				w.tape, w.entries[0].ID, w.token).Scan(&there)
		})
		switch {
		case err == nil:
			w.s.db.Found()
			if there {
				for _, e := range w.entries {
					w.size += sizeOf(e)
				}
			}
			return there, nil
		case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrClosed):
			return false, err
		case !database.Sleep(ctx, w.s.db.Closing, pause):
			w.s.db.Log.ErrorContext(ctx, "unknown whether session entries were stored", "tape", w.name, "reason", database.Reason(err))
			return false, &Error{textUnknown, cause}
		}
	}
}

// sessionOf is the name of the session's tape, of which this may be a fork.
func sessionOf(name string) string {
	root, _, _ := strings.Cut(name, ".")
	return root
}
