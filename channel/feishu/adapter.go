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
	c       *Channel
	k       *kernel.Kernel
	meta    kernel.Meta
	e       *event
	resumed bool // the event ran before a crash
}

// run returns the function that runs events.
func (c *Channel) run(k *kernel.Kernel) func(context.Context, *kernel.Claimed, kernel.Meta) (channel.Result, error) {
	return func(ctx context.Context, claimed *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
		var list []*event
		for _, raw := range claimed.Raws() {
			e := new(event)
			if json.Unmarshal(raw, e) != nil {
				e = &event{} // about no conversation
			}
			list = append(list, e)
		}
		a := &adapter{c, k, m, list[len(list)-1], claimed.Begun}
		return kernel.Run(ctx, k, m, list, &kernel.Adapter[[]*event]{
			Ingest: a.ingest, Classify: a.classify, Preflight: a.preflight, Resolve: a.resolve, Finalize: a.finalize,
		})
	}
}

func (a *adapter) ingest(_ context.Context, list []*event) (*channel.Input, error) {
	if a.e.Message == nil {
		return nil, nil
	}
	if len(list) == 1 {
		return a.c.input(a.e), nil
	}
	var parts []*channel.Input
	for _, e := range list { // all are messages
		parts = append(parts, a.c.input(e))
	}
	return channel.MergeInputs(parts), nil
}

// input returns the input of an event that is about a conversation.
func (c *Channel) input(e *event) *channel.Input {
	m := e.Message
	_, id := e.class()
	in := &channel.Input{ID: id, Timestamp: m.time(), ConversationID: m.Chat, ThreadID: m.Thread, SenderID: e.Sender.ID.Open, Raw: m}
	switch {
	case e.Press != nil:
		in.RawText = e.Press.Command()
		in.TextForCommands = in.RawText
	case e.Kind == eventMessage:
		read := m.read()
		in.RawText = withNames(read.text, m.Mentions, "")
		in.TextForAgent = withNames(read.text, m.Mentions, c.self().OpenID)
		in.TextForCommands = in.TextForAgent
		in.HasMedia = !e.Edit && len(read.files) > 0
	}
	return in
}

func (a *adapter) classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	kind, _ := a.e.class()
	return platform.Classify(in, kind, a.e.Press != nil), nil
}

func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (pf channel.Preflight, err error) {
	if in.HasMedia {
		pf.History.LoadMedia = platform.ImageLoader(filesOf(channel.Parts[*message](in)), a.c.media.Load)
	}
	return pf, nil
}

func filesOf(list []*message) (all []platform.Attachment) {
	for _, m := range list {
		all = append(all, m.read().files...)
	}
	return all
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	m := a.e.Message
	place := channel.ConversationFacts{Kind: m.chatKind(), ID: m.Chat, ThreadID: m.Thread, SpaceID: a.e.Tenant}
	f, policy, who := platform.NewFacts(ctx, a.k, a.meta, a.c.s.Agent, in, a.c.senderFacts(a.e.Sender), place)
	f.Reply = replyPlan(m)
	if a.e.Press != nil {
		f.Access = policy.Access(who, channel.MentionFacts{})
		return a.k.PressTurn(f, *a.e.Press, a.answerPress), nil
	}
	list := channel.Parts[*message](in)
	var quoted *knownMessage
	if policy.Sees(place.Kind, who) != channel.No { // strangers cause no calls
		quoted = a.c.readMessage(ctx, m.repliedTo())
	}
	f.Access = policy.Access(who, a.mentions(list, quoted, channel.NewNames(policy.Patterns)))
	f.Supplemental.Quote = a.quote(quoted, policy)
	var quotedFiles []platform.Attachment
	if quoted != nil {
		quotedFiles = quoted.files
	}
	platform.AddMedia(ctx, &f, filesOf(list), quotedFiles, a.c.media.Load)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: a.c.delivery(m)}, nil
}

// senderFacts returns the facts of a sender. Events have no names of senders.
func (c *Channel) senderFacts(s sender) channel.SenderFacts {
	self := s.ID.Open != "" && (s.ID.Open == c.self().OpenID || s.ID.Open == c.s.AppID)
	return channel.SenderFacts{ID: s.ID.Open, IsBot: s.Type == "app" || s.Type == "bot", IsSelf: self}
}

