package postgres

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

const (
	busNotice  = "@" // begins the notice that a replica has messages; its id follows
	busRows    = 100 // of one read
	busBytes   = 4 * replicas.MaxMessage
	busLife    = time.Minute // that a message waits for its replica
	answerTime = 10 * time.Second
)

//go:embed bus/*.sql
var busFiles embed.FS

// Bus is a [replicas.Bus] on a table: a message is a row, which its replica deletes as it reads it. The row is committed together with a
// notice and without waiting for the disk: a transaction that notifies holds a lock of the whole database until it is committed. Replicas
// also look each second, so that the bus works through a pooler, which drops notices.
type Bus struct {
	e                 *Engine
	replica           string
	end               context.Context
	stop              context.CancelFunc
	ended             chan struct{} // closed when the goroutine has ended
	nudged            chan struct{}
	send, read, sweep string // statements

	mu    sync.Mutex
	serve func(replicas.Message, func(replicas.Message)) // nil: nobody serves
	asked map[int64]chan replicas.Message
}

var _ replicas.Bus = (*Bus)(nil)

// Bus opens the bus of a replica. It is closed before the engine.
func (e *Engine) Bus(ctx context.Context, replica string) (*Bus, error) {
	quoted := pgx.Identifier{e.db.Schema}.Sanitize() + "."
	in := func(sql string) string { return strings.ReplaceAll(sql, "@", quoted) }
	b := &Bus{
		e: e, replica: replica, ended: make(chan struct{}), nudged: make(chan struct{}, 1), asked: map[int64]chan replicas.Message{},
		send: in(`WITH m AS (INSERT INTO @messages (recipient, sender, number, answer, data)
				VALUES ($2::text, $3::text, $4::bigint, $5::boolean, $6::bytea))
			SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $7::text)`),
		// At most so many rows, whose sizes come to a bound or little more.
		read: in(`DELETE FROM @messages WHERE id IN (SELECT id FROM (
				SELECT id, sum(octet_length(data)) OVER (ORDER BY id) - octet_length(data) AS before
				FROM (SELECT id, data FROM @messages WHERE recipient = $1::text ORDER BY id LIMIT $2::bigint) r) s
				WHERE before < $3::bigint)
			RETURNING id, sender, number, answer, clock_timestamp() - at, data`),
		sweep: in(`DELETE FROM @messages WHERE at < clock_timestamp() - $1::interval`),
	}
	if err := e.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return database.Migrate(ctx, conn, e.db.Schema, "bus_migrations", database.Migrations(busFiles, "bus"))
	}); err != nil {
		return nil, err
	}
	b.end, b.stop = context.WithCancel(e.end)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, store.ErrClosed
	}
	e.bus = b
	e.listen()
	e.running.Go(b.keep) // ends with the bus, or the engine
	return b, nil
}

// Close ends the bus.
func (b *Bus) Close() error {
	b.stop()
	<-b.ended
	return nil
}

// Ask implements [replicas.Bus].
func (b *Bus) Ask(ctx context.Context, replica string, request replicas.Message) (replicas.Message, error) {
	number, answers := rand.Int64(), make(chan replicas.Message, 1)
	b.mu.Lock()
	b.asked[number] = answers
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.asked, number)
		b.mu.Unlock()
	}()
	if err := b.put(ctx, replica, number, false, request); err != nil {
		return replicas.Message{}, err
	}
	select {
	case answer := <-answers:
		return answer, answer.Nobody()
	case <-ctx.Done():
		return replicas.Message{}, context.Cause(ctx)
	case <-b.end.Done():
		return replicas.Message{}, store.ErrClosed
	}
}

// put writes a message once.
func (b *Bus) put(ctx context.Context, to string, number int64, answer bool, m replicas.Message) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if err := b.e.refuse(); err != nil {
		return fmt.Errorf("%w: %s", replicas.ErrUnsent, database.Reason(err))
	}
	sent := false
	err = b.e.db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		sent = true
		_, err := conn.Exec(ctx, b.send, b.e.channel, to, b.replica, number, answer, data, busNotice+to)
		return err
	})
	switch {
	case err == nil:
		b.e.db.Found()
		return nil
	case !sent || rolledBack(err):
		err = fmt.Errorf("%w: %s", replicas.ErrUnsent, database.Reason(err))
	case database.Broken(err):
		b.e.db.Lost(err)
	}
	return err
}

// Serve implements [replicas.Bus].
func (b *Bus) Serve(serve func(replicas.Message, func(replicas.Message))) (stop func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serve = serve
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.serve = nil
	}, nil
}

// nudge lets the bus read now.
func (b *Bus) nudge() {
	select {
	case b.nudged <- struct{}{}:
	default:
	}
}

// keep reads messages, and removes those that nobody reads, until the bus is closed.
func (b *Bus) keep() {
	defer close(b.ended)
	tick, sweep := time.NewTicker(readEvery), time.NewTicker(busLife)
	defer tick.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-b.nudged:
		case <-tick.C:
		case <-sweep.C:
			_ = b.removeUnread() // if it fails, another replica does it, or this one in a minute
		case <-b.end.Done():
			return
		}
		for more := true; more; {
			rows, err := b.next()
			if err != nil {
				break // it is in the log that the database is away
			}
			for i := range rows {
				b.take(&rows[i])
			}
			more = len(rows) > 0
		}
	}
}

// removeUnread removes the messages to replicas that have ended.
func (b *Bus) removeUnread() error {
	return b.e.do(b.end, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, b.sweep, busLife)
		return err
	})
}

// row is a message that was read.
type row struct {
	id, number int64
	sender     string
	answer     bool
	age        time.Duration
	data       []byte
}

// next reads messages.
func (b *Bus) next() (rows []row, err error) {
	err = b.e.do(b.end, func(ctx context.Context, conn *pgx.Conn) error {
		got, err := conn.Query(ctx, b.read, b.replica, busRows, busBytes)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(got, func(r pgx.CollectableRow) (m row, err error) {
			return m, r.Scan(&m.id, &m.sender, &m.number, &m.answer, &m.age, &m.data)
		})
		return err
	})
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.id, b.id) })
	return rows, err
}

// take serves a request, or gives an answer to its caller.
func (b *Bus) take(r *row) {
	m, err := replicas.Decode(r.data)
	if err != nil {
		return // another version has written it, and its caller waits in vain
	}
	b.mu.Lock()
	serve, answers := b.serve, b.asked[r.number]
	b.mu.Unlock()
	switch {
	case r.answer && answers != nil:
		select {
		case answers <- m:
		default: // it has one
		}
	case r.answer: // nobody waits any more
	case r.age >= m.Wait: // nor for this one
	case serve == nil:
		b.answer(r.sender, r.number, replicas.NobodyServes())
	default:
		m.Wait -= r.age
		serve(m, func(answer replicas.Message) { b.answer(r.sender, r.number, answer) })
	}
}

// answer writes an answer. If that fails, the asking replica asks again, or does not know what has become of its request.
func (b *Bus) answer(to string, number int64, m replicas.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime) // also while the bus is being closed
	defer cancel()
	_ = b.put(ctx, to, number, true, m)
}
