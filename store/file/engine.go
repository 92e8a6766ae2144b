// Package file is a [store.Engine] on a folder. One server owns the folder; commands beside it use the same tables.
//
// A table is one file to which changes are appended. The process keeps about 50 bytes of memory for each record, and reads metas and bodies
// from the disk. Within a minute, what was deleted or replaced is overwritten; the file is rewritten when less than half of it is in use.
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file/internal/tables"
)

// Options of an engine; zero is the default.
type Options struct {
	Beside bool // another process owns the folder
	Alone  bool // no other process ever uses the folder, as one in memory
	Log    *slog.Logger
	Spaces map[string]Layout // where logs of a space do not have the engine's own form
	// Interval is how long what was appended to Async logs may be lost with the machine; 0 is a second. Below 0 they become durable
	// when Sync is called, or the engine is closed.
	Interval time.Duration
	Unsynced bool                                // Async logs become durable when the system likes to
	Synced   func(took time.Duration, err error) // is told of each sync of a log; nil: no one is
}

// Layout is how the logs of a space lie in the engine's folder.
type Layout struct {
	Folder string // below the engine's, or "." for that itself; "": of the space's name
	Codec  Codec  // of an Indexed space; nil: the engine's own form
	// NoEmpty refuses batches without entries. Only the index of a log with a codec has them, so each call would look there for those of
	// other processes.
	NoEmpty bool
}

const lockName = "owner.lock"

// Engine is a [store.Engine].
type Engine struct {
	dir  vfs.Folder
	lock vfs.File // nil beside
	log  *slog.Logger

	alone bool

	layouts  map[string]Layout
	interval time.Duration
	unsynced bool
	synced   func(time.Duration, error)

	mu     sync.Mutex
	tables map[string]*tables.Table
	spaces map[string]*Space
	closed bool
}

var (
	_ store.Engine    = (*Engine)(nil)
	_ store.LogEngine = (*Engine)(nil)
)

// syncEvery leaves time for the sync itself.
const syncEvery = 900 * time.Millisecond

// Open opens a folder, and makes it where it does not exist. If another server owns it, the error is [store.ErrInUse].
func Open(dir vfs.Dir, o Options) (*Engine, error) {
	d, err := dir.Open()
	if err != nil {
		return nil, vfs.Explain(err)
	}
	e := &Engine{
		dir: d, log: o.Log, layouts: o.Spaces, alone: o.Alone, interval: max(0, cmp.Or(o.Interval, syncEvery)), unsynced: o.Unsynced, synced: o.Synced,
		tables: map[string]*tables.Table{}, spaces: map[string]*Space{},
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if !o.Beside {
		if err := e.own(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return e, nil
}

func (e *Engine) own() error {
	f, err := e.dir.Open(lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return vfs.Explain(err)
	}
	ok, err := f.TryLock()
	if err == nil && !ok {
		err = store.ErrInUse
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	e.lock = f
	return nil
}

// Table implements [store.Engine].
func (e *Engine) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	if err := store.CheckKey(o.Name); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	if t := e.tables[o.Name]; t != nil {
		return t, nil
	}
	t, err := tables.Open(ctx, tables.Folder{Dir: e.dir, Log: e.log, Owner: e.lock != nil}, o)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", o.Name, err)
	}
	e.tables[o.Name] = t
	return t, nil
}

// Log implements [store.LogEngine].
func (e *Engine) Log(_ context.Context, o store.LogOptions) (store.Log, error) {
	if err := store.CheckKey(o.Space); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	if s := e.spaces[o.Space]; s != nil {
		return s, nil
	}
	s, err := openSpace(e, o)
	if err != nil {
		return nil, fmt.Errorf("logs %s: %w", o.Space, err)
	}
	e.spaces[o.Space] = s
	return s, nil
}

// Close implements [store.Engine].
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	var errs []error
	for _, t := range e.tables {
		errs = append(errs, t.Close())
	}
	for _, s := range e.spaces {
		errs = append(errs, s.close())
	}
	if e.lock != nil {
		errs = append(errs, e.lock.Unlock(), e.lock.Close())
	}
	return errors.Join(append(errs, e.dir.Close())...)
}
