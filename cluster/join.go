package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/store"
)

// ErrClosed is the error of all that is called after Close.
var ErrClosed = replicas.ErrClosed

// Join joins the other replicas, once for a connection: later calls return the same members. open opens the tables that the replicas share,
// which Close closes.
func (c *Cluster) Join(ctx context.Context, open func(*Cluster) store.Engine) (*replicas.Members, error) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.end.Err() != nil {
		return nil, ErrClosed
	}
	if c.members != nil {
		return c.members, nil
	}
	ctx, cancel := c.whileAllowed(ctx)
	defer cancel()
	tables := open(c)
	p, err := c.join(ctx, tables)
	if refused := c.forbidden(nil); refused != nil {
		err = refused
	} else if err != nil {
		err = fmt.Errorf("cluster: join the other replicas: %w", err)
	}
	if err != nil {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
		return nil, errors.Join(err, tables.Close())
	}
	c.mu.Lock()
	c.members, c.tables = p, tables
	c.mu.Unlock()
	return p, nil
}

func (c *Cluster) join(ctx context.Context, tables store.Engine) (*replicas.Members, error) {
	table, err := tables.Table(ctx, replicas.Table)
	if err != nil {
		return nil, err
	}
	return replicas.Join(ctx, table, replicas.Options{ID: c.replica, Name: c.options.Name, Grace: c.options.Grace, Log: c.options.Log})
}
