package cli

import (
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
)

// turnOf returns the turn of a line. Each session is a conversation.
func (c *Chat) turnOf(m *message) *kernel.Turn {
	key := channel.KeyParts{Channel: Name, Conversation: m.session}
	if c.o.Agent != c.o.Default {
		key.Agent = c.o.Agent
	}
	sender := channel.SenderFacts{ID: Sender}
	f := channel.Facts{
		Channel: Name, MessageID: m.id, Timestamp: m.at, From: Sender, Sender: sender,
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: m.session},
		Route:        channel.RouteFacts{AgentID: c.o.Agent, RouteSessionKey: channel.SessionKey(key), CreateIfMissing: true},
		Reply:        channel.ReplyPlanFacts{To: m.session, Mode: channel.ReplyDirect},
		Message:      channel.MessageFacts{RawBody: m.text},
	}
	if c.kernel.Settings != nil {
		p := c.kernel.Settings.Policy(f.PolicyQuery())
		f.Access = p.Access(sender.Identity(), channel.MentionFacts{})
		f.Supplemental.GroupSystemPrompt = p.SystemPrompt
	}
	d := &delivery{chat: c}
	return &kernel.Turn{
		Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true},
		Delivery: &kernel.Delivery{
			Deliver: d.deliver, Preview: d.preview, Working: d.working, Rest: d.rest, PreviewEvery: previewEvery, WorkingEvery: workingEvery,
		},
	}
}
