// Package table is a [once.Keys] on a table of package store. A record has the claim of a key; the record's key is the hash of the owner
// and the hash of both.
//
// To claim a key is to create its record: one of all who try succeeds. If nobody knows whether a claim was stored, it is sent again, with the
// same ID, until that is known, and is then deleted.
package table

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/web/once"
)

// Options of keys; zero is the default.
type Options struct {
	Retention time.Duration // how long a key is known, 24 h, at least 1 s
	Most      int64         // keys that are known, 1 million; beyond it the oldest are forgotten. A caller with a name has an eighth of them
	Log       *slog.Logger
}

const (
	tableName = "keys"

	giveUp = 4 * time.Second // of a call while the servers are away: a database that restarts costs about two

	// mostDoubts bounds the claims that are to be taken back. Beyond it a key may lead to a run that never began, until its time is over.
	mostDoubts = 10_000
	doubtPause = time.Second

	ownersKnown = 10_000          // whose claims are counted
	closeWait   = 3 * time.Second // for claims that are to be taken back
)

// Keys is a [once.Keys].
type Keys struct {
	table store.Table
	o     Options

	end     context.Context // of what is started here
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	doubts []store.Put       // claims that are to be taken back; a goroutine does while there are some
	owners map[string]*owner // with a name, by the token of it

	cleared chan struct{} // of the last such goroutine, closed when it ends; nil if there was none
}

var _ once.Keys = (*Keys)(nil)

// meta is what a record says of a claim. Its body is the claim's Of.
type meta struct {
	Hash []byte `json:"hash"`
	Run  string `json:"run"`
}

// Open opens the table of keys.
func Open(ctx context.Context, e store.Engine, o Options) (*Keys, error) {
	if o.Retention <= 0 {
		o.Retention = 24 * time.Hour
	}
	o.Retention = max(o.Retention, time.Second) // some engines count seconds
	if o.Most <= 0 {
		o.Most = 1_000_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t, err := e.Table(ctx, store.TableOptions{Name: tableName, MaxRecords: o.Most, Oldest: true})
	if err != nil {
		return nil, fmt.Errorf("once: %w", err)
	}
	k := &Keys{table: t, o: o, owners: map[string]*owner{}}
	k.end, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	return k, nil
}

// Close ends what was started. Claims that may have been stored although they failed are taken back before, as far as that goes soon.
func (k *Keys) Close() error {
	k.mu.Lock()
	k.closed = true
	cleared := k.cleared
	k.mu.Unlock()
	if cleared != nil {
		select {
		case <-cleared:
		case <-time.After(closeWait):
		}
	}
	k.stop()
	k.running.Wait()
	k.mu.Lock()
	left := len(k.doubts)
	k.mu.Unlock()
	if left > 0 {
		return fmt.Errorf("once: %d Idempotency-Keys may lead to runs that have never begun", left)
	}
	return nil
}

// ownerToken stands for an owner in keys of records.
func ownerToken(owner string) string {
	hash := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(hash[:8])
}

func recordKey(owner, key string) string { return keyOf(owner, once.Hash(owner, key)) }

func keyOf(owner string, hash [16]byte) string {
	return ownerToken(owner) + "/" + hex.EncodeToString(hash[:])
}

// claimOf reads what a record says of its claim; ok is false if it is damaged.
func claimOf(r store.Record) (c once.Claim, ok bool) {
	var m meta
	if json.Unmarshal(r.Meta, &m) != nil || m.Run == "" || len(m.Hash) != len(c.Hash) {
		return c, false
	}
	return once.Claim{Hash: [16]byte(m.Hash), Run: m.Run, Of: r.Body, At: r.At}, true
}

// put returns the put of a claim.
func (k *Keys) put(c once.Claim, after uint64, body []byte) store.Put {
	text, err := json.Marshal(meta{Hash: c.Hash[:], Run: c.Run})
	if err != nil {
		panic("once: " + err.Error()) // all of it can be written
	}
	p := store.Put{Key: recordKey(c.Owner, c.Key), After: after, Meta: text, Body: body, Life: k.o.Retention}
	rand.Read(p.ID[:])
	return p
}

// change makes one change, with its own time.
func (k *Keys) change(ctx context.Context, p store.Put) (store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	records, errs := k.table.Put(ctx, p)
	return records[0], errs[0]
}

// read reads the claim of a key.
func (k *Keys) read(ctx context.Context, owner, key string, get func(context.Context, string) (store.Record, error)) (c once.Claim, rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	r, err := get(ctx, recordKey(owner, key))
	if err != nil {
		return c, 0, err
	}
	c, ok := claimOf(r)
	if !ok {
		return c, 0, store.ErrDamaged
	}
	c.Owner, c.Key = owner, key
	return c, r.Rev, nil
}

// explain makes of an error of the table what callers are told.
func (k *Keys) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return once.Away(err)
}

