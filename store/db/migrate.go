package db

import (
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

// A migration is one step of the schema: a file NUMBER_NAME.sql that begins with "-- compatible: N", the number of the oldest schema whose
// programs can use the database after the step. Each of its statements ends with a semicolon at the end of a line.
type migration struct {
	compatible int
	sql        string
}

// loadMigrations returns the steps in order. The files are a part of the program: what is wrong with them is a panic.
func loadMigrations() (steps []migration) {
	paths, _ := fs.Glob(migrationFiles, "migrations/*.sql") // sorted
	for i, path := range paths {
		text, err := migrationFiles.ReadFile(path)
		m := migration{sql: string(text)}
		if err == nil {
			_, err = fmt.Sscanf(m.sql, "-- compatible: %d", &m.compatible)
		}
		if err != nil || !strings.HasPrefix(path, fmt.Sprintf("migrations/%04d_", i+1)) {
			panic("db: migration " + path + " has no valid number or first line")
		}
		steps = append(steps, m)
	}
	return steps
}

// migrate brings the schema up to date, or refuses a database that is too new. Each step is a transaction that first locks the row of
// schema_version, so that of several processes one makes the step.
func (db *DB) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*callTime) // an index of a large table takes its time
	defer cancel()
	tx, err := db.connect(ctx)
	for steps, done := loadMigrations(), false; err == nil && !done; {
		done, err = tx.migrateOnce(steps)
	}
	if err != nil {
		db.writer.reset(ctx, db.network)
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}

// migrateOnce makes one step; done reports that there was none to make.
func (tx *Tx) migrateOnce(steps []migration) (done bool, err error) {
	version, compatible, err := tx.schemaVersion()
	switch {
	case err != nil:
		return false, err
	case compatible > len(steps):
		return false, fmt.Errorf("the database has schema %d, and this program knows only %d: start a newer version of the program", version, len(steps))
	case version >= len(steps):
		return true, nil
	}
	step := steps[version]
	if _, err := tx.exec(tx.db.begin); err != nil {
		return false, err
	}
	n, err := tx.exec("UPDATE schema_version SET version = $1, compatible = $2 WHERE version = $3", version+1, step.compatible, version)
	if err == nil && n == 0 { // another process has made the step
		_, err = tx.exec("ROLLBACK")
		return false, err
	}
	for statement := range strings.SplitSeq(step.sql, ";\n") {
		if err == nil && strings.TrimSpace(statement) != "" {
			_, err = tx.exec(strings.ReplaceAll(statement, " BLOB", " "+tx.db.blob))
		}
	}
	if err == nil {
		_, err = tx.exec("COMMIT")
	}
	if err != nil {
		return false, fmt.Errorf("step %d: %w", version+1, err)
	}
	return false, nil
}

// schemaVersion reads the row of schema_version. It creates the row in a new database.
func (tx *Tx) schemaVersion() (version, compatible int, err error) {
	for attempt := 0; ; attempt++ {
		found, err := tx.scanOne([]any{&version, &compatible}, "SELECT version, compatible FROM schema_version")
		if found && err == nil || attempt == 3 || errors.Is(err, store.ErrAway) {
			return version, compatible, err
		}
		for _, query := range []string{
			tx.db.createSchema,
			"CREATE TABLE IF NOT EXISTS schema_version (one BIGINT PRIMARY KEY, version BIGINT NOT NULL, compatible BIGINT NOT NULL)",
			"INSERT INTO schema_version (one, version, compatible) VALUES (1, 0, 0) ON CONFLICT DO NOTHING",
		} {
			// Other processes may create the tables at the same time: then these statements can fail.
			if _, err := tx.exec(query); err != nil && attempt == 2 {
				return 0, 0, err
			}
		}
	}
}
