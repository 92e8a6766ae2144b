package logs

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
)

const (
	// busyFor is how long it is watched how much is written before pages are collected for a moment, or not any more: they are if there are
	// busyWrites in most of the time that a page is collected, or on their way at the same time.
	busyFor, busyWrites = 20 * time.Millisecond, 3
	// maxPage is the size at which a page is full.
	maxPage = 256 << 10
	// trimEvery is how often pages are removed of which the runs' logs have all. Else they would stay for as long as runs may.
	trimEvery = 10 * time.Second
)

// pager collects pages and stores one at a time. It is the pump's goroutine's.
//
// If a page log is sealed, all that was to be in its next page goes to the runs' own logs, which know whose the runs are, and what follows
// goes to another page log. A run gets into the pages of a log when the head of its own log names that.
type pager struct {
	log     *Log
	collect time.Duration // how long a page is collected while the replica is busy
	own     time.Duration // ownEvery
	often   time.Duration // trimEvery
	life    uint64        // the page log's number
	name    string        // its name
	rev     store.Rev
	last    uint64 // number of its last page
	keep    uint64 // pages from this one on have something of a run that was left; 0: none has
	trimmed time.Time
	floor   uint64          // the pages below it are removed
	old     map[uint64]bool // page logs that were used before, and are not removed; true: they are kept for runs that were left
	begin   time.Time
	write   chan store.Batch // to the goroutine that stores pages

	entries []*entry // that have something in the page that is collected
	body    []byte   // of that page
	sent    []*entry // of the page that is on its way
	data    []byte   // its body

	// How busy the replica is.
	busy   bool
	writes int // since then
	since  time.Time
	took   time.Duration // that the store needs for a page, in the mean
	sentAt time.Time
	rest   time.Time // until then, what is sent is not looked at
}

func (p *pager) start(l *Log) {
	p.log, p.begin, p.collect, p.own, p.often = l, time.Now(), l.options.Collect, ownEvery, trimEvery
	p.trimmed, p.old = p.begin, map[uint64]bool{}
	p.write = make(chan store.Batch, 1) // one is on its way at a time
	p.another(rand.Uint64() >> 1)
	p.body, p.data = []byte{pageItems}, nil
	l.running.Go(p.store)
}

// another begins a page log.
func (p *pager) another(life uint64) {
	p.life, p.name, p.rev, p.last, p.keep, p.floor = life, pageName(p.log.options.Replica, life), store.New, 0, 0, 1
}

// owed is when a run that has something in pages from now on gets a batch of its own.
func (p *pager) owed(now time.Time) time.Time {
	wait := now.Sub(p.begin) + p.own + rand.N(p.own)
	return p.begin.Add(wait.Truncate(ownTogether))
}

// takes reports whether what an entry has collected may be put into a page now.
func (p *pager) takes(e *entry, fresh []byte) bool {
	return e.plain && e.head.life == p.life &&
		len(fresh) <= maxInPage && len(e.paged)+len(fresh) <= maxPaged && len(p.body)+len(fresh) <= maxPage
}

// put puts it there.
func (p *pager) put(e *entry, fresh []byte) {
	p.body = binary.AppendUvarint(p.body, e.handle)
	p.body = binary.AppendUvarint(p.body, e.last)
	p.body = appendText(p.body, fresh)
	e.inPage = [2]int{len(p.body) - len(fresh), len(p.body)}
	p.entries = append(p.entries, e)
}

// send sends what is collected, if no page is on its way.
func (p *pager) send(now time.Time) {
	if len(p.entries) == 0 || len(p.sent) > 0 {
		return
	}
	p.sent, p.entries = p.entries, p.sent
	p.data, p.body = p.body, append(p.data[:0], pageItems)
	p.sentAt = now
	p.write <- store.Batch{ID: newID(), After: p.rev, Entries: []store.Entry{{Data: p.data}}}
}

