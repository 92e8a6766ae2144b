package slack

import (
	"cmp"
	"context"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// adapter reads one event for the kernel: a message, or several of one sender.
type adapter struct {
	c     *Channel
	k     *kernel.Kernel
	meta  kernel.Meta
	parts []*message
	last  *message // of parts: it is answered
}

// run runs the turn of an event.
func (a *adapter) run(ctx context.Context, e *kernel.Claimed) (channel.Result, error) {
	return kernel.Run(ctx, a.k, a.meta, e.Raws(), &kernel.Adapter[[][]byte]{
		Ingest: a.ingest, Classify: a.classify, Preflight: a.preflight, Resolve: a.resolve, Finalize: a.finalize,
	})
}

// ingest reads what was stored. What cannot be read is nothing for an agent.
func (a *adapter) ingest(_ context.Context, raws [][]byte) (*channel.Input, error) {
	var list []*channel.Input
	for _, raw := range raws {
		if e, err := parseEvent(raw); err == nil && e.message != nil {
			a.last, a.parts = e.message, append(a.parts, e.message)
			list = append(list, a.c.input(a.k, a.last))
		}
	}
	return channel.MergeInputs(list), nil
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

func (a *adapter) classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	return platform.Classify(in, a.last.kind, a.last.press != nil), nil
}

// preflight says how images of a message that is not answered are loaded.
func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (pf channel.Preflight, err error) {
	if in.HasMedia {
		pf.History.LoadMedia = platform.ImageLoader(a.files(), a.c.media.Load)
	}
	return pf, nil
}

// files are those of the messages, in order.
func (a *adapter) files() (list []platform.Attachment) {
	for _, m := range a.parts {
		list = append(list, attachments(m)...)
	}
	return list
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c, m, me := a.c, a.last, a.c.self()
	at := channel.ConversationFacts{Kind: m.chat(), ID: m.conversation, SpaceID: me.TeamID, ThreadID: m.thread}
	f, policy, who := platform.NewFacts(ctx, a.k, a.meta, c.s.Agent, in, m.sender(me), at)
	thread := c.replyThread(m)
	platform.NameSession(&f, thread) // the answer may make a thread of the message, and messages there belong to its session
	f.Reply = replyPlan(m, thread)
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, part := range a.parts {
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
	platform.AddMedia(ctx, &f, a.files(), nil, c.media.Load)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: c.delivery(m)}, nil
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

// replyPlan is where the answer goes.
func replyPlan(m *message, thread string) channel.ReplyPlanFacts {
	r := channel.ReplyPlanFacts{
		To: m.conversation, OriginatingTo: m.conversation, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyChannel,
	}
	if m.direct {
		r.Mode = channel.ReplyDirect
	}
	if thread != "" {
		r.Mode, r.MessageThreadID = channel.ReplyThread, channel.Some(thread)
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

// mentions says who is meant by a message.
func (c *Channel) mentions(m *message, names channel.Names) channel.MentionFacts {
	w := c.words(m)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: w.us || names.In(w.text), HasAnyMention: w.anybody}
	if m.native {
		f.Implicit = append(f.Implicit, channel.Native)
	}
	if m.thread != "" && m.ParentUserId != "" && m.ParentUserId == c.self().UserID {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
	}
	if m.thread != "" && c.hasWritten(target{m.conversation, m.thread}) {
		f.Implicit = append(f.Implicit, channel.BotThread)
	}
	return f
}

// finalize answers a press that is not let in. What someone has changed or deleted is changed or deleted where it waits.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	m, c := a.last, a.c
	w := channel.WindowKey{Channel: c.s.Name, Account: c.s.Account, Conversation: m.conversation, Thread: m.thread}
	switch {
	case m.press != nil:
		if s, ok := channel.RefusedPress(r); ok {
			c.answerPress(ctx, m, s)
		}
	case m.deleted:
		a.k.Window.Forget(ctx, w, m.Timestamp)
	case m.kind == channel.EventLifecycle:
		platform.EditWaiting(ctx, a.k, w, m.chat(), m.sender(c.self()), m.Timestamp, c.words(m).text)
	}
	return nil
}
