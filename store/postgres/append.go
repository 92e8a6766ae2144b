package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/lingserve/lingserve/store"
)

// Bounds of a row of several entries. A read that begins or ends in a row reads all of it.
const (
	rowEntries = 256
	rowBytes   = 32 << 10
)

// eachMost bounds how many batches one call of append_each writes: its time grows with the square.
const eachMost = 50

// entryRow is a row of entries whose numbers follow one another.
type entryRow struct {
	start uint64 // number of the first; 0: the next
	n     int
	size  int // bytes of the entries
	mark  bool
	data  []byte
}

// What a batch may be behind.
const (
	afterNew = iota
	afterAny
	afterRev
	afterNothing // no log has such a revision
)

// addition is a batch on its way.
type addition struct {
	name  string
	b     *store.Batch
	kind  int
	after revision
	floor uint64 // the log's last number must be below it; 0: no matter
	rows  []entryRow
	bytes int
}

func newAddition(name string, b *store.Batch) (*addition, error) {
	a := &addition{name: name, b: b, rows: rowsOf(b.Entries)}
	switch b.After {
	case store.New:
		a.kind = afterNew
	case store.Any:
		a.kind = afterAny
	default:
		after, ok := parseRev(b.After)
		if a.kind, a.after = afterRev, after; !ok {
			a.kind = afterNothing
		}
	}
	for i, e := range b.Entries {
		a.bytes += len(e.Data)
		if e.N > math.MaxInt64>>1 {
			return nil, fmt.Errorf("%w: an entry of %q has number %d", store.ErrInvalid, name, e.N)
		}
		if e.N != 0 && a.floor == 0 {
			a.floor = e.N - uint64(i)
		}
	}
	return a, nil
}

// rowsOf splits entries into rows. The number of an entry is known if a number was given to it, or to one before it.
func rowsOf(entries []store.Entry) (rows []entryRow) {
	next := uint64(0) // 0: not known
	for i := 0; i < len(entries); {
		e := entries[i]
		if e.N != 0 {
			next = e.N
		}
		r := entryRow{start: e.N, n: 1, size: len(e.Data), mark: e.Mark, data: e.Data}
		for j := i + 1; !e.Mark && j < len(entries) && r.n < rowEntries; j++ {
			o := entries[j]
			if o.Mark || o.N != 0 && (next == 0 || o.N != next+uint64(r.n)) || r.size+len(o.Data) > rowBytes {
				break
			}
			r.n++
			r.size += len(o.Data)
		}
		if r.n > 1 {
			r.data = make([]byte, 0, r.size+2*r.n)
			for _, o := range entries[i : i+r.n] {
				r.data = append(binary.AppendUvarint(r.data, uint64(len(o.Data))), o.Data...)
			}
		}
		if r.data == nil {
			r.data = []byte{} // nil would be no value
		}
		rows = append(rows, r)
		i += r.n
		if next != 0 {
			next += uint64(r.n)
		}
	}
	return rows
}

// entries returns the entries of a row that the server has. Those that cannot be read are nil.
func (r *entryRow) entries() [][]byte {
	if r.n == 1 {
		return [][]byte{r.data}
	}
	all := make([][]byte, 0, r.n)
	for rest := r.data; len(all) < r.n; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return append(all, make([][]byte, r.n-len(all))...)
		}
		all = append(all, rest[n:n+int(size):n+int(size)])
		rest = rest[n+int(size):]
	}
	return all
}

// appended is what the server says of a batch.
type appended struct {
	outcome string
	row     infoRow
}

// Append implements [store.Log].
func (l *Log) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	if err := b.Check(name); err != nil {
		return store.Info{}, err
	}
	a, err := newAddition(name, &b)
	if err != nil {
		return store.Info{}, err
	}
	answers, err := l.appends.write(ctx, []*addition{a}, a.bytes)
	if err != nil {
		return store.Info{}, err
	}
	return answers[0].result(a)
}

// result is what the caller of Append gets.
func (r *appended) result(a *addition) (store.Info, error) {
	switch r.outcome {
	case "done", "same":
		return r.row.info(a.name), nil
	case "moved":
		return store.Info{}, &store.MovedLog{Info: r.row.info(a.name)}
	case "absent":
		return store.Info{}, &store.MovedLog{Info: store.Info{Name: a.name}}
	case "low":
		return store.Info{}, fmt.Errorf("%w: an entry of %q has a number that is not above %d", store.ErrInvalid, a.name, r.row.last)
	case "full":
		return store.Info{}, fmt.Errorf("%w: logs", store.ErrFull)
	}
	return store.Info{}, fmt.Errorf("the database has answered %q to a batch", r.outcome)
}

