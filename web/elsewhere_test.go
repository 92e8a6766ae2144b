package web

import (
	"testing"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// CL-05, CL-07: who has read the end of a run is not told that it goes on by asking what became of it, though its head comes later.
func TestARunWhoseEndWasReadHasEndedWithoutItsHead(t *testing.T) {
	r := &run{id: newRunID(), place: newPlaced(struct{ runlog.Tail }{}), done: make(chan struct{})}
	r.tube = tube.New(r.id, tubeOptions(0))
	if _, err := r.tube.Send(tube.Event{Kind: tube.Set, URI: []byte("a"), Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if o, _, _ := r.state(); o.Status != statusRunning {
		t.Errorf("it is %s", o.Status)
	}
	if err := r.tube.Close(statusInterrupted); err != nil {
		t.Fatal(err)
	}
	if o, document, _ := r.state(); o.Status != statusInterrupted || string(document) != `{"a":1}` {
		t.Errorf("it is %s with %s", o.Status, document)
	}
}
