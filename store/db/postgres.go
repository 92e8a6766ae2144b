package db

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lingserve/lingserve/store"
)

// plainName matches a schema that is created if it does not exist.
var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// openPostgres prepares connections to PostgreSQL. Statements are not prepared on the server unless the URL sets
// default_query_exec_mode=cache_statement, so that poolers in transaction mode work.
func (db *DB) openPostgres(url string) error {
	pool, err := pgxpool.ParseConfig(url) // knows pool_max_conns
	if err != nil {
		return fmt.Errorf("%w address of the database; expected one such as postgres://user:password@host:5432/database", store.ErrInvalid) // err may have the password
	}
	c := pool.ConnConfig
	if !strings.Contains(url, "default_query_exec_mode") {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if c.ConnectTimeout == 0 || c.ConnectTimeout > callTime {
		c.ConnectTimeout = callTime
	}
	db.dialect = dialect{
		begin: "BEGIN ISOLATION LEVEL READ COMMITTED", lock: " FOR UPDATE", blob: "BYTEA", inList: " = ANY(ARRAY(SELECT json_array_elements_text(CAST(CAST(%s AS TEXT) AS JSON))))", network: true,
		createSchema: "SELECT 1", explain: explainPostgres, sharedClock: "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
	}
	if strings.Contains(url, "pool_max_conns") {
		db.maxReaders = max(int(pool.MaxConns)-1, 1)
	}
	if schema := c.RuntimeParams["search_path"]; plainName.MatchString(schema) {
		db.createSchema = "CREATE SCHEMA IF NOT EXISTS " + schema
	}
	db.writers, db.readers = stdlib.OpenDB(*c), stdlib.OpenDB(*c.Copy())
	return nil
}

// explainPostgres gives an error of PostgreSQL or of its connection the name that callers know. The error is not wrapped: its context is that
// of the transaction, not of a caller.
func explainPostgres(err error) error {
	if err == nil || errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrDamaged) {
		return err
	}
	lines := strings.Split(err.Error(), "\n") // of a connection, one for each try
	text := strings.TrimSpace(lines[len(lines)-1])
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		if strings.Contains(text, "cannot find encode plan") || strings.Contains(text, "Scan error") {
			return err // a mistake in this package
		}
		return newError(store.ErrAway, errors.New(text))
	}
	switch {
	case e.Code == "53100":
		return newError(store.ErrFull, err)
	case e.Code == "40001", e.Code == "40P01":
		return fmt.Errorf("%w: %v", errConflict, err)
	case strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53"), strings.HasPrefix(e.Code, "57"), strings.HasPrefix(e.Code, "58"),
		e.Code == "25006", e.Code == "25P02", e.Severity == "FATAL": // 25006: a standby; 25P02: an earlier statement failed
		return newError(store.ErrAway, errors.New(text))
	case strings.HasPrefix(e.Code, "XX"):
		return fmt.Errorf("%w: %v", store.ErrDamaged, err)
	}
	return err
}

// claimCommit makes the transaction the one with this id. committed reports that an earlier transaction with this id was committed; one
// that is still being committed is waited for.
func (tx *Tx) claimCommit(id int64) (committed bool) {
	n := tx.exec("WITH previous AS (DELETE FROM commits WHERE id = $1) INSERT INTO commits (id, date) VALUES ($2, $3) ON CONFLICT DO NOTHING",
		tx.db.writer.commit, id, tx.db.clock().UnixMicro())
	return n == 0 && tx.err == nil
}
