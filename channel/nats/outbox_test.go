package nats_test

import (
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/channel/outboxtest"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
)

func outboxConformance(t *testing.T, c *cluster.Cluster) {
	alive := new(nats.Alive)
	open := func(t testing.TB) *nats.Outbox {
		t.Helper()
		o, err := nats.OpenOutboxWith(t.Context(), c, alive, nats.OutboxOptions{Bytes: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.Close() })
		return o
	}
	outboxtest.Run(t, outboxtest.Store{
		Open: func(t testing.TB) channel.OutboxStore {
			o := open(t)
			if err := o.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.Abandon(alive) // which may have heard of what was there
			return open(t)
		},
		Reopen: func(t testing.TB, o channel.OutboxStore) channel.OutboxStore {
			o.(*nats.Outbox).Abandon(alive)
			return open(t)
		},
		Pause: func(t testing.TB, o channel.OutboxStore) channel.OutboxStore {
			o.(*nats.Outbox).Die(alive)
			return open(t)
		},
		Join: func(t testing.TB, _ channel.OutboxStore) channel.OutboxStore { return open(t) },
	})
}

func TestOutbox(t *testing.T) { // CL-02
	t.Parallel()
	outboxConformance(t, clustertest.One(t).Open(t))
}
