package telegram

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// adapter reads one event for the kernel: an update, or those of an album.
type adapter struct {
	*platform.Event
	c        *Channel
	parts    []*update
	last     *update // of parts: the reply goes to its message
	answered bool    // the press was answered
}

// run runs the turn of an event.
func (c *Channel) run(ctx context.Context, e *platform.Event) (channel.Result, error) {
	a := &adapter{c: c, Event: e}
	key, _ := channel.ParseEventKey(a.Meta.Event.Key) // the kernel has written it
	for _, raw := range a.Meta.Event.Raws() {
		u, err := readUpdate(raw)
		if err != nil || u.message == nil { // another version of this server has stored it
			continue
		}
		a.last, a.parts = u, append(a.parts, u)
		one := platform.Message{Input: c.input(a.Kernel, u, key.Conversation), Kind: u.kind, Files: attachments(u.message, c.Files.Limit)}
		if p, ok := readPress(u.press); ok {
			one.Press = &p
		}
		if u.to.otherBot {
			a.Admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "other_bot"}
		}
		a.Messages = append(a.Messages, one)
	}
	if a.last != nil {
		m, in := a.last.message, a.Messages[len(a.Messages)-1].Input
		a.Sender = c.sender(m)
		a.Place = channel.ConversationFacts{Kind: chatKind(&m.Chat), ID: in.ConversationID, Label: chatLabel(&m.Chat), ThreadID: in.ThreadID}
		current := strconv.FormatInt(c.current(ctx, m.Chat.ID), 10)
		if current != in.ConversationID {
			a.Place.NativeChannelID = current
		}
		replyTo := ""
		if a.Place.Kind == channel.Group {
			replyTo = strconv.Itoa(m.ID)
		}
		a.Reply = platform.ReplyPlan(a.Place.Kind, current, in.ThreadID, replyTo)
		a.Reply.NativeChannelID = current
	}
	a.Complete, a.Delivery, a.ShowPress, a.Finalize = a.complete, c.delivery, a.showPressed, a.finalize
	return a.Run(ctx)
}

// input returns what the kernel reads of an update, which has a message.
func (c *Channel) input(k *kernel.Kernel, u *update, conversation string) *channel.Input {
	m := u.message
	text, entities := textOf(m)
	u.to = readAddressing(text, entities, c.self())
	command, remove := u.to.command, u.to.mentions
	// The agent reads what is no command of this server. The name must be exact, because people write to all bots in this form.
	if command != "" && !k.HasCommand(c.s.Name, c.s.Account, command) {
		command, remove = "", slices.Concat(remove, u.to.suffix)
	}
	in := &channel.Input{
		ID: u.event, RawText: text, TextForAgent: cmp.Or(rewrite(text, slices.Concat(remove, links(text, entities))), inWords(m)),
		TextForCommands: cmp.Or(command, rewrite(text, remove)), ConversationID: conversation, ThreadID: topic(m),
		SenderID: c.sender(m).ID, GroupID: m.MediaGroupID, HasMedia: u.kind == channel.EventMessage && len(attachments(m, 0)) > 0,
	}
	if m.Date != 0 {
		in.Timestamp = time.Unix(int64(m.Date), 0).UTC()
	}
	return in
}

// complete adds what the message quotes and where it was forwarded from.
func (a *adapter) complete(_ context.Context, f *channel.Facts, policy channel.Policy, _ channel.Identity) (m channel.MentionFacts, quoted []platform.Attachment) {
	names := channel.NewNames(policy.Patterns)
	for _, u := range a.parts {
		m = channel.MergeMentions(m, mentioned(u, a.c.self().ID, names))
	}
	last := a.last.message
	a.c.addContext(&f.Supplemental, last, func(by channel.SenderFacts) channel.Tri { return policy.Sees(f.Conversation.Kind, by.Identity()) })
	if to := repliedTo(last); to != nil {
		quoted = attachments(to, a.c.Files.Limit)
	}
	return m, quoted
}

