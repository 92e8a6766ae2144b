// Package file is a [store.Engine] on a folder. One server owns the folder; commands beside it use the same tables.
//
// A table is one file to which changes are appended. The process keeps about 50 bytes of memory for each record, and reads metas and bodies
// from the disk. Within a minute, what was deleted or replaced is overwritten; the file is rewritten when less than half of it is in use.
package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest/file/internal/tables"
)

// Options of an engine; zero is the default.
type Options struct {
	Beside bool // another process owns the folder
	Log    *slog.Logger
}

const lockName = "owner.lock"

// Engine is a [store.Engine].
type Engine struct {
	dir  vfs.Folder
	lock vfs.File // nil beside
	log  *slog.Logger

	mu     sync.Mutex
	tables map[string]*tables.Table
	closed bool
}

var _ store.Engine = (*Engine)(nil)

// Open opens a folder, and makes it where it does not exist. If another server owns it, the error is [store.ErrInUse].
func Open(dir vfs.Dir, o Options) (*Engine, error) {
	d, err := dir.Open()
	if err != nil {
		return nil, vfs.Explain(err)
	}
	e := &Engine{dir: d, log: o.Log, tables: map[string]*tables.Table{}}
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
	if e.lock != nil {
		errs = append(errs, e.lock.Unlock(), e.lock.Close())
	}
	return errors.Join(append(errs, e.dir.Close())...)
}
