package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// database is the database of a server alone, which its tapes and its tables share. It closes when both have closed.
type database struct {
	*db.DB
	path   string
	beside bool // another process has it, too
	served bool // a server has its tables
	users  int
}

// databases are those that this process has open, by path.
var databases = struct {
	sync.Mutex
	open map[string]*database
}{open: map[string]*database{}}

// databaseFile is where the database of a server alone is; "" if it is in memory.
func databaseFile(c *config.Config) string {
	if c.Data == "" {
		return ""
	}
	return filepath.Join(c.Data, "lingserve.db")
}

// openDatabase opens the database of a server alone. If a server has it open, a command may use it beside. Its error is for the user.
func openDatabase(c *config.Config, log *slog.Logger) (*database, error) {
	path := databaseFile(c)
	if err := refuseOldData(c); err != nil {
		return nil, err
	}
	databases.Lock()
	defer databases.Unlock()
	if d := databases.open[path]; d != nil {
		d.users++
		return d, nil
	}
	url := "memory"
	if path != "" {
		url = "sqlite:" + path
	}
	o := &db.Options{Durable: c.Durability == config.DurabilityFull, Log: log}
	d := &database{path: path, users: 1}
	var err error
	if d.DB, err = db.Open(context.Background(), url, o); errors.Is(err, store.ErrInUse) {
		o.Beside, d.beside = true, true
		d.DB, err = db.Open(context.Background(), url, o)
	}
	if err != nil {
		return nil, dataError(c, err)
	}
	databases.open[path] = d
	return d, nil
}

// close closes the database if nothing else in this process uses it.
func (d *database) close() error {
	databases.Lock()
	defer databases.Unlock()
	if d.users--; d.users > 0 {
		return nil
	}
	delete(databases.open, d.path)
	return d.DB.Close()
}

// databaseTapes are the tapes of a server alone.
type databaseTapes struct {
	*db.Tapes
	d *database
}

// Close implements [tape.Store].
func (t databaseTapes) Close() error { return errors.Join(t.Tapes.Close(), t.d.close()) }

func openDatabaseTapes(c *config.Config, log *slog.Logger, observer tape.Observer) (tape.Whole, error) {
	d, err := openDatabase(c, log)
	if err != nil {
		return nil, err
	}
	return databaseTapes{d.Tapes(observer), d}, nil
}

// databaseTables are the tables of a server alone.
type databaseTables struct {
	store.Engine
	d      *database
	server bool
}

// Close implements [store.Engine].
func (t databaseTables) Close() error {
	err := t.Engine.Close()
	if t.server {
		t.d.serve(false)
	}
	return errors.Join(err, t.d.close())
}

// serve begins or ends the use of the tables by a server; it reports whether there was none before.
func (d *database) serve(begin bool) bool {
	databases.Lock()
	defer databases.Unlock()
	was := d.served || d.beside
	d.served = begin
	return !was
}

// refuseOldData refuses a folder with the data of a version that had no database.
func refuseOldData(c *config.Config) error {
	if c.Data == "" {
		return nil
	}
	for _, pattern := range []string{"tapes/*", "store/pairs.table", "store/inbox.table", "store/tickets.table"} {
		if found, _ := filepath.Glob(filepath.Join(c.Data, pattern)); len(found) > 0 { // the pattern is valid
			old := filepath.Dir(found[0])
			return dataError(c, fmt.Errorf("%s is from a version without a database; export its sessions with \"lingserve tape export\" of that version, "+
				"remove the folder, and import them", old))
		}
	}
	return nil
}