// send writes batches: those that are likely to fit with one statement, and what it has not written one by one.
func (l *Log) send(ctx context.Context, conn *pgx.Conn, items []*addition) ([]appended, error) {
	answers := make([]appended, len(items))
	var next, rest []int
	for i, a := range items {
		if a.kind == afterRev && len(a.rows) <= 1 && l.o.MaxBytes == 0 {
			next = append(next, i)
		} else {
			rest = append(rest, i)
		}
	}
	written := false
	if len(next) > 0 {
		if err := l.appendNext(ctx, conn, items, next, answers); err != nil {
			return nil, err
		}
		for _, i := range next {
			if answers[i].outcome == "" {
				rest = append(rest, i)
			} else {
				written = true
			}
		}
	}
	for len(rest) > 0 {
		some := rest[:min(len(rest), eachMost)]
		if err := l.appendEach(ctx, conn, items, some, answers); err != nil {
			if written {
				err = fmt.Errorf("%w: %w", errPartly, err)
			}
			return nil, err
		}
		written, rest = true, rest[len(some):]
	}
	return answers, nil
}

// batchColumns are batches as the server's functions take them.
type batchColumns struct {
	names         []string
	ids, behinds  []pgtype.UUID
	kinds         []int32
	revs, floors  []int64
	updates       []*time.Time
	heads, labels [][]byte
}

func columnsOf(items []*addition, which []int) *batchColumns {
	n := len(which)
	c := &batchColumns{
		names: make([]string, n), ids: make([]pgtype.UUID, n), behinds: make([]pgtype.UUID, n), kinds: make([]int32, n),
		revs: make([]int64, n), floors: make([]int64, n), updates: make([]*time.Time, n), heads: make([][]byte, n), labels: make([][]byte, n),
	}
	for k, i := range which {
		a := items[i]
		c.names[k], c.ids[k], c.behinds[k], c.kinds[k] = a.name, uuid(a.b.ID), uuid(a.after.batch), int32(a.kind)
		c.revs[k], c.floors[k], c.heads[k], c.labels[k] = a.after.number, int64(a.floor), a.b.Head, []byte(a.b.Label)
		if !a.b.Updated.IsZero() {
			c.updates[k] = &a.b.Updated
		}
	}
	return c
}

func uuid(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// rowColumns are rows of entries as the server's functions take them.
type rowColumns struct {
	owners        []int32
	starts        []int64
	counts, sizes []int32
	marks         []bool
	datas         [][]byte
}

func (c *rowColumns) add(owner int, r entryRow) {
	c.owners, c.starts, c.counts = append(c.owners, int32(owner)), append(c.starts, int64(r.start)), append(c.counts, int32(r.n))
	c.sizes, c.marks, c.datas = append(c.sizes, int32(r.size)), append(c.marks, r.mark), append(c.datas, r.data)
}

func (l *Log) appendNext(ctx context.Context, conn *pgx.Conn, items []*addition, which []int, answers []appended) error {
	b := columnsOf(items, which)
	var r rowColumns
	for k, i := range which {
		row := entryRow{data: []byte{}}
		if len(items[i].rows) > 0 {
			row = items[i].rows[0]
		}
		r.add(k, row)
	}
	rows, err := conn.Query(ctx, l.sql.appendNext, l.id, l.o.Durability == store.Synced, l.o.Indexed,
		b.names, b.ids, b.revs, b.behinds, b.floors, b.updates, b.heads, r.starts, r.counts, r.sizes, r.marks, r.datas)
	return scanAppended(rows, err, items, which, answers)
}

func (l *Log) appendEach(ctx context.Context, conn *pgx.Conn, items []*addition, which []int, answers []appended) error {
	b := columnsOf(items, which)
	var r rowColumns
	for k, i := range which {
		for _, row := range items[i].rows {
			r.add(k+1, row)
		}
	}
	rows, err := conn.Query(ctx, l.sql.appendEach, l.id, l.o.Durability == store.Synced, l.o.Indexed, l.o.MaxBytes,
		b.names, b.ids, b.kinds, b.revs, b.behinds, b.floors, b.updates, b.heads, b.labels, r.owners, r.starts, r.counts, r.sizes, r.marks, r.datas)
	if err := scanAppended(rows, err, items, which, answers); err != nil {
		return err
	}
	for _, i := range which {
		if answers[i].outcome == "" {
			return fmt.Errorf("no answer to a batch of %q", items[i].name)
		}
	}
	return nil
}

// scanAppended reads answers to batches.
func scanAppended(rows pgx.Rows, err error, items []*addition, which []int, answers []appended) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var ord int
		var got appended
		fields := append([]any{&ord, &got.outcome}, got.row.fields()...)
		if err := rows.Scan(fields...); err != nil {
			return err
		}
		i := which[ord-1]
		if got.row.head == nil {
			got.row.head = items[i].b.Head
		}
		answers[i] = got
	}
	return rows.Err()
}
