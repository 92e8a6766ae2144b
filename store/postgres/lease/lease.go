// Package lease keeps leases in a PostgreSQL database, which several servers share.
//
// A lease is a row that names the holder and the time at which the lease ends, by the clock of the database. One goroutine renews all leases of
// a process with one statement. The holder counts the time from before its request, the database from after it: so the holder knows first
// that its lease is over.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

const (
	leaseTime  = 15 * time.Second // that a lease lasts without being renewed
	leaseRenew = 5 * time.Second
	leasePoll  = time.Second     // how often who waits looks again, where no notice comes
	leaseGiven = 3 * time.Second // to give one back; else it ends by itself
)

// Leases are the leases of a process. They implement [tape.Leaser].
type Leases struct {
	db      *database.DB
	table   string // with the schema: a pooler may give a connection that has another search path
	channel string // of notices that a lease is free
	end     context.Context
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	held    map[string]*lease   // by name, lost ones too until they are released
	waits   map[string]*waiting // for leases
	ended   bool                // neither of these is to be started again
	renews  bool                // the goroutine that renews runs
	listens bool                // so does the one that listens
}

var _ tape.Leaser = (*Leases)(nil)

// New returns leases in a database that has the table leases.
func New(db *database.DB) *Leases {
	h := fnv.New64a()
	_, _ = h.Write([]byte(db.Schema)) // never fails
	k := &Leases{
		db: db, table: pgx.Identifier{db.Schema, "leases"}.Sanitize(), channel: fmt.Sprintf("lingserve_lease_%x", h.Sum64()),
		held: map[string]*lease{}, waits: map[string]*waiting{},
	}
	k.end, k.stop = context.WithCancel(context.Background())
	return k
}

// Close ends waiting calls. Leases that are held end by themselves.
func (k *Leases) Close() {
	k.stop()
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.done.Wait()
}

// do runs what may be done twice.
func (k *Leases) do(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	err := k.db.Do(ctx, do)
	switch {
	case err == nil, errors.Is(err, store.ErrClosed):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %s", store.ErrAway, database.Reason(err))
}

// sql names the table.
func (k *Leases) sql(text string) string { return strings.ReplaceAll(text, "@leases", k.table) }

// newToken returns a random number that no other lease has.
func newToken() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.NativeEndian.Uint64(b[:]))
}

// waiting is those who wait for one lease.
type waiting struct {
	free chan struct{} // closed when it is perhaps free
	n    int
}

// here reports whether this process has a lease, or had it and did not give it back.
func (k *Leases) here(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[name] != nil
}

// lease implements tape.Lease.
type lease struct {
	keeper *Leases
	name   string
	token  int64
	lost   chan struct{}
	once   sync.Once

	until time.Time // when it is lost unless it is renewed; keeper.mu is held
	over  bool      // lost, or released; keeper.mu is held
}

// Lost implements tape.Lease.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Held reports whether the lease has been renewed in time.
func (l *lease) Held() bool {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return !l.over && time.Now().Before(l.until)
}

// Lease implements [tape.Leaser].
func (k *Leases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := tape.CheckName(name); err != nil {
		return nil, err
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if l, err := k.try(ctx, name, wait); l != nil || err != nil {
			return l, err
		}
		if k.end.Err() != nil || k.db.Closed() {
			return nil, store.ErrClosed
		}
	}
}

// try takes a lease, or waits until it is perhaps free.
func (k *Leases) try(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	free, done := k.watch(name) // before it is looked for, so that no notice is missed
	defer done()
	pause := leasePoll
	if !k.here(name) {
		l, left, err := k.take(ctx, name)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
		pause = min(max(left, time.Millisecond), leasePoll)
	}
	if !wait {
		return nil, tape.ErrLeased
	}
	k.listen()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-free:
	case <-t.C:
	case <-ctx.Done():
	case <-k.end.Done():
	}
	return nil, nil
}

