package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Replica is a process that is there.
type Replica struct {
	ID    string    // its [Cluster.Replica]
	Name  string    // its Options.Name
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
	Left                 // it has said that it goes: it was closed
	Died                 // it was silent for [TTL] while others were not
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

// Presence is who is there: each replica beats every 1.5 s, one small message, however many leases it has.
//
// A replica is dead when the others have heard nothing of it for [TTL] and have heard themselves all the time: while the
// servers are away nobody dies, and when they are back everybody has a whole TTL. Its key is then taken away at the
// revision that was seen, so that of a replica that has beaten after all the key stays. A replica that was taken for dead
// learns it at its next beat at the latest, and begins another life; one that was stopped for longer than TTL does so
// without asking.
type Presence struct {
	c       *Cluster
	stream  jetstream.Stream
	barrier *Barrier
	sub     *nats.Subscription
	kick    chan struct{}
	wake    chan struct{} // there are changes to tell
	calls   sync.WaitGroup

	mu      sync.Mutex
	life    *life
	lives   uint64        // so many there were
	joined  chan struct{} // closed while there is a life
	beating bool          // a beat is on its way
	beat    time.Time     // when the last one was begun
	beatDue time.Time     // when the next one is, at the latest beatEvery after the last
	failing time.Time     // the first of those that failed
	ticked  time.Time     // when the loop last ran
	heard   uint64        // the last of its own beats that this replica has heard
	heardAt time.Time
	newest  uint64 // revision that was heard of any key
	syncing bool   // it is being read who is there
	closing bool   // nothing is started any more
	view    map[string]*member
	gone    map[string]uint64 // the markers of those who are not there any more, by which older news is known
	endings chan struct{}     // closed, and another one made, when a life has ended
	leases  []*Leases
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
	ending   bool      // its key is being taken away
}

type teller struct{ fn func(Change) }

// mostGone bounds what is remembered of those who are gone, and mostChanges what waits for a slow callback.
const (
	mostGone    = 1000
	mostChanges = 10000
)

// Presence joins the others, once for a cluster: later calls return the same.
func (c *Cluster) Presence(ctx context.Context) (*Presence, error) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.end.Err() != nil {
		return nil, ErrClosed
	}
	if c.presence != nil {
		return c.presence, nil
	}
	p := &Presence{
		c: c, kick: make(chan struct{}, 1), wake: make(chan struct{}, 1), joined: make(chan struct{}), ticked: time.Now(),
		view: map[string]*member{}, gone: map[string]uint64{}, endings: make(chan struct{}), tellers: map[*teller]struct{}{},
	}
	ctx, cancel := c.whileAllowed(ctx)
	defer cancel()
	err := p.join(ctx)
	if refused := c.forbidden(nil); refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: join the other replicas: %w", err)
	}
	c.mu.Lock()
	c.presence = p
	c.mu.Unlock()
	return p, nil
}

func (p *Presence) join(ctx context.Context) error {
	var err error
	if p.stream, err = p.c.leasesStream(ctx); err != nil {
		return err
	}
	p.barrier = p.c.Barrier(kvStream+p.c.Name(leasesBucket), keyPrefix+p.c.Name(leasesBucket)+"."+BarrierToken)
	if p.sub, err = p.c.conn.Subscribe(p.news(replicaSpace, "*"), p.hear); err != nil {
		return err
	}
	if err = again(ctx, p.read); err != nil {
		return errors.Join(err, p.sub.Unsubscribe())
	}
	p.c.running.Go(p.run)
	p.c.running.Go(p.tell)
	_, err = p.alive(ctx)
	return err
}

// alive waits for a life of this replica.
func (p *Presence) alive(ctx context.Context) (*life, error) {
	for {
		p.mu.Lock()
		p.check(time.Now())
		l, joined := p.life, p.joined
		p.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-joined:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.c.end.Done():
			return nil, ErrClosed
		}
	}
}

// Replicas are those who are there, this one among them, by their ids.
func (p *Presence) Replicas() []Replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Replica, 0, len(p.view))
	for _, id := range slices.Sorted(maps.Keys(p.view)) {
		all = append(all, p.view[id].replica)
	}
	return all
}

// Alive says whether a replica is there, in whichever life.
func (p *Presence) Alive(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.view[id]
	return ok
}

// Watch calls fn with what happens to other replicas from now on, one call at a time. Who is there already is in [Presence.Replicas]. Each
// replica is told of each death; more than once where the servers were away. A call that has begun may still run when
// stop returns.
func (p *Presence) Watch(fn func(Change)) (stop func()) {
	t := &teller{fn}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellers[t] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tellers, t)
	}
}

