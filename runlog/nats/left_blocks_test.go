package nats

import (
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// CL-07: a run is ended for all who read it by whoever takes it over, also where logs of runs are larger there than where it ran.
func TestCL_07_WhoTakesARunOverHasOtherBlocks(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	prefix := clustertest.Prefix()
	begin := func(maxBytes int) (*Log, *cluster.Cluster, func() *tube.Options) {
		c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
		options := func() *tube.Options {
			return &tube.Options{MaxBytes: maxBytes, Document: func() tube.Document { return new(jsonuri.Document) }, Held: true}
		}
		l, err := Open(t.Context(), c, Options{Tube: options})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // one is fenced
		return l, c, options
	}
	small, c, options := begin(16 << 10)
	large, _, _ := begin(1 << 20)
	reader, _, _ := begin(16 << 10)
	tb := tube.New("r", options())
	small.Keep(runlog.Run{ID: "r", Opening: []byte("x"), Tube: tb})
	for range 216 {
		if _, err := tb.Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte(strings.Repeat("x", 60))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := small.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	tail, err := reader.Follow(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Leave()
	left, err := large.Adopt(t.Context(), "r", c.Replica())
	if err != nil {
		t.Fatal(err)
	}
	_ = left.Tube.Close("interrupted") // before it is kept
	large.Keep(runlog.Run{ID: "r", Opening: left.Opening, Tube: left.Tube}).End([]byte("head"))
	select {
	case <-tail.Tube().Ended():
	case <-time.After(time.Minute):
		t.Fatalf("a reader has %d events of %d, and waits; head %q", tail.Tube().Len(), left.Tube.Len(), tail.Head())
	}
	want, _ := left.Tube.Snapshot(false)
	if got, _ := tail.Tube().Snapshot(false); string(got) != string(want) {
		t.Errorf("a reader has %d bytes of %d", len(got), len(want))
	}
}
