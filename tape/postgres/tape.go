package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/tape"
)

// row is a tape as its row says.
type row struct {
	id      int64 // of this tape alone: one that is begun anew under the same name has another
	info    tape.Info
	indexed int64 // id of the last entry that the index of searches has
	loose   int64 // how many follow
}

const rowColumns = `id, name, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes, agent, indexed, loose`

func scanRow(from pgx.Row) (r row, err error) {
	i := &r.info
	err = from.Scan(&r.id, &i.Tape, &i.Session, &i.Workspace, &i.Title, &i.Created, &i.Updated, &i.Entries, &i.LastID, &i.Anchors,
		&i.LastAnchor.ID, &i.LastAnchor.Name, &i.LastAnchor.Date, &i.Bytes, &i.Agent, &r.indexed, &r.loose)
	if err != nil {
		return row{}, err
	}
	i.Session, i.Workspace, i.Title, i.Agent = unpack(i.Session), unpack(i.Workspace), unpack(i.Title), unpack(i.Agent)
	i.Created, i.Updated = i.Created.UTC(), i.Updated.UTC()
	if i.LastAnchor.ID == 0 {
		i.LastAnchor = tape.AnchorRef{}
	} else {
		i.LastAnchor.Name, i.LastAnchor.Date = unpack(i.LastAnchor.Name), i.LastAnchor.Date.UTC()
	}
	return r, nil
}

// values are what a row has of an Info that appends change, in the order of infoColumns.
func values(i tape.Info) []any {
	return []any{
		pack(i.Session), pack(i.Workspace), pack(i.Title), i.Created, i.Updated, i.Entries, i.LastID, i.Anchors,
		i.LastAnchor.ID, pack(i.LastAnchor.Name), i.LastAnchor.Date, i.Bytes, pack(i.Agent),
	}
}

const infoColumns = `session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes, agent`

func unknown(name string) error {
	return fmt.Errorf("%w: unknown tape %.80q", tape.ErrNotFound, name)
}

// load reads the row of a tape.
func (s *Store) load(ctx context.Context, name string) (r row, err error) {
	if err := tape.CheckName(name); err != nil {
		return row{}, err
	}
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		r, err = scanRow(conn.QueryRow(ctx, `SELECT `+rowColumns+` FROM tapes WHERE name = $1`, name))
		if errors.Is(err, pgx.ErrNoRows) {
			return unknown(name)
		}
		return err
	})
	return r, err
}

// Info implements tape.Store.
func (s *Store) Info(ctx context.Context, name string) (tape.Info, error) {
	r, err := s.load(ctx, name)
	return r.info, err
}

// sizeOf is what an entry takes in the database, more or less: its parts and what a row has beside them.
func sizeOf(e tape.Entry) int64 {
	const beside = 64
	return int64(len(e.Payload) + len(e.Meta) + len(e.Kind) + beside)
}

// kinds that are known have no second copy.
var kinds = map[string]tape.Kind{}

func init() {
	for _, k := range []tape.Kind{tape.KindAnchor, tape.KindEvent, tape.KindSystem, tape.KindMessage, tape.KindReasoning, tape.KindToolCall, tape.KindToolResult, tape.KindError} {
		kinds[string(k)] = k
	}
}

// entry makes an entry of its columns.
func entry(id int64, kind []byte, payload, meta []byte, date time.Time) tape.Entry {
	e := tape.Entry{ID: id, Payload: payload, Date: date.UTC()}
	if len(meta) > 0 {
		e.Meta = meta
	}
	known, ok := kinds[string(kind)]
	if !ok {
		known = tape.Kind(unpack(string(kind)))
	}
	e.Kind = known
	return e
}
