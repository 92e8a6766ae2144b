package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// network is the database that the replicas of a model share.
type network struct {
	db *db.DB

	mu       sync.Mutex
	away     bool // nobody reaches the database
	nodes    map[string]*node
	changed  chan struct{} // closed and replaced when a lease may have become free
	leases   map[string]*nodeLease
	lastNode int
}

func newNetwork(t modelT) *network { return networkOn(openDB(t)) }

func networkOn(d *db.DB) *network {
	return &network{db: d, nodes: map[string]*node{}, changed: make(chan struct{}), leases: map[string]*nodeLease{}}
}

// node is a replica's connection with the database: its [Store], its [Members] and the leases of its sessions.
type node struct {
	Store
	net    *network
	id     string
	dead   bool          // the process has ended without a word
	paused bool          // it cannot reach the database
	left   bool          // it has left in order
	late   bool          // the others take it for dead
	lose   bool          // the answers to starts and takeovers are lost
	slow   time.Duration // that a start and a release take
}

// deadAfter is how long a replica is silent before the others take it for dead.
const deadAfter = 5 * time.Second

func (n *network) join() *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastNode++
	d := &node{Store: n.db.Runs(), net: n, id: fmt.Sprint("replica", n.lastNode)}
	n.nodes[d.id] = d
	return d
}

// change changes something that those who wait for a lease are to look at.
func (n *network) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.changed)
	n.changed = make(chan struct{})
}

// silence cuts a node off, for a time; for ever if it is 0 or less.
func (d *node) silence(dies bool, t time.Duration) {
	d.net.change(func() {
		d.dead = d.dead || dies
		d.paused = true
	})
	time.AfterFunc(deadAfter, func() { d.net.change(func() { d.late = d.paused }) })
	if !dies {
		time.AfterFunc(t, func() {
			d.net.change(func() {
				if !d.dead {
					d.paused, d.late = false, false
				}
			})
		})
	}
}

// ID implements [Members].
func (d *node) ID() string { return d.id }

// Alive implements [Members].
func (d *node) Alive() (ids []string) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	for id, other := range d.net.nodes {
		if !other.late && !other.left {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (d *node) cut() error {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	return d.cutLocked()
}

func (d *node) cutLocked() error {
	if d.net.away || d.paused || d.dead {
		return store.ErrAway
	}
	return nil
}

func (d *node) loses() bool {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	return d.lose
}

func (d *node) Start(ctx context.Context, r store.Run, key *store.IdempotencyKey) (*store.IdempotencyKey, error) {
	if err := d.cut(); err != nil {
		return nil, err
	}
	time.Sleep(d.slow)
	taken, err := d.Store.Start(ctx, r, key)
	if d.loses() {
		return nil, store.ErrUnsure
	}
	return taken, err
}

// reach calls the store unless the node is cut off.
func reach[T any](d *node, call func() (T, error)) (result T, err error) {
	if err := d.cut(); err != nil {
		return result, err
	}
	return call()
}

func (d *node) FindKey(ctx context.Context, owner, key string) (store.IdempotencyKey, bool, error) {
	if err := d.cut(); err != nil {
		return store.IdempotencyKey{}, false, err
	}
	return d.Store.FindKey(ctx, owner, key)
}

func (d *node) SetKey(ctx context.Context, k store.IdempotencyKey) error {
	_, err := reach(d, func() (bool, error) { return false, d.Store.SetKey(ctx, k) })
	return err
}

func (d *node) Append(ctx context.Context, replica string, list []store.RunBatch) ([]string, error) {
	return reach(d, func() ([]string, error) { return d.Store.Append(ctx, replica, list) })
}

func (d *node) SetState(ctx context.Context, id, replica string, attempt int, state string, crashes int) error {
	_, err := reach(d, func() (any, error) { return nil, d.Store.SetState(ctx, id, replica, attempt, state, crashes) })
	return err
}

func (d *node) Suspend(ctx context.Context, id, replica string, attempt int, wake time.Time) error {
	if err := d.cut(); err != nil {
		return err
	}
	return d.Store.Suspend(ctx, id, replica, attempt, wake)
}

func (d *node) End(ctx context.Context, e store.RunEnd) error {
	_, err := reach(d, func() (any, error) { return nil, d.Store.End(ctx, e) })
	return err
}

func (d *node) Release(ctx context.Context, replica string, ids []string) error {
	time.Sleep(d.slow)
	_, err := reach(d, func() (any, error) { return nil, d.Store.Release(ctx, replica, ids) })
	return err
}

func (d *node) Find(ctx context.Context, id string) (store.Run, error) {
	return reach(d, func() (store.Run, error) { return d.Store.Find(ctx, id) })
}

func (d *node) Batches(ctx context.Context, id string, each func(store.RunBatch) error) error {
	_, err := reach(d, func() (any, error) { return nil, d.Store.Batches(ctx, id, each) })
	return err
}

func (d *node) Left(ctx context.Context, own string, alive []string, limit int) ([]store.Run, error) {
	return reach(d, func() ([]store.Run, error) { return d.Store.Left(ctx, own, alive, limit) })
}

func (d *node) Take(ctx context.Context, t store.Takeover) error {
	if err := d.cut(); err != nil {
		return err
	}
	err := d.Store.Take(ctx, t)
	if err == nil && d.loses() {
		return store.ErrUnsure
	}
	return err
}

// nodeLease implements [tape.Lease].
type nodeLease struct {
	of   *node
	name string
	once sync.Once
}

// nodeLeases implement [tape.Leaser]. The lease of a replica that is taken for dead is free.
type nodeLeases struct{ *node }

func (l nodeLeases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	n := l.net
	for {
		n.mu.Lock()
		changed, held, err := n.changed, n.leases[name], l.cutLocked()
		if err == nil && (held == nil || held.of.late || held.of.left) {
			mine := &nodeLease{of: l.node, name: name}
			n.leases[name] = mine
			n.mu.Unlock()
			return mine, nil
		}
		n.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case !wait:
			return nil, tape.ErrLeased
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Lost implements [tape.Lease]. Who has lost it learns that at the next append.
func (*nodeLease) Lost() <-chan struct{} { return nil }

// Release implements [tape.Lease].
func (k *nodeLease) Release() {
	k.once.Do(func() {
		k.of.net.change(func() {
			if k.of.net.leases[k.name] == k && !k.of.dead {
				delete(k.of.net.leases, k.name)
			}
		})
	})
}

// holder is that of [Options].
func (d *node) holder(_ context.Context, name string) (string, error) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if err := d.cutLocked(); err != nil {
		return "", err
	}
	if k := d.net.leases[name]; k != nil && !k.of.late && !k.of.left {
		return k.of.id, nil
	}
	return "", nil
}
