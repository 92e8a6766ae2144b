package feishu

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// run runs the turn of an event. One of several messages is about the last one.
func (c *Channel) run(ctx context.Context, ev *platform.Event) (channel.Result, error) {
	for _, raw := range ev.Meta.Event.Raws() {
		e := new(event)
		if json.Unmarshal(raw, e) == nil && e.Message != nil {
			c.addEvent(ev, e)
		}
	}
	return ev.Run(ctx)
}

func (c *Channel) addEvent(ev *platform.Event, e *event) {
	m := e.Message
	kind, _ := e.class()
	one := platform.Message{Input: c.input(e), Kind: kind, Press: e.Press, Files: m.read().files}
	one.Mentions = func(names channel.Names) channel.MentionFacts { return c.mentions(m, names) }
	ev.Sender, ev.Reply = c.senderFacts(e.Sender), replyPlan(m)
	ev.Place = channel.ConversationFacts{Kind: m.chatKind(), ID: m.Chat, ThreadID: m.Thread, SpaceID: e.Tenant}
	if e.Kind == eventRecall {
		one.Deleted = []string{m.ID}
		c.known.Add(m.ID, knownMessage{})
		if m.Thread == "" {
			ev.Place.ThreadID, _ = c.threads.Peek(m.ID)
		}
	}
	ev.Messages = append(ev.Messages, one)
	ev.Complete = func(ctx context.Context, f *channel.Facts, policy channel.Policy) (channel.MentionFacts, []platform.Attachment) {
		return c.addQuote(ctx, f, e, policy)
	}
	ev.ShowPress = func(ctx context.Context, s channel.Pressed) { c.answerPress(ctx, e, s) }
	ev.Delivery = func(*channel.Facts) *kernel.Delivery { return c.delivery(m) }
}

// input returns the input of an event that is about a conversation.
func (c *Channel) input(e *event) *channel.Input {
	m := e.Message
	_, id := e.class()
	in := &channel.Input{ID: id, Timestamp: m.time(), ConversationID: m.Chat, ThreadID: m.Thread, SenderID: e.Sender.ID.Open}
	switch {
	case e.Press != nil:
		in.RawText = e.Press.Command()
		in.TextForCommands = in.RawText
	case e.Kind == eventMessage:
		read := m.read()
		in.RawText = withNames(read.text, m.Mentions, "")
		in.TextForAgent = withNames(read.text, m.Mentions, c.self().OpenID)
		in.TextForCommands = in.TextForAgent
		in.HasMedia = len(read.files) > 0
	}
	return in
}

// senderFacts returns the facts of a sender. Events have no names of senders.
func (c *Channel) senderFacts(s sender) channel.SenderFacts {
	self := s.ID.Open != "" && (s.ID.Open == c.self().OpenID || s.ID.Open == c.s.AppID)
	return channel.SenderFacts{ID: s.ID.Open, IsBot: s.Type == "app" || s.Type == "bot", IsSelf: self}
}

// replyPlan returns where the answer to a message goes: in groups it is a reply, in a topic it is a message of that, which is sent as a reply, too.
func replyPlan(m *message) channel.ReplyPlanFacts {
	replyTo := ""
	if m.Thread != "" || m.chatKind() == channel.Group {
		replyTo = m.ID
	}
	plan := platform.ReplyPlan(m.chatKind(), m.Chat, m.Thread, replyTo)
	plan.NativeChannelID = m.Chat
	return plan
}

// mentions returns who is mentioned in a message.
func (c *Channel) mentions(m *message, names channel.Names) channel.MentionFacts {
	self, read := c.self().OpenID, m.read()
	byID := func(one mention) bool { return one.ID.Open != "" && one.ID.Open == self }
	return channel.MentionFacts{
		CanDetect: true, HasAnyMention: read.all || len(m.Mentions) > 0,
		WasMentioned: names.In(withNames(read.text, m.Mentions, self)) || slices.ContainsFunc(m.Mentions, byID),
	}
}

// addQuote adds the message that is replied to.
func (c *Channel) addQuote(ctx context.Context, f *channel.Facts, e *event, policy channel.Policy) (m channel.MentionFacts, files []platform.Attachment) {
	kind, q := f.Conversation.Kind, &channel.Quote{ID: e.Message.repliedTo()}
	if q.ID == "" {
		return m, nil
	}
	f.Supplemental.Quote = q
	if e.Press != nil || policy.Sees(kind, f.Sender) == channel.No { // strangers cause no calls
		return m, nil
	}
	quoted := c.readMessage(ctx, q.ID)
	if quoted.exists {
		q.Body, q.Sender, q.SenderAllowed = quoted.text, quoted.from.ID, policy.Sees(kind, quoted.from)
	}
	if quoted.from.IsSelf {
		q.Sender, q.IsSelf, q.SenderAllowed = c.self().Name, true, channel.Yes
		m.Implicit = []channel.MentionKind{channel.ReplyToBot}
	}
	return m, quoted.files
}

// knownMessage is a message that was sent or read.
type knownMessage struct {
	exists bool // it is not deleted
	text   string
	from   channel.SenderFacts
	files  []platform.Attachment
}

// readTimeout bounds the call for a message that is replied to. Without it, the reply stands alone.
const readTimeout = 5 * time.Second

// readMessage returns the message with an id; the zero value if it is deleted, or cannot be read now. An event has only the id of the message that is
// replied to.
func (c *Channel) readMessage(ctx context.Context, id string) (found knownMessage) {
	if m, ok := c.known.Peek(id); ok {
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	got, err := c.call(ctx, platform.Request{Name: "get the message that is replied to", Method: http.MethodGet, Path: messagePath(id)})
	if err != nil && !platform.Is(err, deleted, noWriting) {
		c.Log.WarnContext(ctx, "unknown message in a reply", "error", err)
		return found
	}
	if items := got.Data.Items; len(items) > 0 && !items[0].Deleted {
		i := &items[0]
		m := &message{ID: id, Type: i.Type, Content: i.Body.Content, Mentions: i.Mentions}
		read := m.read()
		found = knownMessage{true, withNames(read.text, m.Mentions, ""), c.senderFacts(sender{i.Sender.ID, i.Sender.Type}), read.files}
	}
	c.known.Add(id, found)
	return found
}

// messagePath returns the path of a message, for calls.
func messagePath(id string) string { return "im/v1/messages/" + url.PathEscape(id) }
