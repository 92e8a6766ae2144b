package postgres

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

// pageLogs is how many logs one statement lists.
const pageLogs = 1000

// List implements [store.Log]. It is read in pages: a log that is written to meanwhile may be missing, or be in it twice.
func (l *Log) List(ctx context.Context, o store.Listing) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if err := l.listable(ctx); err != nil {
			yield(store.Info{}, err)
			return
		}
		for left := o.Limit; ; {
			most := pageLogs
			if o.Limit > 0 {
				most = min(most, left)
			}
			infos, err := l.listPage(ctx, o, most)
			if err != nil {
				yield(store.Info{}, err)
				return
			}
			for _, info := range infos {
				if !yield(info, nil) {
					return
				}
				o.After = info
			}
			if left -= len(infos); len(infos) < most || o.Limit > 0 && left == 0 {
				return
			}
		}
	}
}

func (l *Log) listable(ctx context.Context) error {
	if !l.o.Indexed {
		return fmt.Errorf("%w: the logs of %s have no list", store.ErrInvalid, l.o.Space)
	}
	return context.Cause(ctx)
}

// listConditions are those of a list, with their arguments.
func (l *Log) listConditions(prefix, label string) (where string, args []any, none bool) {
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	where, args = `space = $1::integer AND folder = $2::text AND listed IS NOT NULL`, []any{l.id, folder}
	if strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return where, args, true // no log has it
	}
	add := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	if prefix != folder {
		add(`name >= $%d::text`, prefix)
		add(`name < $%d::text`, prefix[:len(prefix)-1]+string(prefix[len(prefix)-1]+1))
	}
	if label != "" {
		add(`label = $%d::bytea`, []byte(label))
	}
	return where, args, false
}

// listPage reads the next logs of a list.
func (l *Log) listPage(ctx context.Context, o store.Listing, most int) (infos []store.Info, err error) {
	where, args, none := l.listConditions(o.Prefix, o.Label)
	if none {
		return nil, nil
	}
	if o.After.Name != "" {
		args = append(args, o.After.Updated, o.After.Name)
		n := len(args)
		// The second one is for the index.
		where += fmt.Sprintf(` AND (listed < $%d::timestamptz OR listed = $%[1]d AND name > $%d::text) AND listed <= $%[1]d`, n-1, n)
	}
	sql := l.sql.in(`SELECT l.name, ` + infoColumns + ` FROM @logs l WHERE ` + where + fmt.Sprintf(` ORDER BY listed DESC, name LIMIT %d`, most))
	err = l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		infos = infos[:0]
		var b pgx.Batch // one transaction
		// An index has the order. The planner does not see it while there are few statistics, as after a restore or an upgrade: it would rather
		// read and sort all logs than follow the index to the limit.
		b.Queue(`SELECT set_config('enable_sort', 'off', true)`)
		b.Queue(sql, args...)
		answers := conn.SendBatch(ctx, &b)
		defer answers.Close()
		if _, err := answers.Exec(); err != nil {
			return err
		}
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var r infoRow
			if err := rows.Scan(append([]any{&name}, r.fields()...)...); err != nil {
				return err
			}
			infos = append(infos, r.info(name))
		}
		return rows.Err()
	})
	return infos, err
}

// Count implements [store.Log].
func (l *Log) Count(ctx context.Context, prefix string) (n int, err error) {
	if err := l.listable(ctx); err != nil {
		return 0, err
	}
	where, args, none := l.listConditions(prefix, "")
	if none {
		return 0, nil
	}
	err = l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, l.sql.in(`SELECT count(*) FROM @logs l WHERE `+where), args...).Scan(&n)
	})
	return n, err
}
