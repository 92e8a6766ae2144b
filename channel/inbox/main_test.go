package inbox_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/channel/owner/ownertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
)

func TestMain(m *testing.M) {
	longtest.Checks(10, 100)
	ownertest.Main(m)
}

// suite runs the tests of all journals. Each call of place returns an empty place.
func suite(t *testing.T, place func(testing.TB) ownertest.Place) {
	var clock *journaltest.Clock
	now := time.Now
	if place(t).Owners != nil {
		clock = new(journaltest.Clock)
		clock.Sleep(1e18) // long after 1970
		now = clock.Now
	}
	type process struct {
		ownertest.Place
		e store.Engine
	}
	var mu sync.Mutex
	of := map[channel.Journal]process{}
	open := func(t testing.TB, p ownertest.Place) channel.Journal {
		t.Helper()
		e := p.Open(t)
		j, err := inbox.OpenWith(t.Context(), e, now, inbox.Options{Owners: p.Owners, Shown: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		mu.Lock()
		defer mu.Unlock()
		of[j] = process{p, e}
		return j
	}
	end := func(j channel.Journal) process {
		mu.Lock()
		defer mu.Unlock()
		return of[j]
	}
	journaltest.Run(t, journaltest.Store{
		Clock: clock, Keeps: true,
		Open: func(t testing.TB) channel.Journal { return open(t, place(t)) },
		Close: func(j channel.Journal) {
			_ = j.(*inbox.Inbox).Close()
			_ = end(j).e.Close()
		},
		Reopen: func(t testing.TB, j channel.Journal) channel.Journal {
			p := end(j)
			j.(*inbox.Inbox).Abandon(p.Kill)
			if p.Apart { // else a database would have too many connections in the end
				_ = p.e.Close()
			}
			return open(t, p.Place)
		},
	})
}

func TestInbox(t *testing.T) { ownertest.Each(t, suite) } // ST-28, CL-02, CL-14
