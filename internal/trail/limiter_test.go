package trail_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/trail"
)

func TestRepeatedLinesAreFewEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := trail.NewLineLimiter()
		write := func(reason, client string, n int) (written int) {
			for range n {
				if l.Allow(trail.Repeated{Reason: reason, Client: client}) {
					written++
				}
			}
			return written
		}
		for _, test := range []struct {
			reason, client string
			n, want        int
		}{{"none", "a", 1000, 3}, {"origin", "a", 2, 2}, {"none", "b", 1, 1}} {
			if got := write(test.reason, test.client, test.n); got != test.want {
				t.Errorf("%s of %s: %d lines, want %d", test.reason, test.client, got, test.want)
			}
		}
		time.Sleep(time.Minute)
		if got := write("none", "a", 5); got != 3 {
			t.Errorf("%d lines in the next minute", got)
		}
		all := 0
		for i := range 10_000 {
			all += write("none", "c"+strconv.Itoa(i), 1)
		}
		if all > 1000 {
			t.Errorf("%d lines of many addresses", all)
		}
	})
}
