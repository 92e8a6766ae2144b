package replicas

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Table has the replicas, with the keys "replica/<id>", and the leases, "<kind>/<name>/holder". After a power cut nobody holds anything, so
// it need not be synced.
var Table = store.TableOptions{Name: "leases", Durability: store.Async}

const (
	replicaKind   = "replica"
	replicaPrefix = replicaKind + "/"

	// Lives of records, which remove what nobody deletes. They are long, because on some engines the clock of the reader decides.
	replicaLife = 24 * time.Hour // renewed by each beat
	leftLife    = time.Minute    // of the record of a replica that has left
	leaseLife   = time.Hour      // renewed by refresh
	freeLife    = 2 * time.Second

	// callWait bounds one call of the table. A beat that fails must not keep the next one from being in time.
	callWait = time.Second

	defaultGrace = time.Minute
)

// Errors of members and leases.
var (
	// ErrAway is returned to a caller that does not wait, while the store cannot be reached.
	ErrAway error = away{}
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("replicas: closed")
)

type away struct{}

func (away) Error() string { return "replicas: the store is unreachable" }

// ErrorCode says that the caller may retry later.
func (away) ErrorCode() string { return "overloaded" }

// Unwrap returns the error of the store.
func (away) Unwrap() error { return store.ErrAway }

// Options of members; the zero value has the defaults.
type Options struct {
	ID    string        // of this process; another one after each start; a part of a key, see store.CheckKey; "" is a random one
	Name  string        // what people call this replica
	Grace time.Duration // how long leases outlive the absence of the store; 0 is a minute
	Log   *slog.Logger  // nil: nothing is logged
}

// Replica is a process that runs.
type Replica struct {
	ID    string
	Name  string
	Life  uint64    // 1, and one more each time that it was taken for dead and came back
	Since time.Time // when that life began, by its own clock
}

// Change is about one replica.
type Change struct {
	Replica Replica
	What    What
}

// What has happened to a replica.
type What int

// All that can.
const (
	Came What = iota + 1 // it has begun a life
	Left                 // it was closed, and has told the others
	Died                 // nothing was heard of it for [TTL]
)

func (w What) String() string {
	switch w {
	case Came:
		return "came"
	case Left:
		return "left"
	case Died:
		return "died"
	}
	return fmt.Sprint("What(", int(w), ")")
}

// beatRecord is the meta of a replica's record.
type beatRecord struct {
	Life  uint64 `json:"life"`
	Name  string `json:"name"`
	Since int64  `json:"since"` // ms
	Left  bool   `json:"left,omitempty"`
}

// Members are the replicas that run. Each one beats: it changes its record every 1.5 s, however many leases it has.
//
// A replica is dead if this one has heard nothing of it for [TTL], and has heard its own beats all the time: while the store is away nobody
// dies, and when it is back every replica has a whole TTL. The record of a dead replica is then deleted at the revision that was seen, so
// that the record of a replica that has beaten after all stays. A replica that was taken for dead learns it at its next beat at the latest,
// and begins another life.
type Members struct {
	o     Options
	table store.Table // nil: this process is alone
	end   context.Context
	stop  context.CancelCauseFunc
	kick  chan struct{} // the loop is to look now
	wake  chan struct{} // there are changes to tell
	loops sync.WaitGroup
	calls sync.WaitGroup

	mu      sync.Mutex
	life    *life
	lives   uint64        // how many there were
	joined  chan struct{} // closed while there is a life
	beating bool          // a beat is on its way
	beat    time.Time     // when the last one was sent
	beatDue time.Time     // when the next one is, at the latest beatEvery after the last
	failing time.Time     // when the first of the beats was sent that have failed since the last one that was stored
	failed  time.Duration // for how long they have failed before
	ticked  time.Time     // when the loop last ran
	heardAt time.Time     // when this replica last heard its own beat
	closing bool          // nothing is started any more
	closed  bool
	view    map[string]*member
	gone    map[string]uint64 // revisions at which replicas have ended, by which older news is known
	endings chan struct{}     // closed, and replaced, when a life ends
	leases  map[string]*Leases
	news    int // how many callers watch a lease
	changes []Change
	tellers map[*teller]struct{}

	sinceOf uint64 // of the goroutine that beats
	sinceAt time.Time
}

