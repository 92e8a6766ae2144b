package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/store"
)

// The members of an installation and their leases; see package replicas.
type (
	Presence = replicas.Members
	Leases   = replicas.Leases
	Replica  = replicas.Replica
	Change   = replicas.Change
	What     = replicas.What
)

// What has happened to a replica.
const (
	Came = replicas.Came
	Left = replicas.Left
	Died = replicas.Died
)

// TTL is how long a replica may be silent before the others take it for dead.
const TTL = replicas.TTL

// Errors of package replicas.
var (
	ErrAway   = replicas.ErrAway
	ErrClosed = replicas.ErrClosed
)

// OpenTables opens the tables of a connection. Package store/nats, which builds on this one, sets it.
var OpenTables func(c *Cluster) store.Engine

// Presence joins the others, once for a cluster: later calls return the same members.
func (c *Cluster) Presence(ctx context.Context) (*Presence, error) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.end.Err() != nil {
		return nil, ErrClosed
	}
	if c.presence != nil {
		return c.presence, nil
	}
	ctx, cancel := c.whileAllowed(ctx)
	defer cancel()
	tables := OpenTables(c)
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
	c.presence, c.tables = p, tables
	c.mu.Unlock()
	return p, nil
}

func (c *Cluster) join(ctx context.Context, tables store.Engine) (*Presence, error) {
	table, err := tables.Table(ctx, replicas.Table)
	if err != nil {
		return nil, err
	}
	return replicas.Join(ctx, table, replicas.Options{ID: c.replica, Name: c.options.Name, Grace: c.options.Grace, Log: c.options.Log})
}

// Leases returns the leases of one kind of things. It joins the other replicas.
func (c *Cluster) Leases(ctx context.Context, kind string) (*Leases, error) {
	p, err := c.Presence(ctx)
	if err != nil {
		return nil, err
	}
	return p.Leases(kind)
}
