// Package owner keeps records of a table each of which belongs to one of several processes. When a process dies or ends, the others learn
// of it, and one of them takes its records over: it writes their next change. Each change names the revision that its writer has seen, so a
// process that was only thought dead changes nothing that another one has taken over.
package owner

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// Owners tell which of the processes that share a table are alive.
type Owners interface {
	// Begin makes this process an owner with a new name. It is alive until release is called or lost is closed.
	Begin(context.Context) (name string, lost <-chan struct{}, release func(), err error)
	Alive(_ context.Context, name string) (bool, error)
}

// NewID returns a random ID of a put.
func NewID() (id [16]byte) {
	rand.Read(id[:])
	return id
}

// Token stands for a text in keys and metas. It tells nothing about the text.
func Token(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Meta writes the meta of a record.
func Meta(r any) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("channel/owner: " + err.Error()) // all of it can be written
	}
	return text
}

const (
	// patience is how long a change waits for an engine that does not answer. It is less than the time after which platforms give up a
	// delivery.
	patience = 5 * time.Second

	// LookEvery is how often the owners of waiting records are checked: one request for each owner.
	LookEvery = 500 * time.Millisecond
	lookWait  = 2 * time.Second        // for the answers
	pause     = 200 * time.Millisecond // between attempts to get a new name

	mostDead = 100  // dead owners are forgotten beyond so many, if they have no records
	stripes  = 4096 // a lock is held while the disk works, and most others must not wait for that
)

// Hooks are called by [Records]. They must not block.
type Hooks struct {
	// Changed is told of each record that there is when Start is called, and later of each change of any process, in the order of revisions.
	// If no other process uses the table, it is not told of later changes.
	Changed func(store.Change)
	// Others returns the owners of the waiting records of other processes.
	Others func() map[string]bool
	// Died is told of an owner that is dead.
	Died func(owner string)
	// Renewed is called when this process has a new name. Other processes may have taken over its records.
	Renewed func()
	// Retry writes what could not be written before. It is called again after [LookEvery] if it returns true, and after Wake.
	Retry func(ctx context.Context) (more bool)
}

// Records are the records of a table. It is safe for concurrent use.
type Records struct {
	Table store.Table

	owners Owners // nil: no other process uses the table
	hooks  Hooks
	locks  [stripes]sync.Mutex

	End     context.Context // ends when Stop is called
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{}

	mu      sync.Mutex
	self    string
	names   map[string]bool // all that this process has had
	lost    <-chan struct{}
	release func()
	dead    map[string]bool
	undone  map[string]bool // keys whose removal has failed, and may not be durable
}

