package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestStreamsHaveMessagesThatGoAway (CL-03), with the leader killed in between; several replicas make the stream at once.
func TestStreamsHaveMessagesThatGoAway(t *testing.T) {
	t.Parallel()
	for _, row := range killable {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			ctx := t.Context()
			made := make(chan *cluster.Cluster)
			subject := func(c *cluster.Cluster, name string) string { return c.Subject("runs", name) }
			for range 3 {
				c := s.Open(t)
				go func() {
					if _, err := c.Stream(ctx, jetstream.StreamConfig{
						Name: "RUNS", Subjects: []string{c.Subject("runs", ">")}, MaxAge: 2 * time.Hour, AllowMsgTTL: true, PersistMode: jetstream.AsyncPersistMode,
					}); err != nil {
						t.Error(err)
					}
					made <- c
				}()
			}
			c := <-made
			<-made
			<-made
			if t.Failed() {
				return
			}
			stream, err := c.JetStream().Stream(ctx, c.Name("RUNS"))
			if err != nil {
				t.Fatal(err)
			}
			if want := min(s.Len(), 3); stream.CachedInfo().Config.Replicas != want {
				t.Errorf("the stream has %d copies, want %d", stream.CachedInfo().Config.Replicas, want)
			}
			if _, err := c.JetStream().Publish(ctx, subject(c, "short"), []byte("1"), jetstream.WithMsgTTL(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.JetStream().Publish(ctx, subject(c, "long"), []byte("2"), jetstream.WithMsgTTL(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if s.Len() > 1 {
				s.Kill(s.Leader(c.Name("RUNS")))
			}
			clustertest.Eventually(t, "the message to go away", func() bool {
				_, err := stream.GetLastMsgForSubject(ctx, subject(c, "short"))
				return errors.Is(err, jetstream.ErrMsgNotFound)
			})
			// A server that lags behind knows it later.
			clustertest.Eventually(t, "the message that stays", func() bool {
				m, err := stream.GetLastMsgForSubject(ctx, subject(c, "long"))
				return err == nil && string(m.Data) == "2"
			})
		})
	}
}
