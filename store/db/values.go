package db

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/store"
)

// ValueOptions bound a table of values. Zero is no bound.
type ValueOptions struct {
	Life     time.Duration // of a value since its last change
	MaxRows  int           // beyond it the values go that were changed longest ago; see also Add
	MaxBytes int64         // likewise
}

// The tables of values.
const (
	Windows       = "windows"
	Pairs         = "pairs"
	Conversations = "conversations"
	Learned       = "learned"
	Tickets       = "tickets"
	resultTable   = "results"
)

const (
	maxValue  = 512 << 10 // bytes
	trimEvery = 64        // changes
)

// Values are small values by key, in a table. Errors are those of [Tapes].
type Values struct {
	db      *DB
	table   string
	o       ValueOptions
	changes atomic.Int64
}

// Values returns one of the tables of values.
func (db *DB) Values(table string, o ValueOptions) *Values {
	return &Values{db: db, table: table, o: o}
}

// expires returns when a value that is changed now expires.
func (v *Values) expires(life time.Duration) int64 {
	if life == 0 {
		return math.MaxInt64
	}
	return v.db.clock().Add(life).UnixMicro()
}

// get reads a value that has not expired; nil is none. With lock no other transaction may change it until the end of this one.
func (v *Values) get(tx *Tx, key, lock string) (value []byte) {
	found := tx.scanOne([]any{&value}, "SELECT value FROM "+v.table+" WHERE key = $1 AND expires > $2"+lock, plainText(key), v.db.clock().UnixMicro())
	if found && value == nil {
		value = []byte{}
	}
	return value
}

// put stores a value; stored is false if the key has one already. Beyond the bounds the oldest values go. The columns more are those that only this
// table has: names, each followed by its value.
func (v *Values) put(tx *Tx, key string, value []byte, life time.Duration, replace bool, more ...string) (stored bool) {
	now := v.db.clock().UnixMicro()
	columns, args := "key, value, updated, expires", []any{plainText(key), notNil(value), now, v.expires(life)}
	for i := 0; i < len(more); i += 2 {
		columns, args = columns+", "+more[i], append(args, more[i+1])
	}
	condition := ""
	if !replace {
		condition = " WHERE " + v.table + ".expires <= excluded.updated"
	}
	n := tx.exec("INSERT INTO "+v.table+" ("+columns+") VALUES ("+parameters(1, len(args))+") ON CONFLICT (key) DO UPDATE SET value = excluded.value, "+
		"updated = excluded.updated, expires = excluded.expires"+condition, args...)
	if tx.err == nil && v.changes.Add(1)%trimEvery == 1 {
		v.trim(tx)
	}
	return n == 1
}

// Load returns a value; nil is none.
func (v *Values) Load(ctx context.Context, key string) (value []byte, err error) {
	tx := v.db.reader(ctx)
	value = v.get(tx, key, "")
	return value, tx.err
}

// Change replaces a value by what do makes of it; nil is none, both ways. do may be called more than once; it must be quick and must not use
// the database. Its error is Change's and leaves the value as it was.
func (v *Values) Change(ctx context.Context, key string, do func(value []byte) ([]byte, error)) error {
	return v.db.Update(ctx, func(tx *Tx) {
		old := v.get(tx, key, tx.db.lock)
		if tx.err != nil {
			return
		}
		next, err := do(old)
		switch {
		case err != nil:
			tx.fail(err)
		case len(next) > maxValue:
			tx.fail(fmt.Errorf("%w: a value of %d bytes; expected at most %d", store.ErrTooLarge, len(next), maxValue))
		case (old == nil) == (next == nil) && bytes.Equal(old, next):
		case next == nil:
			tx.exec("DELETE FROM "+v.table+" WHERE key = $1", plainText(key))
		case !v.put(tx, key, next, v.o.Life, old != nil): // another process has added it
			tx.fail(errConflict)
		}
	})
}

