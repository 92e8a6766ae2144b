package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lingserve/lingserve/web/once"
)

// localKeys are the keys of a server that is alone, as [once.Keys]: in memory, and in the data folder where there is one. A run has the
// id of one that [NewID] makes.
type localKeys struct{ s *Service }

var _ once.Keys = localKeys{}

// Claim implements [once.Keys].
func (k localKeys) Claim(ctx context.Context, c once.Claim) (once.Claim, bool, error) {
	if err := c.Check(); err != nil {
		return once.Claim{}, false, err
	}
	if ctx.Err() != nil {
		return once.Claim{}, false, context.Cause(ctx)
	}
	k.s.keys.mu.Lock()
	defer k.s.keys.mu.Unlock()
	if e, ok := k.findLocked(c.Owner, c.Key); ok {
		return e.claim(c.Owner, c.Key), false, nil
	}
	return k.putLocked(c), true, nil
}

// Find implements [once.Keys].
func (k localKeys) Find(ctx context.Context, owner, key string) (once.Claim, bool, error) {
	if ctx.Err() != nil {
		return once.Claim{}, false, context.Cause(ctx)
	}
	k.s.keys.mu.Lock()
	defer k.s.keys.mu.Unlock()
	e, ok := k.findLocked(owner, key)
	if !ok {
		return once.Claim{}, false, nil
	}
	return e.claim(owner, key), true, nil
}

// Move implements [once.Keys].
func (k localKeys) Move(_ context.Context, owner, key, from, to string) (bool, error) {
	var of Subject
	if r := k.s.own(to); r != nil {
		of = r.Of
	}
	k.s.keys.mu.Lock()
	defer k.s.keys.mu.Unlock()
	e, ok := k.findLocked(owner, key)
	if !ok || e.id() != from {
		return false, nil
	}
	moved := k.s.keys.put(owner, key, e.hash, to)
	k.write(moved, lineage{of, owner})
	return true, nil
}

// Forget implements [once.Keys]. On the disk a line says so that has expired.
func (k localKeys) Forget(_ context.Context, owner, key, run string) error {
	k.s.keys.mu.Lock()
	defer k.s.keys.mu.Unlock()
	e, ok := k.findLocked(owner, key)
	if !ok || e.id() != run {
		return nil
	}
	delete(k.s.keys.entries, e.key)
	e.at = 0
	k.write(e, lineage{})
	return nil
}

// write puts a key on the disk, where there is one.
func (k localKeys) write(e keyEntry, of lineage) {
	if k.s.disk == nil {
		return
	}
	if err := k.s.disk.addKey(e, of); err != nil {
		// What is in memory counts until a restart, and whoever runs the server can read why.
		k.s.log.Error("cannot store an idempotency key", "run", e.id(), "error", err)
		k.s.notKept(err)
	}
}

func (k localKeys) findLocked(owner, key string) (keyEntry, bool) {
	e, ok := k.s.keys.get(owner, key)
	return e, ok && !k.s.keys.expired(e, time.Now())
}

func (k localKeys) putLocked(c once.Claim) once.Claim {
	e := k.s.keys.put(c.Owner, c.Key, c.Hash, c.Run)
	if k.s.disk == nil {
		return e.claim(c.Owner, c.Key)
	}
	of := lineage{Owner: c.Owner}
	if len(c.Of) > 0 && json.Unmarshal(c.Of, &of.Subject) != nil {
		of.Subject = Subject{}
	}
	k.write(e, of)
	return e.claim(c.Owner, c.Key)
}

// claim is an entry as a claim of that key.
func (e keyEntry) claim(owner, key string) once.Claim {
	return once.Claim{Owner: owner, Key: key, Hash: e.hash, Run: e.id(), At: time.Unix(e.at, 0)}
}
