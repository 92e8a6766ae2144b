package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/nats"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// roles are what processes of the tests do.
var roles = map[string]func(string) error{}

func TestMain(m *testing.M) {
	if os.Getenv("TAPETEST_DIR") != "" {
		tapetest.Main(m, tapetest.Factory{Open: openFolder, Durable: true})
	}
	longtest.Parallel(8)   // the tests wait for disks, not for processors
	longtest.Checks(3, 15) // each has servers' work behind it
	clustertest.Main(m, roles)
}

// place is what is in a folder that stands for an installation: a process that a test starts finds the servers by it.
type place struct{ URL, Prefix string }

const placeFile = "place"

// replica is a store with a connection of its own, as a replica has.
type replica struct {
	*nats.Store
	cluster *cluster.Cluster
}

func (r *replica) Close() error { return errors.Join(r.Store.Close(), r.cluster.Close()) }

func connect(p place, o *nats.Options) (*replica, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := cluster.Open(ctx, cluster.Options{Servers: p.URL, Prefix: p.Prefix})
	if err != nil {
		return nil, err
	}
	s, err := nats.Open(ctx, c, o)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &replica{s, c}, nil
}

// openFolder opens a store on the servers that a folder names.
func openFolder(dir string) (tape.Store, error) {
	raw, err := os.ReadFile(filepath.Join(dir, placeFile))
	if err != nil {
		return nil, err
	}
	var p place
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	return connect(p, nil)
}

// factory makes stores on servers, each folder with a prefix of its own.
func factory(s *clustertest.Servers) tapetest.Factory {
	return tapetest.Factory{Durable: true, Slow: true, Open: func(dir string) (tape.Store, error) {
		path := filepath.Join(dir, placeFile)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			raw, err := json.Marshal(place{s.URL(), clustertest.Prefix()})
			if err == nil {
				err = os.WriteFile(path, raw, 0o600)
			}
			if err != nil {
				return nil, err
			}
		}
		return openFolder(dir)
	}}
}

// open opens a replica that is closed when the test ends.
func open(t testing.TB, p place) *replica {
	t.Helper()
	r, err := connect(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestOneServer(t *testing.T) { // CL-02, CL-03
	t.Parallel()
	tapetest.Run(t, factory(clustertest.One(t)))
}

func TestThreeServers(t *testing.T) { // CL-02, CL-03
	longtest.Only(t, "what one server shows, on three")
	t.Parallel()
	tapetest.Run(t, factory(clustertest.Three(t)))
}
