package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// indexer makes blocks of tapes that have grown, one after another, so that no append waits for them. What it does not come to is done
// when the tape grows again.
type indexer struct {
	store *Store
	done  sync.WaitGroup

	mu      sync.Mutex
	waiting map[int64]bool // ids of rows
	busy    bool           // the goroutine runs
	ended   bool           // and is not to be started again
	idle    sync.Cond
}

const waitingMost = 10_000 // tapes that wait; they are found again

func (x *indexer) start(s *Store) {
	x.store, x.waiting = s, map[int64]bool{}
	x.idle.L = &x.mu
}

// add makes a tape wait for its blocks.
func (x *indexer) add(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if id == 0 || x.ended || len(x.waiting) == waitingMost {
		return
	}
	x.waiting[id] = true
	if !x.busy {
		x.busy = true
		x.done.Go(x.work) // ends when nothing waits
	}
}

func (x *indexer) work() {
	for {
		x.mu.Lock()
		var id int64
		for id = range x.waiting {
			break
		}
		delete(x.waiting, id)
		if id == 0 || x.store.db.Closed() {
			x.busy = false
			x.idle.Broadcast()
			x.mu.Unlock()
			return
		}
		x.mu.Unlock()
		err := x.store.cover(x.store.db.Closing, id)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, tape.ErrDeleted) && !errors.Is(err, context.Canceled) && !errors.Is(err, tape.ErrClosed) {
			x.store.db.Log.Warn("cannot write the search index", "reason", database.Reason(err))
		}
	}
}

// rest waits until nothing is left to do.
func (x *indexer) rest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.busy {
		x.idle.Wait()
	}
}

// wait waits for the end of the goroutine, when the store closes.
func (x *indexer) wait() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.done.Wait()
}
