package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/internal/gate"
	"github.com/lingserve/lingserve/store"
)

// Replica is a server process that shares the database with others. Address is that of its internal listener.
type Replica = store.Replica

// Store is the part of the database that a cluster needs. Its methods return when their context ends.
type Store interface {
	// Beat inserts or updates the row of a replica. The database sets Seen. The row of a dead replica stays until the database removes it, long
	// after every replica has seen that it is dead.
	Beat(ctx context.Context, r Replica) error
	// Replicas returns all rows, and the database's time at which it read them.
	Replicas(ctx context.Context) (list []Replica, now time.Time, err error)
	// Leave deletes the row of a replica. A missing row is no error.
	Leave(ctx context.Context, id string) error
	// Secret returns the secret of all replicas. The first call stores fresh; later calls return what is stored.
	Secret(ctx context.Context, fresh []byte) ([]byte, error)
}

// Options are the settings of [Join]. Store is required; the zero value of the others is a default.
type Options struct {
	Store     Store
	ID        string       // must be new at each start of the process; default: random
	Version   string       // of the program
	Reach     string       // host:port of the database; the local address of a route to it is the default address; "" means loopback
	Listen    string       // host:port of the internal listener; default: a free port at the default address
	Advertise string       // host:port at which others reach the listener; default: its own address
	MaxBody   int64        // maximum size of a forwarded body in bytes; default: 32 MiB
	Log       *slog.Logger // default: none
}

const (
	beatInterval = time.Second
	deadAfter    = 5 * time.Second
	// maxGap is the longest time between two heartbeats of a replica that may declare others dead. During an outage of this length, a
	// healthy replica misses at most 1 + 2.5 + 1.5 s (interval, outage, one call that hangs), so it is not declared dead.
	maxGap = 2500 * time.Millisecond
	// storeTimeout limits a heartbeat with its read of the members. A later result is discarded: it may be from before a pause.
	storeTimeout = 1500 * time.Millisecond
	// leaveTimeout limits the last call of a replica, so that Close returns while the database is unavailable.
	leaveTimeout = 2 * time.Second
	// retention is how long a replica that has left may still forward requests, and serve those that it got before.
	retention = time.Hour
)

// Cluster is the membership of this replica. Its methods may be called concurrently.
type Cluster struct {
	o         Options
	local     Replica
	secret    []byte
	log       *slog.Logger
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	replays   *lru.Cache[[16]byte, struct{}] // signatures that were received

	base     context.Context // parent of all members' lifetimes; ends with Close
	stop     context.CancelCauseFunc
	tasks    sync.WaitGroup // all goroutines of the cluster
	handlers gate.Gate      // forwarded requests that this replica serves
	close    func() error

	storeCalls     chan struct{} // has room for one: calls of the store are one after another; guards the following fields
	draining, left bool

	mu          sync.Mutex // guards the following fields
	members     map[string]*member
	lastSeen    time.Time // last heartbeat of this replica in the database
	steadySince time.Time // start of its heartbeats without a gap
	dbTime      time.Time // database's time at localTime
	localTime   time.Time
	failedSince time.Time          // the first heartbeat that failed without one that succeeded since; zero: none
	leases      map[string]*Leases // by kind

	leasesDue atomic.Bool // they must be checked: others may have declared this replica dead
}

type memberState int

const (
	alive memberState = iota
	dead              // not seen for deadAfter
	gone              // left in order; it still serves requests that were forwarded to it earlier
)

type member struct {
	Replica
	state    memberState
	lifetime context.Context // ends when the replica is declared dead
	end      context.CancelCauseFunc
}

// Join opens the internal listener, writes the first heartbeat and reads the secret. The replica is a member until Drain or Close.
func Join(ctx context.Context, o Options) (*Cluster, error) {
	o.ID = cmp.Or(o.ID, rand.Text())
	o.MaxBody = cmp.Or(o.MaxBody, 32<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	secret, err := o.Store.Secret(ctx, []byte(rand.Text()+rand.Text())) // 256 random bits
	if err != nil {
		return nil, fmt.Errorf("read the secret of the replicas: %w", err)
	}
	if len(secret) < 32 {
		return nil, fmt.Errorf("the secret of the replicas has %d bytes; expected at least 32", len(secret))
	}
	listener, address, err := listen(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the internal listener: %w", err)
	}
	replays, _ := lru.New[[16]byte, struct{}](maxReplays) // fails only for a size of 0
	c := &Cluster{
		o: o, local: Replica{ID: o.ID, Address: address, Version: o.Version}, secret: secret, log: o.Log,
		listener: listener, server: newServer(o.Log), transport: newTransport(), replays: replays,
		storeCalls: make(chan struct{}, 1), members: map[string]*member{}, leases: map[string]*Leases{},
	}
	c.close = sync.OnceValue(c.shutDown)
	c.base, c.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := c.refresh(ctx); err != nil {
		c.stop(err)
		return nil, errors.Join(fmt.Errorf("join the replicas: %w", err), listener.Close())
	}
	c.tasks.Go(func() { c.runHeartbeat(c.base) }) // ends with Close
	return c, nil
}

// ID returns the id of this replica.
func (c *Cluster) ID() string { return c.local.ID }

// route returns the address and the lifetime of a replica; "" if it is unknown, dead or has left.
func (c *Cluster) route(id string) (string, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil && m.state == alive {
		return m.Address, m.lifetime
	}
	return "", nil
}

// Alive returns the ids of all replicas that have not left and were not declared dead, in order. It includes this replica until Drain.
func (c *Cluster) Alive() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id, m := range c.members {
		if m.state == alive {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// FailingSince returns since when the database cannot be reached; zero: it can be.
func (c *Cluster) FailingSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failedSince
}

// Drain leaves the members, so that others forward nothing new to this replica. Requests that were forwarded to it earlier go on until
// Close, and this replica still forwards; it declares no replica dead any more. Others may take its leases, so end what needs them before. If
// the database is unavailable, Drain returns the error, and the replica tries to leave once a second.
func (c *Cluster) Drain(ctx context.Context) error {
	return c.serialize(ctx, func() error {
		c.draining = true
		return c.leave(ctx)
	})
}

// Close leaves the members and ends all forwarded requests: those that this replica serves, and those that it has forwarded. It returns
// when all goroutines of the cluster have ended. Close the public listener first.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) shutDown() error {
	c.stop(errors.New("this replica was closed"))
	err := c.Drain(context.WithoutCancel(c.base))
	_ = c.server.Close()   // first all connections: a handler that returned before would give its response a clean end
	_ = c.listener.Close() // the server does not know it before Serve
	c.handlers.Wait(nil)
	c.tasks.Wait()
	c.transport.CloseIdleConnections()
	return err
}

// leave deletes the row of this replica, unless that is done.
func (c *Cluster) leave(ctx context.Context) error {
	if c.left {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := c.o.Store.Leave(ctx, c.local.ID); err != nil {
		return fmt.Errorf("leave the replicas: %w", err)
	}
	c.left = true
	return nil
}

func (c *Cluster) runHeartbeat(ctx context.Context) {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = c.refresh(ctx) // it logs the error
		}
	}
}

