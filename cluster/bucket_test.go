package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestBucketsHaveKeysThatGoAway (CL-03), with the leader killed in between; several replicas make the bucket and a stream at once.
func TestBucketsHaveKeysThatGoAway(t *testing.T) {
	t.Parallel()
	for _, row := range killable {
		t.Run(row.name, func(t *testing.T) {
			row.orLong(t)
			t.Parallel()
			s := row.start(t)
			ctx := t.Context()
			made := make(chan jetstream.KeyValue)
			for range 3 {
				c := s.Open(t)
				go func() {
					kv, err := c.Bucket(ctx, jetstream.KeyValueConfig{Bucket: "KEYS", LimitMarkerTTL: time.Minute})
					if err != nil {
						t.Error(err)
					}
					if _, err := c.Stream(ctx, jetstream.StreamConfig{Name: "RUNS", Subjects: []string{c.Subject("runs", ">")}, MaxAge: time.Hour, PersistMode: jetstream.AsyncPersistMode}); err != nil {
						t.Error(err)
					}
					made <- kv
				}()
			}
			kv := <-made
			<-made
			<-made
			if t.Failed() {
				return
			}
			status, err := kv.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(s.Len(), 3); status.Config().Replicas != want {
				t.Errorf("the bucket has %d copies, want %d", status.Config().Replicas, want)
			}
			if _, err := kv.Create(ctx, "short", []byte("1"), jetstream.KeyTTL(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Create(ctx, "long", []byte("2"), jetstream.KeyTTL(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if s.Len() > 1 {
				s.Kill(s.Leader("KV_" + kv.Bucket()))
			}
			clustertest.Eventually(t, "the key to go away", func() bool {
				_, err := kv.Get(ctx, "short")
				return errors.Is(err, jetstream.ErrKeyNotFound)
			})
			// A server that lags behind knows it later.
			clustertest.Eventually(t, "the key that stays", func() bool {
				e, err := kv.Get(ctx, "long")
				return err == nil && string(e.Value()) == "2"
			})
		})
	}
}
