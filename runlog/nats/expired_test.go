package nats_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/runlog/runlogtest"
)

// CL-03: a run goes away with its last message. One that takes longer than it is kept loses its beginning: who reads it goes on, and for who
// comes late it is not there.
func TestCL_03_WhatIsOlderThanItIsKeptIsNotThere(t *testing.T) {
	longtest.Only(t, "it takes as long as runs are kept")
	t.Parallel()
	s := clustertest.One(t)
	shortLived := func() *nats.Log {
		c := s.Open(t, func(o *cluster.Options) { o.Prefix = "expires" })
		l, err := nats.Open(t.Context(), c, nats.Options{Keep: 3 * time.Second, Tube: runlogtest.Tube, Async: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nats.Crash(l) })
		return l
	}
	a, b, late := shortLived(), shortLived(), shortLived()
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()

	over := heldTube("over", 0)
	e := a.Keep(runlog.Run{ID: "over", Opening: []byte("x"), Tube: over})
	token(t, over, "text")
	_ = over.Close("completed")
	e.End([]byte("head"))
	long := heldTube("long", 0)
	e = a.Keep(runlog.Run{ID: "long", Opening: []byte("x"), Tube: long})
	token(t, long, "0 ")
	flush(t, a)
	if f, err := b.Find(ctx, "over"); err != nil || !f.Ended {
		t.Errorf("before it is old: %+v, %v", f, err)
	}
	wait := followed(t, b, "long")

	for n := 1; ; n++ { // a word now and then, until what it began with is gone
		token(t, long, fmt.Sprint(n, " "))
		flush(t, a)
		_, err1 := late.Find(ctx, "over")
		_, err2 := late.Find(ctx, "long")
		if errors.Is(err1, runlog.ErrUnknown) && errors.Is(err2, runlog.ErrUnknown) {
			break
		}
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, runlog.ErrUnknown) || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	for _, id := range []string{"over", "long"} {
		if _, err := late.Follow(ctx, id); !errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("%s is followed though it is gone: %v", id, err)
		}
		if _, err := late.Adopt(ctx, id, "somebody"); !errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("%s is taken over though it is gone: %v", id, err)
		}
	}
	_ = long.Close("completed")
	e.End([]byte("head"))
	want := all(t, long)
	if got := wait(); len(got) != len(want) || len(want) < 3 {
		t.Errorf("who reads it from its beginning has %d events of %d", len(got), len(want))
	}
}
