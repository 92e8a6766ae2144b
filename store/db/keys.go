package db

import (
	"context"
	"encoding/hex"
	"math"
	"time"

	"github.com/lingserve/lingserve/store"
)

// FindKey finds a key that has not expired.
func (r *Runs) FindKey(ctx context.Context, owner, key string) (k store.IdempotencyKey, found bool, err error) {
	tx := r.db.reader(ctx)
	k, found = tx.findKey(owner, key)
	return k, found, tx.err
}

// SetKey stores a key, or makes it lead to another run.
func (r *Runs) SetKey(ctx context.Context, k store.IdempotencyKey) error {
	return r.db.Update(ctx, func(tx *Tx) { tx.putKey(k, math.MaxInt64) })
}

// putKey stores a key. It replaces one that expires at replaced or before; stored is false if another one exists.
func (tx *Tx) putKey(k store.IdempotencyKey, replaced int64) (stored bool) {
	return tx.exec(`INSERT INTO idempotency_keys (owner, key, request_hash, run, expires) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, key) DO UPDATE
		SET request_hash = excluded.request_hash, run = excluded.run, expires = excluded.expires WHERE idempotency_keys.expires <= $6`,
		plainText(k.Owner), hashOfKey(k.Owner, k.Key), hex.EncodeToString(k.Hash[:]), k.Run, expiryOf(k.Expires), replaced) == 1
}

// claimKey stores a key, unless it leads to another run: then it returns the stored one.
func (tx *Tx) claimKey(k store.IdempotencyKey) (taken *store.IdempotencyKey) {
	if tx.putKey(k, tx.db.clock().UnixMicro()) {
		return nil
	}
	other, found := tx.findKey(k.Owner, k.Key)
	switch {
	case !found: // another process has just removed it
		tx.fail(errConflict)
		return nil
	case other.Run == k.Run: // stored by a call that failed later
		return nil
	}
	return &other
}

func (tx *Tx) findKey(owner, key string) (k store.IdempotencyKey, found bool) {
	var hash string
	k.Owner, k.Key = owner, key
	found = tx.scanOne([]any{&hash, &k.Run, date{&k.Expires}}, "SELECT request_hash, run, expires FROM idempotency_keys WHERE owner = $1 AND key = $2 AND expires > $3",
		plainText(owner), hashOfKey(owner, key), tx.db.clock().UnixMicro())
	_, err := hex.Decode(k.Hash[:], []byte(hash))
	tx.fail(err)
	return k, found
}

func hashOfKey(owner, key string) string { return hashOf([]byte(owner + "\x00" + key)) }

// expiryOf returns what is stored of the time at which a row expires.
func expiryOf(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixMicro()
}

// date scans microseconds since 1970; "not yet" and "never" are the zero time.
type date struct{ *time.Time }

// Scan implements [sql.Scanner].
func (d date) Scan(v any) error {
	*d.Time = time.Time{}
	if microseconds, _ := v.(int64); microseconds != 0 && microseconds != math.MaxInt64 {
		*d.Time = dateOf(microseconds)
	}
	return nil
}
