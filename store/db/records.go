package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Tables gives the tables of package store in the rows of one SQL table. Watchers learn of changes in this process at once, and on PostgreSQL
// of those in other processes within about a second. They read them from the database.
func (db *DB) Tables() store.Engine {
	e := &engine{db: db, done: make(chan struct{})}
	e.loops.Go(e.sweep)
	if db.network || db.beside {
		e.loops.Go(e.poll)
	}
	return e
}

type engine struct {
	db    *DB
	end   sync.Once
	done  chan struct{}  // closed by Close
	loops sync.WaitGroup // goroutines that end with Close
}

const (
	// rememberDeleted is how long a deletion is known, for those who send it again and for watchers.
	rememberDeleted = 10 * time.Minute
	// sweepEvery is how often records whose life has ended are removed.
	sweepEvery = time.Second
	// pollEvery is how often changes of other processes are looked for, and how long a watcher waits after it could not read.
	pollEvery = time.Second
)

// Table implements [store.Engine].
func (e *engine) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	if err := errors.Join(store.CheckKey(o.Name), e.check(ctx)); err != nil {
		return nil, err
	}
	err := e.db.Update(ctx, func(tx *Tx) error {
		_, err := tx.exec(`INSERT INTO tables (name, rev, records, bytes) VALUES ($1, 0, 0, 0) ON CONFLICT DO NOTHING`, o.Name)
		return err
	})
	return &table{e: e, o: o}, err
}

// Close implements [store.Engine]. The database stays open.
func (e *engine) Close() error {
	e.end.Do(func() { close(e.done) })
	e.loops.Wait()
	return nil
}

func (e *engine) check(ctx context.Context) error {
	select {
	case <-e.done:
		return store.ErrClosed
	default:
		return context.Cause(ctx)
	}
}

// changes are those of all tables, for those who wait for one.
type changes struct {
	mu     sync.Mutex
	next   map[string]chan struct{}   // by table; closed by the next change
	looks  map[string]map[*looks]bool // of the watchers, by table
	looked chan struct{}              // closed when a watcher has looked; nil: nobody waits for that
}

// looks are how often a watcher has begun and ended to look for changes.
type looks struct{ begun, ended int }

// watch counts a watcher of a table until leave is called.
func (c *changes) watch(table string) (l *looks, leave func()) {
	l = new(looks)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks == nil {
		c.looks = map[string]map[*looks]bool{}
	}
	if c.looks[table] == nil {
		c.looks[table] = map[*looks]bool{}
	}
	c.looks[table][l] = true
	return l, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.looks[table], l)
		c.tellLocked()
	}
}

func (c *changes) begin(l *looks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.begun++
}

func (c *changes) end(l *looks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.ended = l.begun
	c.tellLocked()
}

func (c *changes) tellLocked() {
	if c.looked != nil {
		close(c.looked)
		c.looked = nil
	}
}

// CatchUp returns when the watchers of this process have been told of all that was changed before the call by whichever process.
func (t *table) CatchUp(ctx context.Context) error {
	c := &t.e.db.changes
	need := map[*looks]int{}
	c.mu.Lock()
	for l := range c.looks[t.o.Name] {
		need[l] = l.begun + 1
	}
	c.mu.Unlock()
	c.announce(t.o.Name)
	for {
		c.mu.Lock()
		for l, n := range need {
			if l.ended >= n || !c.looks[t.o.Name][l] {
				delete(need, l)
			}
		}
		if c.looked == nil {
			c.looked = make(chan struct{})
		}
		looked := c.looked
		c.mu.Unlock()
		if len(need) == 0 {
			return nil
		}
		select {
		case <-looked:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.e.done:
			return store.ErrClosed
		}
	}
}

// wait is closed by the next change of a table.
func (c *changes) wait(table string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next[table]
	if next == nil {
		next = make(chan struct{})
		c.next[table] = next
	}
	return next
}

func (c *changes) announce(table string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next := c.next[table]; next != nil {
		close(next)
		delete(c.next, table)
	}
}

// watched reports whether a watcher waits.
func (c *changes) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.next) > 0
}