// refresh writes a heartbeat and reads the members. It logs when the database becomes unavailable or available.
func (c *Cluster) refresh(ctx context.Context) error {
	return c.serialize(ctx, func() error {
		err := c.exchange(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch failing := !c.FailingSince().IsZero(); {
		case err != nil && !failing:
			c.log.WarnContext(ctx, "heartbeat failed; retrying", "error", err)
			c.setFailingSince(time.Now())
		case err == nil && failing:
			c.log.InfoContext(ctx, "heartbeat succeeded again")
			c.setFailingSince(time.Time{})
		}
		return err
	})
}

func (c *Cluster) setFailingSince(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failedSince = t
}

// serialize calls f while no other call of the store runs.
func (c *Cluster) serialize(ctx context.Context, f func() error) error {
	select {
	case c.storeCalls <- struct{}{}:
		defer func() { <-c.storeCalls }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exchange writes a heartbeat, or leaves if that is to be done, and reads the members.
func (c *Cluster) exchange(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	switch {
	case !c.draining:
		err = c.o.Store.Beat(ctx, c.local)
	case !c.left:
		err = c.leave(ctx)
	}
	if err != nil {
		return err
	}
	start := time.Now()
	list, now, err := c.o.Store.Replicas(ctx)
	if err != nil {
		return err
	}
	if time.Since(start) > storeTimeout { // this process was paused
		return errors.New("the database's response came too late")
	}
	for _, id := range c.update(list, now) {
		c.log.WarnContext(ctx, "replica declared dead", "replica", id)
	}
	return c.checkLeases(ctx)
}

// checkLeases finds out which leases this replica has lost, after a gap in its heartbeats and while it is not a member.
func (c *Cluster) checkLeases(ctx context.Context) error {
	if !c.leasesDue.Swap(false) {
		return nil
	}
	c.mu.Lock()
	kinds := slices.Collect(maps.Values(c.leases))
	c.mu.Unlock()
	for _, l := range kinds {
		if err := l.check(ctx); err != nil {
			c.leasesDue.Store(true)
			return fmt.Errorf("check the leases of this replica: %w", err)
		}
	}
	return nil
}

// update replaces the members by a list that was read at a time of the database's clock. It returns the ids of those that it declares dead.
func (c *Cluster) update(list []Replica, now time.Time) (died []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dbTime, c.localTime = now, time.Now()
	mayJudge := c.updateSteady(list)
	listed := map[string]bool{}
	for _, r := range list {
		listed[r.ID] = true
		recent := now.Sub(r.Seen) <= deadAfter
		m := c.members[r.ID]
		if m == nil || m.state == dead && recent {
			m = &member{}
			m.lifetime, m.end = context.WithCancelCause(c.base)
			c.members[r.ID] = m
		}
		m.Replica = r
		if recent {
			m.state = alive
		}
	}
	for id, m := range c.members {
		age := now.Sub(m.Seen)
		switch {
		case m.state == alive && mayJudge && age > deadAfter: // perhaps another replica has already deleted its row
			m.state = dead
			m.end(errors.New("the replica was declared dead"))
			died = append(died, id)
		case listed[id]:
		case m.state == alive:
			m.state = gone
		case m.state == dead || age > retention:
			m.end(errors.New("the replica left long ago"))
			delete(c.members, id)
		}
	}
	return died
}

// updateSteady reports whether the database has seen this replica for deadAfter without a gap.
func (c *Cluster) updateSteady(list []Replica) bool {
	i := slices.IndexFunc(list, func(r Replica) bool { return r.ID == c.local.ID })
	if i < 0 {
		c.lastSeen = time.Time{}
		c.leasesDue.Store(true)
		return false
	}
	seen := list[i].Seen
	gap := seen.Sub(c.lastSeen)
	if c.lastSeen.IsZero() || gap < 0 || gap > maxGap { // a negative gap: the database's clock was set back
		c.steadySince = seen
		c.leasesDue.Store(true)
	}
	c.lastSeen = seen
	return seen.Sub(c.steadySince) >= deadAfter
}

// now estimates the database's current time. A pause or a slow response makes it wrong by their length until the next heartbeat.
func (c *Cluster) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dbTime.Add(time.Since(c.localTime))
}
