package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var files embed.FS

// migration brings a schema from the version before to this one.
type migration struct {
	version int
	sql     string
}

// migrations are all that this program knows, in order: their files are numbered from 1 without gaps.
func migrations() []migration {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		panic("tape/postgres: " + err.Error())
	}
	var all []migration
	for i, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic("tape/postgres: the migrations are not numbered from 1 without gaps: " + name)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			panic("tape/postgres: " + err.Error())
		}
		all = append(all, migration{version, string(text)})
	}
	return all
}

// migrate brings the schema up to the version of the last of these, in one transaction that others who start at the same moment wait
// for. A schema that is newer is left alone.
func migrate(ctx context.Context, conn *pgx.Conn, schema string, all []migration) error {
	newest := all[len(all)-1].version
	at, err := versionOf(ctx, conn)
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
	// One at a time, also where the schema is not there yet. A large database takes its time.
	if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)`); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "lingserve schema "+schema); err != nil {
		return err
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&there); err != nil {
		return err
	}
	if !there { // somebody who may not make schemas can be given one
		if _, err := tx.Exec(ctx, `CREATE SCHEMA `+quoted); err != nil {
			return denied(err, "make the schema "+schema)
		}
	}
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())`); err != nil {
		return denied(err, "make tables in the schema "+schema)
	}
	if at, err = versionOf(ctx, tx); err != nil {
		return err
	}
	if at > newest {
		return tooNew(schema, at, newest)
	}
	for _, m := range all {
		if m.version <= at {
			continue
		}
		if _, err := tx.Exec(ctx, m.sql); err != nil { // several statements, since there are no arguments
			return denied(err, fmt.Sprintf("bring the schema %s to version %d", schema, m.version))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO migrations (version) VALUES ($1)`, m.version); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func tooNew(schema string, at, newest int) error {
	return fmt.Errorf("the schema %s has version %d, but this program supports up to %d; use a newer program", schema, at, newest)
}

// denied says what the user of the database is not allowed to do.
func denied(err error, what string) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !broken(err) {
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

// versionOf is the version of the schema that the connection works in; 0 where there is nothing in it yet.
func versionOf(ctx context.Context, q querier) (version int, err error) {
	var there bool
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations')`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = q.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&version)
	return version, err
}
