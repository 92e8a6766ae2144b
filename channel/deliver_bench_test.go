package channel

import (
	"context"
	"testing"
)

type sink struct{}

func (sink) Deliver(context.Context, Block) (Receipt, error) { return Receipt{}, nil }

// What a turn costs whose channel only sends, and what each of its blocks does.
func BenchmarkDeliveries(b *testing.B) {
	k, s := &Kernel{}, sending{Turn: "turn", Delivery: sink{}, Target: ReplyPlanFacts{To: "42"}}
	b.Run("turn of one block", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := newDeliveries(b.Context(), k, s)
			if err := d.Emit(b.Context(), ReplyFinal, Payload{Text: "text"}); err != nil {
				b.Fatal(err)
			}
			if _, err := d.end(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("block", func(b *testing.B) {
		b.ReportAllocs()
		d := newDeliveries(b.Context(), k, s)
		n := 0
		for b.Loop() {
			// Every other one is silent, so that none are joined: each is sent.
			if err := d.Emit(b.Context(), ReplyBlock, Payload{Text: "text", Silent: n&1 == 0}); err != nil {
				b.Fatal(err)
			}
			n++
		}
		if _, err := d.end(nil); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("send of a prepared turn", func(b *testing.B) {
		b.ReportAllocs()
		d := newDeliveries(b.Context(), k, sending{Turn: "turn"})
		send := func(context.Context) (Receipt, error) { return Receipt{}, nil }
		for b.Loop() {
			if _, err := d.Do(b.Context(), Block{}, send); err != nil {
				b.Fatal(err)
			}
		}
		_, _ = d.end(nil)
	})
	b.Run("preview of a channel without", func(b *testing.B) {
		b.ReportAllocs()
		d := newDeliveries(b.Context(), k, s)
		for b.Loop() {
			d.Preview(Payload{Text: "text"})
		}
		_, _ = d.end(nil)
	})
}
