package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/lingserve/lingserve/store"
)

// Backup writes a copy of a SQLite database to a new file, as it was at one moment, while others write. It fails if the file exists, and
// for PostgreSQL, which has pg_dump.
func (db *DB) Backup(ctx context.Context, path string) error {
	if db.network {
		return fmt.Errorf("%w: back up PostgreSQL with pg_dump", store.ErrInvalid)
	}
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", path)
	}
	return db.enqueue(&write{ctx: ctx, bare: true, done: make(chan struct{}), fn: func(tx *Tx) error {
		_, err := tx.exec("VACUUM INTO $1", path)
		return err
	}})
}

// Check returns what the database itself finds damaged; nothing if it is well. PostgreSQL checks its pages when it reads them.
func (db *DB) Check(ctx context.Context) (damages []string, err error) {
	if db.network {
		return nil, nil
	}
	err = db.view(ctx, func(q querier) error {
		damages, err = rowsOf(q, func(rows *sql.Rows) (what string, err error) { return what, rows.Scan(&what) }, "PRAGMA integrity_check(100)")
		return err
	})
	if len(damages) == 1 && damages[0] == "ok" {
		damages = nil
	}
	return damages, err
}
