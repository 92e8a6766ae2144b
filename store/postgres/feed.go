package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

const (
	readEvery   = time.Second // that a feed reads without a notice
	feedChanges = 500         // of one read
)

// feed reads the changes of a table for all watchers in the process, as long as there is one.
type feed struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	busy     bool          // a goroutine reads
	ready    chan struct{} // closed when last is known
	last     uint64        // revision up to which changes were given to watchers

	// Of the goroutine:
	epoch   int64
	started time.Time // when the server started that was read from last
}

// watch adds a watcher, and starts the goroutine that reads if none runs. Changes behind a revision that is read when ready is closed
// reach the watcher.
func (t *Table) watch(w *watcher) (ready <-chan struct{}, err error) {
	t.e.mu.Lock() // Close waits for no goroutine that starts later
	defer t.e.mu.Unlock()
	if t.e.closed {
		return nil, store.ErrClosed
	}
	t.e.listen()
	f := &t.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers == nil {
		f.watchers = map[*watcher]bool{}
	}
	f.watchers[w] = true
	if !f.busy {
		f.busy, f.ready, f.last = true, make(chan struct{}), 0
		t.e.running.Go(t.readChanges) // ends when there are no watchers
	}
	return f.ready, nil
}

// unwatch removes a watcher.
func (t *Table) unwatch(w *watcher) {
	t.feed.mu.Lock()
	delete(t.feed.watchers, w)
	t.feed.mu.Unlock()
	t.nudge()
}

// nudge lets the feed read now.
func (t *Table) nudge() {
	select {
	case t.nudged <- struct{}{}:
	default:
	}
}

// heard lets the feed read if it has not come to a revision.
func (t *Table) heard(rev uint64) {
	t.feed.mu.Lock()
	news := t.feed.busy && t.feed.last < rev
	t.feed.mu.Unlock()
	if news {
		t.nudge()
	}
}

// readChanges gives watchers what has changed until there are none.
func (t *Table) readChanges() {
	f := &t.feed
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	known := false
	for {
		f.mu.Lock()
		if len(f.watchers) == 0 || t.e.end.Err() != nil {
			f.busy = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		// An error is in the log, if the database is away; and the next read does its work.
		if !known {
			known = t.readHead() == nil
		} else {
			for more, err := true, error(nil); more && err == nil; {
				more, err = t.readNext()
			}
		}
		select {
		case <-t.nudged:
		case <-tick.C:
		case <-t.e.end.Done():
		}
	}
}

// readHead reads the revision behind which changes are given to watchers.
func (t *Table) readHead() error {
	f := &t.feed
	epoch := t.e.epoch.Load()
	h, err := t.head(t.e.end)
	if err != nil {
		return err
	}
	f.epoch, f.started = epoch, h.started
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = h.rev
	close(f.ready)
	return nil
}

// head is what a table has beside its records.
type head struct {
	rev, forgotten uint64
	started        time.Time
}

func (t *Table) head(ctx context.Context) (h head, err error) {
	err = t.e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, t.e.sql.head, t.id).Scan(&h.rev, &h.forgotten, &h.started)
	})
	return h, err
}

// readNext gives watchers the next changes. more is true if there may be more already.
func (t *Table) readNext() (more bool, err error) {
	f := &t.feed
	epoch := t.e.epoch.Load()
	h, changes, err := t.changes(f.last)
	if err != nil {
		return false, err
	}
	// Changes may have been lost with the server that was read from before; or removals are no longer kept.
	compare := epoch != f.epoch || !h.started.Equal(f.started) || h.rev < f.last || h.forgotten > f.last
	f.epoch, f.started = epoch, h.started
	more = len(changes) == feedChanges && !compare
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = h.rev
	if more {
		f.last = changes[len(changes)-1].Rev
	}
	for w := range f.watchers {
		w.tell(changes, compare)
	}
	return more, nil
}

// changes reads the changes behind a revision, all at one moment.
func (t *Table) changes(behind uint64) (h head, changes []store.Change, err error) {
	err = t.e.do(t.e.end, func(ctx context.Context, conn *pgx.Conn) error {
		changes = nil
		rows, err := conn.Query(ctx, t.e.sql.changes, t.id, behind, feedChanges)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var key *string
			var made, rev *uint64
			var gone *bool
			var s scanned
			var c store.Change
			if err := rows.Scan(&h.rev, &h.forgotten, &h.started, &key, &made, &rev, &s.at, &s.expires, &c.Meta, &gone); err != nil {
				return err
			}
			switch {
			case key == nil: // nothing has changed
				continue
			case *gone:
				c = store.Change{Record: store.Record{Key: *key, Rev: *rev}, Gone: true}
			default:
				c.Key, c.Made, c.Rev = *key, *made, *rev
				s.into(&c.Record)
			}
			changes = append(changes, c)
		}
		return rows.Err()
	})
	return h, changes, err
}
