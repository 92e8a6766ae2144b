package slack

import (
	"cmp"
	"context"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// run runs the turn of an event: of a message, or of several of one sender, of which the last one is answered. What cannot be read is
// nothing for an agent.
func (c *Channel) run(ctx context.Context, e *platform.Event) (channel.Result, error) {
	var shared *message // with a message of elsewhere
	for _, raw := range e.Meta.Event.Raws() {
		parsed, err := parseEvent(raw)
		if err != nil || parsed.message == nil {
			continue
		}
		m := parsed.message
		if m.shared != nil {
			shared = m
		}
		c.addMessage(ctx, e, m)
		e.Complete = func(ctx context.Context, f *channel.Facts, policy channel.Policy) (channel.MentionFacts, []platform.Attachment) {
			if shared != nil {
				f.Supplemental.Quote = c.quote(shared, policy)
			}
			if m.press == nil && policy.Sees(f.Conversation.Kind, f.Sender) == channel.Yes { // the platform is not asked for the names of others
				c.addName(ctx, &f.Sender)
			}
			return channel.MentionFacts{}, nil
		}
	}
	return e.Run(ctx)
}

func (c *Channel) addMessage(ctx context.Context, e *platform.Event, m *message) {
	one := platform.Message{Input: c.input(e.Kernel, m), Kind: m.kind, Files: attachments(m)}
	one.Mentions = func(names channel.Names) channel.MentionFacts { return c.mentions(ctx, m, names) }
	switch {
	case m.press != nil:
		one.Press = &m.press.Press
	case m.deleted:
		one.Deleted = []string{m.Timestamp}
	case m.kind == channel.EventLifecycle:
		one.Edited = m.Timestamp
	}
	e.Messages = append(e.Messages, one)
	e.Sender, e.Thread = m.sender(c.self()), c.replyThread(m) // the answer may make a thread of the message, and messages there belong to its session
	e.Place = channel.ConversationFacts{Kind: m.chat(), ID: m.conversation, SpaceID: c.self().TeamID, ThreadID: m.thread}
	e.Reply = platform.ReplyPlan(m.chat(), m.conversation, e.Thread, "")
	e.Delivery = func(*channel.Facts) *kernel.Delivery { return c.delivery(m) }
	e.ShowPress = func(ctx context.Context, s channel.Pressed) { c.answerPress(ctx, m, s) }
}

// words are what a message says.
func (c *Channel) words(m *message) words { return read(m.Text, c.self().UserID, c.knownName) }

// input returns what the kernel reads of a message.
func (c *Channel) input(k *kernel.Kernel, m *message) *channel.Input {
	in := &channel.Input{
		ID: m.id, Timestamp: timeOf(m.Timestamp), ConversationID: m.conversation, ThreadID: m.thread, SenderID: m.sender(c.self()).ID,
		RawText: m.Text, TextForAgent: c.words(m).text, HasMedia: m.kind == channel.EventMessage && len(attachments(m)) > 0,
	}
	if m.native && !k.HasCommand(c.s.Name, c.s.Account, in.TextForAgent) { // the agent reads what is no command of this server
		in.RawText, in.TextForAgent = strings.TrimPrefix(in.RawText, ","), strings.TrimPrefix(in.TextForAgent, ",")
	}
	in.TextForCommands = in.TextForAgent
	return in
}

// replyThread is the thread that the answer to a message goes to; "": none.
func (c *Channel) replyThread(m *message) string {
	switch {
	case m.press != nil:
		return m.press.thread
	case m.thread == "" && !m.direct && c.s.Replies == ReplyInThread:
		return m.Timestamp // "" of a slash command, which is no message
	}
	return m.thread
}

// quote is the message of elsewhere that someone has shared.
func (c *Channel) quote(m *message, p channel.Policy) *channel.Quote {
	s := m.shared
	by := channel.SenderFacts{ID: s.AuthorID, Name: s.AuthorName, IsSelf: s.AuthorID != "" && s.AuthorID == c.self().UserID}
	q := &channel.Quote{
		ID: s.Ts.String(), Body: read(cmp.Or(s.Text, s.Fallback), "", c.knownName).text, Sender: by.Label(), IsSelf: by.IsSelf,
		IsExternal: true, SenderAllowed: p.Sees(m.chat(), by),
	}
	if by.IsSelf {
		q.SenderAllowed = channel.Yes
	}
	return q
}

// mentions says who is meant by a message.
func (c *Channel) mentions(ctx context.Context, m *message, names channel.Names) channel.MentionFacts {
	w := c.words(m)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: w.us || names.In(w.text), HasAnyMention: w.anybody}
	if m.native {
		f.Implicit = append(f.Implicit, channel.Native)
	}
	if m.thread != "" && m.ParentUserId != "" && m.ParentUserId == c.self().UserID {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
	}
	if m.thread != "" { // has the bot written there, as far as the state can be read?
		if text, _ := c.s.State.Load(ctx, c.threadName(target{m.conversation, m.thread})); text != nil {
			f.Implicit = append(f.Implicit, channel.BotThread)
		}
	}
	return f
}