// Claim implements [once.Keys].
func (k *Keys) Claim(ctx context.Context, c once.Claim) (once.Claim, bool, error) {
	if err := c.Check(); err != nil {
		return once.Claim{}, false, err
	}
	p := k.put(c, 0, c.Of)
	for {
		r, err := k.change(ctx, p)
		switch {
		case err == nil:
			c.At = r.At
			if c.Owner != "" {
				token, _, _ := strings.Cut(p.Key, "/")
				k.countClaim(ctx, token)
			}
			return c, true, nil
		case errors.Is(err, store.ErrUnsure):
			k.takeBack(p)
			return once.Claim{}, false, k.explain(ctx, err)
		case !errors.Is(err, store.ErrMoved):
			return once.Claim{}, false, k.explain(ctx, err)
		}
		earlier, _, err := k.read(ctx, c.Owner, c.Key, k.table.Get)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue // it was freed since
		case err != nil:
			return once.Claim{}, false, k.explain(ctx, err)
		}
		mine := earlier.Run == c.Run && earlier.Hash == c.Hash // of an attempt of before
		return earlier, mine, nil
	}
}

// Find implements [once.Keys]. It may miss a key that was claimed a moment ago: to be sure costs a message, and a caller that does not find
// a key claims it, which finds it.
func (k *Keys) Find(ctx context.Context, owner, key string) (once.Claim, bool, error) {
	c, _, err := k.read(ctx, owner, key, k.table.Peek)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c, false, nil
	case err != nil:
		return c, false, k.explain(ctx, err)
	}
	return c, true, nil
}

// update reads a key until the change that next makes of it is stored, or next makes none.
func (k *Keys) update(ctx context.Context, owner, key string, next func(now once.Claim, rev uint64) (store.Put, bool)) error {
	for {
		now, rev, err := k.read(ctx, owner, key, k.table.Get)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			p, ok := next(now, rev)
			if !ok {
				return nil
			}
			if _, err = k.change(ctx, p); errors.Is(err, store.ErrMoved) {
				continue
			}
		}
		if err != nil {
			err = k.explain(ctx, err)
		}
		return err
	}
}

// Move implements [once.Keys].
func (k *Keys) Move(ctx context.Context, owner, key, from, to string) (ok bool, err error) {
	err = k.update(ctx, owner, key, func(now once.Claim, rev uint64) (store.Put, bool) {
		if ok = now.Run == from; ok {
			now.Run = to
		}
		return k.put(now, rev, nil), ok
	})
	return ok && err == nil, err
}

// Forget implements [once.Keys].
func (k *Keys) Forget(ctx context.Context, owner, key, run string) error {
	return k.update(ctx, owner, key, func(now once.Claim, rev uint64) (store.Put, bool) {
		p := k.put(now, rev, nil)
		p.Delete = true
		return p, now.Run == run
	})
}

// Each calls keep with what is known of each key whose run is wanted, but for the texts of the key and of its owner. It forgets the keys
// for which keep returns false.
func (k *Keys) Each(ctx context.Context, wanted func(run string) bool, keep func(once.Claim) bool) error {
	var drop []record
	for r, err := range k.table.Range(ctx, "", false) {
		if err != nil {
			return fmt.Errorf("once: %w", err)
		}
		c, ok := claimOf(r)
		if !ok || !wanted(c.Run) {
			continue
		}
		body, err := k.table.Get(ctx, r.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			c.Of = body.Body
		} else if !errors.Is(err, store.ErrDamaged) {
			return fmt.Errorf("once: %w", err)
		}
		if !keep(c) {
			drop = append(drop, record{r.Key, r.Rev})
		}
	}
	return k.remove(ctx, drop)
}

