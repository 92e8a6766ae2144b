package tube_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tube"
)

// writtenDown is a tube's journal: bases and pieces, in order.
type writtenDown struct {
	place tube.Place
	parts []part
}

type part struct {
	base  []byte // where it is not nil, all before is of no use
	piece tube.Piece
}

// more writes down what the tube has got since, by a base where pieces will not do or one is asked for.
func (w *writtenDown) more(tb *tube.Tube, base bool) {
	for {
		piece, ok := tube.Piece{}, !base
		if ok {
			piece, ok = tb.Piece(&w.place)
		}
		if !ok {
			base = false
			w.parts = append(w.parts, part{base: tb.AppendBase([]byte{}, &w.place)})
			continue
		}
		if len(piece.Data) == 0 {
			return
		}
		piece.Data = bytes.Clone(piece.Data)
		w.parts = append(w.parts, part{piece: piece})
	}
}

func replay(t rapid.TB, parts []part, o *tube.Options) *tube.Tube {
	t.Helper()
	r := tube.NewReplay("run", o)
	for i, p := range parts {
		var err error
		if p.base != nil {
			err = r.Base(p.base)
		} else {
			err = r.Piece(p.piece)
		}
		if err != nil {
			t.Fatalf("part %d of %d: %v", i, len(parts), err)
		}
	}
	return r.Tube()
}

