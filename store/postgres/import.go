package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

// importBytes is how much of a log is written at once.
const importBytes = 4 << 20

// Whole is a log that [Log.Import] writes, without its entries.
type Whole struct {
	Name, Label      string
	Head             []byte
	Created, Updated time.Time
}

// Import writes a whole log of an Indexed space in a transaction of the caller, and returns its id in the database. It fails with ErrMoved if
// there is a log of this name.
func (l *Log) Import(ctx context.Context, tx pgx.Tx, w Whole, entries iter.Seq2[store.Entry, error]) (id int64, err error) {
	var batch [16]byte
	_, _ = rand.Read(batch[:]) // never fails
	check := store.Batch{ID: batch, Head: w.Head, Label: w.Label}
	if err := check.Check(w.Name); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, l.sql.importLog, l.id, w.Name, []byte(w.Label), w.Head, w.Created, w.Updated, uuid(batch)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, &store.MovedLog{Info: store.Info{Name: w.Name}}
	}
	if err != nil {
		return 0, err
	}
	in := importing{l: l, tx: tx, id: id}
	for e, err := range entries {
		if err == nil {
			err = in.add(ctx, e)
		}
		if err != nil {
			return 0, err
		}
	}
	if err := in.flush(ctx); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, l.sql.imported, id, in.first, in.last, in.mark, in.entries, in.bytes)
	return id, err
}

// importing is a log on its way.
type importing struct {
	l       *Log
	tx      pgx.Tx
	id      int64
	waiting []store.Entry
	size    int

	first, last, mark uint64
	entries, bytes    int64
}

func (in *importing) add(ctx context.Context, e store.Entry) error {
	if e.N == 0 {
		e.N = in.last + 1
	}
	if e.N <= in.last {
		return fmt.Errorf("%w: an entry has number %d behind %d", store.ErrInvalid, e.N, in.last)
	}
	if in.first == 0 {
		in.first = e.N
	}
	if e.Mark {
		in.mark = e.N
	}
	in.last, in.entries, in.bytes = e.N, in.entries+1, in.bytes+int64(len(e.Data))
	in.waiting, in.size = append(in.waiting, e), in.size+len(e.Data)
	if in.size >= importBytes {
		return in.flush(ctx)
	}
	return nil
}

// flush copies what waits.
func (in *importing) flush(ctx context.Context) error {
	rows := rowsOf(in.waiting)
	_, err := in.tx.CopyFrom(ctx, pgx.Identifier{in.l.e.db.Schema, "batches_0"}, []string{"log", "first", "part", "n", "size", "mark", "data"},
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r := rows[i]
			return []any{in.id, int64(r.start), int32(0), int32(r.n), int32(r.size), r.mark, r.data}, nil
		}))
	in.waiting, in.size = in.waiting[:0], 0
	return err
}