// tell calls those who watch, until the cluster is closed.
func (p *Presence) tell() {
	for {
		select {
		case <-p.c.end.Done():
			return
		case <-p.wake:
		}
		for {
			p.mu.Lock()
			changes, tellers := p.changes, slices.Collect(maps.Keys(p.tellers))
			p.changes = nil
			p.mu.Unlock()
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

// note keeps a change to be told.
func (p *Presence) note(r Replica, what What) {
	if r.ID == p.c.replica {
		return
	}
	if len(p.changes) < mostChanges {
		p.changes = append(p.changes, Change{r, what})
	}
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// ended wakes those who wait for the end of a life.
func (p *Presence) ended() {
	close(p.endings)
	p.endings = make(chan struct{})
}

// hear takes what the leader says of a replica's key.
func (p *Presence) hear(m *nats.Msg) {
	r, err := published(m)
	if err != nil {
		p.c.complain(nil, nil, err)
		return
	}
	id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(id, r, time.Now())
	if id == p.c.replica && !r.marker {
		p.hearSelf(r.revision, time.Now())
	}
}

// hearSelf takes a beat of this replica's own, and buries who is dead by it.
func (p *Presence) hearSelf(revision uint64, now time.Time) {
	for _, m := range p.dead(revision, now) {
		if !p.closing {
			m.ending = true
			replica, revision := m.replica, m.revision
			p.calls.Go(func() { p.bury(replica, revision) })
		}
	}
}

// dead are those of whom nothing was heard for so long while this replica has heard itself: its own beats are the clock, which
// stands still while the servers are away.
func (p *Presence) dead(revision uint64, now time.Time) []*member {
	if now.Sub(p.heardAt) > longestGap { // the first one, too
		for _, m := range p.view {
			m.quiet = now
		}
	}
	p.heard, p.heardAt = max(p.heard, revision), now
	var dead []*member
	for id, m := range p.view {
		if id != p.c.replica && !m.ending && now.Sub(m.quiet) >= TTL {
			dead = append(dead, m)
		}
	}
	return dead
}

// bury takes the key of a replica that is silent away, if it is as it was.
func (p *Presence) bury(r Replica, revision uint64) {
	key := p.key(replicaSpace, r.ID)
	marker := record{marker: true}
	var err error
	marker.revision, err = p.mark(p.c.end, key, markerRecord{Life: r.Life}, goneLife, revision)
	if WrongSequence(err) {
		if marker, err = p.get(p.c.end, key); errors.Is(err, errNoKey) {
			marker, err = record{revision: revision + 1, marker: true}, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.view[r.ID]; m != nil {
		m.ending = false
	}
	if err == nil {
		p.take(r.ID, marker, time.Now())
	}
}

// take brings the view up to date with a record of a replica's key.
func (p *Presence) take(id string, r record, now time.Time) {
	p.newest = max(p.newest, r.revision)
	m := p.view[id]
	if r.revision <= p.gone[id] || m != nil && r.revision <= m.revision {
		return
	}
	if r.marker {
		if len(p.gone) >= mostGone {
			clear(p.gone)
		}
		p.gone[id] = r.revision
		var why markerRecord
		left := json.Unmarshal(r.value, &why) == nil && why.Left
		if l := p.life; id == p.c.replica && l != nil && r.revision > l.revision && !left {
			p.lose(errTaken)
		}
		if m == nil {
			return
		}
		delete(p.view, id)
		what := Died
		if left {
			what = Left
		}
		p.note(m.replica, what)
		p.ended()
		return
	}
	var b beatRecord
	if json.Unmarshal(r.value, &b) != nil {
		return // of a version to come, or somebody's finger
	}
	replica := Replica{ID: id, Name: b.Name, Life: b.Life, Since: time.UnixMilli(b.Since)}
	if m != nil && m.replica.Life != b.Life {
		p.note(m.replica, Died)
		p.ended()
	}
	if m == nil || m.replica.Life != b.Life {
		p.note(replica, Came)
	}
	p.view[id] = &member{replica: replica, revision: r.revision, quiet: now}
}

// resync reads who is there, where news may have been missed. The caller has the lock.
func (p *Presence) resync() {
	if p.syncing || p.closing {
		return
	}
	p.syncing = true
	p.calls.Go(func() {
		err := p.read(p.c.end)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.syncing = false
		if err == nil {
			p.hurry()
		}
	})
}

// read reads the keys of all replicas.
func (p *Presence) read(ctx context.Context) error {
	listing, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	prefix := p.key(replicaSpace, "")
	info, err := p.stream.Info(listing, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for subject := range info.State.Subjects {
		ids[strings.TrimPrefix(subject, prefix)] = true
	}
	p.mu.Lock()
	for id := range p.view {
		ids[id] = true
	}
	p.mu.Unlock()
	for id := range ids {
		r, err := p.get(ctx, prefix+id)
		if errors.Is(err, errNoKey) {
			r = record{revision: p.after(id), marker: true}
		} else if err != nil {
			return err
		}
		p.mu.Lock()
		p.take(id, r, time.Now())
		if id == p.c.replica && !r.marker {
			p.heard = max(p.heard, r.revision) // it is not deaf for ever
		}
		p.mu.Unlock()
	}
	return nil
}

// after is a revision after what was seen of a replica, whose key is gone without a marker.
func (p *Presence) after(id string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.view[id]; m != nil {
		return m.revision + 1
	}
	return 0
}

// inLife says whether a replica is in a life. Where this replica has not heard of it, it asks: a lease may be known before its holder.
func (p *Presence) inLife(ctx context.Context, id string, number uint64) (bool, error) {
	p.mu.Lock()
	if id == p.c.replica {
		defer p.mu.Unlock()
		return p.life != nil && p.life.number == number, nil
	}
	m := p.view[id]
	known := m != nil && m.replica.Life == number
	p.mu.Unlock()
	if known {
		return true, nil
	}
	r, err := p.get(ctx, p.key(replicaSpace, id))
	if errors.Is(err, errNoKey) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(id, r, time.Now())
	m = p.view[id]
	return m != nil && m.replica.Life == number, nil
}

// ending is closed when a life ends after now.
func (p *Presence) ending() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endings
}
