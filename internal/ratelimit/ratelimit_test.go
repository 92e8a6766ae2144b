package ratelimit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/ratelimit"
)

func TestBucketsAreSeparateAndFillWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := ratelimit.New[string](10)
		use := func(key string) bool { return buckets.Get(key, ratelimit.PerMinute(60), 2).Allow() }
		if !use("ann") || !use("ann") || use("ann") || !use("bob") {
			t.Error("expected two tokens for ann, and others for bob")
		}
		if wait := ratelimit.Wait(buckets.Get("ann", ratelimit.PerMinute(60), 2), time.Now()); wait != time.Second {
			t.Errorf("wait %v, expected 1s", wait)
		}
		time.Sleep(time.Second)
		if !use("ann") || use("ann") {
			t.Error("expected one token after a second")
		}
	})
}

func TestABucketTakesANewRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := ratelimit.New[string](10)
		buckets.Get("ann", ratelimit.PerMinute(60), 1).Allow()
		if wait := ratelimit.Wait(buckets.Get("ann", ratelimit.PerMinute(6), 1), time.Now()); wait != 10*time.Second {
			t.Errorf("wait %v, expected 10s", wait)
		}
	})
}

func TestTheLeastRecentlyUsedBucketIsDropped(t *testing.T) {
	buckets := ratelimit.New[int](2)
	use := func(key int) bool { return buckets.Get(key, ratelimit.PerMinute(1), 1).Allow() }
	use(1)
	use(2)
	use(1)
	use(3) // drops 2
	if use(1) || !use(2) {
		t.Error("expected 1 to be empty still, and 2 to be full")
	}
}

func TestOneBucketIsSharedByConcurrentCallers(t *testing.T) {
	buckets := ratelimit.New[string](10)
	var mu sync.Mutex
	passed := 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if buckets.Get("ann", ratelimit.PerMinute(1), 3).AllowN(time.Time{}, 1) {
				mu.Lock()
				passed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if passed != 3 {
		t.Errorf("%d passed, expected 3", passed)
	}
}
