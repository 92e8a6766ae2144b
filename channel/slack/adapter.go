package slack

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/channel/pairing"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads one event for the kernel.
type adapter struct {
	c *Channel
	k *channel.Kernel
	m *message // nil where there is nothing to tell
}

var (
	_ channel.Adapter[*Event] = (*adapter)(nil)
	_ channel.Classifier      = (*adapter)(nil)
	_ channel.Preflighter     = (*adapter)(nil)
	_ channel.Finalizer       = (*adapter)(nil)
	_ channel.Challenger      = (*adapter)(nil)
)

// event is what the kernel is given.
func (c *Channel) event(k *channel.Kernel, e *Event, m channel.Meta) channel.Event[*Event] {
	m.Channel, m.Account = c.name, c.account
	return channel.Event[*Event]{Meta: m, Raw: e, Adapter: &adapter{c, k, e.message}}
}

// key names an event in the journal. It is what the kernel makes of the input. A message and the mention that it has are one.
func (c *Channel) key(m *message) channel.EventKey {
	return channel.EventKey{Channel: c.name, Account: c.account, Conversation: m.conversation, Thread: m.thread, ID: m.id}
}

// words are what a message says.
func (c *Channel) words(m *message) words { return read(m.text, c.self().UserID, c.people.known) }

// Ingest implements [channel.Adapter].
func (a *adapter) Ingest(_ context.Context, _ *Event) (*channel.Input, error) {
	m := a.m
	if m == nil {
		return nil, nil // nothing that an agent could be told of
	}
	if m.press != nil {
		command := m.press.Command()
		return &channel.Input{
			ID: m.id, RawText: command, TextForCommands: command, ConversationID: m.conversation, ThreadID: m.thread, SenderID: m.user, Raw: m,
		}, nil
	}
	w, raw := a.c.words(m), m.text
	if m.native && !a.k.HasCommand(a.c.name, a.c.account, w.text) { // the agent reads what is no command of this server
		raw, w.text = strings.TrimPrefix(raw, ","), strings.TrimPrefix(w.text, ",")
	}
	return &channel.Input{
		ID: m.id, Timestamp: at(m.ts), RawText: raw, TextForAgent: w.text, TextForCommands: w.text,
		ConversationID: m.conversation, ThreadID: m.thread, SenderID: m.sender(a.c.self()).ID, Raw: m,
		HasMedia: m.kind == channel.EventMessage && len(attachments(m, a.c.store.Limit)) > 0,
	}, nil
}

// Classify implements [channel.Classifier].
func (a *adapter) Classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	kind := a.m.kind
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		return channel.EventClass{Kind: channel.EventCommand, CanStartAgentTurn: true}, nil
	}
	return channel.EventClass{Kind: kind, CanStartAgentTurn: kind == channel.EventMessage || a.m.press != nil}, nil
}

// Preflight implements [channel.Preflighter]: it knows how images of a message that is not answered are loaded.
func (a *adapter) Preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var pf channel.Preflight
	if in.HasMedia {
		list := channel.Parts[*message](in)
		pf.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			images := slices.DeleteFunc(a.files(list), func(f loadable) bool { return f.Fact.Kind != channel.MediaImage })
			all, _ := a.c.load(ctx, images)
			return all, nil
		}
	}
	return pf, nil
}

// root is the thread that the answer to a message goes to, "" for none.
func (c *Channel) root(m *message) string {
	if m.press != nil {
		return m.press.root
	}
	if m.thread == "" && !m.direct && c.replies == ReplyInThread {
		return m.ts // "" of a slash command, which is no message
	}
	return m.thread
}

// Resolve implements [channel.Adapter].
func (a *adapter) Resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	c, me := a.c, a.c.self()
	list := channel.Parts[*message](in)
	m := list[len(list)-1] // what the reply goes to
	kind := m.chat()
	from := m.sender(me)
	policy, who := a.k.PolicyAt(ctx, channel.PolicyQuery{
		Channel: c.name, Account: c.account, Conversation: in.ConversationID, Thread: in.ThreadID, Kind: kind,
	}, from)

	root := c.root(m)
	f := channel.Facts{
		Channel: c.name, Account: c.account, MessageID: in.ID, From: from.ID, Timestamp: in.Timestamp,
		Sender:       from,
		Conversation: channel.ConversationFacts{Kind: kind, ID: in.ConversationID, SpaceID: me.TeamID, ThreadID: in.ThreadID},
		Route:        channel.RouteFacts{CreateIfMissing: true},
		Reply:        reply(m, root),
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, Preview: channel.Preview(in.TextForAgent),
		},
	}
	key := channel.KeyParts{Channel: c.name, Account: c.account, Conversation: in.ConversationID}
	if root != "" { // the answer makes a thread of the message, and what is said there goes on with it
		f.Route.ParentSessionKey = channel.SessionKey(key)
		key.Thread = root
	}
	f.Route.RouteSessionKey = channel.SessionKey(key)
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, c.agent)
	}
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, part := range list {
		mentions = append(mentions, c.mentioned(part, names))
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if m.press != nil {
		return channel.PressPlan(f, m.press.Press, a.answer), nil
	}
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	for _, part := range list {
		if s := part.shared; s != nil {
			f.Supplemental.Quote = c.quote(part, policy)
		}
	}
	if admitted(&f) {
		// Who may not talk here is not asked after.
		f.Sender = c.people.named(ctx, c, f.Sender)
	}
	f.Message.SenderLabel = f.Sender.Label()
	a.media(ctx, list, &f)
	return &channel.Assembled{
		Common:   channel.Common{Facts: f, Record: channel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}},
		Delivery: c.delivery(m),
	}, nil
}

