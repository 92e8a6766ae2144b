package cli

import (
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// newTurn returns the turn of a line. Each session is a conversation. mu is held.
func (c *Chat) newTurn(text string, d *delivery) *kernel.Turn {
	key := channel.KeyParts{Channel: Name, Conversation: c.session}
	if c.o.Agent != c.o.Default {
		key.Agent = c.o.Agent
	}
	sender := channel.SenderFacts{ID: Sender}
	f := channel.Facts{
		Channel: Name, MessageID: turn.NewID(), Timestamp: time.Now(), From: Sender, Sender: sender,
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: c.session},
		Route:        channel.RouteFacts{AgentID: c.o.Agent, RouteSessionKey: channel.SessionKey(key), CreateIfMissing: true},
		Reply:        channel.ReplyPlanFacts{To: c.session, Mode: channel.ReplyDirect},
		Message:      channel.MessageFacts{RawBody: text},
	}
	if c.kernel.Settings != nil {
		p := c.kernel.Settings.Policy(f.PolicyQuery())
		f.Access = p.Access(sender, channel.MentionFacts{})
		f.Supplemental.GroupSystemPrompt = p.SystemPrompt
	}
	out := &kernel.Delivery{Deliver: d.deliver, Working: d.working, Rest: d.rest, PreviewEvery: previewEvery, WorkingEvery: workingEvery}
	if c.o.Terminal != nil { // elsewhere, a text that the model takes back cannot be removed
		out.Preview = d.preview
	}
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: out}
}
