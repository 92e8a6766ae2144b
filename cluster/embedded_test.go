package cluster_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
)

// lines is a log that may be written to by several.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestAStartAfterACrashWarnsOfNothing that nobody can act on (CL-01): the files that a server writes when it is shut down are not there, and
// it makes them again.
func TestAStartAfterACrashWarnsOfNothing(t *testing.T) {
	t.Parallel()
	log := &lines{}
	o := cluster.Options{Servers: cluster.Embedded, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	c, err := cluster.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	config := jetstream.StreamConfig{Name: "KEYS", Subjects: []string{c.Subject("keys", ">")}, AllowMsgTTL: true}
	if _, err := c.Stream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().Publish(t.Context(), c.Subject("keys", "a"), []byte("1"), jetstream.WithMsgTTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	removed := 0
	if err := filepath.WalkDir(o.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "thw.db" {
			removed++
			err = os.Remove(path)
		}
		return err
	}); err != nil || removed == 0 {
		t.Fatalf("%d files of ends are there, %v", removed, err)
	}
	if c, err = cluster.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stream, err := c.Stream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), c.Subject("keys", "a")); err != nil || string(m.Data) != "1" {
		t.Errorf("what was kept: %v, %v", m, err)
	}
	said := 0
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "TTL state is outdated") {
			said++
			if !strings.Contains(line, "level=DEBUG") {
				t.Error(line)
			}
		}
	}
	if said == 0 { // whoever changes the words of the server finds it here
		t.Errorf("the server has said nothing of it:\n%s", log)
	}
}
