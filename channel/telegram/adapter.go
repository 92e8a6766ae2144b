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
	c        *Channel
	k        *kernel.Kernel
	meta     kernel.Meta
	parts    []*update
	last     *update // of parts: the reply goes to its message
	answered bool    // the press was answered
}

// run runs the turn of an event.
func (a *adapter) run(ctx context.Context, e *kernel.Claimed) (channel.Result, error) {
	return kernel.Run(ctx, a.k, a.meta, e.Raws(), &kernel.Adapter[[][]byte]{
		Ingest: a.ingest, Classify: a.classify, Preflight: a.preflight, Resolve: a.resolve, Finalize: a.finalize,
	})
}

// input returns what the kernel reads of an update, which has a message.
func (c *Channel) input(k *kernel.Kernel, u *update) *channel.Input {
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
		TextForCommands: cmp.Or(command, rewrite(text, remove)), ConversationID: c.chats.conversation(m.Chat.ID), ThreadID: topic(m),
		SenderID: c.sender(m).ID, GroupID: m.MediaGroupID, HasMedia: u.kind == channel.EventMessage && len(attachments(m, 0)) > 0,
	}
	if m.Date != 0 {
		in.Timestamp = time.Unix(int64(m.Date), 0).UTC()
	}
	return in
}

func (a *adapter) ingest(_ context.Context, raws [][]byte) (*channel.Input, error) {
	var list []*channel.Input
	for _, raw := range raws {
		u, err := readUpdate(raw)
		if err == nil && u.message != nil { // else another version of this server has stored it
			a.last, a.parts = u, append(a.parts, u)
			list = append(list, a.c.input(a.k, u))
		}
	}
	return channel.MergeInputs(list), nil
}

func (a *adapter) classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	_, press := readPress(a.last.press)
	return platform.Classify(in, a.last.kind, press), nil
}

// preflight drops commands for other bots.
func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (pf channel.Preflight, err error) {
	if slices.ContainsFunc(a.parts, func(u *update) bool { return u.to.otherBot }) {
		pf.Admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "other_bot"}
	} else if in.HasMedia {
		pf.History.LoadMedia = platform.ImageLoader(a.files(), a.c.media.Load)
	}
	return pf, nil
}

// files are those of the messages, in order.
func (a *adapter) files() (list []platform.Attachment) {
	for _, u := range a.parts {
		list = append(list, attachments(u.message, a.c.media.Limit)...)
	}
	return list
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c, m := a.c, a.last.message
	at := channel.ConversationFacts{Kind: chatKind(&m.Chat), ID: in.ConversationID, Label: chatLabel(&m.Chat), ThreadID: in.ThreadID}
	current := strconv.FormatInt(c.chats.current(m.Chat.ID), 10)
	if current != at.ID {
		at.NativeChannelID = current
	}
	f, policy, who := platform.NewFacts(ctx, a.k, a.meta, c.s.Agent, in, c.sender(m), at)
	f.Reply = replyPlan(at.Kind, current, in.ThreadID, m.ID)
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, u := range a.parts {
		mentions = append(mentions, mentioned(u, c.self().ID, names))
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if p, ok := readPress(a.last.press); ok {
		return a.k.PressTurn(f, p, a.showPressed), nil
	}
	c.addContext(&f.Supplemental, m, func(by channel.SenderFacts) channel.Tri { return policy.Sees(at.Kind, by.Identity()) })
	var quoted []platform.Attachment
	if to := repliedTo(m); to != nil {
		quoted = attachments(to, c.media.Limit)
	}
	platform.AddMedia(ctx, &f, a.files(), quoted, c.media.Load)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: c.delivery(&f)}, nil
}

// replyPlan is where the answer goes: in groups it replies to the message, in topics it stays in the topic (CH-177).
func replyPlan(kind channel.ChatType, chat, thread string, message int) channel.ReplyPlanFacts {
	r := channel.ReplyPlanFacts{
		To: chat, OriginatingTo: chat, NativeChannelID: chat, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyDirect,
	}
	switch kind {
	case channel.Group:
		r.Mode, r.ReplyToID = channel.ReplyMessage, channel.Some(strconv.Itoa(message))
	case channel.Broadcast:
		r.Mode = channel.ReplyChannel
	}
	if thread != "" {
		r.Mode, r.MessageThreadID = channel.ReplyThread, channel.Some(thread)
	}
	return r
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
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	if a.last.press != nil {
		text := ""
		if s, ok := channel.RefusedPress(r); ok {
			text = s.Text()
		}
		a.answerPress(ctx, text)
		return nil
	}
	m := a.last.message
	if a.last.edited {
		w := channel.WindowKey{Channel: a.c.s.Name, Account: a.c.s.Account, Conversation: a.c.chats.conversation(m.Chat.ID), Thread: topic(m)}
		platform.EditWaiting(ctx, a.k, w, chatKind(&m.Chat), a.c.sender(m), strconv.Itoa(m.ID), fullText(m))
	}
	return nil
}
