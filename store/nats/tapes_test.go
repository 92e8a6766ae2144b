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
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// roles are what processes of the tests do.
var roles = map[string]func(string) error{}

// tapesAt is what is in a folder that stands for an installation: a process that a test starts finds the servers by it.
type tapesAt struct{ URL, Prefix string }

const tapesFile = "place"

// replica has tapes over a connection of its own, as a replica has.
type replica struct {
	*logs.Store
	engine  *nats.Engine
	cluster *cluster.Cluster
}

func (r *replica) Close() error {
	return errors.Join(r.Store.Close(), r.engine.Close(), r.cluster.Close())
}

func connectTapes(p tapesAt, change ...func(*logs.Options)) (*replica, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := cluster.Open(ctx, cluster.Options{Servers: p.URL, Prefix: p.Prefix})
	if err != nil {
		return nil, err
	}
	leases, err := nats.Leases(ctx, c, "tape")
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	e := nats.Open(c, nats.Options{})
	o := logs.Options{Durability: store.Synced, Leases: leases, Replica: c.Replica()}
	for _, f := range change {
		f(&o)
	}
	s, err := logs.Open(ctx, e, o)
	if err != nil {
		return nil, errors.Join(err, e.Close(), c.Close())
	}
	return &replica{s, e, c}, nil
}

func (r *replica) space() store.Log {
	l, err := r.engine.Log(context.Background(), store.LogOptions{Space: logs.Space, Indexed: true, Durability: store.Synced})
	if err != nil {
		panic(err)
	}
	return l
}

// Stream is the name of the stream, and Subject where the batches of a tape are.
func (r *replica) Stream() string { return nats.LogStream(r.space()) }

// Subject is where the batches of a tape are.
func (r *replica) Subject(name string) string { return nats.LogSubject(r.space(), name) }

// Rows is how many tapes the index of listings has.
func (r *replica) Rows() int { return nats.Rows(r.space()) }

// SetWaits changes how long is waited for an answer, and in all.
func (r *replica) SetWaits(answer, all time.Duration) { nats.SetWaits(r.engine, answer, all) }

// SetSizes changes how many bytes of a batch one message has.
func (r *replica) SetSizes(size int) { nats.SetSizes(r.space(), size) }

// Batches returns the last message of each batch of a tape, and how many messages the batch has.
func (r *replica) Batches(ctx context.Context, name string) (last []uint64, messages []int, err error) {
	return nats.Batches(ctx, r.space(), name)
}

// openTapesFolder opens tapes on the servers that a folder names.
func openTapesFolder(dir string) (tape.Store, error) {
	raw, err := os.ReadFile(filepath.Join(dir, tapesFile))
	if err != nil {
		return nil, err
	}
	var p tapesAt
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	return connectTapes(p)
}

// tapesFactory makes tapes on servers, each folder with a prefix of its own.
func tapesFactory(s *clustertest.Servers) tapetest.Factory {
	return tapetest.Factory{Durable: true, Slow: true, Open: func(dir string) (tape.Store, error) {
		path := filepath.Join(dir, tapesFile)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			raw, err := json.Marshal(tapesAt{s.URL(), clustertest.Prefix()})
			if err == nil {
				err = os.WriteFile(path, raw, 0o600)
			}
			if err != nil {
				return nil, err
			}
		}
		return openTapesFolder(dir)
	}}
}

// openTapes opens a replica that is closed when the test ends.
func openTapes(t testing.TB, p tapesAt, change ...func(*logs.Options)) *replica {
	t.Helper()
	r, err := connectTapes(p, change...)
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

func TestTapesOnOneNode(t *testing.T) { // CL-02, CL-03
	t.Parallel()
	tapetest.Run(t, tapesFactory(clustertest.One(t)))
}

func TestTapesOnThreeNodes(t *testing.T) { // CL-02, CL-03
	longtest.Only(t, "what one server shows, on three")
	t.Parallel()
	tapetest.Run(t, tapesFactory(clustertest.Three(t)))
}
