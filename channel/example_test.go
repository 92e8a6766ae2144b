package channel_test

import (
	"context"
	"fmt"

	"github.com/lingserve/lingserve/channel"
)

// printer is a channel's delivery: it prints what it is to send.
type printer struct{}

func (printer) Deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	fmt.Printf("to %s: %s\n", b.Target.Target(), b.Text)
	return channel.Receipt{}, nil
}

// An agent answers a direct message of somebody who is on the list, and nobody else.
func Example() {
	k := &channel.Kernel{Agent: agent(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "You said " + t.Context.BodyForAgent})
	})}
	policy := channel.Policy{DM: channel.PolicyAllowlist, DMAllowFrom: []string{"42"}}
	for _, sender := range []channel.SenderFacts{{ID: "42"}, {ID: "43"}} {
		r, err := k.RunAssembled(context.Background(), channel.Meta{Channel: "paper"}, &channel.Assembled{
			Delivery: printer{},
			Common: channel.Common{Facts: channel.Facts{
				Channel: "paper", MessageID: "1", Sender: sender,
				Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender.ID},
				Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "paper:" + sender.ID},
				Reply:        channel.ReplyPlanFacts{To: sender.ID},
				Access:       policy.Access(sender.Identity(), channel.MentionFacts{}),
				Message:      channel.MessageFacts{RawBody: "hello"},
			}},
		})
		fmt.Println(r.Outcome, r.Admission.Reason, err)
	}
	// Output:
	// to 42: You said hello
	// visible  <nil>
	// blocked dm_not_allowed <nil>
}
