// Package ratelimit has token buckets for many callers, in bounded memory.
package ratelimit

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Buckets has a token bucket for each key. It drops the least recently used ones; they are full if their key comes back. It is safe for
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

// Get returns the bucket of a key, with this rate and size from now on. A new bucket is full.
func (b *Buckets[K]) Get(key K, limit rate.Limit, burst int) *rate.Limiter {
	bucket, found := b.cache.Get(key)
	if !found {
		bucket = rate.NewLimiter(limit, burst)
		if other, found, _ := b.cache.PeekOrAdd(key, bucket); found {
			bucket = other
		}
	}
	if bucket.Limit() != limit {
		bucket.SetLimit(limit)
	}
	if bucket.Burst() != burst {
		bucket.SetBurst(burst)
	}
	return bucket
}

// PerMinute returns the rate of n tokens a minute.
func PerMinute(n int) rate.Limit { return rate.Limit(n) / 60 }

// Wait returns how long it takes until the bucket has a token.
func Wait(bucket *rate.Limiter, now time.Time) time.Duration {
	return max(0, time.Duration((1-bucket.TokensAt(now))/float64(bucket.Limit())*float64(time.Second)))
}
