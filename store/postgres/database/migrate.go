package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Migration brings tables from the version before to this one.
type Migration struct {
	Version int
	SQL     string
}

// Migrations reads the files *.sql of a folder, which are numbered from 1 without gaps. It panics if they are not.
func Migrations(files fs.FS, folder string) []Migration {
	names, err := fs.Glob(files, folder+"/*.sql")
	if err != nil {
		panic("database: " + err.Error())
	}
	var all []Migration
	for i, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic("database: the migrations are not numbered from 1 without gaps: " + name)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic("database: " + err.Error())
		}
		all = append(all, Migration{version, string(text)})
	}
	return all
}

// Migrate brings the schema to the version of the last of the migrations, in one transaction. Other processes that start at the same moment
// wait for it. A newer schema is left alone. The table versions records which migrations were made.
func Migrate(ctx context.Context, conn *pgx.Conn, schema, versions string, all []Migration) error {
	newest := all[len(all)-1].Version
	at, err := versionOf(ctx, conn, schema, versions)
	if err != nil {
		return err
	}
	if at == newest {
		return nil
	}
	if at > newest {
		return tooNew(schema, at, newest)
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := beginMigration(ctx, tx, schema, versions); err != nil {
		return err
	}
	if at, err = versionOf(ctx, tx, schema, versions); err != nil {
		return err
	}
	if at > newest {
		return tooNew(schema, at, newest)
	}
	for _, m := range all {
		if m.Version <= at {
			continue
		}
		if _, err := tx.Exec(ctx, m.SQL); err != nil { // several statements, since there are no arguments
			return denied(err, fmt.Sprintf("bring the schema %s to version %d", schema, m.Version))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+versions+` (version) VALUES ($1)`, m.Version); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// beginMigration waits until no other process migrates the schema, and creates the schema and the table of versions if they do not exist.
func beginMigration(ctx context.Context, tx pgx.Tx, schema, versions string) error {
	quoted := pgx.Identifier{schema}.Sanitize()
	// A large database takes its time. A pooler may have dropped the search path of the connection.
	if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true), set_config('search_path', $1, true)`, quoted); err != nil {
		return err
	}
	// The lock ends with the transaction, so a pooler keeps it. It works without the schema, too.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "lingserve schema "+schema); err != nil {
		return err
	}
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&there); err != nil {
		return err
	}
	if !there { // a user who may not create schemas can be given one
		if _, err := tx.Exec(ctx, `CREATE SCHEMA `+quoted); err != nil {
			return denied(err, "make the schema "+schema)
		}
	}
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+versions+` (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())`); err != nil {
		return denied(err, "make tables in the schema "+schema)
	}
	return nil
}

func tooNew(schema string, at, newest int) error {
	return fmt.Errorf("the schema %s has version %d, but this program supports up to %d; use a newer program", schema, at, newest)
}

// denied says what the user of the database is not allowed to do.
func denied(err error, what string) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !Broken(err) {
		if pg.Code == "42501" {
			return fmt.Errorf("the database user has no permission to %s", what)
		}
		return fmt.Errorf("the database refused to %s (SQLSTATE %s); find the cause in its log", what, pg.Code)
	}
	return err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// versionOf returns the version of a schema, or 0 if there is nothing in it yet.
func versionOf(ctx context.Context, q querier, schema, versions string) (version int, err error) {
	var there bool
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = $2)`, schema, versions).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = q.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+pgx.Identifier{schema, versions}.Sanitize()).Scan(&version)
	return version, err
}
