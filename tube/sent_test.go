package tube_test

import (
	"testing"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// Who works on a run sees what it has sent, shown or not; readers see what is shown.
func TestWhoWorksOnARunSeesWhatItHasSent(t *testing.T) {
	tb := tube.New("r", &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }, Held: true})
	send := func(uri, text string, hidden bool) {
		t.Helper()
		if _, err := tb.Send(tube.Event{URI: []byte(uri), Value: []byte(text), Hidden: hidden}); err != nil {
			t.Fatal(err)
		}
	}
	sent := func(all bool) string {
		d, r := tb.Sent(all)
		return string(d) + string(r)
	}
	send("a", "one", false)
	tb.Show(1)
	if got := sent(false); got != `{"a":"one"}{}` {
		t.Error(got)
	}
	send("a", " two", false)
	send("b", "hidden", true)
	if got := sent(false); got != `{"a":"one two"}{}` {
		t.Error(got)
	}
	if got := sent(true); got != `{"a":"one two","b":"hidden"}{}` {
		t.Error(got)
	}
	if d, _ := tb.Snapshot(true); string(d) != `{"a":"one"}` {
		t.Errorf("shown: %s", d)
	}
	count := func(r *tube.Reader) (n int) {
		for range r.Waiting() {
			n++
		}
		return n
	}
	r, early := tb.NewReader(0), tb.SentReader(0)
	if shown, all := count(r), count(early); shown != 1 || all != 2 {
		t.Errorf("%d events are shown, and %d sent", shown, all)
	}
	tb.Show(3)
	if err := tb.Close("completed"); err != nil {
		t.Fatal(err)
	}
	if shown, all := count(r), count(early); shown != 1 || all != 1 || !early.Ended() {
		t.Errorf("then %d events are shown, and %d more sent", shown, all)
	}
	if got := sent(true); got != `{"a":"one two","b":"hidden"}{}` {
		t.Error(got)
	}
}
