package cluster

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func openOne(t *testing.T) *Cluster {
	t.Helper()
	c, err := Open(t.Context(), Options{Servers: Embedded, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestAStreamThatIsThereIsNotChanged by a replica that wants it as it is.
func TestAStreamThatIsThereIsNotChanged(t *testing.T) {
	t.Parallel()
	c := openOne(t)
	for i, config := range []jetstream.StreamConfig{
		{},
		{MaxAge: time.Hour, AllowDirect: true, PersistMode: jetstream.AsyncPersistMode},
		{MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowRollup: true, Metadata: map[string]string{"a": "b"}},
		{RePublish: &jetstream.RePublish{Source: ">", Destination: "x.>"}, MaxBytes: 1 << 30, MaxMsgSize: 1000, Duplicates: time.Minute},
	} {
		config.Name = fmt.Sprint("S", i)
		config.Subjects = []string{c.Subject(config.Name, ">")}
		s, err := c.Stream(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		config.Name, config.Replicas = c.Name(config.Name), 1
		if old := s.CachedInfo().Config; !same(config, old) {
			t.Errorf("%d: wanted %+v, there is %+v: they differ", i, config, old)
		}
		config.MaxAge += time.Second
		if same(config, s.CachedInfo().Config) {
			t.Errorf("%d: another age is no difference", i)
		}
	}
}

// TestAStreamNeverGetsFewerCopiesByItself, and one that was made for one copy, not synced, stays one.
func TestAStreamNeverGetsFewerCopiesByItself(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		asked, decided int // copies
		old            jetstream.StreamConfig
		copies         int
		mode           jetstream.PersistModeType
	}{
		{"the servers seem to be one", 0, 1, jetstream.StreamConfig{Replicas: 3}, 3, jetstream.DefaultPersistMode},
		{"there are three now", 0, 3, jetstream.StreamConfig{Replicas: 1}, 3, jetstream.DefaultPersistMode},
		{"somebody wants one", 1, 1, jetstream.StreamConfig{Replicas: 3}, 1, jetstream.DefaultPersistMode},
		{"it cannot be copied", 0, 3, jetstream.StreamConfig{Replicas: 1, PersistMode: jetstream.AsyncPersistMode}, 1, jetstream.AsyncPersistMode},
	} {
		c := &Cluster{options: Options{Copies: row.asked, Log: slog.New(slog.DiscardHandler)}, copies: row.decided}
		config := jetstream.StreamConfig{PersistMode: jetstream.AsyncPersistMode}
		c.fit(&config, row.old)
		if config.Replicas != row.copies || config.PersistMode != row.mode {
			t.Errorf("%s: %d copies, %v, want %d, %v", row.name, config.Replicas, config.PersistMode, row.copies, row.mode)
		}
	}
}
