package db

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/lingserve/lingserve/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// compatible is the number of the oldest schema whose programs can use a database with the newest one.
const compatible = 11

// migrate brings the schema up to date, or refuses a database that is too new. Other processes may do the same at the same time.
func (db *DB) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*callTime) // an index of a large table takes its time
	defer cancel()
	tx, err := db.connect(ctx)
	if err != nil {
		return err
	}
	for attempt, retry := 0, true; retry && attempt < 4; attempt++ {
		retry, err = tx.migrateOnce()
	}
	if err != nil {
		db.writer.reset(ctx, db.network)
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}

// migrateOnce makes the steps that are missing, in one transaction: those of the files migrations/NUMBER_NAME.sql, whose statements each end with
// a semicolon at the end of a line. retry reports that another attempt is needed, and can succeed after an error.
func (tx *Tx) migrateOnce() (retry bool, err error) {
	steps, _ := fs.Glob(migrationFiles, "migrations/*.sql") // sorted
	var version, needed int
	tx.err = nil
	found := tx.scanOne([]any{&version, &needed}, "SELECT version, compatible FROM schema_version")
	switch {
	case errors.Is(tx.err, store.ErrAway):
		return false, tx.err
	case !found:
		return true, tx.createVersion()
	case needed > len(steps):
		return false, fmt.Errorf("the database has schema %d, and this program knows only %d: start a newer version of the program", version, len(steps))
	case version >= len(steps):
		return false, nil
	}
	tx.exec(tx.db.begin)
	n := tx.exec("UPDATE schema_version SET version = $1, compatible = $2 WHERE version = $3", len(steps), compatible, version)
	if n == 0 && tx.err == nil { // another process has made the steps
		tx.exec("ROLLBACK")
		return true, tx.err
	}
	for _, path := range steps[version:] {
		text, _ := migrationFiles.ReadFile(path)
		for statement := range strings.SplitSeq(string(text), ";\n") {
			if strings.TrimSpace(statement) != "" {
				tx.exec(strings.ReplaceAll(statement, " BLOB", " "+tx.db.blob))
			}
		}
	}
	tx.exec("COMMIT")
	return false, tx.err
}

// createVersion creates the row of schema_version in a new database. It may fail if another process does so at the same time.
func (tx *Tx) createVersion() error {
	var failed error
	for _, query := range []string{
		tx.db.createSchema,
		"CREATE TABLE IF NOT EXISTS schema_version (one BIGINT PRIMARY KEY, version BIGINT NOT NULL, compatible BIGINT NOT NULL)",
		"INSERT INTO schema_version (one, version, compatible) VALUES (1, 0, 0) ON CONFLICT DO NOTHING",
	} {
		tx.err = nil
		tx.exec(query)
		failed = cmp.Or(failed, tx.err)
	}
	return failed
}
