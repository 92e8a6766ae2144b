package postgres

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tape/logs"
)

// tapeLog is the [store.Log] of tapes, some of which are still in the tables of an earlier version.
type tapeLog struct {
	*postgres.Log
	t *Tapes
}

// move moves the tape to which a log belongs.
func (l *tapeLog) move(ctx context.Context, name string) error {
	root, _, _ := strings.Cut(name, "/")
	return l.t.move(ctx, l.Log, root)
}

// Append implements [store.Log].
func (l *tapeLog) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	if b.After == store.New || b.After == store.Any { // else its writer has read it
		if err := l.move(ctx, name); err != nil {
			return store.Info{}, err
		}
	}
	return l.Log.Append(ctx, name, b)
}

// Info implements [store.Log].
func (l *tapeLog) Info(ctx context.Context, name string) (store.Info, error) {
	if err := l.move(ctx, name); err != nil {
		return store.Info{}, err
	}
	return l.Log.Info(ctx, name)
}

// Trim implements [store.Log].
func (l *tapeLog) Trim(ctx context.Context, name string, below uint64) error {
	if err := l.move(ctx, name); err != nil {
		return err
	}
	return l.Log.Trim(ctx, name, below)
}

// Delete implements [store.Log].
func (l *tapeLog) Delete(ctx context.Context, name string) error {
	if err := l.move(ctx, name); err != nil {
		return err
	}
	return l.Log.Delete(ctx, name)
}

// Read implements [store.Log].
func (l *tapeLog) Read(ctx context.Context, name string, r store.Range) iter.Seq2[store.Entry, error] {
	return l.moved(ctx, name, func() iter.Seq2[store.Entry, error] { return l.Log.Read(ctx, name, r) })
}

// Follow implements [store.Log].
func (l *tapeLog) Follow(ctx context.Context, name string, from uint64) iter.Seq2[store.Entry, error] {
	return l.moved(ctx, name, func() iter.Seq2[store.Entry, error] { return l.Log.Follow(ctx, name, from) })
}

func (l *tapeLog) moved(ctx context.Context, name string, read func() iter.Seq2[store.Entry, error]) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := l.move(ctx, name); err != nil {
			yield(store.Entry{}, err)
			return
		}
		read()(yield)
	}
}

// List implements [store.Log]. It reads what is in the old tables first: what is moved meanwhile is in the new ones then.
func (l *tapeLog) List(ctx context.Context, o store.Listing) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		old, err := l.old(ctx, o)
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		n, last := 0, ""
		give := func(info store.Info) bool {
			if info.Name == last { // moved meanwhile
				return true
			}
			last = info.Name
			n++
			return yield(info, nil) && n != o.Limit
		}
		for info, err := range l.Log.List(ctx, o) {
			if err != nil {
				yield(store.Info{}, err)
				return
			}
			for len(old) > 0 && compare(old[0], info) < 0 {
				if !give(old[0]) {
					return
				}
				old = old[1:]
			}
			if len(old) > 0 && old[0].Name == info.Name {
				old = old[1:]
			}
			if !give(info) {
				return
			}
		}
		for _, info := range old {
			if !give(info) {
				return
			}
		}
	}
}

func compare(a, b store.Info) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.Name, b.Name))
}

// oldRev is the revision of a log that is not there yet. Nothing fits behind it: a log is moved before its revision is read otherwise.
const oldRev = store.Rev("before")

// old returns the logs of a list that are still in the old tables.
func (l *tapeLog) old(ctx context.Context, o store.Listing) (infos []store.Info, err error) {
	if l.t.none.Load() || strings.Contains(o.Prefix, "/") {
		return nil, nil
	}
	where, args := `listed AND starts_with(name, $1)`, []any{o.Prefix}
	if o.After.Name != "" {
		where += ` AND (updated < $2 OR updated = $2 AND name > $3) AND updated <= $2`
		args = append(args, o.After.Updated, o.After.Name)
	}
	if o.Label != "" {
		args = append(args, pack(o.Label))
		where += fmt.Sprintf(` AND starts_with(session, $%d)`, len(args))
	}
	limit := ""
	if o.Limit > 0 {
		limit = fmt.Sprint(" LIMIT ", o.Limit)
	}
	err = l.t.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		infos = nil
		rows, err := conn.Query(ctx, `SELECT `+columns+` FROM `+l.t.schema+`tapes WHERE `+where+` ORDER BY updated DESC, name`+limit, args...)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, scan)
		if err != nil {
			return err
		}
		for _, r := range all {
			w, err := logs.WholeOf(r.info)
			if err != nil {
				continue // it cannot be moved either, and is in the log
			}
			infos = append(infos, store.Info{
				Name: w.Name, Label: w.Label, Head: w.Head, Rev: oldRev, First: 1, Last: uint64(r.info.LastID), LastMark: uint64(r.info.LastAnchor.ID),
				Entries: r.info.Entries, Bytes: r.info.Bytes, Created: r.info.Created, Updated: r.info.Updated,
			})
		}
		return nil
	})
	return infos, err
}

// Count implements [store.Log]. It sees both tables at one moment.
func (l *tapeLog) Count(ctx context.Context, prefix string) (n int, err error) {
	if !l.t.none.Load() && !strings.Contains(prefix, "/") {
		err = l.t.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM `+l.t.schema+`tapes WHERE listed AND starts_with(name, $1))
				+ (SELECT count(*) FROM `+l.t.schema+`logs l JOIN `+l.t.schema+`spaces s ON s.id = l.space WHERE s.name = $2 AND l.folder = '' AND starts_with(l.name, $1))`,
				prefix, logs.Space).Scan(&n)
		})
		if err != nil || !l.t.none.Load() {
			return n, err
		}
	}
	return l.Log.Count(ctx, prefix)
}