// take takes a lease that is free, or says how long it is not yet.
func (k *Leases) take(ctx context.Context, name string) (*lease, time.Duration, error) {
	l := &lease{keeper: k, name: name, token: newToken(), lost: make(chan struct{})}
	var left time.Duration
	var taken bool
	err := k.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		asked := time.Now()
		// One that was taken with an answer that got lost is ours, too.
		err := conn.QueryRow(ctx, k.sql(`INSERT INTO @leases AS l (name, token, expires) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
			ON CONFLICT (name) DO UPDATE SET token = excluded.token, expires = excluded.expires
				WHERE l.expires <= clock_timestamp() OR l.token = excluded.token
			RETURNING true`), name, l.token, leaseTime.Seconds()).Scan(&taken)
		if err == nil {
			l.until = asked.Add(leaseTime)
			return nil
		}
		if database.WaitedTooLong(err) { // for an append of its holder
			return nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var seconds float64
		err = conn.QueryRow(ctx, k.sql(`SELECT extract(epoch FROM expires - clock_timestamp())::float8 FROM @leases WHERE name = $1`), name).Scan(&seconds)
		if errors.Is(err, pgx.ErrNoRows) { // given back in this moment
			return nil
		}
		left = time.Duration(seconds * float64(time.Second))
		return err
	})
	if err != nil || !taken {
		if err != nil && !taken {
			k.forget(ctx, l) // in case it was
		}
		return nil, left, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[name] = l
	if !k.renews && !k.ended {
		k.renews = true
		k.done.Go(k.renew) // ends when there is nothing to renew
	}
	return l, 0, nil
}

// forget gives back a lease that was perhaps taken for a caller who has gone.
func (k *Leases) forget(ctx context.Context, l *lease) {
	if ctx.Err() == nil {
		return // the database is away: it ends by itself
	}
	k.giveBack(l)
}

func (k *Leases) giveBack(l *lease) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseGiven)
	defer cancel()
	err := k.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, k.sql(`WITH given AS (DELETE FROM @leases WHERE name = $1 AND token = $2 RETURNING name)
			SELECT pg_notify($3, name) FROM given`), l.name, l.token, k.channel)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrClosed) {
		k.db.Log.WarnContext(ctx, "cannot release a lease; it expires", "tape", l.name, "reason", database.Reason(err))
	}
}

// Release implements tape.Lease.
func (l *lease) Release() {
	l.once.Do(func() {
		k := l.keeper
		k.mu.Lock()
		lost := l.over
		l.over = true
		k.mu.Unlock()
		if !lost {
			k.giveBack(l)
		}
		k.mu.Lock()
		if k.held[l.name] == l {
			delete(k.held, l.name)
		}
		k.signal(l.name)
		k.mu.Unlock()
	})
}

// watch is closed when a lease of this name is perhaps free. done ends the waiting.
func (k *Leases) watch(name string) (free <-chan struct{}, done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.waits[name]
	if w == nil {
		w = &waiting{free: make(chan struct{})}
		k.waits[name] = w
	}
	w.n++
	return w.free, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if w.n--; w.n == 0 && k.waits[name] == w {
			delete(k.waits, name)
		}
	}
}

// signal wakes those who wait for a lease; mu is held.
func (k *Leases) signal(name string) {
	if w := k.waits[name]; w != nil {
		close(w.free)
		delete(k.waits, name)
	}
}

