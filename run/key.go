package run

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
)

// keyReused is the error of a key that was used before, for another request.
func keyReused() *Error {
	const detail = "belongs to another request; use a new one"
	return &Error{Kind: ErrKeyReused, Detail: "the Idempotency-Key " + detail, Fields: []Field{{Header: "Idempotency-Key", Detail: detail}}}
}

// keyTaken says that the key of a start has come to lead to another run.
type keyTaken struct{ store.IdempotencyKey }

func (*keyTaken) Error() string { return "run: the Idempotency-Key leads to another run" }

// keyLocks let one start at a time have a key.
type keyLocks struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func (k *keyLocks) lock(owner, key string) (unlock func()) {
	m := &k.locks[maphash.String(k.seed, owner+"\x00"+key)%uint64(len(k.locks))]
	m.Lock()
	return sync.OnceFunc(m.Unlock)
}

// keyOf is the key of a start that leads to a run.
func (s *Service) keyOf(sp *spec, run string) *store.IdempotencyKey {
	if sp.key == "" {
		return nil
	}
	return &store.IdempotencyKey{Owner: sp.owner, Key: sp.key, Hash: sp.hash, Run: run, Expires: time.Now().Add(s.o.KeyRetention)}
}

// moveKey lets the key of a message, if it has one, lead to the run that the message was given to, or back to its own.
func (s *Service) moveKey(sp *spec, to string) {
	k := s.keyOf(sp, to)
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	taken, err := s.store.PutKey(ctx, *k)
	if err == nil && taken != nil && taken.Run != to {
		_, err = s.store.MoveKey(ctx, sp.owner, sp.key, taken.Run, to)
	}
	if err != nil {
		s.log.WarnContext(ctx, "cannot link an idempotency key to its run", "run", to, "error", err)
	}
}
