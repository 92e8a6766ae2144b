// Package ratelimit has token buckets for many callers, in bounded memory.
package ratelimit

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Rate is how many tokens a bucket gets in a minute, and how many it holds. A PerMinute of 0 or less is no limit.
type Rate struct {
	PerMinute int
	Burst     int // 0 is a minute's worth
}

// Buckets has a token bucket for each key. It drops the least recently used ones; they are full when their key comes back. It is safe for
// concurrent use.
type Buckets[K comparable] struct{ cache *lru.Cache[K, *rate.Limiter] }

// New returns at most max buckets; max is positive.
func New[K comparable](max int) *Buckets[K] {
	cache, err := lru.New[K, *rate.Limiter](max)
	if err != nil {
		panic(err)
	}
	return &Buckets[K]{cache}
}

// Wait returns how long it takes until the bucket of a key has a token. It makes no bucket.
func (b *Buckets[K]) Wait(key K, r Rate) time.Duration {
	bucket, ok := b.cache.Peek(key)
	if !ok || r.PerMinute <= 0 {
		return 0
	}
	r.apply(bucket)
	missing := 1 - bucket.Tokens()
	return max(0, time.Duration(missing/float64(bucket.Limit())*float64(time.Second)))
}

// Take takes a token, or returns how long it takes until there is one.
func (b *Buckets[K]) Take(key K, r Rate) (wait time.Duration) {
	if r.PerMinute <= 0 {
		return 0
	}
	now := time.Now()
	token := b.get(key, r).ReserveN(now, 1)
	if wait = token.DelayFrom(now); wait > 0 {
		token.CancelAt(now)
	}
	return wait
}

// Charge takes n tokens, also if the bucket has fewer. The bucket is then in debt, for at most maxDebt.
func (b *Buckets[K]) Charge(key K, r Rate, n int, maxDebt time.Duration) {
	if r.PerMinute <= 0 {
		return
	}
	now, bucket := time.Now(), b.get(key, r)
	n = int(min(float64(n), bucket.TokensAt(now)+maxDebt.Minutes()*float64(r.PerMinute)))
	for size := bucket.Burst(); n > 0; n -= size { // it gives no more than its size at once
		bucket.ReserveN(now, min(n, size))
	}
}

// get returns the bucket of a key, with this rate, which may have changed.
func (b *Buckets[K]) get(key K, r Rate) *rate.Limiter {
	bucket, ok := b.cache.Get(key)
	if !ok {
		bucket = rate.NewLimiter(r.limits())
		if other, found, _ := b.cache.PeekOrAdd(key, bucket); found {
			bucket = other
		}
	}
	r.apply(bucket)
	return bucket
}

func (r Rate) limits() (rate.Limit, int) {
	if r.Burst <= 0 {
		r.Burst = r.PerMinute
	}
	return rate.Limit(r.PerMinute) / 60, r.Burst
}

func (r Rate) apply(bucket *rate.Limiter) {
	limit, burst := r.limits()
	bucket.SetLimit(limit)
	bucket.SetBurst(burst)
}
