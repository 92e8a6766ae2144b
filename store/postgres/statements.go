package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements name the schema: a pooler may give a connection that has another search path.
type statements struct {
	find, create, flush, put, get, page, head, changes, due, sweep, notify string
	openSpace, sweepParts, dropPart, forget                                string
}

const alive = `(expires IS NULL OR expires > clock_timestamp())`

func statementsOf(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize() + "."
	in := func(sql string) string { return strings.ReplaceAll(sql, "@", quoted) }
	return statements{
		find:   in(`SELECT id FROM @tables WHERE name = $1`),
		create: in(`INSERT INTO @tables (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`),
		flush:  in(`UPDATE @tables SET rev = rev WHERE id = ANY ($1::integer[])`),
		put: in(`SELECT outcome, made, rev, meta, at, expires FROM @put_records($1::integer, $2::boolean, $3::text, $4::bigint, $5::bigint, $6::boolean,
			$7::text[], $8::bytea[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bigint[], $13::boolean[])`),
		get: in(`SELECT key, made, rev, at, expires, meta, body FROM @records WHERE tab = $1::integer AND key = $2::text AND ` + alive),
		// At most pageRecords records, whose sizes come to a bound or little more. n is how many there were without the bound.
		page: in(`SELECT key, made, rev, at, expires, meta, CASE WHEN $5::boolean THEN body END, n FROM (
				SELECT r.*, count(*) OVER () AS n, sum(bytes) OVER (ORDER BY key) AS total FROM (
					SELECT *, CASE WHEN $5::boolean THEN size ELSE octet_length(meta) END AS bytes FROM @records
					WHERE tab = $1::integer AND key > $2::text AND key >= $3::text AND ($4::text IS NULL OR key < $4::text) AND ` + alive + `
					ORDER BY key LIMIT $6::bigint) r) p
			WHERE total - bytes < $7::bigint ORDER BY key`),
		head: in(`SELECT rev, forgotten, pg_postmaster_start_time() FROM @tables WHERE id = $1::integer`),
		changes: in(`SELECT t.rev, t.forgotten, pg_postmaster_start_time(), c.key, c.made, c.rev, c.at, c.expires, c.meta, c.gone
			FROM @tables t LEFT JOIN LATERAL (
				(SELECT key, made, rev, at, expires, meta, false AS gone FROM @records WHERE tab = t.id AND rev > $2::bigint ORDER BY rev LIMIT $3::bigint)
				UNION ALL
				(SELECT key, 0, rev, was_at, NULL, NULL, true FROM @removed WHERE tab = t.id AND rev > $2::bigint ORDER BY rev LIMIT $3::bigint)
				ORDER BY rev LIMIT $3::bigint
			) c ON true WHERE t.id = $1::integer ORDER BY c.rev`),
		due: in(`SELECT id FROM @tables t WHERE EXISTS (SELECT FROM @records WHERE tab = t.id AND expires <= clock_timestamp())
			OR EXISTS (SELECT FROM @removed WHERE tab = t.id AND rev <= @revision_at(clock_timestamp() - $1::interval))`),
		notify:     `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, n) FROM unnest($2::text[]) n`,
		openSpace:  in(`SELECT id, parted FROM @open_space($1::text, $2::bigint, $3::boolean)`),
		sweepParts: in(`SELECT @sweep_parts($1::bigint, $2::bigint, $3::bigint)`),
		dropPart:   in(`SELECT @drop_part($1::integer)`),
		forget:     in(`DELETE FROM @deleted WHERE at <= clock_timestamp() - $1::interval`),
		sweep:      in(`SELECT @sweep_table($1::integer, $2::text, $3::integer, $4::interval)`),
	}
}

// logStatements are those of a space. If its batches are kept until they are deleted, they are in one part of the table, which is named.
type logStatements struct {
	appendNext, appendEach, info, trim, delete, sync, gone, behind string

	in         func(string) string // names the schema for @
	open, more readStatements
}

