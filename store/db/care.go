package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Backup writes a copy of a SQLite database to a new file, as it was at one moment, while others write. It fails if the file exists, and
// for PostgreSQL, which has pg_dump.
func (db *DB) Backup(ctx context.Context, path string) error {
	if db.network {
		return errors.New("back up PostgreSQL with pg_dump")
	}
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", path)
	}
	return db.enqueue(&write{ctx: ctx, bare: true, fn: func(tx *Tx) { tx.exec("VACUUM INTO $1", path) }})
}

// Check returns what is damaged in the database; nothing if it is well: by SQLite's own check (PostgreSQL checks its pages when it reads them),
// and whether each tape has the entries that its session counts, and each run the batches that it was given.
func (db *DB) Check(ctx context.Context) (damages []string, err error) {
	tx := db.reader(ctx)
	if !db.network {
		damages = slices.DeleteFunc(tx.texts("PRAGMA integrity_check(100)"), func(damage string) bool { return damage == "ok" })
	}
	damages = slices.Concat(damages, tx.checkSessions(), tx.checkRuns())
	return damages, tx.err
}

// checkSessions returns the sessions whose tapes do not have the entries that the sessions count.
func (tx *Tx) checkSessions() (damages []string) {
	tx.eachPage(sessionRows, func(read row) (name string) {
		var session string
		var entries, lastID, found, foundLast int64
		read(&name, &session, &entries, &lastID, &found, &foundLast)
		if entries != found || lastID != foundLast {
			damages = append(damages, fmt.Sprintf("session %q (tape %s) should have %d entries, the last with id %d; found %d, the last with id %d",
				session, name, entries, lastID, found, foundLast))
		}
		return name
	}, `SELECT s.tape, session, entries, last_id, count(e.id), coalesce(max(e.id), 0) FROM
		(SELECT * FROM sessions WHERE tape > $1 ORDER BY tape LIMIT $2) s LEFT JOIN entries e ON e.tape = s.tape AND e.incarnation = s.incarnation
		GROUP BY s.tape, session, entries, last_id ORDER BY s.tape`)
	return damages
}

// checkRuns returns the runs that miss batches, and batches without a run.
func (tx *Tx) checkRuns() (damages []string) {
	tx.eachPage(sessionRows, func(read row) (run string) {
		var found, attempt, first, last, known, removed int
		read(&run, &attempt, &found, &first, &last, &known, &removed)
		switch {
		case removed > 0:
		case known == 0:
			damages = append(damages, fmt.Sprintf("there are batches of run %q, which does not exist", run))
		case first != 1 || last != found:
			damages = append(damages, fmt.Sprintf("attempt %d of run %q should have the batches from 1 on without a gap; found %d, from %d to %d",
				attempt, run, found, first, last))
		}
		return run
	}, `SELECT b.run, b.attempt, count(*), min(b.seq), max(b.seq), count(r.id), count(d.run)
		FROM (SELECT DISTINCT run FROM run_batches WHERE run > $1 AND seq > 0 ORDER BY run LIMIT $2) page
		JOIN run_batches b ON b.run = page.run LEFT JOIN runs r ON r.id = b.run LEFT JOIN run_removals d ON d.run = b.run
		WHERE b.seq > 0 GROUP BY b.run, b.attempt ORDER BY b.run, b.attempt`)
	return damages
}