// replyPlan returns where the answer to a message goes: in groups it is a reply, in a topic it is a message of that.
func replyPlan(m *message) channel.ReplyPlanFacts {
	plan := channel.ReplyPlanFacts{
		To: m.Chat, OriginatingTo: m.Chat, NativeChannelID: m.Chat, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyDirect,
	}
	switch {
	case m.Thread != "": // the platform sends to a topic by a reply to one of its messages
		plan.Mode, plan.ReplyToID, plan.MessageThreadID = channel.ReplyThread, channel.Some(m.ID), channel.Some(m.Thread)
	case m.chatKind() == channel.Group:
		plan.Mode, plan.ReplyToID = channel.ReplyMessage, channel.Some(m.ID)
	}
	return plan
}

// mentions returns who is mentioned in the messages of one event.
func (a *adapter) mentions(list []*message, quoted *knownMessage, names channel.Names) channel.MentionFacts {
	self := a.c.self().OpenID
	f := channel.MentionFacts{CanDetect: true}
	for _, m := range list {
		read := m.read()
		f.HasAnyMention = f.HasAnyMention || read.all || len(m.Mentions) > 0
		f.WasMentioned = f.WasMentioned || names.In(withNames(read.text, m.Mentions, self)) || slices.ContainsFunc(m.Mentions, func(one mention) bool {
			return one.ID.Open != "" && one.ID.Open == self
		})
	}
	if quoted != nil && quoted.from.IsSelf {
		f.Implicit = []channel.MentionKind{channel.ReplyToBot}
	}
	return f
}

// quote returns the facts of the message that is replied to.
func (a *adapter) quote(quoted *knownMessage, policy channel.Policy) *channel.Quote {
	m := a.e.Message
	id := m.repliedTo()
	if id == "" {
		return nil
	}
	q := &channel.Quote{ID: id}
	if quoted == nil {
		return q
	}
	q.Body, q.Sender, q.SenderAllowed = quoted.text, quoted.from.ID, policy.Sees(m.chatKind(), quoted.from.Identity())
	if quoted.from.IsSelf {
		q.Sender, q.IsSelf, q.SenderAllowed = a.c.self().Name, true, channel.Yes
	}
	return q
}

// finalize answers presses that were not let in, changes the history if a message was edited or deleted, and removes the sign of work that
// a crash has left.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	m := a.e.Message
	key := channel.WindowKey{Channel: a.meta.Channel, Account: a.meta.Account, Conversation: m.Chat, Thread: m.Thread}
	switch {
	case a.e.Press != nil:
		if state, ok := channel.RefusedPress(r); ok {
			a.answerPress(ctx, state)
		}
	case a.e.Kind == eventRecall:
		a.c.known.Add(m.ID, nil)
		if key.Thread == "" {
			key.Thread, _ = a.c.threads.Peek(m.ID)
		}
		a.k.Window.Forget(ctx, key, m.ID)
	case a.e.Edit:
		platform.EditWaiting(ctx, a.k, key, m.chatKind(), a.c.senderFacts(a.e.Sender), m.ID, withNames(m.read().text, m.Mentions, ""))
	case a.resumed && r.Dispatched && r.Outcome != channel.OutcomeObserved:
		return a.c.removeSigns(ctx, m.ID)
	}
	return nil
}

// knownMessage is a message that was sent or read.
type knownMessage struct {
	text  string
	from  channel.SenderFacts
	files []platform.Attachment
}

// readTimeout bounds the call for a message that is replied to. Without it, the reply stands alone.
const readTimeout = 5 * time.Second

// readMessage returns the message with an id; nil if it is deleted, or cannot be read now. An event has only the id of the message that is
// replied to.
func (c *Channel) readMessage(ctx context.Context, id string) *knownMessage {
	if id == "" {
		return nil
	}
	if m, ok := c.known.Peek(id); ok {
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	got, err := c.api.call(ctx, request{name: "get the message that is replied to", method: http.MethodGet, path: messagePath(id)})
	if err != nil && !platform.Is(err, deleted, noChat) {
		c.s.Log.WarnContext(ctx, "unknown message in a reply", "error", err)
		return nil
	}
	var found *knownMessage
	if items := got.Data.Items; len(items) > 0 && !items[0].Deleted {
		i := &items[0]
		m := &message{ID: id, Type: i.Type, Content: i.Body.Content, Mentions: i.Mentions}
		read := m.read()
		found = &knownMessage{withNames(read.text, m.Mentions, ""), c.senderFacts(sender{i.Sender.ID, i.Sender.Type}), read.files}
	}
	c.known.Add(id, found)
	return found
}

// messagePath returns the path of a message, for calls.
func messagePath(id string) string { return "im/v1/messages/" + url.PathEscape(id) }
