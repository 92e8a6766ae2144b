package access_test

import (
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
			if d := l.Request("ann"); d != nil {
				t.Fatalf("request %d: %+v", i, d)
			}
		}
		d := l.Request("ann")
		if d == nil || d.Status != http.StatusTooManyRequests || d.Code != "rate_limited" || d.Reason != "limit_requests" || d.RetryAfter != time.Second {
			t.Fatalf("%+v", d)
		}
		if d := l.Request("bob"); d != nil {
			t.Errorf("%+v", d)
		}
		time.Sleep(999 * time.Millisecond)
		if d := l.Request("ann"); d == nil || d.RetryAfter != time.Millisecond {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Millisecond)
		if d := l.Request("ann"); d != nil {
			t.Errorf("after the time that was named: %+v", d)
		}
		time.Sleep(time.Hour)
		for i := range 6 {
			if d := l.Request("ann"); (d == nil) != (i < 5) {
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
			if want == 0 && d == nil {
				end()
			} else if d == nil || d.RetryAfter != want || d.Reason != "limit_tokens" {
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
		if d := l.Request("ann"); d != nil {
			t.Errorf("requests are not limited: %+v", d)
		}
		time.Sleep(5*time.Minute + 100*time.Millisecond)
		run(0)
	})
}

func TestRunsAtOnceAreBoundedForEachCaller(t *testing.T) {
	l := access.NewLimits(access.LimitsOptions{Runs: 2})
	begin := func(name string, refused bool) func() {
		t.Helper()
		end, d := l.Run(name)
		if (d != nil) != refused || (end == nil) != refused {
			t.Errorf("%s: %+v, want it to be refused: %v", name, d, refused)
		}
		if refused && (d.Reason != "limit_runs" || d.RetryAfter <= 0 || d.Status != 429 || d.Code != "rate_limited") {
			t.Errorf("%s: %+v", name, d)
		}
		return end
	}
	one := begin("ann", false)
	begin("ann", false)
	begin("ann", true)
	begin("bob", false)
	one()
	one() // a second time ends nothing more
	begin("ann", false)
	begin("ann", true)
}

func TestWithoutLimitsEverythingMayHappen(t *testing.T) {
	l := access.NewLimits(access.LimitsOptions{})
	for range 1000 {
		l.Charge("ann", 1<<40)
		if d := l.Request("ann"); d != nil {
			t.Fatal(d)
		}
		if _, d := l.Run("ann"); d != nil {
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
				if d := l.Request("ann"); d != nil {
					if d.RetryAfter > time.Minute/time.Duration(rate.PerMinute)+time.Nanosecond {
						wrong = fmt.Sprintf("wait %v for one", d.RetryAfter)
						return
					}
					time.Sleep(d.RetryAfter + time.Microsecond) // answers round it up to seconds
					if d := l.Request("ann"); d != nil {
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
	fmt.Println(d.Reason, d.RetryAfter)
	end()
	_, d = limits.Run("ann")
	fmt.Println(d == nil)
	// Output:
	// limit_runs 2s
	// true
}
