package turn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/turn"
)

// DO-08: a caller with many sessions that wait keeps another one waiting for a single turn.
func TestDO_08_CallersTakeTurnsWhereTurnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 1, Caller: func(s turn.SessionID) string {
			if strings.Contains(string(s), "many") {
				return "many"
			}
			return "one"
		}})
		l.submit("many-0", "many-0", "")
		for i := 1; i <= 20; i++ {
			l.submit(fmt.Sprintf("many-%d", i), fmt.Sprintf("many-%d", i), "")
		}
		l.submit("one-1", "one-1", "")
		l.submit("one-2", "one-2", "")
		var began []string
		for i := range 23 {
			synctest.Wait()
			for _, line := range strings.Fields(l.String()) {
				if at, ok := strings.CutPrefix(line, "+"); ok && !slices.Contains(began, at) {
					began = append(began, at)
				}
			}
			if len(began) != i+1 {
				t.Fatalf("%d have begun, want %d: %v", len(began), i+1, began)
			}
			l.open(began[i])
		}
		if want := []string{"many-0", "many-1", "one-1", "many-2", "one-2", "many-3", "many-4"}; !slices.Equal(began[:len(want)], want) {
			t.Errorf("they began as %v", began)
		}
	})
}
