package nats_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
)

// CL-05: a run whose beginning is in several messages is not unknown because a former leader knows of the first one alone; it is where there
// is no more of it.
func TestCL_05_ARunIsNotUnknownBecauseAFormerLeaderHasAPartOfItsBeginning(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, c := open(t, s, "part")
	b, _ := open(t, s, "part")
	opening := bytes.Repeat([]byte("x"), 5<<20)
	tb := heldTube("large", 0)
	a.Keep(runlog.Run{ID: "large", Opening: opening, Tube: tb})
	token(t, tb, "first")
	flush(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	stream, err := c.JetStream().Stream(ctx, c.Name("RUNS"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(c.Subject("runs", "large")))
	if err != nil {
		t.Fatal(err)
	}
	// Its head is enough: what it has is read elsewhere.
	known, err := json.Marshal(map[string]any{"message": map[string]any{"seq": first.Sequence, "data": first.Data[:1<<10]}})
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	s.Divert("$JS.API.STREAM.MSG.GET."+c.Name("RUNS"), func(*client.Msg) *client.Msg {
		asked.Add(1)
		return &client.Msg{Data: known}
	})
	if f, err := b.Find(ctx, "large"); err != nil || f.Ended || f.Replica != c.Replica() || !bytes.Equal(f.Opening, opening) {
		t.Errorf("found %d bytes of %s, %v", len(f.Opening), f.Replica, err)
	}
	tail, err := b.Follow(ctx, "large")
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Leave()
	if n := tail.Tube().Len(); n != 1 || !bytes.Equal(tail.Opening(), opening) {
		t.Errorf("%d events, and %d bytes", n, len(tail.Opening()))
	}
	if asked.Load() == 0 {
		t.Error("nobody has asked")
	}
	// Now there is no more.
	for err == nil {
		var m *jetstream.RawStreamMsg
		if m, err = stream.GetMsg(ctx, first.Sequence+1, jetstream.WithGetMsgSubject(first.Subject)); err == nil {
			err = stream.DeleteMsg(ctx, m.Sequence)
		}
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Fatal(err)
	}
	last, _ := open(t, s, "part")
	if _, err := last.Find(ctx, "large"); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("of a part there is found %v", err)
	}
	if _, err := last.Follow(ctx, "large"); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("of a part there is followed %v", err)
	}
}

// CL-05: a run that has ended is not said to go on because a server lacks what it has ended with.
func TestCL_05_ARunDoesNotGoOnBecauseItsEndCannotBeRead(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, c := open(t, s, "end")
	b, _ := open(t, s, "end")
	head := bytes.Repeat([]byte("x"), 3<<20)
	tb := heldTube("ended", 0)
	e := a.Keep(runlog.Run{ID: "ended", Opening: []byte("x"), Tube: tb})
	token(t, tb, "first")
	flush(t, a)
	_ = tb.Close("completed")
	e.End(head)
	flush(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	stream, err := c.JetStream().Stream(ctx, c.Name("RUNS"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(c.Subject("runs", "ended")))
	if err != nil {
		t.Fatal(err)
	}
	whole := s.Divert("$JS.API.DIRECT.GET."+c.Name("RUNS"), func(m *client.Msg) *client.Msg {
		_ = m.RespondMsg(&client.Msg{Header: client.Header{"Nats-Sequence": {fmt.Sprint(first.Sequence)}, "Nats-Subject": {first.Subject}}, Data: first.Data})
		return &client.Msg{Header: client.Header{"Status": {"204"}, "Nats-Num-Pending": {"0"}}}
	})
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if f, err := b.Find(short, "ended"); err == nil {
		t.Errorf("it is said to have ended: %v, with %d bytes", f.Ended, len(f.Head))
	}
	whole()
	if f, err := b.Find(ctx, "ended"); err != nil || !f.Ended || !bytes.Equal(f.Head, head) {
		t.Errorf("it has ended: %v, with %d bytes, %v", f.Ended, len(f.Head), err)
	}
}
