package feishu

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/channel/pairing"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads one event for the kernel.
type adapter struct {
	c *Channel
	k *channel.Kernel
	e *Event
}

var (
	_ channel.Adapter[*Event] = (*adapter)(nil)
	_ channel.Classifier      = (*adapter)(nil)
	_ channel.Preflighter     = (*adapter)(nil)
	_ channel.Finalizer       = (*adapter)(nil)
	_ channel.Challenger      = (*adapter)(nil)
)

// event is what the kernel is given of an event.
func (c *Channel) event(k *channel.Kernel, e *Event, m channel.Meta) channel.Event[*Event] {
	m.Channel, m.Account = c.name, c.account
	return channel.Event[*Event]{Meta: m, Raw: e, Adapter: &adapter{c, k, e}}
}

// Ingest implements [channel.Adapter].
func (a *adapter) Ingest(_ context.Context, e *Event) (*channel.Input, error) {
	m := e.message
	if m == nil {
		return nil, nil // nothing that an agent could be told of
	}
	_, id := e.kind()
	in := &channel.Input{
		ID: id, Timestamp: m.at(), ConversationID: m.Chat, ThreadID: m.Thread, SenderID: e.sender.ID.Open, Raw: m,
	}
	if e.press != nil {
		in.RawText = e.press.Command()
		in.TextForCommands = in.RawText
	}
	if e.Type == eventMessage {
		w := m.read()
		in.RawText = named(w.text, m.Mentions, "")
		in.TextForAgent = named(w.text, m.Mentions, a.c.self().OpenID)
		in.TextForCommands = in.TextForAgent
		in.HasMedia = !e.edit && len(w.files) > 0
	}
	return in, nil
}

// Classify implements [channel.Classifier].
func (a *adapter) Classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	kind, _ := a.e.kind()
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		return channel.EventClass{Kind: channel.EventCommand, CanStartAgentTurn: true}, nil
	}
	return channel.EventClass{Kind: kind, CanStartAgentTurn: kind == channel.EventMessage || a.e.press != nil}, nil
}

// Preflight implements [channel.Preflighter]: it knows how images of a message that is not answered are loaded.
func (a *adapter) Preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var pf channel.Preflight
	if in.HasMedia {
		list := channel.Parts[*message](in)
		pf.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			images := slices.DeleteFunc(files(list), func(f attachment) bool { return f.Fact.Kind != channel.MediaImage })
			all, _ := a.c.load(ctx, images)
			return all, nil
		}
	}
	return pf, nil
}

// files are those of messages, in order.
func files(list []*message) (all []attachment) {
	for _, m := range list {
		all = append(all, m.read().files...)
	}
	return all
}

// Resolve implements [channel.Adapter].
func (a *adapter) Resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	c, me := a.c, a.c.self()
	list := channel.Parts[*message](in)
	m := list[len(list)-1] // what the reply goes to
	kind := m.chatKind()
	from := c.senderFacts(a.e.sender)

	policy, who := a.k.PolicyAt(ctx, channel.PolicyQuery{
		Channel: c.name, Account: c.account, Conversation: m.Chat, Thread: m.Thread, Kind: kind,
	}, from)

	f := channel.Facts{
		Channel: c.name, Account: c.account, MessageID: in.ID, From: from.ID, Timestamp: in.Timestamp,
		Sender:       from,
		Conversation: channel.ConversationFacts{Kind: kind, ID: m.Chat, ThreadID: m.Thread, SpaceID: a.e.Tenant},
		Route:        channel.RouteFacts{CreateIfMissing: true},
		Reply:        reply(kind, m),
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, Preview: channel.Preview(in.RawText),
		},
	}
	key := channel.KeyParts{Channel: c.name, Account: c.account, Conversation: m.Chat}
	if m.Thread != "" {
		f.Route.ParentSessionKey = channel.SessionKey(key)
		key.Thread = m.Thread
	}
	f.Route.RouteSessionKey = channel.SessionKey(key)
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, c.agent)
	}
	if a.e.press != nil {
		f.Access = policy.Access(who, channel.MentionFacts{})
		return channel.PressPlan(f, *a.e.press, a.answer), nil
	}
	var quoted *found
	if policy.Sees(kind, who) != channel.No { // nobody else has the platform asked for anything
		quoted = c.look(ctx, m.quoted())
	}
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, part := range list {
		mentions = append(mentions, mentioned(part, me, names))
	}
	if quoted != nil && quoted.from.IsSelf {
		mentions = append(mentions, channel.MentionFacts{CanDetect: true, Implicit: []channel.MentionKind{channel.ReplyToBot}})
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if id := m.quoted(); id != "" {
		f.Supplemental.Quote = &channel.Quote{ID: id}
		if quoted != nil {
			q := f.Supplemental.Quote
			q.Body, q.Sender, q.IsSelf, q.SenderAllowed = quoted.text, quoted.label(me), quoted.from.IsSelf, policy.Sees(kind, quoted.from.Identity())
			if q.IsSelf {
				q.SenderAllowed = channel.Yes
			}
		}
	}
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	a.media(ctx, list, quoted, &f)
	return &channel.Assembled{
		Common:   channel.Common{Facts: f, Record: channel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}},
		Delivery: c.delivery(m),
	}, nil
}

