package web

import (
	"crypto/sha256"
	"slices"
	"time"
)

// keys knows which run each Idempotency-Key has started. Entries hold no pointers and no text of the client's, so that a
// hundred thousand of them are no burden. The lock of runs guards it.
type keys struct {
	retention time.Duration
	entries   map[[16]byte]keyEntry
}

// keyEntry is one key. Times are of the wall clock, since they must mean something after a restart.
type keyEntry struct {
	key  [16]byte // what the client's key hashes to, with whose it is
	hash [16]byte // of the request
	run  [26]byte
	at   int64 // seconds
}

func (e keyEntry) id() string { return string(e.run[:]) }

// maxKeys bounds how many keys are known; beyond it the oldest are forgotten early.
const maxKeys = 100_000

func newKeys(retention time.Duration) *keys {
	return &keys{retention: retention, entries: map[[16]byte]keyEntry{}}
}

// hashKey tells the keys of one principal from those of all others: no name and no key has a NUL in it.
func hashKey(owner, key string) [16]byte {
	if owner != "" {
		key = owner + "\x00" + key
	}
	sum := sha256.Sum256([]byte(key))
	return [16]byte(sum[:])
}

func (k *keys) get(owner, key string) (keyEntry, bool) {
	e, ok := k.entries[hashKey(owner, key)]
	return e, ok
}

func (k *keys) put(owner, key string, request [16]byte, run string) keyEntry {
	e := keyEntry{key: hashKey(owner, key), hash: request, at: time.Now().Unix()}
	if copy(e.run[:], run) != len(run) {
		panic("web: a run's id of another length")
	}
	k.entries[e.key] = e
	k.bound()
	return e
}

// forget forgets the keys that lead to a run.
func (k *keys) forget(run string) {
	for key, e := range k.entries {
		if e.id() == run {
			delete(k.entries, key)
		}
	}
}

// expired says whether a key need not be known any more. One from the future was written before the clock was set back: it
// stays until the clock has caught up.
func (k *keys) expired(e keyEntry, now time.Time) bool {
	return now.Unix()-e.at >= int64(k.retention/time.Second)
}

// sweep forgets what has expired and says whether there was any.
func (k *keys) sweep(now time.Time) (some bool) {
	for key, e := range k.entries {
		if k.expired(e, now) {
			delete(k.entries, key)
			some = true
		}
	}
	return some
}

// bound forgets the oldest tenth where there are too many, so that the work of finding them is not done for each new key.
func (k *keys) bound() {
	if len(k.entries) <= maxKeys {
		return
	}
	times := make([]int64, 0, len(k.entries))
	for _, e := range k.entries {
		times = append(times, e.at)
	}
	slices.Sort(times)
	limit := times[len(times)/10]
	for key, e := range k.entries {
		if e.at <= limit && len(k.entries) > maxKeys*9/10 {
			delete(k.entries, key)
		}
	}
}
