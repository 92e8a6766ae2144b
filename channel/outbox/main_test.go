package outbox_test

import (
	"sync"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/outboxtest"
	"github.com/lingserve/lingserve/channel/owner/ownertest"
)

func TestMain(m *testing.M) { ownertest.Main(m) }

// suite runs the tests of all stores of outboxes. Each call of place returns an empty place.
func suite(t *testing.T, place func(testing.TB) ownertest.Place) {
	var mu sync.Mutex
	of := map[channel.OutboxStore]ownertest.Place{}
	open := func(t testing.TB, p ownertest.Place) channel.OutboxStore {
		t.Helper()
		o, err := outbox.Open(t.Context(), p.Open(t), outbox.Options{Owners: p.Owners, Bytes: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.Close() })
		mu.Lock()
		defer mu.Unlock()
		of[o] = p
		return o
	}
	placeOf := func(o channel.OutboxStore) ownertest.Place {
		mu.Lock()
		defer mu.Unlock()
		return of[o]
	}
	s := outboxtest.Store{
		Open: func(t testing.TB) channel.OutboxStore { return open(t, place(t)) },
		Reopen: func(t testing.TB, o channel.OutboxStore) channel.OutboxStore {
			p := placeOf(o)
			o.(*outbox.Outbox).Abandon(p.Kill)
			return open(t, p)
		},
	}
	if place(t).Owners != nil {
		s.Pause = func(t testing.TB, o channel.OutboxStore) channel.OutboxStore {
			p := placeOf(o)
			p.Kill(o.(*outbox.Outbox).Owner())
			return open(t, p)
		}
		s.Join = func(t testing.TB, o channel.OutboxStore) channel.OutboxStore { return open(t, placeOf(o)) }
	}
	outboxtest.Run(t, s)
}

func TestOutbox(t *testing.T) { ownertest.Each(t, suite) } // CL-02, CL-14
