package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

// Bounds of what one transaction carries. A call beyond them has one of its own, up to maxCall.
const (
	groupPuts  = 500
	groupBytes = 8 << 20
	maxCall    = 256 << 20 // the server takes messages of at most 1 GiB
)

// call is a call of Put that waits for its write.
type call struct {
	puts    []*store.Put // those that are valid
	places  []int        // of them, in the call
	bytes   int
	done    chan struct{} // closed when answers or err are set
	answers []answer
	err     error
}

// answer is what the server says of a put.
type answer struct {
	outcome string
	record  store.Record
}

// Put implements [store.Table]. The puts of a call may have 256 MiB together.
func (t *Table) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	records, errs := make([]store.Record, len(puts)), make([]error, len(puts))
	c := &call{done: make(chan struct{})}
	for i := range puts {
		if errs[i] = puts[i].Check(); errs[i] == nil {
			c.puts, c.places = append(c.puts, &puts[i]), append(c.places, i)
			c.bytes += len(puts[i].Meta) + len(puts[i].Body)
		}
	}
	if len(c.puts) == 0 {
		return records, errs
	}
	err := t.await(ctx, c)
	for n, i := range c.places {
		if err != nil {
			errs[i] = err
		} else {
			records[i], errs[i] = c.answers[n].result(c.puts[n])
		}
	}
	return records, errs
}

// await returns when a call has its answers, or may not wait any longer.
func (t *Table) await(ctx context.Context, c *call) error {
	if c.bytes > maxCall {
		return fmt.Errorf("%w: the puts of a call have %d bytes, at most %d are allowed", store.ErrTooLarge, c.bytes, maxCall)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := t.enqueue(c); err != nil {
		return err
	}
	timer := time.NewTimer(t.e.wait)
	defer timer.Stop()
	var cause error
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-timer.C:
		cause = errSlow
	}
	if t.dequeue(c) { // it was not sent
		if ctx.Err() != nil {
			return cause
		}
		return fmt.Errorf("%w: %w", store.ErrAway, cause)
	}
	select {
	case <-c.done: // at this moment
		return c.err
	default:
		return fmt.Errorf("%w: %w", store.ErrUnsure, cause)
	}
}

var errSlow = errors.New("the database does not answer in time")

// enqueue adds a call to those that wait, and starts the goroutine that writes if none runs.
func (t *Table) enqueue(c *call) error {
	t.e.mu.Lock() // Close waits for no goroutine that starts later
	defer t.e.mu.Unlock()
	if t.e.closed {
		return store.ErrClosed
	}
	p := &t.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, c)
	if !p.busy {
		p.busy = true
		t.e.running.Go(t.write) // ends when nothing waits
	}
	return nil
}