// member is a replica as this one sees it.
type member struct {
	replica  Replica
	revision uint64
	quiet    time.Time // since when nothing was heard of it
	ending   bool      // its record is being deleted
}

type teller struct{ fn func(Change) }

// mostGone bounds what is remembered of replicas that have ended, and mostChanges what waits for a slow callback.
const (
	mostGone    = 1000
	mostChanges = 10000
)

func newMembers(o Options, table store.Table) *Members {
	if o.ID == "" {
		o.ID = strings.ToLower(rand.Text()[:16])
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Members{
		o: o, table: table, kick: make(chan struct{}, 1), wake: make(chan struct{}, 1), joined: make(chan struct{}), ticked: time.Now(),
		view: map[string]*member{}, gone: map[string]uint64{}, endings: make(chan struct{}),
		leases: map[string]*Leases{}, tellers: map[*teller]struct{}{},
	}
	m.end, m.stop = context.WithCancelCause(context.Background())
	return m
}

// Alone returns the members of a server that has no other replicas. Its leases are those of this process.
func Alone(o Options) *Members {
	m := newMembers(o, nil)
	m.begin(&life{number: 1, lost: make(chan struct{})})
	m.view[m.o.ID] = &member{replica: Replica{ID: m.o.ID, Name: o.Name, Life: 1, Since: time.Now()}}
	return m
}

// Join makes this process a member of those that share a table, which is opened with the options [Table]. The caller closes the members
// before the table's engine.
func Join(ctx context.Context, table store.Table, o Options) (*Members, error) {
	m := newMembers(o, table)
	listed := make(chan struct{})
	m.loops.Go(func() { m.follow(listed) })
	m.loops.Go(m.run)
	m.loops.Go(m.tell)
	select {
	case <-listed:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), m.Close())
	}
	if _, err := m.alive(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// ID returns the id of this process.
func (m *Members) ID() string { return m.o.ID }

// Close leaves the others, and tells them. It may be called more than once.
func (m *Members) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed, m.closing = true, true
	m.mu.Unlock()
	m.stop(ErrClosed)
	m.loops.Wait()
	m.calls.Wait()
	if first && m.table != nil {
		m.leave()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lose(ErrClosed)
	return nil
}

// begin makes a life the present one. The caller has the lock.
func (m *Members) begin(l *life) {
	m.life, m.lives = l, l.number
	close(m.joined)
}

// alive waits for a life of this replica.
func (m *Members) alive(ctx context.Context) (*life, error) {
	for {
		m.mu.Lock()
		m.check(time.Now())
		l, joined := m.life, m.joined
		m.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-joined:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-m.end.Done():
			return nil, ErrClosed
		}
	}
}

// Replicas returns the replicas that run, this one among them, by their ids.
func (m *Members) Replicas() []Replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Replica, 0, len(m.view))
	for _, id := range slices.Sorted(maps.Keys(m.view)) {
		all = append(all, m.view[id].replica)
	}
	return all
}

// Alive reports whether a replica runs, as far as this one has heard.
func (m *Members) Alive(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.view[id]
	return ok
}

// Find reports whether a replica runs. If this one has not heard of it, it reads the table.
func (m *Members) Find(ctx context.Context, id string) (bool, error) {
	if m.Alive(id) || m.table == nil {
		return m.Alive(id), nil
	}
	if err := m.lookUp(ctx, id); err != nil {
		return false, err
	}
	return m.Alive(id), nil
}

// Watch calls fn with what happens to other replicas from now on, one call at a time. [Members.Replicas] has those that run already. Each
// replica is told of each death; more than once if the store was away. A call that has begun may still run when stop returns.
func (m *Members) Watch(fn func(Change)) (stop func()) {
	t := &teller{fn}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellers[t] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.tellers, t)
	}
}

// tell calls those who watch, until the members are closed.
func (m *Members) tell() {
	for {
		select {
		case <-m.end.Done():
			return
		case <-m.wake:
		}
		for {
			m.mu.Lock()
			changes, tellers := m.changes, slices.Collect(maps.Keys(m.tellers))
			m.changes = nil
			m.mu.Unlock()
			if len(changes) == 0 {
				break
			}
			for _, c := range changes {
				for _, t := range tellers {
					t.fn(c)
				}
			}
		}
	}
}

