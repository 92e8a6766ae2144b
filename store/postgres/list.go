package postgres

import (
	"context"
	"errors"
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
	if noName(prefix) {
		return where, args, true
	}
	add := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	if prefix != folder {
		add(`name >= $%d::text`, prefix)
		add(`name < $%d::text`, behindAll(prefix))
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
	err = l.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		// An index has the order. The planner does not see it while there are few statistics, as after a restore or an upgrade: it would rather
		// read and sort all logs than follow the index to the limit.
		infos, err = queryWith(ctx, conn, "enable_sort", "off", func(row pgx.CollectableRow) (store.Info, error) {
			var name string
			var r infoRow
			err := row.Scan(append([]any{&name}, r.fields()...)...)
			return r.info(name), err
		}, sql, args...)
		return err
	})
	return infos, err
}

// queryWith reads rows in a transaction with a setting.
func queryWith[R any](
	ctx context.Context, conn *pgx.Conn, setting, value string, scan pgx.RowToFunc[R], sql string, args ...any,
) (rows []R, err error) {
	var b pgx.Batch // one transaction
	b.Queue(`SELECT set_config($1, $2, true)`, setting, value)
	b.Queue(sql, args...)
	answers := conn.SendBatch(ctx, &b)
	defer answers.Close()
	if _, err := answers.Exec(); err != nil {
		return nil, err
	}
	got, err := answers.Query()
	if err != nil {
		return nil, err
	}
	rows, err = pgx.CollectRows(got, scan)
	return rows, errors.Join(err, answers.Close())
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
