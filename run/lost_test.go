package run

import (
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// What a key says of its run is all that is left of a run that a crash has cut off at once.
func TestALostRunIsOfWhatItsKeySays(t *testing.T) {
	d, err := openDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	lost := newLostRun(NewID(), lineage{claimed{Subject{Agent: `the "clerk"`}, "ann", ""}, time.Now()})
	if _, err := d.save(lost); err != nil {
		t.Fatal(err)
	}
	back, err := d.load(lost.ID, 0)
	if err != nil || back.Of != lost.Of || back.owner != "ann" {
		t.Fatalf("%+v %v", back, err)
	}
	var text strings.Builder
	if _, err := back.tube.WriteTo(&text); err != nil || !strings.Contains(text.String(), "clerk") || strings.Contains(text.String(), `"workflow"`) {
		t.Errorf("%s %v", text.String(), err)
	}
}

// What stood beside the document of the attempt before is taken back, too, from those who have it.
func TestANewAttemptTakesBackWhatStoodBesideTheDocument(t *testing.T) {
	r := &restart{beside: []byte(`{"answer/$tools":{"0":{"id":"x"}},"$reasoning_context":"hm"}`)}
	tb := goingRun(noLog{}, 1).tube
	r.takeBack(tb)
	if _, beside := tb.Snapshot(false); string(beside) != `{"$reasoning_context":null,"answer/$tools":null}` {
		t.Errorf("%s", beside)
	}
}

// CL-05, CL-07: who has read the end of a run is not told that it goes on by asking what became of it, though its head comes later.
func TestARunWhoseEndWasReadHasEndedWithoutItsHead(t *testing.T) {
	r := &Run{ID: NewID(), where: newLocation(), tail: struct{ runlog.Tail }{}, done: make(chan struct{})}
	r.tube = tube.New(r.ID, TubeOptions(0))
	if _, err := r.tube.Send(tube.Event{Kind: tube.Set, URI: []byte("a"), Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if o, _, _ := r.Result(); o.Status != StatusRunning {
		t.Errorf("it is %s", o.Status)
	}
	if err := r.tube.Close(StatusInterrupted); err != nil {
		t.Fatal(err)
	}
	if o, document, _ := r.Result(); o.Status != StatusInterrupted || string(document) != `{"a":1}` {
		t.Errorf("it is %s with %s", o.Status, document)
	}
}
