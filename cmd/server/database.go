package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

// database is an open database. It closes when all its users in this process have closed it.
type database struct {
	*db.DB
	url    string
	beside error // says which other process has the file, too; nil: none
	served bool  // a server uses it
	users  int
}

// databases are those that this process has open, by URL.
var databases = struct {
	sync.Mutex
	open map[string]*database
}{open: map[string]*database{}}

// openDatabase opens the database. If a server has the file open, a command may use it beside. Its error is for the user.
func openDatabase(c *config.Config, log *slog.Logger) (*database, error) {
	if err := refuseOldData(c); err != nil {
		return nil, err
	}
	databases.Lock()
	defer databases.Unlock()
	if d := databases.open[c.Database]; d != nil {
		d.users++
		return d, nil
	}
	o := &db.Options{Durable: c.Durability == config.DurabilityFull, MaxRunBytes: int64(c.Run.MaxDisk), Log: log}
	d := &database{url: c.Database, users: 1}
	var err error
	if d.DB, err = db.Open(context.Background(), c.Database, o); errors.Is(err, store.ErrInUse) {
		o.Beside, d.beside = true, err
		d.DB, err = db.Open(context.Background(), c.Database, o)
	}
	if err != nil {
		return nil, databaseError(c, err)
	}
	databases.open[d.url] = d
	return d, nil
}

// databaseError says to the user which database cannot be used, and which setting names it.
func databaseError(c *config.Config, err error) error {
	if text, ok := strings.CutPrefix(err.Error(), "database: "); ok { // of the package that names the database, too
		err = errors.New(text)
	}
	return fmt.Errorf("database (%s): cannot use %s: %w", c.Source("database"), c.DatabaseName(), err)
}

// checkDurable refuses commands about stored data if nothing is stored. Its error is for the user.
func checkDurable(c *config.Config) error {
	if c.Database == config.InMemory {
		return fmt.Errorf("database (%s): nothing is stored with database memory; name a database", c.Source("database"))
	}
	return nil
}

// close closes the database if nothing else in this process uses it.
func (d *database) close() error {
	databases.Lock()
	defer databases.Unlock()
	if d.users--; d.users > 0 {
		return nil
	}
	delete(databases.open, d.url)
	return d.DB.Close()
}

// newTickets returns the tickets of a server.
func (d *database) newTickets(c *config.Config) *access.Tickets {
	return access.NewTickets(access.TicketsOptions{Store: d.Values(db.Tickets, db.ValueOptions{MaxRows: access.MostTickets}), Life: c.Auth.TicketLife})
}

// pairs returns who is paired with channels.
func (d *database) pairs() *channel.Pairs {
	return channel.NewPairs(d.Values(db.Pairs, db.ValueOptions{}))
}

// windows are the unanswered messages of groups.
func (d *database) windows() *db.Values {
	return d.Values(db.Windows, db.ValueOptions{Life: channel.WindowLife, MaxRows: 10_000, MaxBytes: 64 << 20})
}

// conversations say where the messages of sessions came from.
func (d *database) conversations() *db.Values {
	return d.Values(db.Conversations, db.ValueOptions{MaxRows: 100_000, MaxBytes: 64 << 20})
}

// learned is what channels have learned of their platforms.
func (d *database) learned() *db.Values {
	return d.Values(db.Learned, db.ValueOptions{MaxBytes: 16 << 20})
}

// databaseTapes are the tapes of the database.
type databaseTapes struct {
	*db.Tapes
	d *database
}

// Close implements [tape.Store].
func (t databaseTapes) Close() error { return errors.Join(t.Tapes.Close(), t.d.close()) }

// serve begins the use of the database by a server. It fails with [store.ErrInUse] if there is one already, unless replicas share the database.
func (d *database) serve() error {
	databases.Lock()
	defer databases.Unlock()
	err := d.beside
	if d.served && err == nil {
		err = store.ErrInUse
	}
	if err != nil {
		return fmt.Errorf("%w; stop that one, or give this server its own database", err)
	}
	d.served = true
	return nil
}

// unserve ends the use of the database by a server.
func (d *database) unserve() {
	databases.Lock()
	defer databases.Unlock()
	d.served = false
}

// refuseOldData refuses a folder with the data of a version that had no database.
func refuseOldData(c *config.Config) error {
	if c.Data == "" {
		return nil
	}
	for _, pattern := range []string{"tapes/*", "store/pairs.table", "store/inbox.table", "store/tickets.table"} {
		if found, _ := filepath.Glob(filepath.Join(c.Data, pattern)); len(found) > 0 { // the pattern is valid
			return dataError(c, fmt.Errorf("%s is from a version without a database; export its sessions with \"lingserve tape export\" of that version, "+
				"remove the folder, and import them", filepath.Dir(found[0])))
		}
	}
	return nil
}
