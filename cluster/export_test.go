package cluster

import "context"

// Refresh writes a heartbeat and reads the members now.
func (c *Cluster) Refresh() error { return c.refresh(context.Background()) }

// ListenerAddress returns the address of the internal listener itself.
func (c *Cluster) ListenerAddress() string { return c.listener.Addr().String() }
