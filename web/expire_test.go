package web

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// sessionIDs are the ids of all sessions.
func sessionIDs(t *testing.T, s tape.Store) []string {
	t.Helper()
	found := map[string]bool{}
	for in, err := range s.Sessions(t.Context(), tape.SessionQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		found[in.Session] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// DH-07
func TestUnusedSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions, err := db.Open(t.Context(), "memory", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sessions.Close()
		a := newAgentBench(t, func(o *Options, ao *agent.Options) {
			tapes := sessions.Tapes(nil)
			o.Tapes, ao.Store, o.KeepUnnamed, o.KeepSessions = tapes, tapes, 20*time.Minute, time.Hour
		})
		defer a.s.Close()
		a.servePipes()
		ask := func(body string) string {
			t.Helper()
			got := a.whole("POST", "/v1/runs?format=json", body)
			if got.Status != 200 {
				t.Fatalf("%+v", got)
			}
			return got.Header.Get("X-Run-Id")
		}
		once := ask(`{"agent":"assistant","input":"hi"}`)
		twice := ask(`{"agent":"assistant","input":"hi"}`)
		ask(`{"agent":"assistant","session":"` + twice + `","input":"again"}`)
		ask(`{"agent":"assistant","session":"named","input":"hi"}`)
		sleep := func(d time.Duration) []string {
			time.Sleep(d)
			synctest.Wait()
			return sessionIDs(t, a.s.o.Tapes)
		}
		if got, want := sleep(15*time.Minute), slices.Sorted(slices.Values([]string{once, twice, "named"})); !slices.Equal(got, want) {
			t.Errorf("after 15 minutes: %q, want %q", got, want)
		}
		if got, want := sleep(16*time.Minute), slices.Sorted(slices.Values([]string{twice, "named"})); !slices.Equal(got, want) {
			t.Errorf("after 31 minutes: %q, want %q", got, want)
		}
		ask(`{"agent":"assistant","session":"named","input":"hi"}`)
		if got := sleep(40 * time.Minute); !slices.Equal(got, []string{"named"}) {
			t.Errorf("after 71 minutes: %q, want the one that was used again", got)
		}
	})
}
