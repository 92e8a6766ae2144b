package nats_test

import (
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("TAPETEST_DIR") != "" {
		tapetest.Main(m, tapetest.Factory{Open: openTapesFolder, Durable: true})
	}
	longtest.Parallel(8) // they wait for servers
	longtest.Checks(10, 100)
	clustertest.Main(m, roles)
}

// place is a prefix on servers.
type place struct {
	s      *clustertest.Servers
	prefix string
}

func newPlace(s *clustertest.Servers) *place { return &place{s, clustertest.Prefix()} }

func (p *place) Open(t testing.TB) store.Engine {
	t.Helper()
	e, _ := p.open(t)
	return e
}

func (p *place) connect(t testing.TB) *cluster.Cluster {
	t.Helper()
	return p.s.Open(t, func(o *cluster.Options) { o.Prefix = p.prefix })
}

func (p *place) open(t testing.TB) (store.Engine, *cluster.Cluster) {
	t.Helper()
	c := p.connect(t)
	e := nats.Open(c, nats.Options{})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, c
}

func suite(t *testing.T, s *clustertest.Servers) {
	storetest.Tables(t, storetest.Setup{New: func(testing.TB) storetest.Place { return newPlace(s) }})
}

func TestOneNode(t *testing.T) { suite(t, clustertest.One(t)) }

func TestThreeNodes(t *testing.T) {
	longtest.Only(t, "what one node shows, on three")
	suite(t, clustertest.Three(t))
}
