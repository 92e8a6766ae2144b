package db

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/store"
)

// openFile opens the database in a file, for this process alone. The file and its folder are created if they do not exist; only their
// owner can read them.
func (db *DB) openFile(path string, o *Options) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if !o.Beside {
		unlock, err := lockDatabase(path)
		if err != nil {
			return err
		}
		db.unlock = unlock
		if name := unreliableFilesystem(filepath.Dir(path)); name != "" {
			db.log.Warn("the database is on a filesystem whose locks may not work; use a local disk, or PostgreSQL", "filesystem", name, "file", path)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite gives its other files the same mode
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	synchronous := "NORMAL"
	if o.Durable {
		synchronous = "FULL"
	}
	// Every connection waits for locks before it does anything else, also for the one that switches to the WAL.
	pragmas := []string{
		"busy_timeout(" + strconv.FormatInt(callTime.Milliseconds(), 10) + ")", "journal_mode(WAL)", "synchronous(" + synchronous + ")",
		"journal_size_limit(16777216)", "secure_delete(ON)", "temp_store(MEMORY)",
	}
	if o.maxPages > 0 {
		pragmas = append(pragmas, "max_page_count("+strconv.Itoa(o.maxPages)+")")
	}
	err = db.openSQLite("file:"+(&url.URL{Path: path}).EscapedPath()+"?", pragmas)
	db.checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
	return err
}

// openMemory opens a database in memory, which its connections share. It has at most 256 MiB.
func (db *DB) openMemory() error {
	err := db.openSQLite(fmt.Sprintf("file:/lingserve-%d?vfs=memdb&", newID()), []string{"busy_timeout(4000)", "temp_store(MEMORY)", "max_page_count(65536)"})
	db.inMemory = true
	return err
}

func (db *DB) openSQLite(dsn string, pragmas []string) (err error) {
	db.dialect = dialect{begin: "BEGIN IMMEDIATE", blob: "BLOB", inList: " IN (SELECT value FROM json_each(%s))", createSchema: "SELECT 1", explain: explainSQLite}
	dsn += "_pragma=" + strings.Join(pragmas, "&_pragma=")
	if db.writers, err = sql.Open("sqlite", dsn+"&_pragma=cache_size(-8000)"); err == nil {
		db.readers, err = sql.Open("sqlite", dsn+"&_pragma=query_only(ON)")
	}
	return err
}

// explainSQLite gives an error of SQLite the name that callers know.
func explainSQLite(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // the index of the WAL cannot grow
		return failed(store.ErrFull, syscall.ENOSPC, err)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return failed(store.ErrFull, syscall.ENOSPC, err)
	case sqlite3.SQLITE_READONLY:
		return failed(store.ErrAway, syscall.EROFS, err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR:
		return failed(store.ErrAway, syscall.EIO, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return newError(store.ErrAway, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %v", store.ErrDamaged, err)
	}
	return err
}

// failed is the error of a disk, for those who name it.
func failed(what error, reason syscall.Errno, err error) error {
	return fmt.Errorf("%w: %w", what, disk.Explain(fmt.Errorf("%w: %v", reason, err)))
}

// lockDatabase locks the file path.lock, which holds the id of the process that has the database open.
func lockDatabase(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := lockFile(f)
	if err == nil && !locked {
		pid, _ := io.ReadAll(io.LimitReader(f, 20))
		err = fmt.Errorf("%w (process %s)", store.ErrInUse, strings.TrimSpace(string(pid)))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(unlockFile(f), f.Close()) }, nil
}
