package nats_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
)

// CL-05: a server that led once, and does not know that it does so no more, says that there is no such run.
func TestCL_05_ARunIsNotUnknownBecauseAFormerLeaderSaysSo(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, c := open(t, s, "former")
	b, _ := open(t, s, "former")
	tb := heldTube("there", 0)
	e := a.Keep(runlog.Run{ID: "there", Opening: []byte("x"), Tube: tb})
	token(t, tb, "first")
	flush(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	var asked atomic.Int64
	s.Divert("$JS.API.STREAM.MSG.GET."+c.Name("RUNS"), func(m *client.Msg) *client.Msg {
		asked.Add(1)
		return clustertest.NoMessage(m)
	})
	if f, err := b.Find(ctx, "there"); err != nil || f.Ended || string(f.Opening) != "x" {
		t.Errorf("found %+v, %v", f, err)
	}
	wait := followed(t, b, "there")
	if _, err := b.Find(ctx, "not there"); err != runlog.ErrUnknown {
		t.Errorf("what is not there: %v", err)
	}
	token(t, tb, "last")
	_ = tb.Close("completed")
	e.End([]byte("head"))
	if lines := wait(); len(lines) != 3 {
		t.Errorf("read %q", lines)
	}
	if asked.Load() == 0 {
		t.Error("nobody has asked")
	}
}

// CL-07: of a replica that died, a server that lags behind does not have all runs.
func TestCL_07_WhoLagsBehindDoesNotSayWhatADeadReplicaHasLeft(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, c := open(t, s, "left")
	b, _ := open(t, s, "left")
	tb := heldTube("left", 0)
	defer a.Keep(runlog.Run{ID: "left", Opening: []byte("x"), Tube: tb}).Drop()
	token(t, tb, "first")
	flush(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	for _, replica := range []string{"", c.Replica()} {
		var asked atomic.Int64
		var truth func()
		truth = s.Divert("$JS.API.DIRECT.GET."+c.Name("RUNNING"), func(*client.Msg) *client.Msg {
			if asked.Add(1) == 3 {
				truth()
			}
			return &client.Msg{Header: client.Header{"Status": {"404"}}}
		})
		begin := time.Now()
		list, err := b.Running(ctx, replica)
		if err != nil || len(list) != 1 || list[0] != (runlog.Going{Replica: c.Replica(), ID: "left"}) {
			t.Errorf("of %q there is %v, %v", replica, list, err)
		}
		if asked.Load() < 3 {
			t.Errorf("asked %d times in %v", asked.Load(), time.Since(begin))
		}
	}
}