// poll announces the changes of other processes. One query a second is for all watchers of all tables.
//
// No change is missed: a revision is the table's row in tables, and the transaction that takes one locks that row until it ends. So revisions
// are committed in their order, and whoever reads one can read the records of all lower ones.
func (e *engine) poll() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	announced := map[string]uint64{} // revision by table
	for {
		select {
		case <-e.done:
			return
		case <-tick.C:
		}
		if !e.db.changes.watched() {
			continue
		}
		current := map[string]uint64{}
		err := e.db.view(e.db.end, func(q querier) error {
			return q.collect(func(rows *sql.Rows) (bool, error) {
				var name string
				var rev uint64
				err := rows.Scan(&name, &rev)
				current[name] = rev
				return true, err
			}, `SELECT name, rev FROM tables`)
		})
		if err != nil {
			continue // the next query finds the same changes
		}
		for name, rev := range current {
			if rev != announced[name] {
				announced[name] = rev
				e.db.changes.announce(name)
			}
		}
	}
}

// sweep removes what has expired, and deletions that nobody needs to know any more.
func (e *engine) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.done:
			return
		case <-tick.C:
		}
		now := time.Now()
		var names map[string]bool
		e.db.Update(context.Background(), func(tx *Tx) error { // after an error it is tried again a second later
			names = map[string]bool{}
			expired, err := rowsOf(tx.querier, func(rows *sql.Rows) (k [2]string, err error) {
				return k, rows.Scan(&k[0], &k[1])
			}, `SELECT name, key FROM records WHERE expires <= $1 AND deleted = 0 LIMIT 500`, now.UnixMicro())
			if err == nil && len(expired) > 0 {
				err = tx.lockTables()
			}
			if err != nil {
				return err
			}
			for _, k := range expired {
				t := &table{e: e, o: store.TableOptions{Name: k[0]}}
				row, err := t.row(tx, k[1])
				if err != nil {
					return err
				}
				if row == nil || row.deleted || row.live(now) { // another process was faster
					continue
				}
				if err := t.remove(tx, row, [16]byte{}, now); err != nil {
					return err
				}
				names[k[0]] = true
			}
			_, err = tx.exec(`DELETE FROM records WHERE deleted = 1 AND at < $1`, now.Add(-rememberDeleted).UnixMicro())
			return err
		})
		for name := range names {
			e.db.changes.announce(name)
		}
	}
}

// lockTables keeps other processes from changing records until the transaction ends, so that what it reads of them stays true. It locks all
// tables, in one order: writes of several tables share transactions, and would wait for each other.
func (tx *Tx) lockTables() error {
	if !tx.db.network || tx.hasTables { // a transaction of SQLite that writes is alone
		return nil
	}
	_, err := tx.readIDs("SELECT name FROM tables ORDER BY name FOR UPDATE")
	tx.hasTables = err == nil
	return err
}

type table struct {
	e *engine
	o store.TableOptions
}

