package telegram

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/channel/pairing"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads one update for the kernel.
type adapter struct {
	c        *Channel
	k        *channel.Kernel
	u        *Update
	answered bool // the press that the update is
}

var (
	_ channel.Adapter[*Update] = (*adapter)(nil)
	_ channel.Classifier       = (*adapter)(nil)
	_ channel.Preflighter      = (*adapter)(nil)
	_ channel.Finalizer        = (*adapter)(nil)
	_ channel.Challenger       = (*adapter)(nil)
)

// event is what the kernel is given of an update.
func (c *Channel) event(k *channel.Kernel, u *Update, m channel.Meta) channel.Event[*Update] {
	m.Channel, m.Account = c.name, c.account
	return channel.Event[*Update]{Meta: m, Raw: u, Adapter: &adapter{c: c, k: k, u: u}}
}

// key names an update in the journal. It is what the kernel makes of the input.
func (c *Channel) key(u *Update) (key channel.EventKey, ok bool) {
	m, _, id := message(u)
	if m == nil {
		return key, false
	}
	return channel.EventKey{
		Channel: c.name, Account: c.account, Conversation: c.chats.conversation(m.Chat.ID), Thread: thread(m), ID: id,
	}, true
}

// Ingest implements [channel.Adapter].
func (a *adapter) Ingest(_ context.Context, u *Update) (*channel.Input, error) {
	m, kind, id := message(u)
	if m == nil {
		return nil, nil // nothing that an agent could be told of
	}
	text, entities := words(m)
	to := addressed(text, entities, a.c.self())
	// The agent reads what is no command of this server. A name that is only close to one is a command of somebody's own: here people write
	// to all bots in this form.
	if to.command != "" && !a.k.HasCommand(a.c.name, a.c.account, to.command) {
		to.command, to.cuts = "", slices.Concat(to.cuts, to.slash)
	}
	in := &channel.Input{
		ID: id, RawText: text,
		ConversationID: a.c.chats.conversation(m.Chat.ID), ThreadID: thread(m), SenderID: sender(m, a.c.self()).ID,
		GroupID: m.MediaGroupID, Raw: m, TextForCommands: cmp.Or(to.command, rewrite(text, to.cuts)),
	}
	if m.Date != 0 {
		in.Timestamp = time.Unix(int64(m.Date), 0).UTC()
	}
	in.TextForAgent = cmp.Or(rewrite(text, slices.Concat(to.cuts, links(text, entities))), shown(m))
	in.HasMedia = kind == channel.EventMessage && len(attachments(m, a.c.store.Limit)) > 0
	return in, nil
}

// said is what a message says, with the addresses of links.
func said(m *models.Message) string {
	text, entities := words(m)
	return cmp.Or(rewrite(text, links(text, entities)), shown(m))
}

// Classify implements [channel.Classifier].
func (a *adapter) Classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	_, kind, _ := message(a.u)
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		return channel.EventClass{Kind: channel.EventCommand, CanStartAgentTurn: true}, nil
	}
	_, press := pressed(a.u)
	return channel.EventClass{Kind: kind, CanStartAgentTurn: kind == channel.EventMessage || press}, nil
}

// Preflight implements [channel.Preflighter]: it knows of commands for others, and how images of a message that is not answered are
// loaded.
func (a *adapter) Preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var pf channel.Preflight
	list := channel.Parts[*models.Message](in)
	for _, m := range list {
		text, entities := words(m)
		if addressed(text, entities, a.c.self()).other {
			pf.Admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "other_bot"}
			return pf, nil
		}
	}
	if in.HasMedia {
		pf.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			images := slices.DeleteFunc(a.files(list), func(f attachment) bool { return f.Fact.Kind != channel.MediaImage })
			all, _ := a.c.load(ctx, images)
			return all, nil
		}
	}
	return pf, nil
}