// note keeps a change for those who watch.
func (m *Members) note(r Replica, what What) {
	if r.ID == m.o.ID {
		return
	}
	if len(m.changes) < mostChanges {
		m.changes = append(m.changes, Change{r, what})
	}
	select {
	case m.wake <- struct{}{}:
	default: // it is awake
	}
}

// wakeWaiters wakes those who wait for the end of a life.
func (m *Members) wakeWaiters() {
	close(m.endings)
	m.endings = make(chan struct{})
}

// ending returns a channel that is closed when a life ends after now.
func (m *Members) ending() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endings
}

// follow hears of the records of replicas until the members are closed. The table repairs interruptions by itself.
func (m *Members) follow(listed chan<- struct{}) {
	for c, err := range m.table.Watch(m.end, replicaPrefix) {
		switch {
		case err != nil:
			return // the members, or the engine, are closed
		case c.Live && listed != nil:
			close(listed)
			listed = nil
		case c.Live:
		default:
			m.hear(c, time.Now())
		}
	}
}

// hear takes what the table says of a replica.
func (m *Members) hear(c store.Change, now time.Time) {
	id := strings.TrimPrefix(c.Key, replicaPrefix)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.Gone {
		m.take(id, c.Record, now)
		if id == m.o.ID {
			m.hearSelf(now)
		}
		return
	}
	known := m.view[id]
	switch {
	case known != nil && c.Rev > known.revision:
		m.takeEnd(id, c.Rev, Died)
	case known != nil && !m.closing: // the change has no revision, and the record may be there again
		m.calls.Go(func() { _ = m.lookUp(m.end, id) }) // if it fails, a replica that is silent dies of that
	}
}

// take brings the view up to date with a record of a replica. The caller has the lock.
func (m *Members) take(id string, r store.Record, now time.Time) {
	known := m.view[id]
	if r.Rev <= m.gone[id] || known != nil && r.Rev <= known.revision {
		return
	}
	var b beatRecord
	switch err := json.Unmarshal(r.Meta, &b); {
	case err != nil:
		return // a later version has written it
	case b.Left:
		m.takeEnd(id, r.Rev, Left)
		return
	}
	replica := Replica{ID: id, Name: b.Name, Life: b.Life, Since: time.UnixMilli(b.Since)}
	if known != nil && known.replica.Life != b.Life {
		m.note(known.replica, Died)
		m.wakeWaiters()
	}
	if known == nil || known.replica.Life != b.Life {
		m.note(replica, Came)
	}
	m.view[id] = &member{replica: replica, revision: r.Rev, quiet: now}
}

// takeEnd takes note that a replica does not run any more. The caller has the lock.
func (m *Members) takeEnd(id string, revision uint64, what What) {
	known := m.view[id]
	if revision <= m.gone[id] || known != nil && revision <= known.revision {
		return
	}
	if len(m.gone) >= mostGone {
		clear(m.gone)
	}
	m.gone[id] = revision
	if l := m.life; id == m.o.ID && l != nil && revision > l.revision && what != Left {
		m.lose(errTaken)
	}
	if known == nil {
		return
	}
	delete(m.view, id)
	m.note(known.replica, what)
	m.wakeWaiters()
}

// lookUp reads the record of a replica, and brings the view up to date with it.
func (m *Members) lookUp(ctx context.Context, id string) error {
	m.mu.Lock()
	before := m.revisionOf(id)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	r, err := m.table.Get(ctx, replicaPrefix+id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.take(id, r, time.Now())
	case before > 0 && m.revisionOf(id) == before: // else it has come meanwhile
		m.takeEnd(id, before+1, Died)
	}
	return nil
}

func (m *Members) revisionOf(id string) uint64 {
	if known := m.view[id]; known != nil {
		return known.revision
	}
	return 0
}

// inLife reports whether a replica is in a life. If this replica has not heard of it, it asks: a lease may be known before its holder.
func (m *Members) inLife(ctx context.Context, id string, number uint64) (bool, error) {
	m.mu.Lock()
	if id == m.o.ID {
		defer m.mu.Unlock()
		return m.life != nil && m.life.number == number, nil
	}
	known := m.isInLife(id, number)
	m.mu.Unlock()
	if known {
		return true, nil
	}
	if err := m.lookUp(ctx, id); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isInLife(id, number), nil
}

func (m *Members) isInLife(id string, number uint64) bool {
	known := m.view[id]
	return known != nil && known.replica.Life == number
}
