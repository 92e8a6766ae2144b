package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
)

// barred makes a stream with a barrier.
func barred(t *testing.T, c *cluster.Cluster, each int64) *cluster.Barrier {
	t.Helper()
	if _, err := c.Stream(t.Context(), jetstream.StreamConfig{
		Name: "B", Subjects: []string{c.Subject("b", ">")}, MaxMsgsPerSubject: each, AllowDirect: true, AllowRollup: true,
	}); err != nil {
		t.Fatal(err)
	}
	return c.Barrier(c.Name("B"), c.Subject("b", cluster.BarrierToken))
}

func store(t *testing.T, c *cluster.Cluster, subject, text string) uint64 {
	t.Helper()
	var ack *jetstream.PubAck
	clustertest.Eventually(t, "a message to be stored", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		ack, err = c.JetStream().Publish(ctx, subject, []byte(text))
		return err == nil
	})
	return ack.Sequence
}

// known asks until it is known: on a busy machine the barrier's message may take longer than is waited for it.
func known(t *testing.T, ask func() (*nats.Msg, error)) (m *nats.Msg) {
	t.Helper()
	clustertest.Eventually(t, "it to be known", func() bool {
		var err error
		m, err = ask()
		return err == nil
	})
	return m
}

// pass is the sequence of a barrier's message, which is tried until it is stored.
func pass(t *testing.T, b *cluster.Barrier) (sequence uint64) {
	t.Helper()
	known(t, func() (_ *nats.Msg, err error) {
		sequence, err = b.Pass(t.Context())
		return nil, err
	})
	return sequence
}

func text(m *nats.Msg) string {
	if m == nil {
		return "nothing"
	}
	return string(m.Data)
}

func TestABarrierTellsWhatIsThereAndWhatIsNot(t *testing.T) {
	t.Parallel()
	for _, row := range servers {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			for _, each := range []int64{0, 1} {
				c := s.Open(t, func(o *cluster.Options) { o.Prefix = clustertest.Prefix() })
				b := barred(t, c, each)
				a := c.Subject("b", "a")
				want := func(subject, want string) {
					t.Helper()
					if m := known(t, func() (*nats.Msg, error) { return b.Last(t.Context(), subject) }); text(m) != want {
						t.Errorf("the last of %s is %q, want %q", subject, text(m), want)
					}
				}
				at := func(sequence uint64) *nats.Msg {
					t.Helper()
					return known(t, func() (*nats.Msg, error) { return b.At(t.Context(), sequence) })
				}
				want(a, "nothing")
				first, last := store(t, c, a, "1"), store(t, c, a, "2")
				want(a, "2")
				want(c.Subject("b", "other"), "nothing")
				if m := at(last); text(m) != "2" {
					t.Errorf("message %d is %q", last, text(m))
				}
				stream, err := c.JetStream().Stream(t.Context(), c.Name("B"))
				if err != nil {
					t.Fatal(err)
				}
				if each == 0 {
					if err := stream.DeleteMsg(t.Context(), first); err != nil {
						t.Fatal(err)
					}
				}
				if m := at(first); m != nil {
					t.Errorf("message %d is %q; it was deleted", first, text(m))
				}
				if err := stream.DeleteMsg(t.Context(), last); err != nil {
					t.Fatal(err)
				}
				want(a, "nothing")
				if m := at(last); m != nil {
					t.Errorf("the last message is %q; it was deleted", text(m))
				}
				if n, err := stream.Info(t.Context()); err != nil || n.State.Msgs != 1 {
					t.Errorf("the stream has %d messages, want the barrier's alone: %v", n.State.Msgs, err)
				}
			}
		})
	}
}

// Strangers who ask for what is not there cost few messages: those who wait share one.
func TestABarrierIsShared(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	c := s.Open(t)
	b := barred(t, c, 0)
	const callers = 100
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for t.Context().Err() == nil { // on a busy machine a message may take longer than is waited for it
				m, err := b.Last(t.Context(), c.Subject("b", fmt.Sprint("x", i)))
				if m != nil {
					t.Errorf("there is %v", m)
				}
				if err == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if n := pass(t, b); n > callers/2 {
		t.Errorf("%d callers who asked at once have stored %d messages", callers, n)
	}
	// Each passes behind what was stored before it.
	for range 20 {
		stored := store(t, c, c.Subject("b", "y"), "")
		if n := pass(t, b); n <= stored {
			t.Errorf("a message at %d, and the barrier behind it at %d", stored, n)
		}
	}
}

// A server that lacks what another one has acknowledged is asked again, as long as the caller waits.
func TestAServerThatLagsBehindIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	c := s.Open(t)
	b := barred(t, c, 0)
	a := c.Subject("b", "a")
	store(t, c, a, "there")
	direct := "$JS.API.DIRECT.GET." + c.Name("B")
	var asked atomic.Int64
	var truth func()
	truth = s.Divert(direct, func(m *nats.Msg) *nats.Msg {
		if asked.Add(1) == 5 {
			truth()
		}
		return &nats.Msg{Header: nats.Header{"Status": {"404"}}}
	})
	if m := known(t, func() (*nats.Msg, error) { return b.Last(t.Context(), a) }); text(m) != "there" {
		t.Errorf("%q", text(m))
	}
	if asked.Load() < 5 {
		t.Errorf("asked %d times", asked.Load())
	}
	s.Divert(direct, func(*nats.Msg) *nats.Msg { return &nats.Msg{Header: nats.Header{"Status": {"404"}}} })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if m, err := b.Last(ctx, a); err == nil {
		t.Errorf("nobody knows, and it is %q", text(m))
	}
}