// Resolve implements [channel.Adapter].
func (a *adapter) Resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	c, me := a.c, a.c.self()
	list := channel.Parts[*models.Message](in)
	m := list[len(list)-1] // what the reply goes to
	kind := chatKind(&m.Chat)
	from := sender(m, me)
	native := strconv.FormatInt(c.chats.now(m.Chat.ID), 10)

	policy, who := a.k.PolicyAt(ctx, channel.PolicyQuery{
		Channel: c.name, Account: c.account, Conversation: in.ConversationID, Thread: in.ThreadID, Kind: kind,
	}, from)

	f := channel.Facts{
		Channel: c.name, Account: c.account, MessageID: in.ID, From: from.ID, Timestamp: in.Timestamp,
		Sender: from,
		Conversation: channel.ConversationFacts{
			Kind: kind, ID: in.ConversationID, Label: chatLabel(&m.Chat), ThreadID: in.ThreadID,
		},
		Route: channel.RouteFacts{CreateIfMissing: true},
		Reply: reply(kind, native, in.ThreadID, m),
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, SenderLabel: from.Label(),
			Preview: channel.Preview(in.RawText),
		},
	}
	if native != f.Conversation.ID {
		f.Conversation.NativeChannelID = native
	}
	key := channel.KeyParts{Channel: c.name, Account: c.account, Conversation: in.ConversationID}
	if in.ThreadID != "" {
		f.Route.ParentSessionKey = channel.SessionKey(key)
		key.Thread = in.ThreadID
	}
	f.Route.RouteSessionKey = channel.SessionKey(key)
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, c.agent)
	}
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, part := range list {
		mentions = append(mentions, mentioned(part, me, names))
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if p, ok := pressed(a.u); ok {
		return channel.PressPlan(f, p, a.answer), nil
	}
	f.Supplemental = supplemental(m, me, kind, policy)
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	a.media(ctx, list, &f)
	return &channel.Assembled{
		Common:   channel.Common{Facts: f, Record: channel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}},
		Delivery: c.delivery(native, in.ThreadID, kind),
	}, nil
}

// files are those of messages, in order.
func (a *adapter) files(list []*models.Message) (all []attachment) {
	for _, m := range list {
		all = append(all, attachments(m, a.c.store.Limit)...)
	}
	return all
}

// media are the files of the messages and of what they quote. They are loaded only for a message that the gates let in, and what
// context_visibility hides is not (CH-109).
func (a *adapter) media(ctx context.Context, list []*models.Message, f *channel.Facts) {
	c := a.c
	own := a.files(list)
	var quoted []attachment
	if to := list[len(list)-1].ReplyToMessage; f.Supplemental.Quote != nil && to != nil && !f.Supplemental.Quote.IsExternal {
		quoted = attachments(to, c.store.Limit)
	}
	f.Media = media.Facts(own)
	if f.Supplemental.Quote != nil {
		f.Supplemental.Quote.Media = media.Facts(quoted)
	}
	if len(own)+len(quoted) == 0 {
		return
	}
	if !channel.LetsIn(f) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	seen, hidden := f.Supplemental.Visible(f.Access.Visibility)
	if !hidden {
		var notes []string
		f.Media, notes = c.load(ctx, own)
		f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
	}
	if seen.Quote != nil {
		f.Supplemental.Quote.Media, _ = c.load(ctx, quoted)
	}
}

// Challenge implements [channel.Challenger]: whoever writes to the bot is told how to be let in.
func (a *adapter) Challenge(ctx context.Context, s channel.SenderFacts) error {
	m, _, _ := message(a.u)
	if m == nil || chatKind(&m.Chat) != channel.Direct {
		return nil
	}
	text, err := pairing.Challenge(ctx, a.k.Pairing, a.c.name, a.c.account, s, "")
	if err != nil || text == "" {
		return err
	}
	_, err = a.c.send(ctx, &target{chat: m.Chat.ID}, chunk{marked: text})
	return err
}

// reply is where the answer goes: to the message in groups, into its topic, and in a direct conversation just to the chat (CH-177).
func reply(kind channel.ChatType, chat, thread string, m *models.Message) channel.ReplyPlanFacts {
	r := channel.ReplyPlanFacts{
		To: chat, OriginatingTo: chat, NativeChannelID: chat, ReplyToID: channel.None, MessageThreadID: channel.None,
		Mode: channel.ReplyDirect,
	}
	if kind == channel.Group {
		r.Mode, r.ReplyToID = channel.ReplyMessage, channel.Some(strconv.Itoa(m.ID))
	}
	if kind == channel.Broadcast {
		r.Mode = channel.ReplyChannel
	}
	if thread != "" {
		r.Mode, r.MessageThreadID = channel.ReplyThread, channel.Some(thread)
	}
	return r
}

// mentioned is what a message says of who is meant (CH-174).
func mentioned(m *models.Message, me *models.User, names channel.Names) channel.MentionFacts {
	text, entities := words(m)
	a := addressed(text, entities, me)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: a.us || names.In(text), HasAnyMention: a.anybody}
	if to := answered(m); to != nil && to.From != nil && to.From.ID == me.ID && to.SenderChat == nil {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
		if m.Quote != nil {
			f.Implicit = append(f.Implicit, channel.QuotedBot)
		}
	}
	if m.ExternalReply != nil {
		if by := m.ExternalReply.Origin.MessageOriginUser; by != nil && by.SenderUser.ID == me.ID {
			f.Implicit = append(f.Implicit, channel.QuotedBot)
		}
	}
	return f
}

