package nats_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

// CL-11: a replica ends, though the servers have no leader any more. What it follows is on two of them that were killed, so that it asks the
// third one for it, again and again.
func TestCL_11_AReplicaEndsWithoutALeader(t *testing.T) { // alone, since it looks at what goroutines do
	s := clustertest.ThreeCrashing(t) // both at once: what is followed must not move to the third
	j, c := replica(t, s)
	o, err := nats.OpenOutbox(t.Context(), c, nats.OutboxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leads := map[string]bool{}
	for _, name := range []string{"INBOX", "OUTBOX"} {
		stream, err := c.JetStream().Stream(t.Context(), c.Name(name))
		if err != nil {
			t.Fatal(err)
		}
		until(t, "a leader of the consumers of "+name, func() bool {
			led := 0
			consumers := stream.ListConsumers(t.Context())
			for info := range consumers.Info() {
				if info.Cluster == nil || info.Cluster.Leader == "" { // it is not elected yet
					return false
				}
				leads[info.Cluster.Leader] = true
				led++
			}
			if err := consumers.Err(); err != nil {
				t.Fatalf("the consumers of %s: %v", name, err)
			}
			return led > 0
		})
	}
	kept := 0
	for leads[s.Name(kept)] {
		kept++
	}
	for i := range 3 {
		if i != kept {
			s.Kill(i)
		}
	}
	until(t, "both to be asked for", func() bool {
		time.Sleep(50 * time.Millisecond)
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), "jetstream.(*orderedConsumer).reset(") >= 2 // that of the replicas is perhaps a third one
	})
	began := time.Now()
	ended := make(chan error)
	go func() { ended <- errors.Join(o.Close(), j.Close()) }()
	select {
	case err := <-ended:
		t.Log(err) // whether what they have can be given back is not what this is about
	case <-time.After(2 * time.Minute):
		t.Fatal("they do not end")
	}
	longtest.Within(t, "the end", time.Since(began), 35*time.Second)
}
