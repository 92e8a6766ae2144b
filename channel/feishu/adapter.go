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

// adapter reads an event for the kernel. An event of several messages is about the last one.
type adapter struct {
	*platform.Event
	c    *Channel
	list []*message
	e    *event
}

// run runs the turn of an event.
func (c *Channel) run(ctx context.Context, ev *platform.Event) (channel.Result, error) {
	a := &adapter{c: c, Event: ev}
	for _, raw := range a.Meta.Event.Raws() {
		e := new(event)
		if json.Unmarshal(raw, e) != nil || e.Message == nil {
			continue
		}
		kind, _ := e.class()
		a.e, a.list = e, append(a.list, e.Message)
		a.Messages = append(a.Messages, platform.Message{Input: c.input(e), Kind: kind, Press: e.Press, Files: e.Message.read().files})
	}
	if a.e != nil {
		m := a.e.Message
		a.Sender, a.Reply = c.senderFacts(a.e.Sender), replyPlan(m)
		a.Place = channel.ConversationFacts{Kind: m.chatKind(), ID: m.Chat, ThreadID: m.Thread, SpaceID: a.e.Tenant}
	}
	a.Complete, a.ShowPress, a.Finalize = a.complete, a.answerPress, a.finalize
	a.Delivery = func(*channel.Facts) *kernel.Delivery { return c.delivery(a.e.Message) }
	return a.Run(ctx)
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

// complete adds the message that is replied to.
func (a *adapter) complete(ctx context.Context, f *channel.Facts, policy channel.Policy, who channel.Identity) (channel.MentionFacts, []platform.Attachment) {
	var quoted knownMessage
	if policy.Sees(f.Conversation.Kind, who) != channel.No && a.e.Press == nil { // strangers cause no calls
		quoted = a.c.readMessage(ctx, a.e.Message.repliedTo())
	}
	f.Supplemental.Quote = a.quote(quoted, policy)
	return a.mentions(quoted, channel.NewNames(policy.Patterns)), quoted.files
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

// mentions returns who is mentioned in the messages of one event.
func (a *adapter) mentions(quoted knownMessage, names channel.Names) channel.MentionFacts {
	self := a.c.self().OpenID
	f := channel.MentionFacts{CanDetect: true}
	for _, m := range a.list {
		read := m.read()
		f.HasAnyMention = f.HasAnyMention || read.all || len(m.Mentions) > 0
		f.WasMentioned = f.WasMentioned || names.In(withNames(read.text, m.Mentions, self)) || slices.ContainsFunc(m.Mentions, func(one mention) bool {
			return one.ID.Open != "" && one.ID.Open == self
		})
	}
	if quoted.from.IsSelf {
		f.Implicit = []channel.MentionKind{channel.ReplyToBot}
	}
	return f
}

// quote returns the facts of the message that is replied to.
func (a *adapter) quote(quoted knownMessage, policy channel.Policy) *channel.Quote {
	m := a.e.Message
	id := m.repliedTo()
	if id == "" {
		return nil
	}
	q := &channel.Quote{ID: id}
	if !quoted.exists {
		return q
	}
	q.Body, q.Sender, q.SenderAllowed = quoted.text, quoted.from.ID, policy.Sees(m.chatKind(), quoted.from.Identity())
	if quoted.from.IsSelf {
		q.Sender, q.IsSelf, q.SenderAllowed = a.c.self().Name, true, channel.Yes
	}
	return q
}

// finalize removes a message that was deleted from the history.
func (a *adapter) finalize(ctx context.Context, _ channel.Result) error {
	if a.e.Kind != eventRecall {
		return nil
	}
	m := a.e.Message
	a.c.known.Add(m.ID, knownMessage{})
	if a.Place.ThreadID == "" {
		a.Place.ThreadID, _ = a.c.threads.Peek(m.ID)
	}
	a.ForgetWaiting(ctx, m.ID)
	return nil
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
	if id == "" {
		return found
	}
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
