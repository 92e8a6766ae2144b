package channel_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

// BenchmarkTurn is what the kernel itself costs: an agent that says nothing, or one word, in a direct conversation.
func BenchmarkTurn(b *testing.B) {
	silent := agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{NoReply: true}, nil
	})
	for name, answers := range map[string]channel.Agent{"silent": silent, "one block": says("hello")} {
		b.Run(name, func(b *testing.B) {
			k := &channel.Kernel{Agent: answers, Limits: channel.Limits{SenderRate: channel.Rate{PerMinute: -1}, ChatRate: channel.Rate{PerMinute: -1}}}
			f := facts("", "hi")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f.MessageID = strconv.Itoa(i)
				r, err := k.RunAssembled(b.Context(), channel.Meta{Channel: "fake"}, &channel.Assembled{Common: channel.Common{Facts: f}, Delivery: nowhere{}})
				if err != nil || !r.Dispatched {
					b.Fatal(r, err)
				}
			}
		})
	}
	b.Run("denied", func(b *testing.B) {
		k := &channel.Kernel{Agent: silent}
		f := facts("", "hi")
		f.Access = channel.AccessFacts{}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			f.MessageID = strconv.Itoa(i)
			if _, err := k.RunAssembled(b.Context(), channel.Meta{Channel: "fake"}, &channel.Assembled{Common: channel.Common{Facts: f}, Delivery: nowhere{}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// nowhere takes everything.
type nowhere struct{}

func (nowhere) Deliver(context.Context, channel.Block) (channel.Receipt, error) {
	return channel.Receipt{}, nil
}
