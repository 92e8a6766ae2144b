package tube_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tube"
)

// The model of a tube is a slice of events. Each reader that the test opens is followed by a client, whose document must at
// every moment be the fold of the model's visible events up to its cursor, whatever has left the log.
type model struct {
	events []tube.Event
	ended  bool
	held   bool // the end is shown later
	shown  bool // it is
}

// visible is how many events there are for readers.
func (m *model) visible() int {
	if m.held && m.ended && !m.shown {
		return len(m.events) - 1
	}
	return len(m.events)
}

// over says whether the end is there for readers.
func (m *model) over() bool { return m.ended && m.visible() == len(m.events) }

func (m *model) fold(below uint64, all bool) (*fold, map[string]bool) {
	f, marks := newFold(), map[string]bool{}
	for _, e := range m.events[:below] {
		switch {
		case e.Hidden && !all:
		case e.Kind == tube.Append:
			_ = f.Append(e.URI, e.Value)
		case e.Kind == tube.Set:
			_ = f.Set(e.URI, e.Value)
		case e.Kind == tube.Done:
			marks[string(e.URI)] = true
		}
	}
	return f, marks
}

func TestATubeIsASliceOfEvents(t *testing.T) {
	t.Run("shown at once", func(t *testing.T) { tubeIsASliceOfEvents(t, false) })
	t.Run("its end later", func(t *testing.T) { tubeIsASliceOfEvents(t, true) })
}

