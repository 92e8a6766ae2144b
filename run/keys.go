package run

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/web/once"
)

// keys knows which run each Idempotency-Key has started. Entries hold no pointers and no text of the client's, so that a
// hundred thousand of them are no burden.
type keys struct {
	mu        sync.Mutex
	retention time.Duration
	most      int // beyond it the oldest keys of the callers with the most are forgotten early
	entries   map[[16]byte]keyEntry
}

// keyEntry is one key. Times are of the wall clock, since they must mean something after a restart.
type keyEntry struct {
	key   [16]byte // what the client's key hashes to, with whose it is
	hash  [16]byte // of the request
	owner [8]byte  // what the name of its owner hashes to
	run   [26]byte
	at    int64 // seconds
}

func (e keyEntry) id() string { return string(e.run[:]) }

// maxKeys bounds how many keys are known.
const maxKeys = 100_000

func newKeys(retention time.Duration) *keys {
	return &keys{retention: retention, most: maxKeys, entries: map[[16]byte]keyEntry{}}
}

func hashOwner(owner string) [8]byte {
	sum := sha256.Sum256([]byte(owner))
	return [8]byte(sum[:])
}

func (k *keys) get(owner, key string) (keyEntry, bool) {
	e, ok := k.entries[once.Hash(owner, key)]
	return e, ok
}

func (k *keys) put(owner, key string, request [16]byte, run string) keyEntry {
	e := keyEntry{key: once.Hash(owner, key), hash: request, owner: hashOwner(owner), at: time.Now().Unix()}
	if copy(e.run[:], run) != len(run) {
		panic("run: an of another length")
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
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.entries)
	maps.DeleteFunc(k.entries, func(_ [16]byte, e keyEntry) bool { return k.expired(e, now) })
	return len(k.entries) < before
}

// bound forgets keys early where there are too many, a tenth at once, so that the work is not done for each new key. It takes the oldest
// keys of the callers with the most: each caller has a share of the same size, and one that needs less leaves the rest to the others. So
// a caller who floods the server with keys loses their own.
func (k *keys) bound() {
	if len(k.entries) <= k.most {
		return
	}
	room := k.most * 9 / 10
	times := map[[8]byte][]int64{} // of the keys of each caller
	for _, e := range k.entries {
		times[e.owner] = append(times[e.owner], e.at)
	}
	share := max(fairShare(times, room), 1)
	cuts := map[[8]byte]*cut{}
	for owner, list := range times {
		if surplus := len(list) - share; surplus > 0 {
			cuts[owner] = newCut(list, surplus)
		}
	}
	k.forgetBy(func(e keyEntry) *cut { return cuts[e.owner] })
	if surplus := len(k.entries) - room; surplus > 0 { // there are more callers than room for one key of each
		var list []int64
		for _, e := range k.entries {
			list = append(list, e.at)
		}
		all := newCut(list, surplus)
		k.forgetBy(func(keyEntry) *cut { return all })
	}
}

// cut is how many keys are to be forgotten of those that are not younger than a time.
type cut struct {
	n     int
	until int64
}

// newCut returns the cut that takes the n oldest of keys with these times, which it sorts.
func newCut(times []int64, n int) *cut {
	slices.Sort(times)
	return &cut{n, times[n-1]}
}

// forgetBy forgets the keys that their cuts take; nil takes none.
func (k *keys) forgetBy(cutOf func(keyEntry) *cut) {
	for key, e := range k.entries {
		if c := cutOf(e); c != nil && c.n > 0 && e.at <= c.until {
			delete(k.entries, key)
			c.n--
		}
	}
}

// fairShare is how many keys each caller may have, so that all have room together.
func fairShare(times map[[8]byte][]int64, room int) int {
	counts := make([]int, 0, len(times))
	for _, list := range times {
		counts = append(counts, len(list))
	}
	slices.Sort(counts)
	for i, n := range counts {
		share := room / (len(counts) - i)
		if n > share {
			return share
		}
		room -= n
	}
	return counts[len(counts)-1]
}
