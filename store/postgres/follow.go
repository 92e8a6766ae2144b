package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
)

// follower is one call of Follow.
type follower struct {
	name string
	wake chan struct{} // there is perhaps an entry

	mu   sync.Mutex
	log  int64  // id; 0: the follower reads for the first time
	next uint64 // the number that it waits for
}

// wait records what the follower waits for.
func (f *follower) wait(log int64, next uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.next = log, next
}

func (f *follower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// logFeed are the followers of the logs of a space.
type logFeed struct {
	mu        sync.Mutex
	followers map[string]map[*follower]bool // by the log's name
	busy      bool                          // a goroutine looks for what notices have not told
}

// follow adds a follower, and starts the goroutine that looks each second if none runs.
func (l *Log) follow(f *follower) error {
	l.e.mu.Lock() // Close waits for no goroutine that starts later
	defer l.e.mu.Unlock()
	if l.e.closed {
		return store.ErrClosed
	}
	l.e.listen()
	d := &l.feed
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.followers[f.name] == nil {
		d.followers[f.name] = map[*follower]bool{}
	}
	d.followers[f.name][f] = true
	if !d.busy {
		d.busy = true
		l.e.running.Go(l.look) // ends when there are no followers
	}
	return nil
}

func (l *Log) unfollow(f *follower) {
	d := &l.feed
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.followers[f.name], f)
	if len(d.followers[f.name]) == 0 {
		delete(d.followers, f.name)
	}
}

// wake wakes the followers of logs.
func (d *logFeed) wake(names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.followers) == 0 {
		return
	}
	for _, name := range names {
		for f := range d.followers[name] {
			f.nudge()
		}
	}
}

// wakeAll wakes all followers.
func (d *logFeed) wakeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, some := range d.followers {
		for f := range some {
			f.nudge()
		}
	}
}

// look wakes, each second, the followers of logs that have what they wait for: notices may be lost. It ends when there are none.
func (l *Log) look() {
	d := &l.feed
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.e.end.Done():
		}
		d.mu.Lock()
		if len(d.followers) == 0 || l.e.end.Err() != nil {
			d.busy = false
			d.mu.Unlock()
			return
		}
		var logs []int64
		var nexts []int64
		waiting := map[int64][]*follower{}
		for _, some := range d.followers {
			for f := range some {
				f.mu.Lock()
				if f.log != 0 {
					logs, nexts = append(logs, f.log), append(nexts, int64(f.next))
					waiting[f.log] = append(waiting[f.log], f)
				}
				f.mu.Unlock()
			}
		}
		d.mu.Unlock()
		if len(logs) == 0 {
			continue
		}
		// An error is in the log, if the database is away; and the next time does its work.
		_ = l.e.do(l.e.end, func(ctx context.Context, conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, l.sql.behind, logs, nexts)
			if err != nil {
				return err
			}
			behind, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			for _, log := range behind {
				for _, f := range waiting[log] {
					f.nudge()
				}
			}
			return err
		})
	}
}
