package nats_test

import (
	"errors"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/tape"
)

// CL-02: a server that led once, and does not know that it does so no more, says that nothing of a tape is there.
func TestASessionIsNotGoneBecauseAFormerLeaderSaysSo(t *testing.T) {
	t.Parallel()
	servers := clustertest.One(t)
	p := tapesAt{servers.URL(), clustertest.Prefix()}
	a, b := openTapes(t, p), openTapes(t, p)
	ctx, dir := t.Context(), t.TempDir()
	ta, err := tape.Open(ctx, a, dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := ta.Append(ctx, say("hello")...); err != nil {
			t.Fatal(err)
		}
	}
	blob, err := ta.PutBlob(ctx, []byte("blob"))
	if err != nil {
		t.Fatal(err)
	}
	name := tape.Name(dir, "s")
	whole := servers.Divert("$JS.API.STREAM.MSG.GET."+a.Stream(), clustertest.NoMessage)
	if i, err := b.Info(ctx, name); err != nil || i.Entries != 4 {
		t.Errorf("info: %d entries, %v", i.Entries, err)
	}
	entries := func() (n int) {
		t.Helper()
		for _, err := range b.Read(ctx, name, tape.Query{}) {
			if err != nil {
				t.Errorf("read: %v", err)
			}
			n++
		}
		return n
	}
	if n := entries(); n != 4 {
		t.Errorf("%d entries are read", n)
	}
	if data, _, err := b.ReadBlob(ctx, name, blob, 0, 100); err != nil || string(data) != "blob" {
		t.Errorf("the blob is %q, %v", data, err)
	}
	if _, err := b.Info(ctx, tape.Name(dir, "other")); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	tb, err := tape.Open(ctx, b, dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	if first, err := tb.Append(ctx, say("world")...); err != nil || first != 5 {
		t.Errorf("the next entry has the id %d, %v", first, err)
	}
	l, err := b.Lease(ctx, name, true)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	listed := func() bool {
		t.Helper()
		for i, err := range b.Sessions(ctx, tape.SessionQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			if i.Tape == name {
				return true
			}
		}
		return false
	}
	if !listed() {
		t.Error("the session is not listed")
	}
	if err := b.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	whole()
	if _, err := a.Info(ctx, name); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("it was erased, and is there: %v", err)
	}
	if listed() {
		t.Error("it was erased, and is listed")
	}
}
