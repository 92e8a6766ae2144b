package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	oncetable "github.com/lingserve/lingserve/web/once/table"
)

// localKeys are the keys of a server that is alone.
type localKeys struct {
	*oncetable.Keys              // nil: replicas share the keys
	engine          store.Engine // that is closed with them; nil: the caller has it
}

// openKeys opens the keys of a server that is alone: in the tables that it was given, or in tables of its own, which are in the data folder
// or in memory.
func openKeys(ctx context.Context, o *Options) (k localKeys, err error) {
	settings := oncetable.Options{Retention: o.KeyRetention, Log: o.Log}
	if o.Tables != nil {
		k.Keys, err = oncetable.Open(ctx, o.Tables, settings)
		return k, err
	}
	url := "memory"
	if o.Data != "" {
		url = "sqlite:" + filepath.Join(o.Data, "keys.db")
	}
	d, err := db.Open(ctx, url, &db.Options{Log: o.Log})
	if err != nil {
		return k, dataError(o.Data, err)
	}
	k.engine = ownTables{d.Tables(), d}
	if k.Keys, err = oncetable.Open(ctx, k.engine, settings); err != nil {
		return k, dataError(o.Data, errors.Join(err, k.engine.Close()))
	}
	return k, nil
}

// ownTables are tables with a database of their own.
type ownTables struct {
	store.Engine
	d *db.DB
}

// Close implements [store.Engine].
func (t ownTables) Close() error { return errors.Join(t.Engine.Close(), t.d.Close()) }

// dataError is the error of a data folder that cannot be used.
func dataError(folder string, err error) error {
	if errors.Is(err, store.ErrInUse) {
		return inUse(folder)
	}
	return fmt.Errorf("data folder: %w", err)
}

func (k localKeys) close() error {
	if k.Keys == nil {
		return nil
	}
	err := k.Keys.Close()
	if k.engine != nil {
		err = errors.Join(err, k.engine.Close())
	}
	return err
}
