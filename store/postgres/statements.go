package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements name the schema: a pooler may give a connection that has another search path.
type statements struct {
	find, create, flush, put, get, page, head, changes, due, sweep, notify string
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
		notify: `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, n) FROM unnest($2::text[]) n`,
		sweep:  in(`SELECT @sweep_table($1::integer, $2::text, $3::integer, $4::interval)`),
	}
}