// readStatements read the rows of a log from a number ($3) and before another ($4), at most so many ($5) and about pageBytes. The log is
// $1 and $2: its space and name, or its id and nothing. A row without entries has the log alone.
type readStatements struct{ oldest, newest, oldestMarks, newestMarks string }

func (r *readStatements) of(newest, marks bool) string {
	switch {
	case newest && marks:
		return r.newestMarks
	case newest:
		return r.newest
	case marks:
		return r.oldestMarks
	}
	return r.oldest
}

func logStatementsOf(schema string, parted bool) logStatements {
	quoted := pgx.Identifier{schema}.Sanitize() + "."
	batches, parts := quoted+"batches_0", ""
	if parted {
		batches, parts = quoted+"batches", ` AND part >= l.part_from`
	}
	in := func(sql string) string {
		return strings.NewReplacer("@@", "@@", "@batches", batches, "@parts", parts, "@", quoted).Replace(sql)
	}
	read := func(log, order, mark string) string {
		return in(`SELECT l.id, l.first, l.last, l.trimmed, b.first, b.n, b.mark, b.data FROM @logs l LEFT JOIN LATERAL (
				SELECT first, n, mark, data FROM (
					SELECT first, n, mark, data, sum(octet_length(data)::bigint) OVER (ORDER BY first ` + order + ` ROWS UNBOUNDED PRECEDING) - octet_length(data) AS ahead
					FROM @batches WHERE log = l.id AND first >= l.first AND first < $4::bigint AND first + n > $3::bigint` + mark + `@parts
						AND first >= coalesce((SELECT max(first) FROM @batches WHERE log = l.id AND first <= $3::bigint@parts), 0)
					ORDER BY first ` + order + ` LIMIT $5::bigint) found
				WHERE ahead < ` + strconv.Itoa(pageBytes) + `
			) b ON true WHERE ` + log + ` ORDER BY b.first ` + order)
	}
	readLog := func(log string) readStatements {
		const marked = ` AND mark`
		return readStatements{
			oldest: read(log, "ASC", ""), newest: read(log, "DESC", ""), oldestMarks: read(log, "ASC", marked), newestMarks: read(log, "DESC", marked),
		}
	}
	return logStatements{
		in: in,
		appendNext: in(`SELECT ord, outcome, rev, batch, first, last, last_mark, entries, bytes, created, updated, label, head
			FROM @append_next($1::integer, $2::boolean, $3::boolean, $4::text[], $5::uuid[], $6::bigint[], $7::uuid[], $8::bigint[],
				$9::timestamptz[], $10::bytea[], $11::bigint[], $12::integer[], $13::integer[], $14::boolean[], $15::bytea[])`),
		appendEach: in(`SELECT ord, outcome, rev, batch, first, last, last_mark, entries, bytes, created, updated, label, head
			FROM @append_each($1::integer, $2::boolean, $3::boolean, $4::bigint, $5::text[], $6::uuid[], $7::integer[], $8::bigint[], $9::uuid[],
				$10::bigint[], $11::timestamptz[], $12::bytea[], $13::bytea[], $14::integer[], $15::bigint[], $16::integer[], $17::integer[], $18::boolean[], $19::bytea[])`),
		info:   in(`SELECT ` + infoColumns + ` FROM @logs l WHERE space = $1::integer AND name = $2::text`),
		trim:   in(`SELECT @trim_log($1::integer, $2::text, $3::bigint)`),
		delete: in(`SELECT @delete_logs($1::integer, $2::boolean, $3::text, $4::text, $5::text)`),
		sync:   in(`UPDATE @spaces SET part = part WHERE id = $1::integer`),
		open:   readLog(`l.space = $1::integer AND l.name = $2::text`),
		more:   readLog(`l.id = $1::bigint AND $2::text IS NOT NULL`),
		gone:   in(`SELECT EXISTS (SELECT FROM @deleted WHERE log = $1::bigint)`),
		behind: in(`SELECT f.id FROM unnest($1::bigint[], $2::bigint[]) AS f (id, next) LEFT JOIN @logs l ON l.id = f.id WHERE l.id IS NULL OR l.last >= f.next OR l.first > f.next`),
	}
}
