package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// A migration is one step of the schema: a file NUMBER_NAME.sql that begins with "-- compatible: N", the number of the oldest schema whose
// programs can use the database after the step.
type migration struct {
	number, compatible int
	sql                string
}

// loadMigrations returns the steps in order. The files are a part of the program: what is wrong with them is a panic.
func loadMigrations(files fs.FS) (steps []migration) {
	paths, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	for i, path := range paths {
		text, err := fs.ReadFile(files, path)
		if err != nil {
			panic(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		compatible, err := strconv.Atoi(strings.TrimPrefix(first, "-- compatible: "))
		if err != nil || !strings.HasPrefix(path, fmt.Sprintf("migrations/%04d_", i+1)) {
			panic("db: migration " + path + " has no valid number or first line")
		}
		steps = append(steps, migration{i + 1, compatible, string(text)})
	}
	return steps
}

// migrate brings the schema up to date, or refuses a database that is too new. Each step is a transaction that first locks the row of
// schema_version, so that of several processes one makes the step.
func (db *DB) migrate(ctx context.Context) error {
	steps := loadMigrations(migrationFiles)
	for {
		done, err := db.migrateOnce(ctx, steps)
		if err != nil {
			db.writer.reset(ctx, db.network)
			return fmt.Errorf("prepare the database: %w", err)
		}
		if done {
			return nil
		}
	}
}

func (db *DB) migrateOnce(ctx context.Context, steps []migration) (done bool, err error) {
	if db.network {
		limited, cancel := context.WithTimeout(ctx, 15*callTime) // an index of a large table takes its time
		defer cancel()
		ctx = limited
	}
	if err := db.writer.connect(ctx, db.write); err != nil {
		return false, db.explain(err)
	}
	tx := &Tx{db: db, ctx: ctx, writer: &db.writer}
	var version, compatible int
	found, err := scanOne(tx, []any{&version, &compatible}, "SELECT version, compatible FROM schema_version")
	switch {
	case errors.Is(err, store.ErrAway), errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrFull), ctx.Err() != nil:
		return false, err
	case err != nil || !found: // a new database
		return false, db.createVersion(tx)
	case compatible > len(steps):
		return false, fmt.Errorf("the database has schema %d, and this program knows only %d: start a newer version of the program", version, len(steps))
	case version >= len(steps):
		return true, nil
	}
	step := steps[version]
	if _, err := tx.exec(db.begin); err != nil {
		return false, err
	}
	n, err := tx.exec("UPDATE schema_version SET version = $1, compatible = $2 WHERE version = $3", step.number, step.compatible, version)
	if err != nil {
		return false, err
	}
	if n == 0 { // another process has made the step
		_, err := tx.exec("ROLLBACK")
		return false, err
	}
	for statement := range strings.SplitSeq(withoutComments(step.sql), ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := tx.exec(strings.ReplaceAll(statement, " BLOB", " "+db.blob)); err != nil {
			return false, fmt.Errorf("step %d: %w", step.number, err)
		}
	}
	_, err = tx.exec("COMMIT")
	return false, err
}

// createVersion creates the table schema_version with version 0. Two processes may do so at once: its only row has a key.
func (db *DB) createVersion(tx *Tx) error {
	_, err := tx.exec("CREATE TABLE IF NOT EXISTS schema_version (one BIGINT PRIMARY KEY, version BIGINT NOT NULL, compatible BIGINT NOT NULL)")
	if err == nil {
		_, err = tx.exec("INSERT INTO schema_version (one, version, compatible) VALUES (1, 0, 0) ON CONFLICT DO NOTHING")
	}
	if err != nil && !errors.Is(err, store.ErrAway) && !errors.Is(err, store.ErrFull) {
		// On PostgreSQL two CREATE TABLE IF NOT EXISTS at once can fail with a duplicate key; then the table is there.
		if _, again := tx.exec("INSERT INTO schema_version (one, version, compatible) VALUES (1, 0, 0) ON CONFLICT DO NOTHING"); again == nil {
			return nil
		}
	}
	return err
}

func withoutComments(sql string) string {
	var b strings.Builder
	for line := range strings.Lines(sql) {
		code, _, found := strings.Cut(line, "--")
		b.WriteString(code)
		if found {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
