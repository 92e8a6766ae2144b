package slack

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads one event for the kernel.
type adapter struct {
	c    *Channel
	k    *kernel.Kernel
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
	if len(inputs) < 2 {
		return slices.Concat(inputs, []*channel.Input{nil})[0], nil
	}
	return channel.MergeInputs(inputs), nil
}

// words are what a message says.
func (c *Channel) words(m *message) words { return read(m.Text, c.self().UserID, c.people.known) }

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
	kind := a.m.kind
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		kind = channel.EventCommand
	}
	return channel.EventClass{Kind: kind, CanStartAgentTurn: a.m.kind == channel.EventMessage || a.m.press != nil}, nil
}

// preflight says how images of a message that is not answered are loaded.
func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var p channel.Preflight
	if in.HasMedia {
		p.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			images := slices.DeleteFunc(a.files(), func(f loadable) bool { return f.Fact.Kind != channel.MediaImage })
			all, _ := a.c.load(ctx, images)
			return all, nil
		}
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

// place is what the settings are asked for.
func (c *Channel) place(m *message) channel.PolicyQuery {
	return channel.PolicyQuery{Channel: c.name, Account: c.account, Conversation: m.conversation, Thread: m.thread, Kind: m.chat()}
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c, m, me := a.c, a.m, a.c.self()
	from, root := m.sender(me), c.root(m)
	policy, who := a.k.PolicyAt(ctx, c.place(m), from)
	f := channel.Facts{
		Channel: c.name, Account: c.account, MessageID: in.ID, From: from.ID, Timestamp: in.Timestamp, Sender: from,
		Conversation: channel.ConversationFacts{Kind: m.chat(), ID: m.conversation, SpaceID: me.TeamID, ThreadID: m.thread},
		Route:        c.route(m, root),
		Reply:        reply(m, root),
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, Preview: channel.Preview(in.TextForAgent),
		},
	}
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, c.agent)
	}
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
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	if channel.Evaluate(f).Talks() || channel.LetsIn(&f) { // the platform is not asked for the names of others
		f.Sender = c.named(ctx, f.Sender)
	}
	f.Message.SenderLabel = f.Sender.Label()
	a.loadMedia(ctx, &f)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: c.delivery(m)}, nil
}

// route names the session of a message. The answer may make a thread of the message, and what is said there belongs to the thread's session.
func (c *Channel) route(m *message, root string) channel.RouteFacts {
	key := channel.KeyParts{Channel: c.name, Account: c.account, Conversation: m.conversation}
	r := channel.RouteFacts{CreateIfMissing: true}
	if root != "" {
		r.ParentSessionKey = channel.SessionKey(key)
		key.Thread = root
	}
	r.RouteSessionKey = channel.SessionKey(key)
	return r
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

// quote is the message of elsewhere that somebody has shared.
func (c *Channel) quote(m *message, p channel.Policy) *channel.Quote {
	s := m.shared
	by := channel.SenderFacts{ID: s.AuthorID, Name: s.AuthorName, IsSelf: s.AuthorID != "" && s.AuthorID == c.self().UserID}
	q := &channel.Quote{
		ID: s.Ts.String(), Body: read(cmp.Or(s.Text, s.Fallback), "", c.people.known).text, Sender: by.Label(), IsSelf: by.IsSelf,
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

// loadMedia loads the files of messages that the gates let in.
func (a *adapter) loadMedia(ctx context.Context, f *channel.Facts) {
	files := a.files()
	f.Media = platform.MediaFacts(files)
	if len(files) == 0 || !channel.LetsIn(f) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	var notes []string
	f.Media, notes = a.c.load(ctx, files)
	f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
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
		if c.threads.has(m.conversation, m.thread) {
			f.Implicit = append(f.Implicit, channel.BotThread)
		}
	}
	return f
}

// finalize answers a press that is not let in. What somebody has changed or deleted is changed or deleted where it waits.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	m, c := a.m, a.c
	if m.press != nil {
		if s, ok := channel.RefusedPress(r); ok {
			c.answerPress(ctx, m, s)
		}
		return nil
	}
	if m.change == changeNone || a.k.Window == nil || m.direct {
		return nil
	}
	key := channel.WindowKey{Channel: c.name, Account: c.account, Conversation: m.conversation, Thread: m.thread}
	if m.change == changeText && a.k.Settings != nil &&
		a.k.Settings.Policy(c.place(m)).Sees(m.chat(), m.sender(c.self()).Identity()) == channel.Yes {
		a.k.Window.Edit(ctx, key, m.Timestamp, c.words(m).text)
		return nil
	}
	a.k.Window.Forget(ctx, key, m.Timestamp) // deleted, or the sender may no longer talk here
	return nil
}
