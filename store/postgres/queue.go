package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

// Bounds of what one transaction carries. A call beyond them has one of its own.
const (
	groupItems = 500
	groupBytes = 8 << 20
)

// call is what waits for its write.
type call[I, A any] struct {
	items   []I
	bytes   int
	done    chan struct{} // closed when answers or err are set
	answers []A           // one for each item
	err     error
}

// queue writes the calls of a table, or of a space: what waits is written together.
type queue[I, A any] struct {
	writers   int // groups that are written at once, at most
	e         *Engine
	name      string                                                            // for the log
	send      func(ctx context.Context, conn *pgx.Conn, items []I) ([]A, error) // writes, and may be done twice
	committed func(items []I)                                                   // is told of what send has written; nil

	mu      sync.Mutex
	waiting []*call[I, A]
	writing int  // goroutines that write
	busy    bool // there are as many as there may be
}

// write returns the answers to items when they are written, or why they may not be.
func (q *queue[I, A]) write(ctx context.Context, items []I, bytes int) ([]A, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c := &call[I, A]{items: items, bytes: bytes, done: make(chan struct{})}
	if err := q.enqueue(c); err != nil {
		return nil, err
	}
	timer := time.NewTimer(q.e.wait)
	defer timer.Stop()
	var cause error
	select {
	case <-c.done:
		return c.answers, c.err
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-timer.C:
		cause = errSlow
	}
	if q.dequeue(c) { // it was not sent
		if ctx.Err() != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("%w: %w", store.ErrAway, cause)
	}
	select {
	case <-c.done: // at this moment
		return c.answers, c.err
	default:
		return nil, fmt.Errorf("%w: %w", store.ErrUnsure, cause)
	}
}

var errSlow = errors.New("the database does not answer in time")

// enqueue adds a call to those that wait, and starts the goroutine that writes if none runs.
func (q *queue[I, A]) enqueue(c *call[I, A]) error {
	q.e.mu.Lock() // Close waits for no goroutine that starts later
	defer q.e.mu.Unlock()
	if q.e.closed {
		return store.ErrClosed
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	if !q.busy {
		q.writing++
		q.busy = q.writing == q.writers
		q.e.running.Go(q.writeAll) // ends when nothing waits
	}
	return nil
}

// dequeue removes a call that waits. It reports false if the call is being written.
func (q *queue[I, A]) dequeue(c *call[I, A]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.waiting {
		if q.waiting[i] == c {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// next takes calls for one transaction from those that wait. There are none if none waits: then the goroutine ends.
func (q *queue[I, A]) next() (calls []*call[I, A], items []I) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.writing--
		q.busy, q.waiting = false, nil
		return nil, nil
	}
	n, bytes := 0, 0
	for _, c := range q.waiting {
		if n > 0 && (len(items)+len(c.items) > groupItems || bytes+c.bytes > groupBytes) {
			break
		}
		n++
		bytes += c.bytes
		items = append(items, c.items...)
	}
	calls = q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return calls, items
}

// writeAll writes what waits until nothing does.
func (q *queue[I, A]) writeAll() {
	for calls, items := q.next(); calls != nil; calls, items = q.next() {
		answers, err := q.commit(items)
		for _, c := range calls {
			if c.err = err; err == nil {
				c.answers, answers = answers[:len(c.items)], answers[len(c.items):]
			}
			close(c.done)
		}
	}
}

// commit writes items.
func (q *queue[I, A]) commit(items []I) (answers []A, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), q.e.wait)
	defer cancel()
	err = q.e.commit(ctx, q.name, func(ctx context.Context, conn *pgx.Conn) error {
		answers, err = q.send(ctx, conn, items)
		return err
	})
	if err != nil {
		return nil, err
	}
	if q.committed != nil {
		q.committed(items)
	}
	return answers, nil
}

// commit runs what writes and may be done twice, and tries until the server has answered or the time is over. Its error says whether it
// may have been written.
func (e *Engine) commit(ctx context.Context, name string, do func(context.Context, *pgx.Conn) error) (err error) {
	doubt := false // a server may have written it
	for pauses := database.NewPauses(); ; {
		sent := false
		if err = e.refuse(); err == nil {
			err = e.db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
				sent = true
				return do(ctx, conn)
			})
		}
		if err == nil {
			e.db.Found()
			return nil
		}
		doubt = doubt || sent && !rolledBack(err)
		if e.end.Err() != nil || !e.db.Again(ctx, err, pauses.NextBackOff()) {
			return e.failed(err, doubt, name)
		}
	}
}

// refuse returns why nothing is sent.
func (e *Engine) refuse() error {
	if err := context.Cause(e.end); err != nil {
		return err
	}
	return e.db.Refuse()
}

// failed makes the error of a write that the server did not answer.
func (e *Engine) failed(err error, doubt bool, name string) error {
	switch {
	case doubt:
		return fmt.Errorf("%w: %s", store.ErrUnsure, database.Reason(err))
	case errors.Is(err, store.ErrClosed):
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !database.Broken(err) {
		e.log.ErrorContext(e.end, "PostgreSQL refuses changes", "of", name, "sqlstate", pg.Code)
	}
	return fmt.Errorf("%w: %s", store.ErrAway, database.Reason(err))
}

// errPartly is the error of a write whose first transaction was committed, and whose second was not.
var errPartly = errors.New("a part was written")

// rolledBack reports whether err, of a transaction that was sent, shows that it was not committed.
func rolledBack(err error) bool {
	if errors.Is(err, errPartly) {
		return false
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return pgconn.SafeToRetry(err)
	}
	return pg.SeverityUnlocalized == "ERROR" // a server that ends the connection may have committed before
}
