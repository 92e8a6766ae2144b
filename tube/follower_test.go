package tube_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tube"
)

// CL-05: a tube that is followed has the same events, whoever reads it meanwhile and however its pieces come.
func TestCL_05_AFollowerHasWhatTheTubeHas(t *testing.T) {
	uris := []string{"a", "a/b", "c/0", "$r", "x/$t/0", "some/longer/uri", ""}
	rapid.Check(t, func(t *rapid.T) {
		o := &tube.Options{Document: newDocument, MaxBytes: rapid.SampledFrom([]int{0, 0, 2 << 10}).Draw(t, "max")}
		o.From = rapid.SampledFrom([]uint64{0, 0, 1 << 32}).Draw(t, "from")
		whole := &tube.Options{Document: newDocument, From: o.From}
		tb := tube.New("run", whole)
		f := tube.NewFollower("run", o)
		var place tube.Place
		leapt := false
		var last []tube.Piece // of the attempt that goes on
		type follower struct {
			r *tube.Reader
			c *client
		}
		var readers []*follower
		attach := func() { readers = append(readers, &follower{f.Tube().NewReader(0), newClient()}) }
		deliver := func() {
			for {
				piece, ok := tb.Piece(&place)
				if !ok {
					t.Fatal("gone")
				}
				if len(piece.Data) == 0 {
					return
				}
				piece.Data = bytes.Clone(piece.Data)
				last = append(last, piece)
				if err := f.Piece(piece); err != nil {
					t.Fatal(err)
				}
				if f.Next() != piece.End {
					t.Fatalf("behind a piece up to %d, %d is expected", piece.End, f.Next())
				}
			}
		}
		same := func() {
			if f.Tube().Len() != tb.Len() || f.Tube().Unshown() > 0 {
				t.Fatalf("%d events and %d of them followed", tb.Len(), f.Tube().Len())
			}
			for _, all := range []bool{false, true} {
				a, b := tb.Snapshot(all)
				c, d := f.Tube().Snapshot(all)
				if d := cmp.Diff(string(a)+string(b), string(c)+string(d)); d != "" {
					t.Fatal(d)
				}
			}
			if closed(f.Tube().Ended()) != closed(tb.Ended()) {
				t.Fatal("one has ended, the other has not")
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var err error
			switch rapid.IntRange(0, 13).Draw(t, "what") {
			case 0:
				_, err = tb.Send(set(rapid.SampledFrom(uris).Draw(t, "uri"), rapid.SampledFrom([]string{"1", "null", "{}", `{"b":"x"}`, "[]", `"s"`}).Draw(t, "value")))
			case 1:
				_, err = tb.Send(done(rapid.SampledFrom(uris).Draw(t, "uri")))
			case 2:
				_, err = tb.Send(named("status", `{"n":1}`))
			case 3:
				_, err = tb.Send(quiet(text("hidden", "h")))
			case 4:
				attach()
			case 5:
				for _, x := range readers {
					for e := range x.r.Waiting() {
						x.c.take(e)
					}
				}
			case 6: // some of it once more
				if len(last) == 0 {
					break
				}
				p := rapid.SampledFrom(last).Draw(t, "again")
				before := f.Next()
				if err := f.Piece(p); err != nil || f.Next() != before {
					t.Fatalf("a piece that was there: %v, then %d in place of %d", err, f.Next(), before)
				}
			case 7: // two pieces as one, the first of which is there already
				deliver()
				if n := len(last); n > 1 && last[n-1].First == last[n-2].First {
					p := last[n-2]
					p.Data = append(bytes.Clone(p.Data), last[n-1].Data...)
					if err := f.Piece(p); err != nil {
						t.Fatal(err)
					}
				}
			case 8: // one is left out
				from := place
				left, _ := tb.Piece(&place)
				next, _ := tb.Piece(&place)
				place = from
				if len(left.Data) == 0 || len(next.Data) == 0 {
					break
				}
				var gap *tube.GapError
				if err := f.Piece(next); !errors.As(err, &gap) || gap.Next != f.Next() || !strings.Contains(err.Error(), fmt.Sprintf("event %d is missing", f.Next())) {
					t.Fatalf("a gap: %v", err)
				}
			case 9:
				if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
					break
				}
				deliver()
				n := tb.Len() + rapid.Uint64Range(1, 1<<32).Draw(t, "over")
				if rapid.Bool().Draw(t, "anew") {
					tb, place = tube.New("run", &tube.Options{Document: newDocument, From: n}), tube.Place{}
					f.Restart(n)
				} else {
					tb.Leap(n)
					place = tb.Behind()
					f.Leap(n)
				}
				leapt = true
				f.Leap(n - 1) // which it is beyond
				f.Restart(n)
				last = last[max(0, len(last)-2):]
				same()
			case 10:
				deliver()
				same()
			default:
				uri := rapid.SampledFrom(uris).Draw(t, "uri")
				for i := range rapid.IntRange(1, 40).Draw(t, "many") {
					if _, err = tb.Send(text(uri, strings.Repeat(fmt.Sprint(i), 20))); err != nil {
						break
					}
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		attach()
		_ = tb.Close("completed")
		deliver()
		same()
		attach()
		document, _ := tb.Snapshot(false)
		for _, x := range readers {
			for e := range x.r.Waiting() {
				x.c.take(e)
			}
			if d := cmp.Diff(string(document), string(x.c.doc.AppendJSON(nil))); d != "" {
				t.Fatal(d)
			}
			if !x.r.Ended() || x.c.from() != tb.Len() {
				t.Fatalf("a reader has come to %d of %d", x.c.from(), tb.Len())
			}
		}
		if leapt || o.MaxBytes > 0 {
			return
		}
		// Where nothing was dropped and nothing leapt, event by event, the hidden ones too.
		var a, b []string
		for e := range tb.AllEvents(t.Context(), 0) {
			a = append(a, fmt.Sprint(e.N, e.Part, e.Hidden, string(e.AppendJSON(nil))))
		}
		for e := range f.Tube().AllEvents(t.Context(), 0) {
			b = append(b, fmt.Sprint(e.N, e.Part, e.Hidden, string(e.AppendJSON(nil))))
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
	})
}

// CL-07: a run that is run once more goes on for its readers with a snapshot, wherever they are.
func TestCL_07_ReadersOfAFollowedTubeGetASnapshotWhenTheRunIsRunOnceMore(t *testing.T) {
	f := tube.NewFollower("run", documents())
	caughtUp, late := f.Tube().NewReader(0), f.Tube().NewReader(0)
	tb := newTube(0)
	send(t, tb, named("started", "{}"), text("a", "old"))
	follow(t, f, tb)
	want(t, lines(caughtUp), `0 {"event":"started","data":{}}`, `1 {"uri":"a","delta":"old"}`)
	waits := caughtUp.More()

	f.Restart(100)
	if !closed(waits) {
		t.Error("a reader that waits was not woken")
	}
	want(t, lines(caughtUp), `- {"uri":"","delta":null}`, `99 {"uri":"","delta":{}}`)
	again := tube.New("run", &tube.Options{Document: newDocument, From: 100})
	send(t, again, named("started", `{"again":1}`), text("a", "new"))
	_ = again.Close("completed")
	follow(t, f, again)
	want(t, lines(caughtUp), `100 {"event":"started","data":{"again":1}}`, `101 {"uri":"a","delta":"new"}`, `102 {"event":"finished","data":{"status":"completed"}}`)
	for _, r := range []*tube.Reader{late, f.Tube().NewReader(0), f.Tube().NewReader(2), f.Tube().NewReader(7)} {
		c := newClient()
		for e := range r.Waiting() {
			c.take(e)
		}
		if string(c.doc.AppendJSON(nil)) != `{"a":"new"}` || !r.Ended() || c.id != "run:102" {
			t.Errorf("%s, ended %v at %s", c.doc, r.Ended(), c.id)
		}
	}
	want(t, lines(f.Tube().NewReader(101)), `101 {"uri":"a","delta":"new"}`, `102 {"event":"finished","data":{"status":"completed"}}`)
}

func follow(t testing.TB, f *tube.Follower, tb *tube.Tube) {
	t.Helper()
	for p := (tube.Place{}); ; {
		piece, ok := tb.Piece(&p)
		if !ok || len(piece.Data) == 0 {
			return
		}
		if err := f.Piece(piece); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzFollower(f *testing.F) {
	tb := newTube(0)
	for _, e := range []tube.Event{named("started", "{}"), text("a", "x"), text("b", "y"), text("a", strings.Repeat("z", 20)), set("c", "1"), done("a"), quiet(text("a", "h"))} {
		if _, err := tb.Send(e); err != nil {
			f.Fatal(err)
		}
	}
	var p tube.Place
	piece, _ := tb.Piece(&p)
	f.Add(piece.Data, piece.Data[1:], uint64(0), uint64(0), 0)
	f.Add(piece.Data, piece.Data, uint64(0), uint64(0), len(piece.Data))
	f.Add(piece.Data, piece.Data[5:], uint64(0), uint64(5), 0)
	f.Fuzz(func(t *testing.T, one, two []byte, first, leap uint64, offset int) {
		follower := tube.NewFollower("run", documents())
		r := follower.Tube().NewReader(0)
		_ = follower.Piece(tube.Piece{Data: one})
		follower.Leap(leap % (1 << 40))
		if offset >= 0 {
			before := follower.Next()
			err := follower.Piece(tube.Piece{First: first, Offset: offset, Data: two})
			if gap := new(tube.GapError); errors.As(err, &gap) && follower.Next() != before {
				t.Fatal("a piece behind a gap was taken")
			}
		}
		if err := follower.Piece(tube.Piece{First: follower.Next()}); err != nil {
			t.Fatalf("what follows is refused: %v", err)
		}
		c := newClient()
		for e := range r.Waiting() {
			if e.Kind == tube.Named || len(e.URI) < 100 && !bytes.Contains(e.URI, []byte("/")) {
				_ = e.AppendJSON(nil)
			}
			if !e.Part {
				c.id = string(e.AppendID(nil, "run"))
			}
		}
		if follower.Tube().Unshown() > 0 || r.Next() != follower.Tube().Len() {
			t.Fatalf("a reader has come to %d of %d", r.Next(), follower.Tube().Len())
		}
	})
}
