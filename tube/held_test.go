package tube_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/tube"
)

func heldTube(maxBytes int) *tube.Tube {
	return tube.New("run", &tube.Options{MaxBytes: maxBytes, Document: newDocument, Held: true})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestCL_04_AHeldTubeShowsWhatIsStored(t *testing.T) {
	tb := heldTube(0)
	r := tb.NewReader(0)
	send(t, tb, text("a", "1"), text("a", "2"), set("b", "3"))
	_ = tb.Close("completed")
	want(t, lines(r))
	document, _ := tb.Snapshot(true)
	if tb.Len() != 0 || tb.Unshown() != 4 || string(document) != "{}" || closed(tb.Ended()) || r.Ended() || closed(r.More()) {
		t.Errorf("%d events are there, %d are not, document %s", tb.Len(), tb.Unshown(), document)
	}
	tb.Show(2)
	if !closed(r.More()) {
		t.Error("the reader was not woken")
	}
	want(t, lines(r), `0 {"uri":"a","delta":"1"}`, `1 {"uri":"a","delta":"2"}`)
	want(t, lines(tb.SnapshotReader()), `1 {"uri":"","delta":{"a":"12"}}`)
	tb.Show(1) // what was shown stays so
	tb.Show(3)
	if closed(tb.Ended()) || tb.Len() != 3 {
		t.Error("it has ended before its end is shown")
	}
	tb.Show(99)
	want(t, lines(r), `2 {"uri":"b","delta":3}`, `3 {"event":"finished","data":{"status":"completed"}}`)
	if !closed(tb.Ended()) || !r.Ended() || tb.Unshown() != 0 || tb.Len() != 4 {
		t.Error("it has not ended")
	}
	for _, err := range tb.AllEvents(t.Context(), 0) {
		if err != nil {
			t.Error(err)
		}
	}
}

// CL-10: a run goes on in memory as long as its buffer allows, and is then told.
func TestCL_10_AHeldTubeSaysWhenTooMuchWaits(t *testing.T) {
	tb := heldTube(16 << 10)
	if closed(tb.Full()) || newTube(0).Full() != nil {
		t.Fatal("full, and nothing was sent")
	}
	e := text("a", strings.Repeat("x", 99))
	n := 0
	for ; !closed(tb.Full()); n++ {
		if n > 1000 {
			t.Fatal("it is never full")
		}
		send(t, tb, e)
	}
	if n*100 < 12<<10 { // blocks are counted whole
		t.Errorf("full after %d bytes", n*100)
	}
	send(t, tb, named("error", `{}`)) // there is room for a word about it
	var err error
	for ; err == nil; n++ {
		if n > 1000 {
			t.Fatal("Send refuses nothing")
		}
		_, err = tb.Send(e)
	}
	if !errors.Is(err, tube.ErrFull) || tb.Bytes() > 28<<10 {
		t.Errorf("%v, %d bytes", err, tb.Bytes())
	}
	tb.Show(tb.Unshown())
	if _, err := tb.Send(e); !errors.Is(err, tube.ErrFull) {
		t.Errorf("an event behind one that was refused: %v", err)
	}
	if err := tb.Close("failed"); err != nil {
		t.Error(err)
	}
	tb.Show(1 << 20)
	r := tb.NewReader(0)
	for e := range r.Waiting() {
		_ = e
	}
	if !r.Ended() || tb.Bytes() > 22<<10+n*101 {
		t.Errorf("ended %v, %d bytes", r.Ended(), tb.Bytes())
	}
}

// What is stored in time never fills the tube, and one value may be larger than all of it.
func TestAHeldTubeThatIsStoredIsNotFull(t *testing.T) {
	tb := heldTube(16 << 10)
	for i := range 3000 {
		n, err := tb.Send(text("a", strings.Repeat("x", 99)))
		if err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			tb.Show(n + 1)
		}
	}
	tb.Show(3000)
	send(t, tb, set("b", `["`+strings.Repeat("y", 100<<10)+`"]`))
	tb.Show(3001)
	send(t, tb, text("a", "x"))
	if closed(tb.Full()) {
		t.Error("it is full")
	}
}

func TestWhoStoresAHeldTubeIsToldOnceThatThereIsMore(t *testing.T) {
	tb := heldTube(0)
	told := 0
	var p tube.Place
	send(t, tb, text("a", "1"))
	tb.WhenSent(func() { told++ })
	if told != 1 {
		t.Fatal("not told of what was there")
	}
	send(t, tb, text("a", "2"))
	for range 2 {
		if _, ok := tb.Piece(&p); !ok {
			t.Fatal("nothing")
		}
	}
	if told != 1 {
		t.Errorf("told %d times of what it had not looked at yet", told)
	}
	send(t, tb, text("a", "3"), text("a", "4"))
	if told != 2 {
		t.Errorf("told %d times", told)
	}
	tb.WhenSent(nil)
	for range 2 {
		_, _ = tb.Piece(&p)
	}
	send(t, tb, text("a", "5"))
	if told != 2 {
		t.Error("told after it did not want to be")
	}
}

func BenchmarkSendHeld(b *testing.B) {
	b.ReportAllocs()
	e := token()
	o := nothing()
	o.Held = true
	var t *tube.Tube
	var p tube.Place
	for i := 0; b.Loop(); i++ {
		if i%perRun == 0 {
			t, p = tube.New("run", o), tube.Place{}
		}
		n, err := t.Send(e)
		if err != nil {
			b.Fatal(err)
		}
		if i%4 == 3 {
			_, _ = t.Piece(&p)
			t.Show(n + 1)
		}
	}
}