func tubeIsASliceOfEvents(t *testing.T, held bool) {
	uris := []string{"", "a", "a/b", "c/0", "$r", "x/$t/0"}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{0, 2 << 10, 5000}).Draw(t, "max")
		tb := tube.New("run", &tube.Options{MaxBytes: limit, HoldEnd: held})
		m := &model{held: held}
		var place tube.Place
		stored := tube.NewReplay("run", documents())
		type follower struct {
			r *tube.Reader
			c *client
		}
		var readers []*follower
		filters := map[string]func(){}

		sent := func(e tube.Event, n uint64, err error) {
			if m.ended != (err != nil) {
				t.Fatalf("ended %v, and Send returned %v", m.ended, err)
			}
			if err != nil {
				return
			}
			if n != uint64(len(m.events)) {
				t.Fatalf("event %d got number %d", len(m.events), n)
			}
			if _, ok := filters[string(e.URI)]; ok && e.Kind != tube.Named {
				e.Hidden = true
			}
			e.N = n
			m.events = append(m.events, e)
		}
		check := func(f *follower) {
			document, _ := m.fold(f.r.Next(), false)
			if d := cmp.Diff(document.String(), f.c.doc.String()); d != "" {
				t.Fatalf("at %d: %s", f.r.Next(), d)
			}
		}

		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				e := tube.Event{Hidden: rapid.IntRange(0, 9).Draw(t, "hidden") == 0}
				uri := rapid.SampledFrom(uris).Draw(t, "uri")
				switch rapid.IntRange(0, 9).Draw(t, "kind") {
				case 0:
					e.Kind, e.URI, e.Value = tube.Set, []byte(uri), []byte(rapid.SampledFrom([]string{"1", "null", "[]", "{}", `{"b":"x"}`, `["x"]`}).Draw(t, "value"))
				case 1:
					e.Kind, e.URI = tube.Done, []byte(uri)
				case 2:
					e.Kind, e.Name, e.Value = tube.Named, "note", fmt.Append(nil, len(m.events))
				default:
					e.Kind, e.URI = tube.Append, []byte(uri)
					e.Value = bytes.Repeat(fmt.Append(nil, len(m.events), " "), rapid.SampledFrom([]int{1, 1, 1, 5, 300}).Draw(t, "times"))
				}
				n, err := tb.Send(e)
				sent(e, n, err)
			},
			"burst": func(t *rapid.T) {
				for range rapid.IntRange(1, 400).Draw(t, "events") {
					e := text("a", "word")
					n, err := tb.Send(e)
					sent(e, n, err)
				}
			},
			"filter": func(t *rapid.T) {
				uri := rapid.SampledFrom(uris).Draw(t, "uri")
				if remove, ok := filters[uri]; ok {
					remove()
					delete(filters, uri)
				} else {
					filters[uri] = tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI(uri)}})
				}
			},
			"attach": func(t *rapid.T) {
				readers = append(readers, &follower{tb.NewReader(0), newClient()})
			},
			"attach with a snapshot": func(t *rapid.T) {
				readers = append(readers, &follower{tb.SnapshotReader(), newClient()})
			},
			"read": func(t *rapid.T) {
				if len(readers) == 0 {
					t.Skip()
				}
				f := rapid.SampledFrom(readers).Draw(t, "reader")
				few := rapid.IntRange(0, 300).Draw(t, "events")
				part := false
				for e := range f.r.Waiting() {
					f.c.take(e)
					part = e.Part
					if few--; few < 0 {
						break
					}
				}
				if few >= 0 {
					if f.r.Next() != uint64(m.visible()) || f.r.Ended() != m.over() {
						t.Fatalf("read up to %d of %d, ended %v", f.r.Next(), m.visible(), f.r.Ended())
					}
				}
				if !part && f.c.id != "" && f.c.from() == f.r.Next() { // not in the middle of a snapshot
					check(f)
				}
			},
			"reconnect": func(t *rapid.T) {
				if len(readers) == 0 {
					t.Skip()
				}
				f := rapid.SampledFrom(readers).Draw(t, "reader")
				if f.c.id == "" {
					f.r = tb.SnapshotReader()
				} else {
					f.r = tb.NewReader(f.c.from())
				}
			},
			"snapshot": func(t *rapid.T) {
				all := rapid.Bool().Draw(t, "all")
				document, reserved := tb.Snapshot(all)
				want, _ := m.fold(uint64(m.visible()), all)
				if d := cmp.Diff(want.String(), normal(document)+normal(reserved)); d != "" {
					t.Fatal(d)
				}
			},
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					t.Skip()
				}
				if err := tb.Close("completed"); (err != nil) != m.ended {
					t.Fatal(err)
				} else if err == nil {
					m.events = append(m.events, tube.Event{Kind: tube.Named, Name: "finished"})
					m.ended = true
				}
			},
			"store": func(t *rapid.T) {
				piece, ok := tb.Piece(&place)
				if !ok {
					if err := stored.Base(tb.AppendBase(nil, &place)); err != nil {
						t.Fatal(err)
					}
					return
				}
				if err := stored.Piece(piece); err != nil && len(piece.Data) > 0 {
					t.Fatal(err)
				}
				if n := stored.Tube().Len(); len(piece.Data) > 0 && n != piece.End {
					t.Fatalf("a piece has the events below %d, and says %d", n, piece.End)
				}
			},
			"show the end": func(*rapid.T) {
				tb.ShowEnd()
				m.shown = m.ended
			},
			"": func(t *rapid.T) {
				if tb.Len() != uint64(m.visible()) || over(tb) != m.over() {
					t.Fatalf("%d events, ended %v; the model has %d", tb.Len(), over(tb), m.visible())
				}
				if limit > 0 && tb.Bytes() > 4*limit+100<<10 { // what is kept, and the documents, beside the log
					t.Fatalf("%d bytes", tb.Bytes())
				}
			},
		})
		tb.ShowEnd()
		m.shown = m.ended

		// In the end everyone has everything that they may see.
		_, marks := m.fold(uint64(len(m.events)), false)
		for _, f := range append(readers, &follower{tb.NewReader(0), newClient()}, &follower{tb.SnapshotReader(), newClient()}) {
			for e := range f.r.Waiting() {
				f.c.take(e)
			}
			check(f)
			for uri := range f.c.done {
				if !marks[uri] {
					t.Fatalf("%s is done for a client and nobody else", uri)
				}
			}
			notes := strings.Join(f.c.named, "\n") + "\n"
			for i := len(m.events) - 1; i >= max(0, len(m.events)-5); i-- {
				if e := m.events[i]; e.Kind == tube.Named && e.Name == "note" && !e.Hidden && !strings.Contains(notes, "note"+string(e.Value)+"\n") {
					t.Fatalf("event %d was lost", i)
				}
			}
		}
	})
}
