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
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads an event for the kernel. An event of several messages is about the last one.
type adapter struct {
	c       *Channel
	k       *kernel.Kernel
	e       *event
	resumed bool // the event ran before a crash
}

// run returns the function that runs events.
func (c *Channel) run(k *kernel.Kernel) func(context.Context, *kernel.Claimed, kernel.Meta) (channel.Result, error) {
	return func(ctx context.Context, claimed *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
		list := readStored(claimed)
		a := &adapter{c: c, k: k, e: list[len(list)-1], resumed: claimed.Begun}
		return kernel.Run(ctx, k, m, list, &kernel.Adapter[[]*event]{
			Ingest: a.ingest, Classify: a.classify, Preflight: a.preflight, Resolve: a.resolve, Finalize: a.finalize,
		})
	}
}

func (a *adapter) ingest(_ context.Context, list []*event) (*channel.Input, error) {
	if a.e.message == nil {
		return nil, nil
	}
	if len(list) == 1 {
		return a.c.input(a.e), nil
	}
	var parts []*channel.Input
	for _, e := range list {
		if e.message != nil {
			parts = append(parts, a.c.input(e))
		}
	}
	return channel.MergeInputs(parts), nil
}

// input returns the input of an event that is about a conversation.
func (c *Channel) input(e *event) *channel.Input {
	m := e.message
	in := &channel.Input{
		ID: e.inputID(), Timestamp: m.time(), ConversationID: m.Chat, ThreadID: m.Thread, SenderID: e.sender.ID.Open, Raw: m,
	}
	switch {
	case e.press != nil:
		in.RawText = e.press.Command()
		in.TextForCommands = in.RawText
	case e.kind == eventMessage:
		read := m.read()
		in.RawText = withNames(read.text, m.Mentions, "")
		in.TextForAgent = withNames(read.text, m.Mentions, c.self().OpenID)
		in.TextForCommands = in.TextForAgent
		in.HasMedia = !e.edit && len(read.files) > 0
	}
	return in
}

func (a *adapter) classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	kind := a.e.class()
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		kind = channel.EventCommand
	}
	starts := kind == channel.EventMessage || kind == channel.EventCommand || kind == channel.EventInteraction
	return channel.EventClass{Kind: kind, CanStartAgentTurn: starts}, nil
}

// preflight says how the images of a message that is not answered are loaded.
func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var pf channel.Preflight
	if in.HasMedia {
		pf.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			notImage := func(f attachment) bool { return f.Fact.Kind != channel.MediaImage }
			facts, _ := a.c.load(ctx, slices.DeleteFunc(filesOf(channel.Parts[*message](in)), notImage))
			return facts, nil
		}
	}
	return pf, nil
}

func filesOf(list []*message) (all []attachment) {
	for _, m := range list {
		all = append(all, m.read().files...)
	}
	return all
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	m := a.e.message
	f := a.facts(in)
	policy, who := a.k.PolicyAt(ctx, f.PolicyQuery(), f.Sender)
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, a.c.s.Agent)
	}
	if a.e.press != nil {
		f.Access = policy.Access(who, channel.MentionFacts{})
		return a.k.PressTurn(f, *a.e.press, a.answerPress), nil
	}
	list := channel.Parts[*message](in)
	var quoted *knownMessage
	if policy.Sees(f.Conversation.Kind, who) != channel.No { // strangers cause no calls
		quoted = a.c.readMessage(ctx, m.repliedTo())
	}
	f.Access = policy.Access(who, a.mentions(list, quoted, channel.NewNames(policy.Patterns)))
	f.Supplemental = channel.SupplementalFacts{Quote: a.quote(quoted, policy), GroupSystemPrompt: policy.SystemPrompt}
	a.addMedia(ctx, filesOf(list), quoted, &f)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: a.c.delivery(m)}, nil
}

// facts returns the facts of an event that no call is needed for.
func (a *adapter) facts(in *channel.Input) channel.Facts {
	c, m := a.c, a.e.message
	key := channel.KeyParts{Channel: c.s.Name, Account: c.s.Account, Conversation: m.Chat}
	route := channel.RouteFacts{CreateIfMissing: true}
	if m.Thread != "" {
		route.ParentSessionKey = channel.SessionKey(key)
		key.Thread = m.Thread
	}
	route.RouteSessionKey = channel.SessionKey(key)
	return channel.Facts{
		Channel: c.s.Name, Account: c.s.Account, MessageID: in.ID, From: a.e.sender.ID.Open, Timestamp: in.Timestamp,
		Sender:       c.senderFacts(a.e.sender),
		Conversation: channel.ConversationFacts{Kind: m.chatKind(), ID: m.Chat, ThreadID: m.Thread, SpaceID: a.e.tenant},
		Route:        route,
		Reply:        replyPlan(m),
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, Preview: channel.Preview(in.RawText),
		},
	}
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
	m := a.e.message
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