// media are the files of the messages and of what they quote. They are loaded only for a message that the gates let in, and what
// context_visibility hides is not (CH-109).
func (a *adapter) media(ctx context.Context, list []*message, quoted *found, f *channel.Facts) {
	c := a.c
	own := files(list)
	f.Media = media.Facts(own)
	var theirs []attachment
	if quoted != nil {
		theirs = quoted.files
		f.Supplemental.Quote.Media = media.Facts(theirs)
	}
	if len(own)+len(theirs) == 0 {
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
	if seen, _ := f.Supplemental.Visible(f.Access.Visibility); seen.Quote != nil && len(theirs) > 0 {
		f.Supplemental.Quote.Media, _ = c.load(ctx, theirs)
	}
}

// Challenge implements [channel.Challenger]: whoever writes to the bot is told how to be let in.
func (a *adapter) Challenge(ctx context.Context, s channel.SenderFacts) error {
	m := a.e.message
	if m == nil || m.chatKind() != channel.Direct {
		return nil
	}
	text, err := pairing.Challenge(ctx, a.k.Pairing, a.c.name, a.c.account, s, "")
	if err != nil || text == "" {
		return err
	}
	_, err = a.c.post(ctx, &target{chat: m.Chat, uuid: uuid("pair:"+m.ID, 0)}, body{text: text})
	return err
}

// senderFacts are those of who wrote. An event has no names of senders.
func (c *Channel) senderFacts(s sender) channel.SenderFacts {
	bot := s.Type == "app" || s.Type == "bot"
	me := c.self()
	return channel.SenderFacts{
		ID: s.ID.Open, IsBot: bot, IsSelf: s.ID.Open != "" && (s.ID.Open == me.OpenID || s.ID.Open == c.api.app),
	}
}

// reply is where the answer goes: to the message in groups, into its topic, and in a direct conversation just to the chat.
func reply(kind channel.ChatType, m *message) channel.ReplyPlanFacts {
	r := channel.ReplyPlanFacts{
		To: m.Chat, OriginatingTo: m.Chat, NativeChannelID: m.Chat, ReplyToID: channel.None, MessageThreadID: channel.None,
		Mode: channel.ReplyDirect,
	}
	if kind == channel.Group {
		r.Mode, r.ReplyToID = channel.ReplyMessage, channel.Some(m.ID)
	}
	if m.Thread != "" { // the platform sends into a topic by a reply to a message that is there
		r.Mode, r.ReplyToID, r.MessageThreadID = channel.ReplyThread, channel.Some(m.ID), channel.Some(m.Thread)
	}
	return r
}

// mentioned is what a message says of who is meant.
func mentioned(m *message, me identity, names channel.Names) channel.MentionFacts {
	w := m.read()
	f := channel.MentionFacts{
		CanDetect: true, WasMentioned: names.In(named(w.text, m.Mentions, me.OpenID)), HasAnyMention: w.all || len(m.Mentions) > 0,
	}
	for _, who := range m.Mentions {
		f.WasMentioned = f.WasMentioned || who.ID.Open != "" && who.ID.Open == me.OpenID
	}
	return f
}

// found is a message that was asked for.
type found struct {
	text  string
	from  channel.SenderFacts
	files []attachment
}

// label is what its sender is called.
func (f *found) label(me identity) string {
	if f.from.IsSelf {
		return me.Name
	}
	return f.from.ID
}

// lookTimeout bounds the question for the message that is replied to: without an answer, the message stands for itself.
const lookTimeout = 5 * time.Second

// look asks for a message that is replied to: an event has its id alone. nil is one that is not known.
func (c *Channel) look(ctx context.Context, id string) *found {
	if id == "" {
		return nil
	}
	if f, ok := c.looked.Peek(id); ok {
		return f
	}
	var got struct {
		Data struct {
			Items []struct {
				ID      string `json:"message_id"`
				Type    string `json:"msg_type"`
				Deleted bool   `json:"deleted"`
				Sender  struct {
					ID   string `json:"id"`
					Type string `json:"sender_type"`
				} `json:"sender"`
				Body struct {
					Content string `json:"content"`
				} `json:"body"`
				Mentions []mention `json:"mentions"`
			} `json:"items"`
		} `json:"data"`
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := c.api.call(ctx, request{
		what: "get the message that is replied to", method: http.MethodGet, path: "im/v1/messages/" + url.PathEscape(id), out: &got,
	})
	if err != nil {
		if is(err, gone, noChat) { // it stays as it is
			c.looked.Add(id, nil)
		} else {
			c.log.WarnContext(ctx, "unknown message in a reply", "channel", c.name, "error", err)
		}
		return nil
	}
	if len(got.Data.Items) == 0 || got.Data.Items[0].Deleted {
		c.looked.Add(id, nil)
		return nil
	}
	item := &got.Data.Items[0]
	m := &message{ID: item.ID, Type: item.Type, Content: item.Body.Content, Mentions: item.Mentions}
	w := m.read()
	f := &found{
		text: named(w.text, m.Mentions, ""), files: w.files,
		from: c.senderFacts(sender{ID: ids{Open: item.Sender.ID}, Type: item.Sender.Type}),
	}
	c.looked.Add(id, f)
	return f
}

// Finalize implements [channel.Finalizer]: a press that is not let in is answered, what somebody has changed is changed where it waits, and
// what was recalled is forgotten (CH-98).
func (a *adapter) Finalize(ctx context.Context, r channel.Result) error {
	m := a.e.message
	if a.e.press != nil {
		if s, ok := channel.RefusedPress(r); ok {
			a.answer(ctx, s)
		}
		return nil
	}
	if m == nil || a.k.Window == nil {
		return nil
	}
	key := channel.WindowKey{Channel: a.c.name, Account: a.c.account, Conversation: m.Chat, Thread: m.Thread}
	switch {
	case a.e.Type == eventRecall:
		a.c.looked.Add(m.ID, nil)
		if key.Thread == "" {
			key.Thread, _ = a.c.threads.Peek(m.ID)
		}
		a.k.Window.Forget(ctx, key, m.ID)
	case a.e.edit && m.chatKind() != channel.Direct && a.k.Settings != nil:
		policy := a.k.Settings.Policy(channel.PolicyQuery{
			Channel: key.Channel, Account: key.Account, Conversation: key.Conversation, Thread: key.Thread, Kind: m.chatKind(),
		})
		if policy.Sees(m.chatKind(), a.c.senderFacts(a.e.sender).Identity()) != channel.Yes {
			a.k.Window.Forget(ctx, key, m.ID) // since then, the sender may not talk here any more
			return nil
		}
		a.k.Window.Edit(ctx, key, m.ID, named(m.read().text, m.Mentions, ""))
	}
	return nil
}