// All returns the values whose keys begin with a prefix.
func (v *Values) All(ctx context.Context, prefix string) (all map[string][]byte, err error) {
	all = map[string][]byte{}
	tx := v.db.reader(ctx)
	tx.eachPage(pageRows, func(read row) (key string) {
		var value []byte
		read(&key, &value)
		if strings.HasPrefix(key, prefix) {
			all[key] = value
		}
		return key
	}, "SELECT key, value FROM "+v.table+" WHERE key > $1 AND expires > $3 ORDER BY key LIMIT $2", v.db.clock().UnixMicro())
	return all, tx.err
}

// Add adds a value for a time, unless the key has one: then added is false. Where there are MaxRows values already it is [store.ErrFull].
func (v *Values) Add(ctx context.Context, key string, value []byte, life time.Duration) (added bool, err error) {
	err = v.db.Update(ctx, func(tx *Tx) {
		rows := 0
		tx.scanOne([]any{&rows}, "SELECT count(*) FROM "+v.table+" WHERE expires > $1", v.db.clock().UnixMicro())
		if v.o.MaxRows > 0 && rows >= v.o.MaxRows {
			tx.fail(fmt.Errorf("%w: there are %d %s", store.ErrFull, rows, v.table))
		}
		added = v.put(tx, key, value, life, false)
	})
	return added, err
}

// Take removes and returns a value that fits; nil is none. Of several who take a value at the same time, one gets it.
func (v *Values) Take(ctx context.Context, key string, fits func(value []byte) bool) (taken []byte, err error) {
	err = v.Change(ctx, key, func(value []byte) ([]byte, error) {
		if taken = nil; value == nil || !fits(value) {
			return value, nil
		}
		taken = value
		return nil, nil
	})
	return taken, err
}

// trim removes expired values, and the oldest ones beyond the bounds.
func (v *Values) trim(tx *Tx) {
	tx.exec("DELETE FROM "+v.table+" WHERE expires <= $1", v.db.clock().UnixMicro())
	if v.table == Tickets { // Add refuses those beyond the bounds
		return
	}
	for {
		var rows, size, excess int64
		tx.scanOne([]any{&rows, &size}, "SELECT count(*), CAST(coalesce(sum(length(value)), 0) AS BIGINT) FROM "+v.table)
		if v.o.MaxRows > 0 {
			excess = max(rows-int64(v.o.MaxRows), 0)
		}
		if v.o.MaxBytes > 0 && size > v.o.MaxBytes {
			excess = max(excess, rows/10, 1)
		}
		if excess == 0 || tx.err != nil {
			return
		}
		excess = tx.exec("DELETE FROM "+v.table+" WHERE key IN (SELECT key FROM "+v.table+" ORDER BY updated LIMIT $1)", excess)
		v.db.log.Warn("removed the oldest rows of a full table", "table", v.table, "rows", excess)
	}
}

// Results are the answers to messages of webhooks, for senders who send a message again.
type Results struct{ v *Values }

// Results returns the store of answers, which are kept for a time.
func (db *DB) Results(life time.Duration) *Results {
	return &Results{db.Values(resultTable, ValueOptions{Life: life, MaxBytes: 128 << 20})}
}

// Save stores the answer to a message of a session.
func (r *Results) Save(ctx context.Context, message, session string, answer []byte) error {
	return r.v.db.Update(ctx, func(tx *Tx) {
		r.v.put(tx, hashOf([]byte(message)), answer, r.v.o.Life, true, "session", hashOf([]byte(session)))
	})
}

// Load returns the answer to a message; nil is none.
func (r *Results) Load(ctx context.Context, message string) ([]byte, error) {
	return r.v.Load(ctx, hashOf([]byte(message)))
}

// Erase removes the answers to all messages of a session.
func (r *Results) Erase(ctx context.Context, session string) error {
	return r.v.db.change(ctx, nil, "DELETE FROM results WHERE session = $1", hashOf([]byte(session)))
}