// addMedia adds files to the facts. Files are loaded only if the gates let the message in, and not if the sender may not see them (CH-109).
func (a *adapter) addMedia(ctx context.Context, files []attachment, quoted *knownMessage, f *channel.Facts) {
	f.Media = platform.MediaFacts(files)
	var quotedFiles []attachment
	if quoted != nil {
		quotedFiles = quoted.files
		f.Supplemental.Quote.Media = platform.MediaFacts(quotedFiles)
	}
	if len(files)+len(quotedFiles) == 0 || !channel.LetsIn(f) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	var notes []string
	f.Media, notes = a.c.load(ctx, files)
	f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
	if visible, _ := f.Supplemental.Visible(f.Access.Visibility); visible.Quote != nil && len(quotedFiles) > 0 {
		f.Supplemental.Quote.Media, _ = a.c.load(ctx, quotedFiles)
	}
}

// finalize answers presses that were not let in, changes the history if a message was edited or deleted, and removes the sign of work that
// a crash has left.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	m := a.e.message
	switch {
	case a.e.press != nil:
		if state, ok := channel.RefusedPress(r); ok {
			a.answerPress(ctx, state)
		}
	case a.e.kind == eventRecall:
		a.c.known.Add(m.ID, nil)
		key := a.windowKey()
		if key.Thread == "" {
			key.Thread, _ = a.c.threads.Peek(m.ID)
		}
		a.k.Window.Forget(ctx, key, m.ID)
	case a.e.edit:
		a.editHistory(ctx)
	case a.resumed && r.Dispatched && r.Outcome != channel.OutcomeObserved:
		return a.c.removeSigns(ctx, m.ID)
	}
	return nil
}

func (a *adapter) windowKey() channel.WindowKey {
	m := a.e.message
	return channel.WindowKey{Channel: a.c.s.Name, Account: a.c.s.Account, Conversation: m.Chat, Thread: m.Thread}
}

// editHistory changes a message that waits in the history. If its sender may no longer talk, the message is removed.
func (a *adapter) editHistory(ctx context.Context) {
	m, key := a.e.message, a.windowKey()
	if m.chatKind() == channel.Direct || a.k.Settings == nil {
		return
	}
	policy := a.k.Settings.Policy(channel.PolicyQuery{
		Channel: key.Channel, Account: key.Account, Conversation: key.Conversation, Thread: key.Thread, Kind: m.chatKind(),
	})
	if policy.Sees(m.chatKind(), a.c.senderFacts(a.e.sender).Identity()) != channel.Yes {
		a.k.Window.Forget(ctx, key, m.ID)
		return
	}
	a.k.Window.Edit(ctx, key, m.ID, withNames(m.read().text, m.Mentions, ""))
}

// knownMessage is a message that was sent or read.
type knownMessage struct {
	text  string
	from  channel.SenderFacts
	files []attachment
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
	var got struct {
		Data struct {
			Items []struct {
				ID      string `json:"message_id"`
				Type    string `json:"msg_type"`
				Deleted bool   `json:"deleted"`
				Sender  struct {
					ID   userID `json:"id"`
					Type string `json:"sender_type"`
				} `json:"sender"`
				Body struct {
					Content string `json:"content"`
				} `json:"body"`
				Mentions []mention `json:"mentions"`
			} `json:"items"`
		} `json:"data"`
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r := request{name: "get the message that is replied to", method: http.MethodGet, path: messagePath(id), out: &got}
	if err := c.api.call(ctx, r); err != nil && !isKind(err, deleted, noChat) {
		c.s.Log.WarnContext(ctx, "unknown message in a reply", "channel", c.s.Name, "error", err)
		return nil
	}
	var found *knownMessage
	if items := got.Data.Items; len(items) > 0 && !items[0].Deleted {
		item := &items[0]
		m := &message{ID: item.ID, Type: item.Type, Content: item.Body.Content, Mentions: item.Mentions}
		read := m.read()
		found = &knownMessage{withNames(read.text, m.Mentions, ""), c.senderFacts(sender{item.Sender.ID, item.Sender.Type}), read.files}
	}
	c.known.Add(id, found)
	return found
}

// messagePath returns the path of a message, for calls.
func messagePath(id string) string { return "im/v1/messages/" + url.PathEscape(id) }
