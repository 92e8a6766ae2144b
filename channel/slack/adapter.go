package slack

import (
	"cmp"
	"context"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// adapter reads one event for the kernel.
type adapter struct {
	c    *Channel
	k    *kernel.Kernel
	meta kernel.Meta
	list []*message // several texts of one sender, or one event
	m    *message   // the last of them, which is answered
}

func (a *adapter) hooks() *kernel.Adapter[[][]byte] {
	return &kernel.Adapter[[][]byte]{Ingest: a.ingest, Classify: a.classify, Preflight: a.preflight, Resolve: a.resolve, Finalize: a.finalize}
}

// ingest reads what was stored. What cannot be read is nothing for an agent.
func (a *adapter) ingest(_ context.Context, bodies [][]byte) (*channel.Input, error) {
	var inputs []*channel.Input
	for _, body := range bodies {
		if e, err := parseEvent(body); err == nil && e.message != nil {
			a.m = e.message
			a.list = append(a.list, a.m)
			inputs = append(inputs, a.c.input(a.k, a.m))
		}
	}
	if len(inputs) == 1 {
		return inputs[0], nil
	}
	return channel.MergeInputs(inputs), nil // nil for none
}

// words are what a message says.
func (c *Channel) words(m *message) words { return read(m.Text, c.self().UserID, c.knownName) }

// input is a message as the kernel reads it.
func (c *Channel) input(k *kernel.Kernel, m *message) *channel.Input {
	in := &channel.Input{
		ID: m.id, Timestamp: timeOf(m.Timestamp), ConversationID: m.conversation, ThreadID: m.thread, SenderID: m.sender(c.self()).ID,
		HasMedia: m.kind == channel.EventMessage && len(attachments(m, c.store.Limit)) > 0,
	}
	if m.press != nil {
		in.RawText = m.press.Command()
		in.TextForCommands = in.RawText
		return in
	}
	raw, text := m.Text, c.words(m).text
	if m.native && !k.HasCommand(c.name, c.account, text) { // the agent reads what is no command of this server
		raw, text = strings.TrimPrefix(raw, ","), strings.TrimPrefix(text, ",")
	}
	in.RawText, in.TextForAgent, in.TextForCommands = raw, text, text
	return in
}

func (a *adapter) classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	return platform.Classify(in, a.m.kind, a.m.press != nil), nil
}

// preflight says how images of a message that is not answered are loaded.
func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var p channel.Preflight
	if in.HasMedia {
		p.History.LoadMedia = platform.ImageLoader(a.files(), a.c.load)
	}
	return p, nil
}

// root is the thread that the answer to a message goes to; "": none.
func (c *Channel) root(m *message) string {
	if m.press != nil {
		return m.press.root
	}
	if m.thread == "" && !m.direct && c.replies == ReplyInThread {
		return m.Timestamp // "" of a slash command, which is no message
	}
	return m.thread
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c, m, me := a.c, a.m, a.c.self()
	at := channel.ConversationFacts{Kind: m.chat(), ID: m.conversation, SpaceID: me.TeamID, ThreadID: m.thread}
	f, policy, who := platform.NewFacts(ctx, a.k, a.meta, c.agent, in, m.sender(me), at)
	root := c.root(m)
	platform.NameSession(&f, root) // the answer may make a thread of the message, and messages there belong to its session
	f.Reply = reply(m, root)
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, part := range a.list {
		mentions = append(mentions, c.mentions(part, names))
		if part.shared != nil {
			f.Supplemental.Quote = c.quote(part, policy)
		}
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if m.press != nil {
		return a.k.PressTurn(f, m.press.Press, func(ctx context.Context, s channel.Pressed) { c.answerPress(ctx, m, s) }), nil
	}
	if channel.Evaluate(f).Talks() || channel.LetsIn(&f) { // the platform is not asked for the names of others
		c.addName(ctx, &f.Sender)
	}
	f.Message.SenderLabel = f.Sender.Label()
	platform.AddMedia(ctx, &f, a.files(), nil, c.load)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: c.delivery(m)}, nil
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

// quote is the message of elsewhere that someone has shared.
func (c *Channel) quote(m *message, p channel.Policy) *channel.Quote {
	s := m.shared
	by := channel.SenderFacts{ID: s.AuthorID, Name: s.AuthorName, IsSelf: s.AuthorID != "" && s.AuthorID == c.self().UserID}
	q := &channel.Quote{
		ID: s.Ts.String(), Body: read(cmp.Or(s.Text, s.Fallback), "", c.knownName).text, Sender: by.Label(), IsSelf: by.IsSelf,
		IsExternal: true, SenderAllowed: p.Sees(m.chat(), by.Identity()),
	}
	if by.IsSelf {
		q.SenderAllowed = channel.Yes
	}
	return q
}

// files are those of the messages, in order.
func (a *adapter) files() (all []loadable) {
	for _, m := range a.list {
		all = append(all, attachments(m, a.c.store.Limit)...)
	}
	return all
}

// mentions says who is meant by a message.
func (c *Channel) mentions(m *message, names channel.Names) channel.MentionFacts {
	w := c.words(m)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: w.us || names.In(w.text), HasAnyMention: w.anybody}
	if m.native {
		f.Implicit = append(f.Implicit, channel.Native)
	}
	if m.thread != "" {
		if m.ParentUserId != "" && m.ParentUserId == c.self().UserID {
			f.Implicit = append(f.Implicit, channel.ReplyToBot)
		}
		if c.threads.has(target{m.conversation, m.thread}) {
			f.Implicit = append(f.Implicit, channel.BotThread)
		}
	}
	return f
}

// finalize answers a press that is not let in. What someone has changed or deleted is changed or deleted where it waits.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	m, c := a.m, a.c
	if m.press != nil {
		if s, ok := channel.RefusedPress(r); ok {
			c.answerPress(ctx, m, s)
		}
		return nil
	}
	key := channel.WindowKey{Channel: c.name, Account: c.account, Conversation: m.conversation, Thread: m.thread}
	switch m.change {
	case changeText:
		platform.EditWaiting(ctx, a.k, key, m.chat(), m.sender(c.self()), m.Timestamp, c.words(m).text)
	case changeGone:
		a.k.Window.Forget(ctx, key, m.Timestamp)
	}
	return nil
}
