package run

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/once"
)

// memory is what replicas share, in memory: a log of runs, keys, and the replicas that are there.
type memory struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each change
	away    bool
	runs    map[string]*memoryRun
	keys    map[string]once.Claim
	there   map[string]control.Handler
	watch   map[string]func(string)
	lose    bool // the next reply is lost

	leases map[string]*memoryLease // of tapes, by name
	tapes  *db.DB                  // nil: there are no sessions
}

func newMemory() *memory {
	return &memory{
		changed: make(chan struct{}), runs: map[string]*memoryRun{}, keys: map[string]once.Claim{},
		there: map[string]control.Handler{}, watch: map[string]func(string){}, leases: map[string]*memoryLease{},
	}
}

// change changes what is shared.
func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.tell()
}

// tell wakes who waits for a change. The lock is held.
func (m *memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// memoryRun is a run in the log.
type memoryRun struct {
	opening []byte
	from    uint64
	owner   string
	life    int  // changes with the owner: an entry of an earlier one is fenced, also if the replica adopts the run again
	left    bool // the owner writes no more
	records []memoryRecord
	head    []byte
}

// memoryRecord is a piece of a run, or the number of the event at which it begins anew.
type memoryRecord struct {
	piece tube.Piece
	anew  uint64
}

// memoryLog is the log as one replica has it. It implements runlog.Shared.
type memoryLog struct {
	*memory
	replica string
	dead    chan struct{}
	once    sync.Once // of its death
	paused  bool
	handler control.Handler // while it serves
	wg      sync.WaitGroup
	entries []*memoryEntry
	asked   int // how often it asked other replicas
}

type memoryEntry struct {
	log     *memoryLog
	run     runlog.Run
	place   tube.Place
	anew    uint64
	life    int
	opening []byte // that is to be stored
	head    []byte // likewise
	left    bool
	done    bool // nothing more comes
}

func (l *memoryLog) Holds() bool  { return true }
func (l *memoryLog) Close() error { return nil }

func (l *memoryLog) Keep(run runlog.Run) runlog.Entry {
	e := &memoryEntry{log: l, run: run, opening: run.Opening, place: run.Tube.Behind()}
	l.change(func() {
		l.entries = append(l.entries, e)
		if r := l.runs[run.ID]; r != nil && r.owner == l.replica {
			if e.life = r.life; run.Tube.From() > r.from {
				e.anew = run.Tube.From()
			}
		}
	})
	l.wg.Go(e.write)
	return e
}

// write writes what its tube has, until the run has ended or is another's.
func (e *memoryEntry) write() {
	sent := make(chan struct{}, 1)
	for {
		wait, idle, err := e.step()
		if err != nil {
			e.run.Trouble(err)
			return
		}
		if wait == nil {
			if e.done {
				return
			}
			continue
		}
		if idle { // or it is called at once
			e.run.Tube.WhenSent(func() {
				select {
				case sent <- struct{}{}:
				default:
				}
			})
		}
		select {
		case <-sent:
		case <-wait:
		case <-e.log.dead:
			return
		}
	}
}

// step writes one piece, or returns what is to be waited for; idle says that all is written.
func (e *memoryEntry) step() (wait <-chan struct{}, idle bool, err error) {
	l := e.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.left {
		e.done = true
		l.tell()
		return nil, false, nil
	}
	if l.away || l.paused {
		return l.changed, false, nil
	}
	r := l.runs[e.run.ID]
	if r != nil && (r.owner != l.replica || r.life != e.life) {
		e.done = true
		l.tell()
		return nil, false, runlog.ErrFenced
	}
	if r == nil {
		r = &memoryRun{owner: l.replica, from: e.run.Tube.From()}
		l.runs[e.run.ID] = r
	}
	r.opening = e.opening
	if e.anew > 0 {
		r.records = append(r.records, memoryRecord{anew: e.anew})
		e.anew = 0
	}
	piece, ok := e.run.Tube.Piece(&e.place)
	switch {
	case !ok:
		panic("the log of the tube was too short")
	case len(piece.Data) > 0:
		piece.Data = slices.Clone(piece.Data)
		r.records = append(r.records, memoryRecord{piece: piece})
		e.run.Tube.Show(piece.End)
	case e.head != nil:
		r.head, e.done = e.head, true
	default:
		return l.changed, true, nil
	}
	l.tell()
	return nil, false, nil
}

func (e *memoryEntry) End(head []byte)       { e.log.change(func() { e.head = head }) }
func (e *memoryEntry) Drop()                 {}
func (e *memoryEntry) Reopen(opening []byte) { e.log.change(func() { e.opening = opening }) }

func (e *memoryEntry) Leave() {
	e.log.change(func() {
		e.left = true
		if r := e.log.runs[e.run.ID]; r != nil && r.owner == e.log.replica && r.life == e.life {
			r.left = true
		}
	})
}

func (l *memoryLog) Flush(ctx context.Context) error {
	for {
		l.mu.Lock()
		changed, behind := l.changed, false
		for _, e := range l.entries {
			place := e.place
			piece, _ := e.run.Tube.Piece(&place)
			behind = behind || !e.done && !e.left && len(piece.Data) > 0
		}
		l.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-changed:
		case <-l.dead:
			return runlog.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// get finds a run. The lock is held.
func (l *memoryLog) get(id string) (*memoryRun, error) {
	if l.away || l.paused || l.isDead() {
		return nil, runlog.ErrAway
	}
	r := l.runs[id]
	if r == nil {
		return nil, runlog.ErrUnknown
	}
	return r, nil
}

// die ends what the replica does with what is shared.
func (l *memoryLog) die() { l.once.Do(func() { close(l.dead) }) }

func (l *memoryLog) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (l *memoryLog) Find(_ context.Context, id string) (runlog.Found, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.get(id)
	if err != nil {
		return runlog.Found{}, err
	}
	return runlog.Found{ID: id, Opening: r.opening, Replica: r.owner, Ended: r.head != nil, Head: r.head}, nil
}

func (l *memoryLog) Running(_ context.Context, replica string) (list []runlog.Going, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away || l.paused || l.isDead() {
		return nil, runlog.ErrAway
	}
	for _, id := range slices.Sorted(maps.Keys(l.runs)) {
		if r := l.runs[id]; r.head == nil && (replica == "" || replica == r.owner) {
			list = append(list, runlog.Going{ID: id, Replica: r.owner})
		}
	}
	return list, nil
}

func (l *memoryLog) Adopt(_ context.Context, id, from string) (*runlog.Left, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.get(id)
	switch {
	case err != nil:
		return nil, err
	case r.head != nil:
		return nil, runlog.ErrEnded
	case r.owner != from, l.there[from] != nil && !r.left:
		return nil, runlog.ErrFenced
	}
	r.owner, r.left = l.replica, false
	r.life++
	f := r.follower(id)
	for _, record := range r.records {
		record.apply(f)
	}
	return &runlog.Left{ID: id, Opening: r.opening, Tube: f.Tube()}, nil
}

func (r *memoryRun) follower(id string) *tube.Follower {
	o := TubeOptions(8 << 20)
	o.From = r.from
	return tube.NewFollower(id, o)
}

func (m memoryRecord) apply(f *tube.Follower) {
	if m.anew > 0 {
		f.Restart(m.anew)
	} else if err := f.Piece(m.piece); err != nil {
		panic(err)
	}
}

// memoryTail follows a run.
type memoryTail struct {
	opening []byte
	f       *tube.Follower
	mu      sync.Mutex
	head    []byte
	gone    chan struct{}
	left    chan struct{}
}

func (t *memoryTail) Tube() *tube.Tube      { return t.f.Tube() }
func (t *memoryTail) Opening() []byte       { return t.opening }
func (t *memoryTail) Gone() <-chan struct{} { return t.gone }
func (t *memoryTail) Leave()                { close(t.left) }

func (t *memoryTail) Head() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

func (l *memoryLog) Follow(_ context.Context, id string) (runlog.Tail, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.get(id)
	if err != nil {
		return nil, err
	}
	t := &memoryTail{opening: r.opening, f: r.follower(id), gone: make(chan struct{}), left: make(chan struct{})}
	for _, record := range r.records {
		record.apply(t.f)
	}
	at, head := len(r.records), r.head
	t.head = head
	l.wg.Go(func() {
		for {
			l.mu.Lock()
			list, head, changed := r.records[at:], r.head, l.changed
			if l.away || l.paused {
				list, head = nil, nil
			}
			l.mu.Unlock()
			for _, record := range list {
				record.apply(t.f)
			}
			at += len(list)
			if head != nil {
				t.mu.Lock()
				t.head = head
				t.mu.Unlock()
			}
			select {
			case <-changed:
			case <-t.left:
				return
			case <-l.dead:
				close(t.gone)
				return
			}
		}
	})
	return t, nil
}

// memoryKeys are the keys as one replica has them. They implement once.Keys.
type memoryKeys struct{ *memoryLog }

func (k memoryKeys) do(owner, key string, f func(c once.Claim, ok bool)) error {
	time.Sleep(time.Millisecond) // so that copies of a request meet
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away || k.paused || k.isDead() {
		return once.ErrAway
	}
	c, ok := k.keys[owner+" "+key]
	f(c, ok)
	return nil
}

func (k memoryKeys) Claim(_ context.Context, c once.Claim) (earlier once.Claim, ok bool, err error) {
	err = k.do(c.Owner, c.Key, func(now once.Claim, held bool) {
		if earlier, ok = now, !held; ok {
			k.keys[c.Owner+" "+c.Key] = c
		}
	})
	return earlier, ok, err
}

func (k memoryKeys) Find(_ context.Context, owner, key string) (c once.Claim, ok bool, err error) {
	err = k.do(owner, key, func(now once.Claim, held bool) { c, ok = now, held })
	return c, ok, err
}

func (k memoryKeys) Move(_ context.Context, owner, key, from, to string) (ok bool, err error) {
	err = k.do(owner, key, func(c once.Claim, held bool) {
		if ok = held && c.Run == from; ok {
			c.Run = to
			k.keys[owner+" "+key] = c
		}
	})
	return ok, err
}

func (k memoryKeys) Forget(_ context.Context, owner, key, run string) error {
	return k.do(owner, key, func(c once.Claim, held bool) {
		if held && c.Run == run {
			delete(k.keys, owner+" "+key)
		}
	})
}

// memoryControl asks the other replicas.
type memoryControl struct{ *memoryLog }

func (c memoryControl) Replica() string { return c.replica }

// Serve serves a request with an id once, however often it comes.
func (c memoryControl) Serve(serve control.Handler) (stop func(), err error) {
	type reply struct {
		once   sync.Once
		answer []byte
		err    error
	}
	var mu sync.Mutex
	replies := map[string]*reply{}
	h := func(ctx context.Context, r control.Request) ([]byte, error) {
		mu.Lock()
		a := replies[r.ID]
		if a == nil {
			a = new(reply)
			replies[r.ID] = a
		}
		mu.Unlock()
		a.once.Do(func() { a.answer, a.err = serve(ctx, r) })
		return a.answer, a.err
	}
	c.change(func() { c.handler, c.there[c.replica] = h, h })
	return func() {
		c.change(func() {
			c.handler = nil
			delete(c.there, c.replica)
		})
	}, nil
}

func (c memoryControl) Ask(ctx context.Context, replica string, r control.Request) ([]byte, error) {
	c.mu.Lock()
	h, lose, paused := c.there[replica], c.memory.lose, c.paused
	c.memory.lose = false
	c.asked++
	c.mu.Unlock()
	switch {
	case paused, c.isDead():
		return nil, control.ErrAway
	case h == nil:
		return nil, control.ErrGone
	}
	answer, err := h(ctx, r)
	if lose {
		return nil, control.ErrLost
	}
	return answer, err
}

// shared is what a new replica shares with the others.
func (m *memory) shared(replica string) (*Shared, *memoryLog) {
	l := &memoryLog{memory: m, replica: replica, dead: make(chan struct{})}
	return &Shared{
		Runs: l, Control: memoryControl{l}, Keys: memoryKeys{l},
		Replicas: func() []string {
			m.mu.Lock()
			defer m.mu.Unlock()
			return slices.Sorted(maps.Keys(m.there))
		},
		Watch: func(gone func(string)) func() {
			m.change(func() { m.watch[replica] = gone })
			return func() { m.change(func() { delete(m.watch, replica) }) }
		},
		Holder: l.holder,
	}, l
}
