package nats

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// CL-11: a run that is left in the moment in which it is written has no end: what it ends of then is that it was left, and whoever takes it over
// goes on with it.
func TestCL_11_WhatEndsOfBeingLeftIsNotWritten(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	prefix := clustertest.Prefix()
	on := func(o *cluster.Options) { o.Prefix = prefix }
	tubes := func() *tube.Options {
		return &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }, Held: true}
	}
	c, other := s.Open(t, on), s.Open(t, on)
	var logs []*Log
	for _, c := range []*cluster.Cluster{c, other} {
		l, err := Open(t.Context(), c, Options{Tube: tubes})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // the run has no end
		logs = append(logs, l)
	}
	tb := tube.New("r", tubes())
	e := logs[0].Keep(runlog.Run{ID: "r", Opening: []byte("x"), Tube: tb}).(*entry)
	if _, err := tb.Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte("one")}); err != nil {
		t.Fatal(err)
	}
	if err := logs[0].Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	logs[0].pump.do(func() { // it has seen that it is not left, and is about to look at the tube
		e.left.Store(true)
		_ = tb.Cancel("it goes on elsewhere")
		e.write(time.Now())
	})
	if err := logs[0].Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := logs[1].Adopt(t.Context(), "r", c.Replica())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-left.Tube.Ended():
		t.Error("the run has ended")
	default:
	}
}
