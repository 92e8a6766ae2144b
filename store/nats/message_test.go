package nats

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	client "github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// What is written in headers is read from them, whatever is in metas.
func TestHeads(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1<<53))
		draw := func(name string) int64 { return number.Draw(r, name) }
		want := message{key: "k", head: head{
			ID: [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(r, "id")), At: draw("at"), End: draw("end"), Made: uint64(draw("made")), Size: draw("size"),
			Packed: rapid.Bool().Draw(r, "packed"), Deleted: uint64(draw("deleted")), Body: uint64(draw("body")), Until: draw("until"), Floor: draw("floor"),
		}}
		if meta := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 1, 50), rapid.SliceOfN(rapid.ByteRange(' ', '~'), 1, 50)).Draw(r, "meta"); rapid.Bool().Draw(r, "has a meta") {
			want.Meta = meta
		}
		header := want.header(rapid.Bool().Draw(r, "with its key"))
		got := message{key: "k"}
		got.read(header)
		if d := cmp.Diff(want.head, got.head); d != "" || got.damaged || got.key != want.key {
			r.Fatalf("%s", d)
		}
	})
	for _, text := range []string{"", "x", "AAAAAAAAAAAAAAAAAAAAAA x", "AAAAAAAAAAAAAAAAAAAAAA 1 2 3 4 5 6 7 8 9 10", "AAAAAAAAAAAAAAAAAAAAAA -1"} {
		var m message
		if m.read(client.Header{headerRecord: {text}}); !m.damaged {
			t.Errorf("%q is read as %+v", text, m.head)
		}
	}
}

// A body is there for as long as a step needs it, and no record comes back when a step is removed.
func TestLivesOfSteps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		life := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1000, 10*bodySlack.Milliseconds()))
		now := int64(1_000_000)
		next := func(size int64) message {
			now += rapid.Int64Range(0, 2*bodySlack.Milliseconds()).Draw(r, "later")
			m := message{head: head{At: now, Size: size}}
			if l := life.Draw(r, "life"); l > 0 {
				m.End = now + l
			}
			return m
		}
		last := next(100)
		last.seq = 1
		whole, records := last, []message{last}
		for seq := uint64(2); seq < 8; seq++ {
			m := next(0)
			if last.End > 0 && m.At >= last.End || !m.stepAfter(&last) {
				return
			}
			m.seq = seq
			if m.Body != 1 || m.Size != 100 {
				r.Fatalf("%+v", m)
			}
			if end := whole.removed(); end != 0 && (m.End == 0 || end < m.End) {
				r.Fatalf("the body is removed at %d, and the record ends at %d", end, m.End)
			}
			for _, before := range records {
				if end := m.removed(); end != 0 && (before.End == 0 || end < before.End) {
					r.Fatalf("the step is removed at %d, and a record before it ends at %d", end, before.End)
				}
			}
			last, records = m, append(records, m)
		}
	})
}