// rowsOf reads all rows of a query.
func rowsOf[T any](q querier, scan func(rows *sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	err = q.collect(func(rows *sql.Rows) (bool, error) {
		v, err := scan(rows)
		all = append(all, v)
		return true, err
	}, query, args...)
	return all, err
}

// A row is a record as it is stored. A deleted one stays for a while; Rev of its record is the revision that was removed.
type row struct {
	store.Record
	order   uint64 // the revision of its last change, or of its deletion
	id      []byte // of the put that made the last change
	maker   []byte // of the put that created it
	size    int64
	deleted bool
}

func (r *row) live(now time.Time) bool {
	return r != nil && !r.deleted && (r.Expires.IsZero() || r.Expires.After(now))
}

const rowColumns = `key, made, rev, changed, put, maker, meta, at, expires, size, deleted`

func scanRow(rows *sql.Rows, more ...any) (*row, error) {
	r := new(row)
	var at int64
	var expires sql.NullInt64
	if err := rows.Scan(append([]any{&r.Key, &r.Made, &r.Rev, &r.order, &r.id, &r.maker, &r.Meta, &at, &expires, &r.size, &r.deleted}, more...)...); err != nil {
		return nil, err
	}
	r.At = time.UnixMicro(at)
	if expires.Valid {
		r.Expires = time.UnixMicro(expires.Int64)
	}
	return r, nil
}

func scanBare(rows *sql.Rows) (*row, error) { return scanRow(rows) }

func scanWithBody(rows *sql.Rows) (*row, error) {
	var body []byte
	r, err := scanRow(rows, &body)
	if err == nil {
		r.Body = body
	}
	return r, err
}

// row reads a row without its body; nil where there is none.
func (t *table) row(tx *Tx, key string) (*row, error) {
	rows, err := rowsOf(tx.querier, scanBare, `SELECT `+rowColumns+` FROM records WHERE name = $1 AND key = $2`, t.o.Name, key)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// Get implements [store.Table].
func (t *table) Get(ctx context.Context, key string) (store.Record, error) {
	if err := errors.Join(store.CheckKey(key), t.e.check(ctx)); err != nil {
		return store.Record{}, err
	}
	page, err := t.page(ctx, scanWithBody, `SELECT `+rowColumns+`, body FROM records WHERE name = $1 AND key = $2`, t.o.Name, key)
	switch {
	case err != nil:
		return store.Record{}, err
	case len(page) == 0 || !page[0].live(time.Now()):
		return store.Record{}, store.ErrNotFound
	}
	return page[0].Record, nil
}

// Peek implements [store.Table].
func (t *table) Peek(ctx context.Context, key string) (store.Record, error) { return t.Get(ctx, key) }

// afterKeys follows all characters of keys.
const afterKeys = "\x7f"

// Range implements [store.Table].
func (t *table) Range(ctx context.Context, prefix string, bodies bool) iter.Seq2[store.Record, error] {
	body := "NULL"
	if bodies {
		body = "body"
	}
	key := "key" + t.e.db.byteOrder
	query := `SELECT ` + rowColumns + `, ` + body + ` FROM records
		WHERE name = $1 AND ` + key + ` >= $2 AND ` + key + ` <= $3 AND ` + key + ` > $4 AND deleted = 0 ORDER BY ` + key + ` LIMIT $5`
	return func(yield func(store.Record, error) bool) {
		last, limit := "", pageRows
		if bodies {
			limit = 20
		}
		for {
			if err := t.e.check(ctx); err != nil {
				yield(store.Record{}, err)
				return
			}
			page, err := t.page(ctx, scanWithBody, query, t.o.Name, prefix, prefix+afterKeys, last, limit)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			now := time.Now()
			for _, r := range page {
				if last = r.Key; r.live(now) && !yield(r.Record, nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
		}
	}
}

// page reads rows outside a transaction that writes.
func (t *table) page(ctx context.Context, scan func(rows *sql.Rows) (*row, error), query string, args ...any) (page []*row, err error) {
	err = t.e.db.view(ctx, func(q querier) (err error) {
		page, err = rowsOf(q, scan, query, args...)
		return err
	})
	return page, err
}

// Put implements [store.Table].
func (t *table) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	records, errs := make([]store.Record, len(puts)), make([]error, len(puts))
	valid := 0
	for i := range puts {
		if errs[i] = errors.Join(puts[i].Check(), t.e.check(ctx)); errs[i] == nil {
			valid++
		}
	}
	if valid == 0 {
		return records, errs
	}
	results := make([]error, len(puts))
	err := t.e.db.Update(ctx, func(tx *Tx) error {
		now := time.Now()
		for i := range puts {
			if errs[i] != nil {
				continue
			}
			var failed error
			if records[i], results[i], failed = t.put(tx, &puts[i], now); failed != nil {
				return failed
			}
		}
		return nil
	})
	for i := range puts {
		switch {
		case errs[i] != nil:
		case err != nil:
			records[i], errs[i] = store.Record{}, err
		default:
			errs[i] = results[i]
		}
	}
	t.e.db.changes.announce(t.o.Name)
	return records, errs
}

// put makes one change. refused is its own error, failed that of the database.
func (t *table) put(tx *Tx, p *store.Put, now time.Time) (r store.Record, refused, failed error) {
	if err := tx.lockTables(); err != nil {
		return r, nil, err
	}
	was, err := t.row(tx, p.Key)
	if err != nil {
		return r, nil, err
	}
	if was != nil && bytes.Equal(was.id, p.ID[:]) && was.deleted == p.Delete { // it was sent before
		return was.Record, nil, nil
	}
	live := was.live(now)
	switch {
	case p.After != store.AnyRev && ((p.After != 0) != live || live && p.After != was.Rev), was != nil && !live && bytes.Equal(was.maker, p.ID[:]):
		moved := new(store.Moved)
		if moved.Key = p.Key; live {
			moved.Record = was.Record
		}
		return r, moved, nil
	case p.Delete && !live:
		return r, store.ErrNotFound, nil
	case p.Delete:
		return was.Record, nil, t.remove(tx, was, p.ID, now)
	}
	if was != nil && !live && !was.deleted { // its life has ended
		if err := t.remove(tx, was, [16]byte{}, now); err != nil {
			return r, nil, err
		}
	}
	size, grown := int64(len(p.Key)+len(p.Meta)+len(p.Body)), int64(1)
	if live {
		if p.Body == nil {
			size = was.size - int64(len(was.Meta)) + int64(len(p.Meta))
		}
		grown = 0
	}
	if refused, err := t.fit(tx, p.Key, grown, size, was, live, now); refused != nil || err != nil {
		return r, refused, err
	}
	rev, err := t.revision(tx, grown, size-oldSize(was, live))
	if err != nil {
		return r, nil, err
	}
	r = store.Record{Key: p.Key, Made: rev, Rev: rev, Meta: p.Meta, At: now.Truncate(time.Microsecond)}
	if live {
		r.Made = was.Made
	}
	var expires any
	if p.Life > 0 {
		r.Expires = r.At.Add(p.Life).Truncate(time.Microsecond)
		expires = r.Expires.UnixMicro()
	}
	body, keep := any(p.Body), 0
	if p.Body == nil {
		body = []byte{}
		if live {
			keep = 1
		}
	}
	_, err = tx.exec(`INSERT INTO records (name, key, made, rev, changed, put, maker, meta, body, at, expires, size, deleted) VALUES ($1, $2, $3, $4, $4, $5, $5, $6, $7, $8, $9, $10, 0)
		ON CONFLICT (name, key) DO UPDATE SET made = excluded.made, rev = excluded.rev, changed = excluded.changed, put = excluded.put,
		maker = CASE WHEN records.made = excluded.made THEN records.maker ELSE excluded.maker END, meta = excluded.meta, body = CASE WHEN $11 = 1 THEN records.body ELSE excluded.body END, at = excluded.at, expires = excluded.expires, size = excluded.size, deleted = 0`,
		t.o.Name, p.Key, r.Made, rev, p.ID[:], notNil(p.Meta), body, r.At.UnixMicro(), expires, size, keep)
	return r, nil, err
}

func oldSize(was *row, live bool) int64 {
	if live {
		return was.size
	}
	return 0
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// revision takes the table's next revision, and adds to what the table has.
func (t *table) revision(tx *Tx, records, bytes int64) (rev uint64, err error) {
	_, err = tx.scanOne([]any{&rev}, `UPDATE tables SET rev = rev + 1, records = records + $1, bytes = bytes + $2 WHERE name = $3 RETURNING rev`, records, bytes, t.o.Name)
	return rev, err
}

// remove deletes a record that is there.
func (t *table) remove(tx *Tx, r *row, id [16]byte, now time.Time) error {
	rev, err := t.revision(tx, -1, -r.size)
	if err != nil {
		return err
	}
	_, err = tx.exec(`UPDATE records SET changed = $1, put = $2, meta = $3, body = $3, at = $4, expires = NULL, deleted = 1 WHERE name = $5 AND key = $6`,
		rev, id[:], []byte{}, now.UnixMicro(), t.o.Name, r.Key)
	return err
}

// fit makes room for a record, or refuses it.
func (t *table) fit(tx *Tx, key string, records, size int64, was *row, live bool, now time.Time) (refused, failed error) {
	if t.o.MaxRecords == 0 && t.o.MaxBytes == 0 {
		return nil, nil
	}
	full := fmt.Errorf("%w: %s has room for %d records and %d bytes", store.ErrFull, t.o.Name, t.o.MaxRecords, t.o.MaxBytes)
	if t.o.MaxBytes > 0 && size > t.o.MaxBytes {
		return full, nil
	}
	for {
		var has, bytes int64
		if _, err := tx.scanOne([]any{&has, &bytes}, `SELECT records, bytes FROM tables WHERE name = $1`, t.o.Name); err != nil {
			return nil, err
		}
		if (t.o.MaxRecords == 0 || has+records <= t.o.MaxRecords) && (t.o.MaxBytes == 0 || bytes+size-oldSize(was, live) <= t.o.MaxBytes) {
			return nil, nil
		}
		if !t.o.Oldest {
			return full, nil
		}
		oldest, err := rowsOf(tx.querier, scanBare, `SELECT `+rowColumns+` FROM records WHERE name = $1 AND key <> $2 AND deleted = 0 ORDER BY changed LIMIT 1`, t.o.Name, key)
		if err != nil || len(oldest) == 0 {
			return full, err
		}
		if err := t.remove(tx, oldest[0], [16]byte{}, now); err != nil {
			return nil, err
		}
	}
}

// Watch implements [store.Table]. It ends with another error if the database is away at first. Later it waits for the database. A watcher that
// cannot read for longer than rememberDeleted misses deletions.
func (t *table) Watch(ctx context.Context, prefix string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		seen, err := t.current(ctx)
		if err != nil {
			yield(store.Change{}, err)
			return
		}
		newer := map[string]uint64{} // of what is read now, what has changed since seen
		for r, err := range t.Range(ctx, prefix, false) {
			if !yield(store.Change{Record: r}, err) || err != nil {
				return
			}
			if r.Rev > seen {
				newer[r.Key] = r.Rev
			}
		}
		if !yield(store.Change{Live: true}, nil) {
			return
		}
		changes := &t.e.db.changes
		looks, leave := changes.watch(t.o.Name)
		defer leave()
		for {
			next, retry := changes.wait(t.o.Name), (<-chan time.Time)(nil)
			changes.begin(looks)
			for {
				page, err := t.changed(ctx, prefix, seen)
				if errors.Is(err, store.ErrClosed) || err != nil && !t.e.db.network {
					yield(store.Change{}, err)
					return
				}
				if err != nil {
					retry = time.After(pollEvery)
					break
				}
				for _, r := range page {
					seen = r.order
					if r.order <= newer[r.Key] {
						continue
					}
					c := store.Change{Record: r.Record}
					if r.deleted {
						c = store.Change{Record: store.Record{Key: r.Key, Rev: r.order}, Gone: true}
					}
					if !yield(c, nil) {
						return
					}
				}
				if len(page) < pageRows {
					break
				}
			}
			changes.end(looks)
			if retry == nil {
				clear(newer)
			}
			select {
			case <-next:
			case <-retry:
			case <-ctx.Done():
			case <-t.e.done:
			}
			if err := t.e.check(ctx); err != nil {
				yield(store.Change{}, err)
				return
			}
		}
	}
}

// current is the table's last revision.
func (t *table) current(ctx context.Context) (uint64, error) {
	if err := t.e.check(ctx); err != nil {
		return 0, err
	}
	var rev uint64
	err := t.e.db.view(ctx, func(q querier) error {
		_, err := q.scanOne([]any{&rev}, `SELECT rev FROM tables WHERE name = $1`, t.o.Name)
		return err
	})
	return rev, err
}

// changed reads the rows that have changed after a revision, in their order.
func (t *table) changed(ctx context.Context, prefix string, after uint64) ([]*row, error) {
	return t.page(ctx, scanBare, `SELECT `+rowColumns+` FROM records WHERE name = $1 AND key`+t.e.db.byteOrder+` >= $2 AND key`+t.e.db.byteOrder+` <= $3 AND changed > $4 ORDER BY changed LIMIT $5`,
		t.o.Name, prefix, prefix+afterKeys, after, pageRows)
}