// repliedTo returns the message that m replies to, or nil. The header of a topic, to which all messages of the topic refer, does not count.
func repliedTo(m *models.Message) *models.Message {
	to := m.ReplyToMessage
	if to == nil || m.IsTopicMessage && to.ID == m.MessageThreadID {
		return nil
	}
	return to
}

// mentioned says whether a message is for the bot (CH-174).
func mentioned(u *update, self int64, names channel.Names) channel.MentionFacts {
	m := u.message
	text, _ := textOf(m)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: u.to.self || names.In(text), HasAnyMention: u.to.anyone}
	quoted := false
	if to := repliedTo(m); to != nil && to.From != nil && to.From.ID == self && to.SenderChat == nil {
		f.Implicit, quoted = append(f.Implicit, channel.ReplyToBot), m.Quote != nil
	} else if m.ExternalReply != nil && m.ExternalReply.Origin.MessageOriginUser != nil {
		quoted = m.ExternalReply.Origin.MessageOriginUser.SenderUser.ID == self
	}
	if quoted {
		f.Implicit = append(f.Implicit, channel.QuotedBot)
	}
	return f
}

// addContext adds what the message quotes and where it was forwarded from.
func (c *Channel) addContext(s *channel.SupplementalFacts, m *models.Message, allowed func(channel.SenderFacts) channel.Tri) {
	if to := repliedTo(m); to != nil {
		by := c.sender(to)
		s.Quote = &channel.Quote{ID: strconv.Itoa(to.ID), Body: fullText(to), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: allowed(by)}
		if by.IsSelf {
			s.Quote.SenderAllowed = channel.Yes
		}
	} else if e := m.ExternalReply; e != nil {
		by, _ := c.origin(&e.Origin)
		s.Quote = &channel.Quote{Sender: by.Label(), IsExternal: true, IsSelf: by.IsSelf, SenderAllowed: allowed(by)}
		if e.MessageID != 0 {
			s.Quote.ID = strconv.Itoa(e.MessageID)
		}
	}
	if s.Quote != nil && m.Quote != nil {
		s.Quote.Body, s.Quote.IsQuote = m.Quote.Text, m.Quote.IsManual
	}
	if o := m.ForwardOrigin; o != nil {
		by, date := c.origin(o)
		s.Forwarded = &channel.Forwarded{From: cmp.Or(by.Name, by.Username), FromType: string(o.Type), FromID: by.ID, SenderAllowed: allowed(by)}
		if date != 0 {
			s.Forwarded.Date = time.Unix(int64(date), 0).UTC()
		}
	}
}

// origin returns who wrote a message first, and when. Someone who hides has a name only, which anybody may take.
func (c *Channel) origin(o *models.MessageOrigin) (by channel.SenderFacts, date int) {
	switch {
	case o.MessageOriginUser != nil:
		return c.user(&o.MessageOriginUser.SenderUser), o.MessageOriginUser.Date
	case o.MessageOriginHiddenUser != nil:
		return channel.SenderFacts{Name: o.MessageOriginHiddenUser.SenderUserName}, o.MessageOriginHiddenUser.Date
	case o.MessageOriginChat != nil:
		return asSender(&o.MessageOriginChat.SenderChat), o.MessageOriginChat.Date
	case o.MessageOriginChannel != nil:
		return asSender(&o.MessageOriginChannel.Chat), o.MessageOriginChannel.Date
	}
	return by, 0
}

// finalize answers a press that nothing else has answered, and changes a message that was edited where it waits.
func (a *adapter) finalize(ctx context.Context, _ channel.Result) error {
	switch m := a.last.message; {
	case a.last.press != nil:
		a.answerPress(ctx, "")
	case a.last.edited:
		a.EditWaiting(ctx, strconv.Itoa(m.ID), fullText(m))
	}
	return nil
}
