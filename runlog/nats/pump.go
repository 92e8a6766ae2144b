package nats

import (
	"container/heap"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
)

// pump is the goroutine that writes: all state of entries is its own. It sleeps while nothing is sent.
type pump struct {
	log     *Log
	prefix  string // of the subjects that answers come to
	answers chan *client.Msg

	mu     sync.Mutex
	queue  []*entry  // to be looked at; guarded by mu
	orders []func()  // guarded by mu
	over   bool      // guarded by mu
	rest   time.Time // until then nobody wakes it; guarded by mu
	wake   chan struct{}

	// Of the goroutine.
	entries map[uint64]*entry
	times   times
	page    pager
	fresh   []byte           // see entry.collect
	asks    chan *client.Msg // runs that are followed elsewhere
	waiting []*flush
	taken   []*entry
}

// flush waits for entries.
type flush struct {
	entries map[*entry]uint64 // up to which event each is to be stored
	done    chan struct{}
}

func (p *pump) start(l *Log) error {
	p.log, p.entries, p.wake, p.answers = l, map[uint64]*entry{}, make(chan struct{}, 1), make(chan *client.Msg, inbox)
	p.prefix = l.conn.NewInbox() + "."
	sub, err := l.conn.ChanSubscribe(p.prefix+"*.*", p.answers)
	if err != nil {
		return err
	}
	p.asks = make(chan *client.Msg, asks)
	follows, err := l.conn.ChanSubscribe(l.cluster.Subject(followsToken, cluster.Token(l.cluster.Replica())), p.asks)
	if err != nil {
		_ = sub.Unsubscribe()
		return err
	}
	p.page.start(l)
	l.running.Go(func() {
		p.run()
		_ = sub.Unsubscribe() // an error says that the connection is gone
		_ = follows.Unsubscribe()
	})
	return nil
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

// do has the goroutine do something, and is false where it has ended.
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
		case m := <-p.answers:
			p.answer(m, time.Now())
		case m := <-p.asks:
			p.asked(m, time.Now())
		case <-p.wake:
			if now := time.Now(); !now.Before(p.page.rest) { // else it was on its way before the rest began
				p.turn(now)
			}
		case <-timer.C:
			p.turn(time.Now())
		case <-p.log.ctx.Done():
			p.end()
			return
		}
	}
}

// due is when something is to be done, zero where nothing is. Where many write, it is not done before a page is collected, and then one
// of them wakes the goroutine, if they do not all stop just then: that costs less than a timer that rings.
func (p *pump) due() (due time.Time) {
	if len(p.times) > 0 {
		due = p.times[0].due
	}
	if page := p.page.due; !page.IsZero() && (due.IsZero() || page.Before(due)) {
		due = page
	}
	if rest := p.page.rest; !rest.IsZero() {
		return rest.Add(restSlack)
	}
	return due
}

// turn does what is to be done.
func (p *pump) turn(now time.Time) {
	p.page.rest = time.Time{}
	p.pass(now)
	p.ring(now)
	if due := p.page.due; !due.IsZero() && !due.After(now) {
		p.page.fail(now, errNoAnswer)
	}
	p.page.send(now)
	p.page.watch(now)
}

// end lets go of all tubes.
func (p *pump) end() {
	p.mu.Lock()
	p.over = true
	all, orders := p.queue, p.orders
	p.queue, p.orders = nil, nil
	p.mu.Unlock()
	for _, e := range p.entries {
		all = append(all, e)
	}
	for _, e := range all {
		e.run.Tube.WhenSent(nil)
	}
	_ = orders // whoever waits for one waits for the context too
}

// pass looks at what is queued.
func (p *pump) pass(now time.Time) {
	p.mu.Lock()
	p.taken, p.queue = p.queue, p.taken[:0]
	orders := p.orders
	p.orders = nil
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
	for _, do := range orders {
		do()
	}
}

// ring looks at the entries whose time has come.
func (p *pump) ring(now time.Time) {
	for len(p.times) > 0 && !p.times[0].due.After(now) {
		e := p.times[0]
		p.unset(e)
		e.rung(now)
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

// answer takes what a server has said about an entry.
func (p *pump) answer(m *client.Msg, now time.Time) {
	if lose := p.log.lose; lose != nil && lose(m) {
		return
	}
	handle, number, ok := strings.Cut(m.Subject[len(p.prefix):], ".")
	if !ok {
		return
	}
	h, err1 := strconv.ParseUint(handle, 36, 64)
	n, err2 := strconv.ParseUint(number, 36, 64)
	if h == 0 && err1 == nil && err2 == nil {
		if n == p.page.life {
			p.page.answer(m, now)
		}
		return
	}
	if e := p.entries[h]; e != nil && err1 == nil && err2 == nil && n == e.asked {
		e.answer(m, now)
		if p.page.rest.IsZero() {
			p.page.send(now)
		}
	}
}

// flush closes done when all that runs have sent is stored.
func (p *pump) flush(done chan struct{}) {
	f := &flush{map[*entry]uint64{}, done}
	for _, e := range p.entries {
		f.entries[e] = e.run.Tube.Len() + e.run.Tube.Unshown()
		e.look(time.Now())
	}
	p.waiting = append(p.waiting, f)
	p.flushed(nil)
}

// flushed sees which flushes are done, after something of an entry was stored.
func (p *pump) flushed(of *entry) {
	for i := len(p.waiting) - 1; i >= 0; i-- {
		f := p.waiting[i]
		for e, n := range f.entries {
			if (of == nil || e == of) && e.clean(n) {
				delete(f.entries, e)
			}
		}
		if len(f.entries) == 0 {
			close(f.done)
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
		}
	}
}

// retryAll sends at once what waits for its next attempt, or for the answer to one that follows on a failure: it went to servers that may have
// been away still.
func (p *pump) retryAll() {
	now := time.Now()
	for _, e := range p.entries {
		if !e.failing.IsZero() {
			e.attempts = 0
			e.store(now)
		}
	}
}

func (p *pump) stats(now time.Time) Stats {
	s := Stats{Runs: len(p.entries)}
	for _, e := range p.entries {
		if !e.failing.IsZero() {
			s.Behind++
			s.Oldest = max(s.Oldest, now.Sub(e.failing))
		}
	}
	return s
}