// renew renews the leases until there are none.
func (k *Leases) renew() {
	next := time.Now().Add(leaseRenew)
	for {
		k.mu.Lock()
		now := time.Now()
		wake := next
		count := 0
		for _, l := range k.held {
			if l.over {
				continue
			}
			if !now.Before(l.until) {
				k.lose(l, "the database could not be reached in time")
				continue
			}
			count++
			if l.until.Before(wake) {
				wake = l.until
			}
		}
		if count == 0 || k.end.Err() != nil || k.db.Closed() {
			k.renews = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		if !now.Before(next) {
			if k.renewOnce() {
				next = now.Add(leaseRenew)
			} else {
				next = time.Now().Add(leaseRenew / 10)
			}
			continue
		}
		if !database.Sleep(k.end, k.end, wake.Sub(now)) {
			continue // the store closes
		}
	}
}

// renewOnce renews all leases, and says whether the database has answered.
func (k *Leases) renewOnce() bool {
	k.mu.Lock()
	var names []string
	var tokens []int64
	asked := map[int64]*lease{}
	ends := time.Now().Add(leaseTime)
	for _, l := range k.held {
		if l.over {
			continue
		}
		names, tokens = append(names, l.name), append(tokens, l.token)
		asked[l.token] = l
		if l.until.Before(ends) {
			ends = l.until
		}
	}
	k.mu.Unlock()
	// No longer than the first of them lasts: others have more time, and get it with the next try.
	ctx, cancel := context.WithDeadline(k.end, ends)
	defer cancel()
	type answer struct {
		token   int64
		renewed bool
	}
	var answers []answer
	at := time.Now()
	err := k.db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// One that an append of ours holds at this moment is ours and keeps its time; the others do not wait for it.
		rows, err := conn.Query(ctx, k.sql(`WITH asked AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS a (name, token)),
			ours AS (SELECT l.token FROM @leases l JOIN asked USING (name, token)),
			locked AS (SELECT l.name FROM @leases l JOIN asked USING (name, token) FOR NO KEY UPDATE OF l SKIP LOCKED),
			renewed AS (UPDATE @leases l SET expires = clock_timestamp() + make_interval(secs => $3) FROM locked WHERE l.name = locked.name RETURNING l.token)
			SELECT token, EXISTS (SELECT FROM renewed WHERE renewed.token = ours.token) FROM ours`), names, tokens, leaseTime.Seconds())
		if err != nil {
			return err
		}
		answers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a answer, err error) {
			return a, row.Scan(&a.token, &a.renewed)
		})
		return err
	})
	if err != nil {
		if k.end.Err() == nil && database.Broken(err) {
			k.db.Lost(err)
		}
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range answers {
		if a.renewed {
			asked[a.token].until = at.Add(leaseTime)
		}
		delete(asked, a.token)
	}
	for _, l := range asked {
		if !l.over { // not released meanwhile
			k.lose(l, "another process has taken it")
		}
	}
	return true
}

// lose takes a lease away from its holder; mu is held.
func (k *Leases) lose(l *lease, why string) {
	l.over = true
	k.db.Log.Warn("lost a lease", "tape", l.name, "reason", why)
	close(l.lost)
}

// listen hears of leases that are free as long as somebody waits for one. Without it, who waits looks by himself.
func (k *Leases) listen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.listens && !k.ended {
		k.listens = true
		k.done.Go(k.hear)
	}
}

// listenIdle is how long a connection listens when nobody waits any more: another may soon.
const listenIdle = 10 * time.Second

func (k *Leases) hear() {
	defer func() {
		k.mu.Lock()
		k.listens = false
		k.mu.Unlock()
	}()
	ctx := k.end
	conn, err := k.db.Connect(ctx)
	if err != nil {
		return // who waits looks by himself
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+k.channel); err != nil {
		return
	}
	for {
		for {
			wait, cancel := context.WithTimeout(ctx, listenIdle)
			n, err := conn.WaitForNotification(wait)
			idle := wait.Err() != nil && ctx.Err() == nil
			cancel()
			if err == nil {
				k.mu.Lock()
				k.signal(n.Payload)
				k.mu.Unlock()
				continue
			}
			if !idle || conn.IsClosed() {
				return
			}
			break
		}
		k.mu.Lock()
		some := len(k.waits) > 0
		k.mu.Unlock()
		if !some {
			return
		}
	}
}
