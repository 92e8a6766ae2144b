package cluster

import "context"

// Refresh writes a heartbeat and reads the members now.
func (c *Cluster) Refresh() error { return c.refresh(context.Background()) }

// ListenerAddress returns the address of the internal listener itself.
func (c *Cluster) ListenerAddress() string { return c.listener.Addr().String() }

// Address returns the address of a replica's internal listener; "" if the replica is unknown, dead or has left.
func (c *Cluster) Address(id string) string {
	address, _ := c.route(id)
	return address
}