// store stores pages. It tries until it has an answer.
func (p *pager) store() {
	l := p.log
	for {
		var b store.Batch
		select {
		case b = <-p.write:
		case <-l.ctx.Done():
			return
		}
		name := p.name // it stays so while a page is on its way
		for pauses := backoff.New(firstRetry, lastRetry); ; {
			info, err := l.pages.Append(l.ctx, name, b)
			if err != nil && !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrInvalid) {
				if backoff.Sleep(l.ctx, pauses.NextBackOff()) != nil {
					return
				}
				continue
			}
			l.pump.do(func() { p.answer(info, err, time.Now()) })
			break
		}
	}
}

// answer goes on behind the page that was on its way.
func (p *pager) answer(info store.Info, err error, now time.Time) {
	stored, body := p.sent, p.data
	p.sent = nil // an entry may be left now, which is nothing to this page
	p.log.pump.storing -= len(stored)
	if err != nil {
		p.fail(stored, body, err)
	} else {
		p.rev, p.last = info.Rev, info.Last
		p.took += (now.Sub(p.sentAt) - p.took) / 32
		for _, e := range stored {
			if !e.over {
				e.paginated(e.inBody(body), p.last, now)
			}
		}
	}
	clear(stored)
	p.sent = stored[:0]
	if cap(body) > 2*maxPage {
		p.data = nil
	}
	if len(p.entries) > 0 { // it has waited for this answer: what was sent since it was collected need not wait for the next one
		p.log.pump.pass(now)
		p.send(now)
	}
}

// fail has all go to the runs' own logs that is not stored, and begins another page log.
func (p *pager) fail(sent []*entry, body []byte, err error) {
	p.log.log.Debug("writing runs one by one", slog.Int("runs", len(sent)+len(p.entries)), slog.Any("error", err))
	p.old[p.life] = true // another replica may read it
	p.another(p.life + 1)
	p.log.pump.storing += len(sent)
	p.singly(sent, body)
	p.singly(p.entries, p.body)
	clear(p.entries)
	p.entries, p.body = p.entries[:0], p.body[:1]
}

// singly has what entries have in a page's body go to their own logs.
func (p *pager) singly(entries []*entry, body []byte) {
	for _, e := range entries {
		if e.over {
			p.log.pump.storing--
			continue
		}
		e.own(e.inBody(body))
	}
}

// leave keeps what pages have of a run that nobody writes any more: who adopts it reads it there.
func (p *pager) leave(e *entry) {
	switch {
	case e.since == 0:
	case e.head.life != p.life:
		p.old[e.head.life] = true
	case p.keep == 0 || e.since < p.keep:
		p.keep = e.since
	}
}

// trim removes pages of which the runs' logs have all.
func (p *pager) trim(now time.Time) {
	if now.Sub(p.trimmed) < p.often {
		return
	}
	p.trimmed = now
	if p.keep > 0 && len(p.sent)+len(p.entries) == 0 { // its pages stay until they expire, so no more are added
		p.old[p.life] = true
		p.another(p.life + 1)
	}
	floor, used := p.last+1, map[uint64]bool{}
	if p.keep > 0 {
		floor = p.keep
	}
	for _, e := range p.log.pump.entries {
		switch {
		case e.since == 0:
		case e.head.life == p.life:
			floor = min(floor, e.since)
		default:
			used[e.head.life] = true
		}
	}
	chores := &p.log.pump.chores
	for life, kept := range p.old {
		if kept {
			delete(p.old, life) // it expires
		} else if !used[life] {
			delete(p.old, life)
			name := pageName(p.log.options.Replica, life)
			chores.add(nil, func(ctx context.Context) error { return p.log.pages.Delete(ctx, name) })
		}
	}
	if name := p.name; floor > p.floor {
		p.floor = floor
		chores.add(nil, func(ctx context.Context) error { return p.log.pages.Trim(ctx, name, floor) })
	}
}

// watch finds out how busy the replica is. While the store stands still nothing is written, and that says nothing.
func (p *pager) watch(now time.Time) {
	if len(p.sent) > 0 && now.Sub(p.sentAt) >= busyFor {
		p.writes, p.since = 0, now
	}
	if passed := now.Sub(p.since); passed >= busyFor {
		p.busy = float64(p.writes)*float64(max(p.collect*5/7, p.took)) >= busyWrites*float64(passed)
		p.writes, p.since = 0, now
	}
	if p.busy {
		p.rest = now.Add(p.collect)
	}
}