// FT-23, FT-24: what is replayed of a journal that was cut off anywhere is the tube as it was at some time, and whatever a
// client has of it goes on to the same document.
func TestATubeIsReplayedAsFarAsItWasWrittenDown(t *testing.T) {
	uris := []string{"a", "a/b", "c/0", "$r", "x/$t/0", "some/longer/uri", ""}
	rapid.Check(t, func(t *rapid.T) {
		o := &tube.Options{}
		o.MaxBytes = rapid.SampledFrom([]int{0, 2 << 10, 5000}).Draw(t, "max")
		o.From = rapid.SampledFrom([]uint64{0, 0, 1 << 32}).Draw(t, "from")
		tb := tube.New("run", o)
		var w writtenDown
		type state struct{ document, reserved, all string }
		states := map[uint64]state{} // by the number of the next event
		look := func(tb *tube.Tube) state {
			document, reserved := tb.Snapshot(false)
			all, _ := tb.Snapshot(true)
			return state{string(document), string(reserved), string(all)}
		}
		states[tb.Len()] = look(tb)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var err error
			n := 1
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				_, err = tb.Send(set(rapid.SampledFrom(uris).Draw(t, "uri"), rapid.SampledFrom([]string{"1", "null", "{}", `{"b":"x"}`, "[]", `"s"`}).Draw(t, "value")))
			case 1:
				_, err = tb.Send(done(rapid.SampledFrom(uris).Draw(t, "uri")))
			case 2:
				_, err = tb.Send(named("status", `{"n":1}`))
			case 3:
				_, err = tb.Send(quiet(text("hidden", "h")))
			case 4:
				w.more(tb, false)
			case 5:
				w.more(tb, true)
			default:
				n = rapid.IntRange(1, 40).Draw(t, "many")
				uri := rapid.SampledFrom(uris).Draw(t, "uri")
				for i := range n {
					if _, err = tb.Send(text(uri, strings.Repeat(fmt.Sprint(i), 20))); err != nil {
						break
					}
					states[tb.Len()] = look(tb)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			states[tb.Len()] = look(tb)
		}
		if rapid.Bool().Draw(t, "ends") {
			if err := tb.Close("completed"); err != nil {
				t.Fatal(err)
			}
			states[tb.Len()] = look(tb)
		}
		w.more(tb, rapid.Bool().Draw(t, "base at the end"))

		whole := replay(t, w.parts, o)
		if whole.Len() != tb.Len() {
			t.Fatalf("%d events became %d", tb.Len(), whole.Len())
		}
		if d := cmp.Diff(look(tb), look(whole), cmp.AllowUnexported(state{})); d != "" {
			t.Fatal(d)
		}
		cut := replay(t, w.parts[:rapid.IntRange(0, len(w.parts)).Draw(t, "cut")], o)
		was, ok := states[cut.Len()]
		if !ok {
			t.Fatalf("never has the run had %d events", cut.Len())
		}
		if d := cmp.Diff(was, look(cut), cmp.AllowUnexported(state{})); d != "" {
			t.Fatal(d)
		}

		// A client that had come to any event, of those that are known or not, gets the document of what is known.
		c := newClient()
		var group []tube.Event
		seen := rapid.IntRange(0, 80).Draw(t, "seen")
		for e := range tb.NewReader(0).Waiting() {
			if group = append(group, e); e.Part {
				continue // a group counts when it is there as a whole
			}
			for _, e := range group {
				c.take(e)
			}
			if group, seen = nil, seen-1; seen < 0 {
				break
			}
		}
		if over(cut) || over(tb) && c.from() == tb.Len() {
			return
		}
		before := c.from()
		cut.Leap(2 << 32)
		if _, err := cut.Send(named("error", `{"code":"x"}`)); err != nil {
			t.Fatal(err)
		}
		if err := cut.Close("interrupted"); err != nil {
			t.Fatal(err)
		}
		again := tube.NewReplay("run", &tube.Options{MaxBytes: o.MaxBytes, From: cut.From()})
		if err := again.Base(cut.AppendBase(nil, new(tube.Place))); err != nil {
			t.Fatal(err)
		}
		had := slices.Clone(c.named)
		document := c.doc.String()
		for name, tb := range map[string]*tube.Tube{"replayed": cut, "stored again": again.Tube()} {
			c := newClient()
			if err := c.doc.wire("", []byte("null")); err != nil {
				t.Fatal(err)
			}
			c.load(document)
			for e := range tb.NewReader(before).Waiting() {
				if e.N < before {
					t.Fatalf("%s: event %d again, after %d", name, e.N, before)
				}
				c.take(e)
			}
			if got, want := normal(c.doc.AppendJSON(nil)), normal([]byte(was.document)); got != want {
				t.Fatalf("%s: a client that has come to %d, where %d are known, has %s", name, before, cut.Len(), cmp.Diff(want, got))
			}
			if last := c.named[len(c.named)-1]; last != `finished{"status":"interrupted"}` || c.id != fmt.Sprint("run:", uint64(2<<32+1)) {
				t.Fatalf("%s: it ends with %s, %s", name, last, c.id)
			}
			if len(had) > 0 && slices.Contains(c.named, had[0]) && had[0] != `status{"n":1}` {
				t.Fatalf("%s: %s came twice", name, had[0])
			}
		}
	})
}

// load makes the client's document what a fold's text says: the document and what stands beside it.
func (c *client) load(text string) {
	in := json.NewDecoder(strings.NewReader(text))
	var document json.RawMessage
	var reserved map[string]json.RawMessage
	if err := errors.Join(in.Decode(&document), in.Decode(&reserved)); err != nil {
		panic(err)
	}
	if err := c.doc.wire("", document); err != nil {
		panic(err)
	}
	for uri, value := range reserved {
		if err := c.doc.wire(uri, value); err != nil {
			panic(err)
		}
	}
}

func over(tb *tube.Tube) bool {
	select {
	case <-tb.Ended():
		return true
	default:
		return false
	}
}

