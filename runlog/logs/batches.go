package logs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
)

// batches are stored by a few goroutines, each of which waits for one at a time. They end when none waits.
type batches struct {
	log *Log

	mu      sync.Mutex
	waiting []func()
	storing int
}

// storeAtOnce is how many batches are stored at the same time. A store that is shared takes waiting ones together.
const storeAtOnce = 64

// add has a batch stored. It is called by the pump's goroutine.
func (b *batches) add(store func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, store)
	if b.storing < storeAtOnce {
		b.storing++
		b.log.running.Go(b.run)
	}
}

func (b *batches) run() {
	for {
		b.mu.Lock()
		if len(b.waiting) == 0 || b.log.ctx.Err() != nil {
			b.storing--
			b.mu.Unlock()
			return
		}
		next := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		next()
	}
}

// maxMissing is how often a store may say that it has less of a run than it has acknowledged, before that is believed: for more than ten
// seconds, since a server that was cut off may lie for so long.
const maxMissing = 10

// append stores a batch of the run's log, which has h as its head. It tries until it has an answer.
func (e *entry) append(b store.Batch, h head) {
	l, missing := e.log, 0
	for pauses := backoff.New(firstRetry, lastRetry); ; {
		info, err := e.appendOnce(b)
		moved, isMoved := errors.AsType[*store.MovedLog](err)
		switch {
		case err == nil:
			l.pump.do(func() { e.stored(info, h, time.Now()) })
			return
		case isMoved && e.adopted(&moved.Info):
			l.pump.do(func() {
				if e.answered(true) {
					e.fenced()
				}
			})
			return
		case isMoved:
			if missing++; missing < maxMissing {
				break
			}
			l.pump.do(func() {
				if e.answered(false) {
					e.rewrite(&moved.Info, time.Now())
				}
			})
			return
		case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrDamaged):
			l.pump.do(func() {
				if e.answered(false) {
					e.lost(err)
				}
			})
			return
		}
		if backoff.Sleep(l.ctx, pauses.NextBackOff()) != nil {
			return
		}
	}
}

// appendOnce makes one attempt. Before the first batch it is noted who has the run, so before anyone can see it.
func (e *entry) appendOnce(b store.Batch) (store.Info, error) {
	if e.note == 0 {
		rev, err := e.log.noteRunning(e.log.ctx, e.run.ID)
		if err != nil {
			return store.Info{}, err
		}
		e.note = rev
	}
	return e.log.runs.Append(e.log.ctx, e.name, b)
}

// adopted reports whether the run's log, which is not as this entry has written it, is another owner's.
func (e *entry) adopted(info *store.Info) bool {
	if info.Rev == store.New {
		return false
	}
	h, err := parseHead(info.Head)
	return err != nil || h.replica != e.log.options.Replica || h.run != e.handle
}

func runningKey(replica, run string) string { return store.KeyPart(replica) + "/" + store.KeyPart(run) }

// noteRunning notes that this replica has a run.
func (l *Log) noteRunning(ctx context.Context, run string) (rev uint64, err error) {
	me := l.options.Replica
	records, errs := l.going.Put(ctx, store.Put{
		Key: runningKey(me, run), ID: newID(), After: store.AnyRev, Meta: appendText(appendText(nil, me), run), Life: l.options.Keep,
	})
	return records[0].Rev, errs[0]
}

// unnoted is the deletion of a record of the table running, if it is still the one of a revision.
func unnoted(replica, run string, rev uint64) store.Put {
	return store.Put{Key: runningKey(replica, run), ID: newID(), After: rev, Delete: true}
}

// chores are what nobody waits for but a flush. One goroutine does them, and ends when there are none.
type chores struct {
	log *Log

	mu    sync.Mutex
	puts  []store.Put
	other []func(context.Context) error
	busy  bool
}

// maxPuts is how many records are removed at once.
const maxPuts = 100

// add has a deletion, or something else, done. done is called when all before and this is.
func (c *chores) add(put *store.Put, do func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if put != nil {
		c.puts = append(c.puts, *put)
	}
	if do != nil {
		c.other = append(c.other, do)
	}
	if !c.busy {
		c.busy = true
		c.log.running.Go(c.run)
	}
}

func (c *chores) run() {
	l := c.log
	for l.ctx.Err() == nil {
		c.mu.Lock()
		n := min(len(c.puts), maxPuts)
		puts, other := c.puts[:n:n], c.other
		c.puts, c.other = c.puts[n:], nil
		if c.busy = n+len(other) > 0; !c.busy {
			c.puts = nil
			c.mu.Unlock()
			l.pump.do(func() { l.pump.flushed(nil) })
			return
		}
		c.mu.Unlock()
		var errs []error
		if n > 0 {
			_, errs = l.going.Put(l.ctx, puts...)
		}
		for _, do := range other {
			errs = append(errs, do(l.ctx))
		}
		for _, err := range errs {
			if err != nil && !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrNotFound) && l.ctx.Err() == nil {
				l.log.Debug("old data of runs stays until it expires", "error", err)
			}
		}
	}
}

// idle reports whether there are no chores.
func (c *chores) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.busy
}

// parseRunning reads what noteRunning has written.
func parseRunning(meta []byte) (g runlog.Going, ok bool) {
	p := parser{rest: meta}
	g.Replica, g.ID = string(p.text()), string(p.text())
	return g, !p.bad
}