// dequeue removes a call that waits. It reports false if the call is being written.
func (t *Table) dequeue(c *call) bool {
	p := &t.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.waiting {
		if p.waiting[i] == c {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// group is what one transaction carries.
type group struct {
	calls   []*call
	puts    []*store.Put
	durable bool
}

// next takes calls for one transaction from those that wait. It is nil if none waits: then the goroutine ends.
func (t *Table) next() *group {
	p := &t.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.busy, p.waiting = false, nil
		return nil
	}
	g := &group{}
	n, bytes := 0, 0
	for _, c := range p.waiting {
		if n > 0 && (len(g.puts)+len(c.puts) > groupPuts || bytes+c.bytes > groupBytes) {
			break
		}
		n++
		bytes += c.bytes
		g.puts = append(g.puts, c.puts...)
		for _, put := range c.puts {
			g.durable = g.durable || t.o.Durability == store.Synced && !put.Lazy
		}
	}
	g.calls = p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	return g
}

// write writes what waits until nothing does.
func (t *Table) write() {
	for g := t.next(); g != nil; g = t.next() {
		answers, err := t.commit(g)
		for _, c := range g.calls {
			if c.err = err; err == nil {
				c.answers, answers = answers[:len(c.puts)], answers[len(c.puts):]
			}
			close(c.done)
		}
	}
}

// commit writes a group in one transaction, and tries until the server has answered or the time is over.
func (t *Table) commit(g *group) (answers []answer, err error) {
	db := t.e.db
	ctx, cancel := context.WithTimeout(context.Background(), t.e.wait)
	defer cancel()
	doubt := false // a server may have written it
	for pause := database.FirstPause; ; pause = min(2*pause, database.MostPause) {
		sent := false
		if err = t.e.refuse(); err == nil {
			err = db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
				sent = true
				answers, err = t.send(ctx, conn, g)
				return err
			})
		}
		if err == nil {
			db.Found()
			t.committed(g)
			return answers, nil
		}
		doubt = doubt || sent && !rolledBack(err)
		if t.e.end.Err() != nil || !db.Again(ctx, err, pause) {
			return nil, t.failed(err, doubt)
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

// committed records what a transaction has done.
func (t *Table) committed(g *group) {
	switch {
	case g.durable:
		t.lazy.Store(false)
		t.e.notify(t.id)
	case t.o.Durability == store.Synced:
		t.lazy.Store(true)
	}
	t.nudge() // its own watchers need no notice
}

// failed makes the error of puts that the server did not answer.
func (t *Table) failed(err error, doubt bool) error {
	switch {
	case doubt:
		return fmt.Errorf("%w: %s", store.ErrUnsure, database.Reason(err))
	case errors.Is(err, store.ErrClosed):
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !database.Broken(err) {
		t.e.log.LogAttrs(t.e.end, slog.LevelError, "PostgreSQL refuses changes of a table", slog.String("table", t.o.Name), slog.String("sqlstate", pg.Code))
	}
	return fmt.Errorf("%w: %s", store.ErrAway, database.Reason(err))
}

// rolledBack reports whether err, of a transaction that was sent, shows that it was not committed.
func rolledBack(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return pgconn.SafeToRetry(err)
	}
	return pg.SeverityUnlocalized == "ERROR" // a server that ends the connection may have committed before
}

// send calls the function that makes the changes. It is a transaction of its own.
func (t *Table) send(ctx context.Context, conn *pgx.Conn, g *group) ([]answer, error) {
	n := len(g.puts)
	keys, ids, afters := make([]string, n), make([][]byte, n), make([]int64, n)
	metas, bodies, lives, deletes := make([][]byte, n), make([][]byte, n), make([]int64, n), make([]bool, n)
	for i, p := range g.puts {
		keys[i], ids[i], afters[i], metas[i], bodies[i] = p.Key, p.ID[:], after(p.After), p.Meta, p.Body
		lives[i], deletes[i] = p.Life.Microseconds(), p.Delete
		if p.Meta == nil {
			metas[i] = []byte{}
		}
		if p.Life > 0 && lives[i] == 0 {
			lives[i] = 1
		}
	}
	rows, err := conn.Query(ctx, t.e.sql.put, t.id, g.durable, t.e.channel, t.o.MaxRecords, t.o.MaxBytes, t.o.Oldest, keys, ids, afters, metas, bodies, lives, deletes)
	if err != nil {
		return nil, err
	}
	answers, err := pgx.CollectRows(rows, scanAnswer)
	if err == nil && len(answers) != n {
		err = fmt.Errorf("%d answers of %d puts", len(answers), n)
	}
	return answers, err
}

// after is a revision as the server has it.
func after(rev uint64) int64 {
	switch {
	case rev == store.AnyRev:
		return -1
	case rev > math.MaxInt64:
		return math.MaxInt64 // no record has it
	}
	return int64(rev)
}

func scanAnswer(row pgx.CollectableRow) (a answer, err error) {
	var made, rev *uint64
	var s scanned
	if err := row.Scan(&a.outcome, &made, &rev, &a.record.Meta, &s.at, &s.expires); err != nil {
		return a, err
	}
	if rev != nil && made != nil {
		a.record.Made, a.record.Rev = *made, *rev
	}
	s.into(&a.record)
	return a, nil
}

// result is what the caller of a put gets.
func (a answer) result(p *store.Put) (store.Record, error) {
	a.record.Key = p.Key
	switch a.outcome {
	case "done", "same":
		return a.record, nil
	case "moved":
		return store.Record{}, &store.Moved{Record: a.record}
	case "absent":
		return store.Record{}, fmt.Errorf("key %q: %w", p.Key, store.ErrNotFound)
	case "full":
		return store.Record{}, store.ErrFull
	}
	return store.Record{}, fmt.Errorf("the database has answered %q to a put", a.outcome)
}
