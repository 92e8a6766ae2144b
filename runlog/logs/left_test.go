package logs

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/store/storetest/file"
	"github.com/lingserve/lingserve/tube"
)

// CL-11: a run that is left in the moment in which it is written has no end: what it ends of then is that it was left, and who takes it over
// goes on with it.
func TestWhatEndsOfBeingLeftIsNotWritten(t *testing.T) {
	engine, err := file.Open(vfs.InMemory(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	written := storetest.NewModel()
	var all []*Log
	for _, id := range []string{"one", "two"} {
		l, err := Open(t.Context(), Options{Logs: written, Tables: engine, Bus: replicas.NoBus{}, Replica: id, Tube: options})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // the run has no end
		all = append(all, l)
	}
	o := options()
	o.Held = true
	tb := tube.New("r", o)
	e := all[0].Keep(runlog.Run{ID: "r", Opening: []byte("x"), Tube: tb}).(*entry)
	if _, err := tb.Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte("one")}); err != nil {
		t.Fatal(err)
	}
	if err := all[0].Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	all[0].pump.do(func() { // it has seen that it is not left, and is about to look at the tube
		e.left.Store(true)
		_ = tb.Cancel("it goes on elsewhere")
		e.write(time.Now())
	})
	if err := all[0].Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := all[1].Adopt(t.Context(), "r", "one")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-left.Tube.Ended():
		t.Error("the run has ended")
	default:
	}
}