// Open opens a table. If owners is nil, no other process uses it. The caller calls Start next, and Stop and Release at the end.
func Open(ctx context.Context, e store.Engine, o store.TableOptions, owners Owners) (*Records, error) {
	table, err := e.Table(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &Records{
		Table: table, owners: owners, wake: make(chan struct{}, 1),
		names: map[string]bool{}, dead: map[string]bool{}, undone: map[string]bool{},
	}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	r.End, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// begin gives this process a name.
func (r *Records) begin(ctx context.Context) (err error) {
	name, lost, release := rand.Text(), (<-chan struct{})(nil), func() {}
	if r.owners != nil {
		if name, lost, release, err = r.owners.Begin(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	old := r.release
	r.self, r.lost, r.release = name, lost, release
	r.names[name] = true
	r.mu.Unlock()
	if old != nil {
		old()
	}
	return nil
}

// Start reads what there is, and returns when the hooks know it. If it fails, it has stopped everything.
func (r *Records) Start(ctx context.Context, h Hooks) error {
	r.hooks = h
	if err := r.read(ctx); err != nil {
		r.Stop()
		r.Release()
		return err
	}
	_ = r.Look(ctx) // if it fails, nobody is dead yet
	r.running.Go(r.watch)
	return nil
}

// read tells of what there is. If other processes use the table, it goes on to tell of their changes.
func (r *Records) read(ctx context.Context) error {
	if r.owners == nil {
		for rec, err := range r.Table.Range(ctx, "", false) {
			if err != nil {
				return err
			}
			r.hooks.Changed(store.Change{Record: rec})
		}
		return nil
	}
	live, ended := make(chan struct{}), make(chan error, 1)
	r.running.Go(func() { ended <- r.Follow(sync.OnceFunc(func() { close(live) })) })
	select {
	case <-live:
		return nil
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Follow tells of all changes until the engine is closed or Stop is called. It calls live when it has told of all records that there were.
func (r *Records) Follow(live func()) error {
	for c, err := range r.Table.Watch(r.End, "") {
		switch {
		case err != nil:
			return err
		case c.Live:
			live()
		default:
			r.hooks.Changed(c)
		}
	}
	return nil
}

// CatchUp returns when the hooks know of all that other processes have changed before the call, or ctx ends.
func (r *Records) CatchUp(ctx context.Context) {
	if t, ok := r.Table.(interface{ CatchUp(context.Context) error }); ok && r.Shared() {
		_ = t.CatchUp(ctx) // else the event is given by what is known
	}
}

// Shared reports whether other processes use the table.
func (r *Records) Shared() bool { return r.owners != nil }

// Stop ends all goroutines. Changes can still be written.
func (r *Records) Stop() {
	r.stop()
	r.running.Wait()
}

// Release lets other processes take over the records at once.
func (r *Records) Release() {
	r.mu.Lock()
	release := r.release
	r.mu.Unlock()
	release()
}

// Self is the name of this process. It changes if the process was thought dead.
func (r *Records) Self() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self
}

// Mine reports whether an owner is this process, by this name or an earlier one.
func (r *Records) Mine(owner string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[owner]
}

// Dead reports whether an owner is known to be dead.
func (r *Records) Dead(owner string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deadLocked(owner)
}

func (r *Records) deadLocked(owner string) bool {
	return owner == "" || r.dead[owner] || r.owners == nil && owner != r.self
}

// Alive finds out whether an owner is alive.
func (r *Records) Alive(ctx context.Context, owner string) (bool, error) {
	r.mu.Lock()
	self, dead := owner == r.self, r.deadLocked(owner)
	r.mu.Unlock()
	if self || dead {
		return self, nil
	}
	alive, err := r.owners.Alive(ctx, owner)
	if err != nil {
		return false, &Error{textAway, err}
	}
	return alive, nil
}

// Look finds out which owners of waiting records are dead. While that cannot be found out, nobody is.
func (r *Records) Look(ctx context.Context) error {
	others := r.hooks.Others()
	for owner := range others {
		if r.Dead(owner) {
			continue
		}
		alive, err := r.Alive(ctx, owner)
		if err != nil {
			return err
		}
		if alive {
			continue
		}
		r.mu.Lock()
		r.dead[owner] = true
		r.mu.Unlock()
		r.hooks.Died(owner)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dead) > mostDead {
		for owner := range r.dead {
			if !others[owner] {
				delete(r.dead, owner)
			}
		}
	}
	return nil
}

// Wake lets owners be checked and writes be retried, after [LookEvery].
func (r *Records) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// watch checks owners and retries writes while there is something to do.
func (r *Records) watch() {
	timer := time.NewTimer(LookEvery)
	defer timer.Stop()
	armed := true // for a first time
	for {
		r.mu.Lock()
		lost := r.lost
		r.mu.Unlock()
		select {
		case <-r.End.Done():
			return
		case <-lost:
			r.renew()
			continue
		case <-r.wake:
			if !armed {
				timer.Reset(LookEvery)
				armed = true
			}
			continue
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(r.End, lookWait)
		_ = r.Look(ctx) // if it fails, the next one finds it out
		cancel()
		more := r.hooks.Retry(r.End)
		if armed = more || r.owners != nil && len(r.hooks.Others()) > 0; armed {
			timer.Reset(LookEvery)
		}
	}
}

// renew gives this process a new name, since the others take it for dead.
func (r *Records) renew() {
	if err := r.begin(r.End); err != nil { // lost stays closed, so it is tried again
		_ = backoff.Sleep(r.End, pause)
		return
	}
	r.hooks.Renewed()
}

// Lock locks a record for this process.
func (r *Records) Lock(key string) (unlock func()) {
	m := &r.locks[stripe(key)]
	m.Lock()
	return m.Unlock
}

func stripe(key string) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int(h % stripes)
}

// LockAll locks several records.
func (r *Records) LockAll(keys ...string) (unlock func()) {
	if len(keys) == 1 {
		return r.Lock(keys[0])
	}
	all := make([]int, len(keys))
	for i, key := range keys {
		all[i] = stripe(key)
	}
	slices.Sort(all) // in one order for all callers
	all = slices.Compact(all)
	for _, i := range all {
		r.locks[i].Lock()
	}
	return func() {
		for _, i := range all {
			r.locks[i].Unlock()
		}
	}
}

// errPatience is the error of a change that the engine has not written in time.
var errPatience = fmt.Errorf("%w: no answer within %v", store.ErrAway, patience)

// Put makes changes in one write. It waits for a few seconds at most. The engine of a single process does not wait for longer by itself.
func (r *Records) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	if r.owners == nil {
		return r.Table.Put(ctx, puts...)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	return r.Table.Put(ctx, puts...)
}

// PutOne makes one change. If the record has another revision, moved is what is there, with a zero Rev if there is none; the error is nil
// then.
func (r *Records) PutOne(ctx context.Context, p store.Put) (rec store.Record, moved *store.Record, err error) {
	records, errs := r.Put(ctx, p)
	if moved = Moved(errs[0]); moved != nil {
		return rec, moved, nil
	}
	return records[0], nil, errs[0]
}

// Moved returns what is there instead of the revision that a change expected. It is nil if err is another error.
func Moved(err error) *store.Record {
	if m, ok := errors.AsType[*store.Moved](err); ok {
		return &m.Record
	}
	return nil
}

// Get reads a record, with a zero Rev if there is none.
func (r *Records) Get(ctx context.Context, key string) (store.Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	rec, err := r.Table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{Key: key}, nil
	}
	return rec, err
}

// Erase calls erase with the keys of the records that match, and of those whose removal has failed before. erase calls [Records.Remove].
func (r *Records) Erase(ctx context.Context, match func(store.Record) bool, erase func(ctx context.Context, key string) error) error {
	r.mu.Lock()
	keys := slices.Collect(maps.Keys(r.undone))
	r.mu.Unlock()
	for rec, err := range r.Table.Range(ctx, "", false) {
		if err != nil {
			return Explain(err)
		}
		if match(rec) {
			keys = append(keys, rec.Key)
		}
	}
	for _, key := range keys {
		if err := erase(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a record, whatever it has. That is durable when Remove returns.
func (r *Records) Remove(ctx context.Context, key string) error {
	_, errs := r.Put(ctx, store.Put{Key: key, ID: NewID(), After: store.AnyRev, Delete: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	if errs[0] != nil && !errors.Is(errs[0], store.ErrNotFound) {
		r.undone[key] = true
		return Explain(errs[0])
	}
	delete(r.undone, key)
	return nil
}

// Error is a failure that may pass. Its text can be shown to anybody.
type Error struct {
	text  string
	cause error
}

func (e *Error) Error() string { return "channel: " + e.text }

// ErrorCode is the code of what comes of it for a request.
func (*Error) ErrorCode() string { return "overloaded" }

// Unwrap returns the error of the engine.
func (e *Error) Unwrap() error { return e.cause }

const (
	textAway = "the store of channels is unreachable; retry later"
	textBusy = "too many changes of the same data at once; retry later"
)

// ErrBusy is the error of a change that others were faster with, again and again.
var ErrBusy error = &Error{textBusy, store.ErrMoved}

// Tries is how often a change is tried again that another process was faster with. Each time that process has come further.
const Tries = 20

// Explain makes an error of an engine one for callers. A disk that failed is named.
func Explain(err error) error {
	if err != nil && !vfs.Failed(err) && (errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure)) {
		return &Error{textAway, err}
	}
	return err
}
