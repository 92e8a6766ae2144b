package access_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
)

// SE-16: requests of one caller are bounded, and another one's are not touched.
func TestRequestsInAShortTimeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: 60, Burst: 5}})
		for i := range 5 {
			if d := l.Request("ann"); !d.OK() {
				t.Fatalf("request %d: %+v", i, d)
			}
		}
		d := l.Request("ann")
		if d != (access.Decision{Limit: access.LimitRequests, RetryAfter: time.Second}) {
			t.Fatalf("%+v", d)
		}
		refusal, ok := errors.AsType[*access.Refusal](d.Err())
		if !ok || refusal.Status != http.StatusTooManyRequests || refusal.Code != "rate_limited" || refusal.RetryAfter != time.Second {
			t.Errorf("%#v", d.Err())
		}
		if d := l.Request("bob"); !d.OK() || d.Err() != nil {
			t.Errorf("%+v", d)
		}
		time.Sleep(999 * time.Millisecond)
		if d := l.Request("ann"); d.RetryAfter != time.Millisecond {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Millisecond)
		if d := l.Request("ann"); !d.OK() {
			t.Errorf("after the time that was named: %+v", d)
		}
		time.Sleep(time.Hour)
		for i := range 6 {
			if d := l.Request("ann"); d.OK() != (i < 5) {
				t.Errorf("after a pause, request %d: %+v", i, d)
			}
		}
	})
}

// SE-16: tokens are charged when they are known; who has used too many waits, but not for ever.
func TestTokensAreChargedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := access.NewLimits(access.LimitsOptions{Tokens: access.Rate{PerMinute: 600, Burst: 1000}, Debt: 5 * time.Minute})
		run := func(want time.Duration) {
			t.Helper()
			end, d := l.Run("ann")
			if d.OK() {
				end()
			}
			if d.RetryAfter != want || !d.OK() && d.Limit != access.LimitTokens {
				t.Errorf("%+v, want %v", d, want)
			}
		}
		run(0)
		l.Charge("ann", 999)
		run(0) // one is left
		l.Charge("ann", 601)
		run(60*time.Second + 100*time.Millisecond) // 600 in debt, and one to begin with
		time.Sleep(60 * time.Second)
		run(100 * time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		run(0)
		l.Charge("ann", math.MaxInt)
		l.Charge("ann", math.MaxInt)
		run(5*time.Minute + 100*time.Millisecond)
		l.Charge("ann", -1000) // no such thing
		run(5*time.Minute + 100*time.Millisecond)
		if d := l.Request("ann"); !d.OK() {
			t.Errorf("requests are not limited: %+v", d)
		}
		time.Sleep(5*time.Minute + 100*time.Millisecond)
		run(0)
	})
}

func TestRunsAtOnceAreBoundedForEachCaller(t *testing.T) {
	l := access.NewLimits(access.LimitsOptions{Runs: 2})
	begin := func(name string, want access.Limit) func() {
		t.Helper()
		end, d := l.Run(name)
		if d.Limit != want || (end == nil) != (want != "") || !d.OK() && d.RetryAfter <= 0 {
			t.Errorf("%s: %+v, want %q", name, d, want)
		}
		return end
	}
	one := begin("ann", "")
	begin("ann", "")
	begin("ann", access.LimitRuns)
	begin("bob", "")
	one()
	one() // a second time ends nothing more
	begin("ann", "")
	begin("ann", access.LimitRuns)
	_, d := l.Run("ann")
	if refusal, ok := errors.AsType[*access.Refusal](d.Err()); !ok || refusal.Status != 429 || refusal.Code != "rate_limited" {
		t.Errorf("%#v", d.Err())
	}
}

func TestWithoutLimitsEverythingMayHappen(t *testing.T) {
	l := access.NewLimits(access.LimitsOptions{})
	for range 1000 {
		l.Charge("ann", 1<<40)
		if d := l.Request("ann"); !d.OK() {
			t.Fatal(d)
		}
		if _, d := l.Run("ann"); !d.OK() {
			t.Fatal(d)
		}
	}
}

// A bucket lets through its size and what time has put into it, never more, and always that.
func TestNoMoreGoesThroughThanTimeAllows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := access.Rate{PerMinute: rapid.IntRange(1, 6000).Draw(rt, "rate"), Burst: rapid.IntRange(1, 50).Draw(rt, "burst")}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 5000), 1, 200).Draw(rt, "pauses")
		wrong := "" // rapid fails by a panic, which does not leave a bubble
		synctest.Test(t, func(*testing.T) {
			l := access.NewLimits(access.LimitsOptions{Requests: rate})
			began := time.Now()
			passed := 0
			for _, p := range pauses {
				time.Sleep(time.Duration(p) * time.Millisecond)
				if d := l.Request("ann"); !d.OK() {
					if d.RetryAfter > time.Minute/time.Duration(rate.PerMinute)+time.Nanosecond {
						wrong = fmt.Sprintf("wait %v for one", d.RetryAfter)
						return
					}
					time.Sleep(d.RetryAfter + time.Microsecond) // answers round it up to seconds
					if d := l.Request("ann"); !d.OK() {
						wrong = fmt.Sprintf("%+v after the time that was named", d)
						return
					}
				}
				passed++
				most := float64(rate.Burst) + time.Since(began).Minutes()*float64(rate.PerMinute)
				if float64(passed) > most+1e-6*most {
					wrong = fmt.Sprintf("%d went through in %v", passed, time.Since(began))
					return
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func ExampleLimits() {
	limits := access.NewLimits(access.LimitsOptions{Runs: 1})
	end, _ := limits.Run("ann")
	_, d := limits.Run("ann")
	fmt.Println(d.Limit, d.RetryAfter)
	end()
	_, d = limits.Run("ann")
	fmt.Println(d.OK())
	// Output:
	// runs 2s
	// true
}
