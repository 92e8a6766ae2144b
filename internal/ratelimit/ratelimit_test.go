package ratelimit_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/ratelimit"
)

func TestBucketsAreSeparateAndFillWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets, r := ratelimit.New[string](10), ratelimit.Rate{PerMinute: 60, Burst: 2}
		take := func(key string, want time.Duration) {
			t.Helper()
			if before, got := buckets.Wait(key, r), buckets.Take(key, r); before != want || got != want {
				t.Errorf("%s waits %v, then %v; expected %v", key, before, got, want)
			}
		}
		take("ann", 0)
		take("ann", 0)
		take("ann", time.Second)
		take("bob", 0)
		time.Sleep(time.Second)
		take("ann", 0)
		take("ann", time.Second) // refused ones took nothing
	})
}

func TestABucketGetsANewRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := ratelimit.New[string](10)
		buckets.Take("ann", ratelimit.Rate{PerMinute: 60, Burst: 1})
		if wait := buckets.Wait("ann", ratelimit.Rate{PerMinute: 6, Burst: 1}); wait != 10*time.Second {
			t.Errorf("wait %v, expected 10s", wait)
		}
		if wait := buckets.Take("ann", ratelimit.Rate{}); wait != 0 {
			t.Errorf("wait %v without a limit", wait)
		}
	})
}

func TestDebtIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets, r := ratelimit.New[string](10), ratelimit.Rate{PerMinute: 60}
		for _, step := range []struct {
			tokens int
			want   time.Duration
		}{{59, 0}, {2, 2 * time.Second}, {math.MaxInt, 2*time.Minute + time.Second}, {math.MaxInt, 2*time.Minute + time.Second}} {
			buckets.Charge("ann", r, step.tokens, 2*time.Minute)
			if wait := buckets.Wait("ann", r); wait != step.want {
				t.Errorf("wait %v after %d tokens, expected %v", wait, step.tokens, step.want)
			}
		}
	})
}

func TestTheLeastRecentlyUsedBucketIsDropped(t *testing.T) {
	buckets, r := ratelimit.New[int](2), ratelimit.Rate{PerMinute: 1}
	for _, key := range []int{1, 2, 1, 3} { // 3 drops 2
		buckets.Take(key, r)
	}
	if buckets.Wait(1, r) == 0 || buckets.Wait(2, r) != 0 {
		t.Error("expected 1 to be empty still, and 2 to be full")
	}
}

func TestConcurrentCallersShareABucket(t *testing.T) {
	buckets, r := ratelimit.New[string](10), ratelimit.Rate{PerMinute: 1, Burst: 3}
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if buckets.Take("ann", r) == 0 {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 3 {
		t.Errorf("%d took a token, expected 3", taken.Load())
	}
}