// FT-24: pieces that do not follow each other, and what is no piece or base, are refused; what was there before stays.
func TestWhatDoesNotFollowIsNotReplayed(t *testing.T) {
	tb := newTube(0)
	var w writtenDown
	for i := range 4 {
		send(t, tb, text("a", fmt.Sprint(i)), named("status", "{}"))
		w.more(tb, false)
	}
	w.more(tb, true)
	send(t, tb, text("a", "5"))
	w.more(tb, false)
	first, base, last := w.parts[0].piece, w.parts[4].base, w.parts[5].piece
	for name, p := range map[string]tube.Piece{
		"one is missing":      w.parts[2].piece,
		"the same again":      first,
		"of another block":    last,
		"half a record":       {First: 0, Offset: len(first.Data), Data: w.parts[1].piece.Data[:1]},
		"a length too much":   {First: 0, Offset: len(first.Data), Data: []byte{0xf0, 0xff, 0xff, 0xff, 0x7f}},
		"a uri out of it":     {First: 0, Offset: len(first.Data), Data: []byte{0x10, 0xff, 0x01, 'x'}},
		"a uri that is none":  {First: 0, Offset: len(first.Data), Data: []byte{0x10, 2, 0xff, 'x'}},
		"an end by its name":  {First: 0, Offset: len(first.Data), Data: append([]byte{0x23, 8}, "finished{}"...)},
		"an end by its mark":  {First: 0, Offset: len(first.Data), Data: append([]byte{0x2b, 6}, "status{}"...)},
		"a value that is not": {First: 0, Offset: len(first.Data), Data: append([]byte{0x23, 6}, "status{{"...)},
	} {
		t.Run(name, func(t *testing.T) {
			r := tube.NewReplay("run", documents())
			if err := r.Piece(first); err != nil {
				t.Fatal(err)
			}
			if err := r.Piece(p); !errors.Is(err, tube.ErrArchive) {
				t.Errorf("got %v", err)
			}
			if document, _ := r.Tube().Snapshot(true); string(document) != `{"a":"0"}` || r.Tube().Len() != 2 {
				t.Errorf("%d events: %s", r.Tube().Len(), document)
			}
			for _, bad := range []string{"x", string(base[:len(base)-3]), string(base) + string(base)} {
				if err := r.Base([]byte(bad)); !errors.Is(err, tube.ErrArchive) {
					t.Errorf("%.40q: %v", bad, err)
				}
			}
			if err := errors.Join(r.Base(base), r.Piece(last)); err != nil || r.Tube().Len() != 9 {
				t.Errorf("after a base: %d events, %v", r.Tube().Len(), err)
			}
		})
	}
}

func FuzzReplay(f *testing.F) {
	tb := newTube(0)
	for _, e := range []tube.Event{named("started", "{}"), text("a", "x"), text("b", "y"), text("a", strings.Repeat("z", 20)), set("c", "1"), done("a"), quiet(text("a", "h"))} {
		if _, err := tb.Send(e); err != nil {
			f.Fatal(err)
		}
	}
	var p tube.Place
	piece, _ := tb.Piece(&p)
	base := tb.AppendBase(nil, &p)
	f.Add([]byte{}, piece.Data, piece.Data[1:])
	f.Add(base, []byte{}, piece.Data)
	f.Fuzz(func(t *testing.T, base, one, two []byte) {
		r := tube.NewReplay("run", documents())
		if len(base) > 0 {
			_ = r.Base(base)
		}
		first := r.Tube().Len()
		if r.Piece(tube.Piece{First: first, Data: one}) == nil && len(one) > 0 {
			_ = r.Piece(tube.Piece{First: first, Offset: len(one), Data: two})
		}
		tb := r.Tube()
		document, reserved := tb.Snapshot(true)
		if !json.Valid(document) || !json.Valid(reserved) {
			t.Fatalf("%q %q", document, reserved)
		}
		if tb.Len() == 0 {
			return
		}
		if !over(tb) {
			if tb.Len() > 1<<62 {
				return
			}
			tb.Leap(tb.Len() + 7)
			_ = tb.Close("interrupted")
		}
		again := tube.NewReplay("run", documents())
		if text := tb.AppendBase(nil, new(tube.Place)); len(text) > 0 && again.Base(text) != nil {
			t.Fatalf("%s", text)
		}
	})
}
