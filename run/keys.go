package run

import (
	"cmp"
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
		panic("run: an id of another length")
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

// bound forgets keys early where there are too many, a tenth at once, so that the work is not done for each new key. The newest key of each
// caller stays first, then the second newest of each, and so on: each caller has a share of the same size, and one that needs less leaves the
// rest to the others. So a caller who floods the server with keys loses their own.
func (k *keys) bound() {
	if len(k.entries) <= k.most {
		return
	}
	list := slices.SortedFunc(maps.Values(k.entries), func(a, b keyEntry) int { return cmp.Compare(b.at, a.at) })
	rank := make(map[[16]byte]int, len(list)) // of each key among those of its caller
	seen := map[[8]byte]int{}
	for _, e := range list {
		rank[e.key] = seen[e.owner]
		seen[e.owner]++
	}
	slices.SortStableFunc(list, func(a, b keyEntry) int { return cmp.Compare(rank[a.key], rank[b.key]) })
	for _, e := range list[k.most*9/10:] {
		delete(k.entries, e.key)
	}
}
