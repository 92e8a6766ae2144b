// Package replicatest gives tests replicas that share a PostgreSQL database.
package replicatest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/store/postgres"
)

// Replica is connected to a schema of a database, which it shares with the other replicas of the schema.
type Replica struct {
	Engine  *postgres.Engine
	Members *replicas.Members
	Bus     *postgres.Bus

	close func() error
}

// Open connects a replica. It disconnects when the test ends.
func Open(t testing.TB, url, schema string, change ...func(*replicas.Options)) *Replica {
	t.Helper()
	var o replicas.Options
	for _, f := range change {
		f(&o)
	}
	e, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema, Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	r := &Replica{Engine: e}
	r.close = sync.OnceValue(func() (err error) {
		if r.Members != nil {
			err = r.Members.Close()
		}
		if r.Bus != nil {
			err = errors.Join(err, r.Bus.Close())
		}
		return errors.Join(err, e.Close())
	})
	t.Cleanup(func() { _ = r.close() }) // one that was killed, or whose server is gone, cannot leave in order
	table, err := e.Table(t.Context(), replicas.Table)
	if err != nil {
		t.Fatal(err)
	}
	if r.Members, err = replicas.Join(t.Context(), table, o); err != nil {
		t.Fatal(err)
	}
	if r.Bus, err = e.Bus(t.Context(), r.Members.ID()); err != nil {
		t.Fatal(err)
	}
	return r
}

// Close leaves the other replicas and disconnects.
func (r *Replica) Close() error { return r.close() }

// Kill disconnects without telling the other replicas, as the end of the process does.
func (r *Replica) Kill() { _ = r.Engine.Close() }

var schemas atomic.Int64

// Schema returns a schema that no other test of the process has.
func Schema() string { return fmt.Sprint("test", schemas.Add(1)) }
