package cli

import (
	"context"

	"github.com/lingserve/lingserve/channel"
)

var _ channel.Adapter[*message] = (*Chat)(nil)

// Ingest implements [channel.Adapter].
func (*Chat) Ingest(_ context.Context, m *message) (*channel.Input, error) {
	return &channel.Input{
		ID: m.id, Timestamp: m.at, RawText: m.text, ConversationID: m.session, SenderID: Sender, Raw: m,
	}, nil
}

// Resolve implements [channel.Adapter]. Each session is a conversation of its own.
func (c *Chat) Resolve(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	m := in.Raw.(*message)
	key := channel.KeyParts{Channel: Name, Conversation: m.session}
	if c.o.Agent != c.o.Default {
		key.Agent = c.o.Agent
	}
	sender := channel.SenderFacts{ID: Sender}
	f := channel.Facts{
		Channel: Name, MessageID: in.ID, Timestamp: in.Timestamp, From: Sender, Sender: sender,
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: m.session},
		Route:        channel.RouteFacts{AgentID: c.o.Agent, RouteSessionKey: channel.SessionKey(key), CreateIfMissing: true},
		Reply:        channel.ReplyPlanFacts{To: m.session, Mode: channel.ReplyDirect},
		Message:      channel.MessageFacts{RawBody: in.RawText},
	}
	if k := m.kernel; k != nil && k.Settings != nil {
		p := k.Settings.Policy(channel.PolicyQuery{Channel: Name, Conversation: m.session, Kind: channel.Direct})
		f.Access = p.Access(sender.Identity(), channel.MentionFacts{})
		f.Supplemental.GroupSystemPrompt = p.SystemPrompt
	}
	return &channel.Assembled{
		Common:   channel.Common{Facts: f, Record: channel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}},
		Delivery: &delivery{chat: c, message: m},
	}, nil
}