// share is how many keys of one owner with a name are known. A server that asks nobody who they are has one owner, who has all.
func (k *Keys) share() int64 { return max(k.o.Most/8, 1) }

// owner is what is known of the keys of an owner.
type owner struct {
	left   int64    // how many it may claim until some are deleted
	oldest []record // that are deleted next
}

type record struct {
	key string
	rev uint64
}

// countClaim counts a claim of an owner with a name. When the owner may have more keys than its share, its oldest ones are deleted. Each
// replica counts what it has claimed itself, so that an owner has a share, and as many keys more as the replicas claim before they look.
func (k *Keys) countClaim(ctx context.Context, token string) {
	least := max(k.share()/16, 1)
	k.mu.Lock()
	o := k.owners[token]
	if o == nil {
		if len(k.owners) >= ownersKnown {
			clear(k.owners)
		}
		o = &owner{left: least}
		k.owners[token] = o
	}
	if o.left--; o.left > 0 {
		k.mu.Unlock()
		return
	}
	o.left = least
	next := o.oldest[:min(least, int64(len(o.oldest)))]
	o.oldest = o.oldest[len(next):]
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	if err := k.remove(ctx, next); err != nil {
		k.explainBound(ctx, err)
	}
	if int64(len(next)) < least { // all that was known to be old is deleted
		k.bound(ctx, token, o)
	}
}

func (k *Keys) explainBound(ctx context.Context, err error) {
	k.o.Log.LogAttrs(ctx, slog.LevelWarn, "cannot remove a caller's old idempotency keys", slog.String("error", err.Error()))
}

// bound counts the keys of an owner and deletes the oldest beyond its share.
func (k *Keys) bound(ctx context.Context, token string, o *owner) {
	var all []record
	for r, err := range k.table.Range(ctx, token+"/", false) {
		if err != nil {
			k.explainBound(ctx, err)
			return
		}
		all = append(all, record{r.Key, r.Rev})
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.rev, b.rev) })
	more := max(int64(len(all))-k.share(), 0)
	if err := k.remove(ctx, all[:more]); err != nil {
		k.explainBound(ctx, err)
	}
	all = all[more:]
	k.mu.Lock()
	defer k.mu.Unlock()
	o.left = max(o.left, (k.share()-int64(len(all)))/2) // other replicas claim too
	if more > 0 {
		o.oldest = slices.Clone(all[:len(all)/4])
	}
}

// remove deletes keys that have not changed.
func (k *Keys) remove(ctx context.Context, old []record) error {
	puts := make([]store.Put, len(old))
	for i := range puts {
		puts[i] = store.Put{Key: old[i].key, After: old[i].rev, Delete: true}
		rand.Read(puts[i].ID[:])
	}
	_, errs := k.table.Put(ctx, puts...)
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, store.ErrMoved) }) // it was changed, or deleted
	return errors.Join(errs...)
}

// takeBack takes a claim back that may have been stored, when the store is back.
func (k *Keys) takeBack(p store.Put) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.doubts) >= mostDoubts {
		return
	}
	if k.doubts = append(k.doubts, p); len(k.doubts) == 1 {
		cleared := make(chan struct{})
		k.cleared = cleared
		k.running.Go(func() {
			defer close(cleared)
			k.clear()
		})
	}
}

// clear takes claims back until there are none.
func (k *Keys) clear() {
	for {
		k.mu.Lock()
		p := k.doubts[0]
		k.mu.Unlock()
		if err := k.undo(p); err != nil {
			select {
			case <-k.end.Done():
				return
			case <-time.After(doubtPause):
				continue
			}
		}
		k.mu.Lock()
		k.doubts = k.doubts[1:]
		empty := len(k.doubts) == 0
		if empty {
			k.doubts = nil
		}
		k.mu.Unlock()
		if empty {
			return
		}
	}
}

// undo sends a claim again, so that it surely is stored, and deletes it: so a first attempt that comes late is refused.
func (k *Keys) undo(p store.Put) error {
	r, err := k.change(k.end, p)
	if err == nil {
		remove := store.Put{Key: p.Key, After: r.Rev, Delete: true}
		rand.Read(remove.ID[:])
		_, err = k.change(k.end, remove)
	}
	if errors.Is(err, store.ErrMoved) { // another claim has the key, or it was moved
		return nil
	}
	return err
}