// admitted says whether the gates let a message in, also one that waits for a mention.
func admitted(f *channel.Facts) bool {
	d := channel.Evaluate(*f)
	return channel.LetsIn(f) || d.Talks()
}

// quote is the message of elsewhere that somebody has shared.
func (c *Channel) quote(m *message, p channel.Policy) *channel.Quote {
	s := m.shared
	by := channel.SenderFacts{ID: s.AuthorID, Name: s.Author, IsSelf: s.AuthorID != "" && s.AuthorID == c.self().UserID}
	q := &channel.Quote{
		ID: s.TS, Body: read(cmp.Or(s.Text, s.Fallback), "", c.people.known).text, Sender: by.Label(), IsSelf: by.IsSelf,
		IsExternal: s.Channel != m.conversation, SenderAllowed: p.Sees(m.chat(), by.Identity()),
	}
	if by.IsSelf {
		q.SenderAllowed = channel.Yes
	}
	return q
}

// files are those of messages, in order.
func (a *adapter) files(list []*message) (all []loadable) {
	for _, m := range list {
		all = append(all, attachments(m, a.c.store.Limit)...)
	}
	return all
}

// media are the files of the messages. They are loaded only for a message that the gates let in.
func (a *adapter) media(ctx context.Context, list []*message, f *channel.Facts) {
	c := a.c
	own := a.files(list)
	f.Media = media.Facts(own)
	if len(own) == 0 {
		return
	}
	if !channel.LetsIn(f) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	var notes []string
	f.Media, notes = c.load(ctx, own)
	f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
}

// Challenge implements [channel.Challenger]: whoever writes to the bot is told how to be let in.
func (a *adapter) Challenge(ctx context.Context, s channel.SenderFacts) error {
	if a.m == nil || !a.m.direct {
		return nil
	}
	text, err := pairing.Challenge(ctx, a.k.Pairing, a.c.name, a.c.account, s, "`")
	if err != nil || text == "" {
		return err
	}
	_, err = a.c.post(ctx, target{conversation: a.m.conversation, thread: a.m.thread}, text)
	return err
}

// reply is where the answer goes.
func reply(m *message, root string) channel.ReplyPlanFacts {
	r := channel.ReplyPlanFacts{
		To: m.conversation, OriginatingTo: m.conversation, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyChannel,
	}
	if m.direct {
		r.Mode = channel.ReplyDirect
	}
	if root != "" {
		r.Mode, r.MessageThreadID = channel.ReplyThread, channel.Some(root)
	}
	return r
}

// mentioned is what a message says of who is meant.
func (c *Channel) mentioned(m *message, names channel.Names) channel.MentionFacts {
	w := c.words(m)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: w.us || names.In(w.text), HasAnyMention: w.anybody}
	if m.native {
		f.Implicit = append(f.Implicit, channel.Native)
	}
	if m.thread != "" {
		if m.parent != "" && m.parent == c.self().UserID {
			f.Implicit = append(f.Implicit, channel.ReplyToBot)
		}
		if c.threads.has(m.conversation, m.thread) {
			f.Implicit = append(f.Implicit, channel.BotThread)
		}
	}
	return f
}

// Finalize implements [channel.Finalizer]: a press that is not let in is answered, and what somebody has changed or deleted is changed or
// deleted where it waits (CH-98).
func (a *adapter) Finalize(ctx context.Context, r channel.Result) error {
	m, c := a.m, a.c
	if m.press != nil {
		if s, ok := channel.RefusedPress(r); ok {
			a.answer(ctx, s)
		}
		return nil
	}
	if m.change == changeNone || a.k.Window == nil || m.direct {
		return nil
	}
	key := channel.WindowKey{Channel: c.name, Account: c.account, Conversation: m.conversation, Thread: m.thread}
	allowed := false
	if m.change == changeText && a.k.Settings != nil {
		policy := a.k.Settings.Policy(channel.PolicyQuery{
			Channel: c.name, Account: c.account, Conversation: m.conversation, Thread: m.thread, Kind: m.chat(),
		})
		allowed = policy.Sees(m.chat(), m.sender(c.self()).Identity()) == channel.Yes
	}
	if !allowed { // deleted, or since then, the sender may not talk here any more
		a.k.Window.Forget(ctx, key, m.ts)
		return nil
	}
	a.k.Window.Edit(ctx, key, m.ts, c.words(m).text)
	return nil
}
