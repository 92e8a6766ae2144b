package logs

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// pump is the goroutine that has all state of entries. It sleeps while nothing is sent.
type pump struct {
	log *Log

	mu     sync.Mutex
	queue  []*entry // to be looked at; guarded by mu
	orders []func() // guarded by mu
	over   bool     // guarded by mu
	rest   time.Time
	wake   chan struct{}

	batches batches
	chores  chores

	// Of the goroutine.
	entries   map[uint64]*entry
	times     times
	page      pager
	fresh     []byte               // see entry.collect
	followers map[string]*follower // by replica
	waiting   []*flush
	taken     []*entry
	storing   int       // entries in a page or a batch
	check     time.Time // when it is looked for those that are for long
}

// flush waits for entries.
type flush struct {
	entries map[*entry]uint64 // up to which event each is to be stored
	done    chan struct{}
}

// checkEvery is how often it is looked what is not stored for long.
const checkEvery = time.Second

func (p *pump) start(l *Log) {
	p.log, p.entries, p.followers, p.wake = l, map[uint64]*entry{}, map[string]*follower{}, make(chan struct{}, 1)
	p.batches.log, p.chores.log = l, l
	p.check = time.Now()
	p.page.start(l)
	l.running.Go(p.run)
}

// look has an entry looked at. It does not block, and is called with tubes locked.
func (p *pump) look(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !e.queued && !p.over {
		e.queued = true
		p.queue = append(p.queue, e)
		if p.rest.IsZero() || !time.Now().Before(p.rest) {
			p.wakeLocked()
		}
	}
}

// do has the goroutine do something. It reports false if that has ended.
func (p *pump) do(order func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.orders = append(p.orders, order)
	p.wakeLocked()
	return true
}

func (p *pump) wakeLocked() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pump) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		p.rest = p.page.rest
		p.mu.Unlock()
		if due := p.due(); !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.log.ctx.Done():
			p.end()
			return
		}
		p.obey()
		if now := time.Now(); !now.Before(p.page.rest) { // else it was woken by a result alone
			p.turn(now)
		}
	}
}

// due is when something is to be done, zero if nothing is. While many write, it is not done before a page is collected, and then one of
// them wakes the goroutine, if they do not all stop just then: that costs less than a timer that rings.
func (p *pump) due() (due time.Time) {
	if rest := p.page.rest; !rest.IsZero() {
		return rest.Add(p.page.collect / 2)
	}
	if len(p.times) > 0 {
		due = p.times[0].due
	}
	if p.storing > 0 && (due.IsZero() || p.check.Before(due)) {
		due = p.check
	}
	return due
}

// obey does what was ordered.
func (p *pump) obey() {
	p.mu.Lock()
	orders := p.orders
	p.orders = nil
	p.mu.Unlock()
	for _, do := range orders {
		do()
	}
}

// turn does what is to be done.
func (p *pump) turn(now time.Time) {
	p.page.rest = time.Time{}
	p.pass(now)
	p.ring(now)
	if !p.check.After(now) {
		p.check = now.Add(checkEvery)
		for _, e := range p.entries {
			e.checkStoring(now)
		}
		p.expire(now)
	}
	p.page.trim(now)
	p.page.send(now)
	p.page.watch(now)
}

// end lets go of all tubes.
func (p *pump) end() {
	p.mu.Lock()
	p.over = true
	all := p.queue
	p.queue, p.orders = nil, nil // who waits for an order waits for the context, too
	p.mu.Unlock()
	for _, e := range p.entries {
		all = append(all, e)
	}
	for _, e := range all {
		e.run.Tube.WhenSent(nil)
	}
}

// pass looks at what is queued.
func (p *pump) pass(now time.Time) {
	p.mu.Lock()
	p.taken, p.queue = p.queue, p.taken[:0]
	for _, e := range p.taken {
		e.queued = false
	}
	p.mu.Unlock()
	for _, e := range p.taken {
		if !e.known && !e.over {
			e.known = true
			p.entries[e.handle] = e
		}
		e.look(now)
	}
	clear(p.taken)
}

// ring looks at the entries whose time has come.
func (p *pump) ring(now time.Time) {
	for len(p.times) > 0 && !p.times[0].due.After(now) {
		e := p.times[0]
		p.unset(e)
		e.look(now)
	}
}

// set has an entry looked at, at a time.
func (p *pump) set(e *entry, due time.Time) {
	e.due = due
	if e.place > 0 {
		heap.Fix(&p.times, e.place-1)
		return
	}
	heap.Push(&p.times, e)
}

func (p *pump) unset(e *entry) {
	if e.place > 0 {
		heap.Remove(&p.times, e.place-1)
	}
}

// times is a heap of entries, the next one first.
type times []*entry

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t times) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i+1, j+1
}

func (t *times) Push(x any) {
	e := x.(*entry)
	*t = append(*t, e)
	e.place = len(*t)
}

func (t *times) Pop() any {
	old := *t
	last := len(old) - 1
	e := old[last]
	old[last] = nil
	*t = old[:last]
	e.place = 0
	return e
}

// unnote has a record of the table running removed. A record too many is found to be one.
func (p *pump) unnote(replica, run string, rev uint64) {
	if rev != 0 {
		put := unnoted(replica, run, rev)
		p.chores.add(&put, nil)
	}
}

// remove has what is stored of a run removed.
func (p *pump) remove(e *entry) {
	if e.opened {
		name := e.name
		p.chores.add(nil, func(ctx context.Context) error { return p.log.runs.Delete(ctx, name) })
	}
}

// flush closes done when all that runs have sent is stored, and what has ended is removed from the table running.
func (p *pump) flush(done chan struct{}) {
	now := time.Now()
	p.pass(now)
	f := &flush{map[*entry]uint64{}, done}
	for _, e := range p.entries {
		f.entries[e] = e.run.Tube.Len() + e.run.Tube.Unshown()
		e.look(now)
	}
	p.page.send(now)
	p.waiting = append(p.waiting, f)
	p.flushed(nil)
}

// flushed sees which flushes are done, after something of an entry was stored, or a chore was done.
func (p *pump) flushed(of *entry) {
	for i := len(p.waiting) - 1; i >= 0; i-- {
		f := p.waiting[i]
		for e, n := range f.entries {
			if (of == nil || e == of) && e.clean(n) {
				delete(f.entries, e)
			}
		}
		if len(f.entries) == 0 && p.chores.idle() {
			close(f.done)
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
		}
	}
}

func (p *pump) stats(now time.Time) Stats {
	s := Stats{Runs: len(p.entries)}
	for _, e := range p.entries {
		if late := now.Sub(e.sentAt); e.phase > phasePause && late >= behindAfter {
			s.Behind++
			s.Oldest = max(s.Oldest, late)
		}
	}
	return s
}
