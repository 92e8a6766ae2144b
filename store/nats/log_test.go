package nats_test

import (
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/store/storetest"
)

// DamageEntry implements [storetest.Damager]: the servers lose the message.
func (p *place) DamageEntry(t testing.TB, space, name string, n uint64) {
	t.Helper()
	c := p.connect(t)
	nats.Lose(t, c, space, name, n)
}

func logSuite(t *testing.T, s *clustertest.Servers) {
	storetest.Logs(t, storetest.Setup{New: func(testing.TB) storetest.Place { return newPlace(s) }})
}

func TestLogsOnOneNode(t *testing.T) { logSuite(t, clustertest.One(t)) }

func TestLogsOnThreeNodes(t *testing.T) {
	longtest.Only(t, "what one node shows, on three")
	logSuite(t, clustertest.Three(t))
}
