//go:build unix

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

// TestAFormerLeaderIsNotBelieved: CL-05. A leader that stood still answers as if it still led when it goes on.
func TestAFormerLeaderIsNotBelieved(t *testing.T) {
	longtest.Only(t, "it takes an election by silence")
	t.Parallel()
	s := clustertest.ThreeCrashing(t)
	other := s.Open(t)
	barred(t, other, 0)
	stale := 0
	for round := range 5 {
		leader := s.Leader(other.Name("B"))
		c := s.Open(t, func(o *cluster.Options) { o.Servers = strings.Split(s.URL(), ",")[leader]; cluster.Patient(o) })
		b := c.Barrier(c.Name("B"), c.Subject("b", cluster.BarrierToken))
		s.Process(leader).Signal(syscall.SIGSTOP)
		subject := c.Subject("b", fmt.Sprint("round", round))
		store(t, other, subject, "stored")
		// What is asked now waits in the connection, and is the first that the server reads.
		ask := fmt.Appendf(nil, `{"last_by_subj":%q}`, subject)
		answers := make(chan *nats.Msg, 100)
		inbox := c.Conn().NewInbox()
		sub, err := c.Conn().ChanSubscribe(inbox, answers)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := c.Conn().PublishRequest("$JS.API.STREAM.MSG.GET."+c.Name("B"), inbox, ask); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Conn().FlushTimeout(100 * time.Millisecond); err == nil {
			t.Fatal("a server that is stopped answers")
		}
		s.Process(leader).Signal(syscall.SIGCONT)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				clustertest.Eventually(t, "an answer", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					m, err := b.Last(ctx, subject)
					if err == nil && text(m) != "stored" {
						t.Errorf("what is there is said to be %q", text(m))
					}
					return err == nil
				})
			})
		}
		wg.Wait()
		_ = sub.Unsubscribe()
		for len(answers) > 0 {
			if m := <-answers; bytes.Contains(m.Data, []byte("no message found")) {
				stale++
			}
		}
	}
	t.Logf("%d of the answers of former leaders were wrong", stale)
	if stale == 0 {
		t.Error("no former leader has given a wrong answer: this test shows nothing any more, and perhaps the barrier is not needed")
	}
}
