package db

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/lingserve/lingserve/store"
)

// FindKey finds a key that has not expired.
func (r *Runs) FindKey(ctx context.Context, owner, key string) (k store.IdempotencyKey, found bool, err error) {
	err = r.db.view(ctx, func(q querier) (err error) {
		k, found, err = findKey(q, owner, key)
		return err
	})
	return k, found, err
}

// SetKey stores a key, or makes it lead to another run.
func (r *Runs) SetKey(ctx context.Context, k store.IdempotencyKey) error {
	_, err := r.db.exec(ctx, `INSERT INTO idempotency_keys (owner, key, request_hash, run, expires) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, key) DO UPDATE
		SET request_hash = excluded.request_hash, run = excluded.run, expires = excluded.expires`,
		plainText(k.Owner), hashOfKey(k.Owner, k.Key), hex.EncodeToString(k.Hash[:]), k.Run, expiryOf(k.Expires))
	return err
}

// freeKey removes a key that leads to a run.
func (tx *Tx) freeKey(owner, key, run string) error {
	_, err := tx.exec("DELETE FROM idempotency_keys WHERE owner = $1 AND key = $2 AND run = $3", plainText(owner), hashOfKey(owner, key), run)
	return err
}

func (tx *Tx) putKey(k store.IdempotencyKey) (taken *store.IdempotencyKey, err error) {
	for range maxMoves {
		n, err := tx.exec(`INSERT INTO idempotency_keys (owner, key, request_hash, run, expires) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, key) DO UPDATE
			SET request_hash = excluded.request_hash, run = excluded.run, expires = excluded.expires WHERE idempotency_keys.expires <= $6`,
			plainText(k.Owner), hashOfKey(k.Owner, k.Key), hex.EncodeToString(k.Hash[:]), k.Run, expiryOf(k.Expires), tx.db.clock().UnixMicro())
		if n == 1 || err != nil {
			return nil, err
		}
		stored, found, err := findKey(tx.querier, k.Owner, k.Key)
		switch {
		case err != nil, found && stored.Run == k.Run: // stored by a call that failed later
			return nil, err
		case found:
			return &stored, nil
		} // else another process has just removed it
	}
	return nil, fmt.Errorf("%w: too many writers use the key", store.ErrAway)
}

func findKey(q querier, owner, key string) (k store.IdempotencyKey, found bool, err error) {
	var hash string
	var expires int64
	k.Owner, k.Key = owner, key
	found, err = q.scanOne([]any{&hash, &k.Run, &expires}, "SELECT request_hash, run, expires FROM idempotency_keys WHERE owner = $1 AND key = $2 AND expires > $3",
		plainText(owner), hashOfKey(owner, key), q.db.clock().UnixMicro())
	if err == nil && found {
		_, err = hex.Decode(k.Hash[:], []byte(hash))
	}
	k.Expires = optionalDate(expires)
	return k, found, err
}

func hashOfKey(owner, key string) string { return hashOf([]byte(owner + "\x00" + key)) }

// expiryOf returns what is stored of the time at which a row expires.
func expiryOf(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixMicro()
}

// optionalDate returns a stored time; "not yet" and "never" are zero.
func optionalDate(microseconds int64) (t time.Time) {
	if microseconds != 0 && microseconds != math.MaxInt64 {
		t = dateOf(microseconds)
	}
	return t
}