// answered is the message that a message replies to. In a topic, every message that replies to none refers to the topic's first.
func answered(m *models.Message) *models.Message {
	to := m.ReplyToMessage
	if to == nil || m.IsTopicMessage && to.ID == m.MessageThreadID {
		return nil
	}
	return to
}

// supplemental is what stands around a message.
func supplemental(m *models.Message, me *models.User, kind channel.ChatType, p channel.Policy) channel.SupplementalFacts {
	var s channel.SupplementalFacts
	if to := answered(m); to != nil {
		by := sender(to, me)
		q := &channel.Quote{
			ID: strconv.Itoa(to.ID), Body: said(to), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: p.Sees(kind, by.Identity()),
		}
		if m.Quote != nil {
			q.Body, q.IsQuote = m.Quote.Text, m.Quote.IsManual
		}
		if by.IsSelf {
			q.SenderAllowed = channel.Yes
		}
		s.Quote = q
	} else if e := m.ExternalReply; e != nil {
		by, _, _ := origin(&e.Origin, me)
		q := &channel.Quote{Sender: by.Label(), IsExternal: true, IsSelf: by.IsSelf, SenderAllowed: p.Sees(kind, by.Identity())}
		if e.MessageID != 0 {
			q.ID = strconv.Itoa(e.MessageID)
		}
		if m.Quote != nil {
			q.Body, q.IsQuote = m.Quote.Text, m.Quote.IsManual
		}
		s.Quote = q
	}
	if o := m.ForwardOrigin; o != nil {
		by, what, at := origin(o, me)
		s.Forwarded = &channel.Forwarded{
			From: cmp.Or(by.Name, by.Username), FromType: what, FromID: by.ID, Date: at, SenderAllowed: p.Sees(kind, by.Identity()),
		}
	}
	return s
}

// origin is who wrote a message first. Of somebody who hides, there is a name only, which anybody may take.
func origin(o *models.MessageOrigin, me *models.User) (by channel.SenderFacts, kind string, at time.Time) {
	chat := func(c *models.Chat) channel.SenderFacts {
		return channel.SenderFacts{ID: strconv.FormatInt(c.ID, 10), Name: chatLabel(c), Username: c.Username}
	}
	date := 0
	switch {
	case o.MessageOriginUser != nil:
		by, date = user(&o.MessageOriginUser.SenderUser, me), o.MessageOriginUser.Date
	case o.MessageOriginHiddenUser != nil:
		by, date = channel.SenderFacts{Name: o.MessageOriginHiddenUser.SenderUserName}, o.MessageOriginHiddenUser.Date
	case o.MessageOriginChat != nil:
		by, date = chat(&o.MessageOriginChat.SenderChat), o.MessageOriginChat.Date
	case o.MessageOriginChannel != nil:
		by, date = chat(&o.MessageOriginChannel.Chat), o.MessageOriginChannel.Date
	}
	if date != 0 {
		at = time.Unix(int64(date), 0).UTC()
	}
	return by, string(o.Type), at
}

// Finalize implements [channel.Finalizer]: every press is answered, and what somebody has changed is changed where it waits (CH-98).
func (a *adapter) Finalize(ctx context.Context, r channel.Result) error {
	m, _, _ := message(a.u)
	if a.u.CallbackQuery != nil {
		if s, ok := channel.RefusedPress(r); ok {
			a.answerPress(ctx, s.Text())
		}
		a.answerPress(ctx, "") // of a button that is not ours, too
		return nil
	}
	if a.u.EditedMessage == nil && a.u.EditedChannelPost == nil || a.k.Window == nil || a.k.Settings == nil || chatKind(&m.Chat) == channel.Direct {
		return nil
	}
	key := channel.WindowKey{Channel: a.c.name, Account: a.c.account, Conversation: a.c.chats.conversation(m.Chat.ID), Thread: thread(m)}
	policy := a.k.Settings.Policy(channel.PolicyQuery{
		Channel: key.Channel, Account: key.Account, Conversation: key.Conversation, Thread: key.Thread, Kind: chatKind(&m.Chat),
	})
	if policy.Sees(chatKind(&m.Chat), sender(m, a.c.self()).Identity()) != channel.Yes {
		a.k.Window.Forget(ctx, key, strconv.Itoa(m.ID)) // since then, the sender may not talk here any more
		return nil
	}
	a.k.Window.Edit(ctx, key, strconv.Itoa(m.ID), said(m))
	return nil
}
