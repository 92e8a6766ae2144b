package discord

import (
	"cmp"
	"context"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads an event for the kernel, or the texts of one sender that are one event.
type adapter struct {
	c        *Channel
	k        *kernel.Kernel
	events   []*event
	answered bool // the interaction that the event is
}

// last is the event that is answered.
func (a *adapter) last() *event { return a.events[len(a.events)-1] }

func (a *adapter) ingest(_ context.Context, raws [][]byte) (*channel.Input, error) {
	var inputs []*channel.Input
	for _, raw := range raws {
		e, err := readEvent(raw)
		if err != nil {
			return nil, err
		}
		a.events = append(a.events, e)
		inputs = append(inputs, a.c.input(e))
	}
	in := inputs[len(inputs)-1]
	if len(inputs) > 1 {
		in = channel.MergeInputs(inputs)
	}
	if a.last().kind() == channel.EventCommand && !a.k.HasCommand(a.c.name, a.c.account, in.TextForCommands) {
		in.TextForCommands = "" // the agent reads what is no command of this server
	}
	return in, nil
}

func (a *adapter) classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	kind := a.last().kind()
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		kind = channel.EventCommand
	}
	_, press := a.last().press()
	return channel.EventClass{Kind: kind, CanStartAgentTurn: kind == channel.EventMessage || kind == channel.EventCommand || press}, nil
}

func (a *adapter) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (pf channel.Preflight, err error) {
	if in.HasMedia {
		pf.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			var images []attachment
			for _, f := range a.files() {
				if f.Fact.Kind == channel.MediaImage {
					images = append(images, f)
				}
			}
			all, _ := a.c.load(ctx, images)
			return all, nil
		}
	}
	return pf, nil
}

func (a *adapter) files() (all []attachment) {
	for _, e := range a.events {
		all = append(all, attachments(e.message.said(), a.c.store.Limit)...)
	}
	return all
}

func (a *adapter) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c, e := a.c, a.last()
	me := c.me.Load().ID
	from, place := e.sender(me), e.conversation()
	f := channel.Facts{
		Channel: c.name, Account: c.account, MessageID: in.ID, From: from.ID, Timestamp: in.Timestamp, Sender: from, Conversation: place,
		Route: channel.RouteFacts{CreateIfMissing: true, RouteSessionKey: c.sessionKey(place.ID)},
		Reply: e.reply(),
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, SenderLabel: from.Label(), Preview: channel.Preview(in.RawText),
		},
	}
	if place.ParentID != "" {
		f.Route.ParentSessionKey = c.sessionKey(place.ParentID)
	}
	policy, who := a.k.PolicyAt(ctx, f.PolicyQuery(), from)
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, c.agent)
	}
	var mentions []channel.MentionFacts
	for _, e := range a.events {
		mentions = append(mentions, e.mentions(me, channel.NewNames(policy.Patterns)))
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	if p, ok := e.press(); ok {
		return a.k.PressTurn(f, p, a.showPressed), nil
	}
	f.Supplemental = e.supplemental(me, place.Kind, policy)
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	a.media(ctx, &f)
	return &kernel.Turn{Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}, Delivery: a.delivery()}, nil
}

func (c *Channel) sessionKey(conversation string) string {
	return channel.SessionKey(channel.KeyParts{Channel: c.name, Account: c.account, Conversation: conversation})
}

// conversation is where the event came from. A thread is a conversation in that of its channel.
func (e *event) conversation() channel.ConversationFacts {
	f := channel.ConversationFacts{Kind: channel.Direct, ID: e.message.ChannelID, Label: e.Place.Name, SpaceID: e.Place.GuildID, ParentID: e.Place.parent()}
	if !e.direct() {
		f.Kind, f.SpaceID = channel.Group, cmp.Or(e.Place.GuildID, e.message.GuildID)
	}
	return f
}

// reply is where the answer goes: to the interaction, to the message, or in a direct conversation just to the channel.
func (e *event) reply() channel.ReplyPlanFacts {
	to := e.message.ChannelID
	r := channel.ReplyPlanFacts{To: to, OriginatingTo: to, NativeChannelID: to, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: channel.ReplyDirect}
	switch {
	case e.interaction != nil:
		r.DeliveryTarget = interactionTarget(e.interaction)
	case !e.direct():
		r.Mode, r.ReplyToID = channel.ReplyMessage, channel.Some(e.message.ID)
	}
	return r
}

// supplemental is the message that is replied to, and that a message was forwarded; the platform does not say from whom.
func (e *event) supplemental(me string, kind channel.ChatType, p channel.Policy) (s channel.SupplementalFacts) {
	m := &e.message
	if m.forwards() {
		s.Forwarded = &channel.Forwarded{FromType: "channel", FromID: m.Reference.ChannelID, Date: m.Snapshots[0].Message.Timestamp.UTC()}
	}
	to := m.RepliedTo
	if to == nil || e.kind() != channel.EventMessage {
		return s
	}
	by := sender(&to.Author, to.Member, to.WebhookID, me)
	q := &channel.Quote{
		ID: to.ID, Body: cmp.Or(e.read(to.said(), me, false), shown(to.said())), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: p.Sees(kind, by.Identity()),
	}
	if by.IsSelf {
		q.SenderAllowed = channel.Yes
	}
	s.Quote = q
	return s
}

// media loads the files of the messages and of what they quote, if the gates let the message in, and nothing that context_visibility hides.
func (a *adapter) media(ctx context.Context, f *channel.Facts) {
	own := a.files()
	var quoted []attachment
	if f.Supplemental.Quote != nil {
		quoted = attachments(a.last().message.RepliedTo.said(), a.c.store.Limit)
		f.Supplemental.Quote.Media = platform.MediaFacts(quoted)
	}
	f.Media = platform.MediaFacts(own)
	if len(own)+len(quoted) == 0 || !channel.LetsIn(f) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	seen, hidden := f.Supplemental.Visible(f.Access.Visibility)
	if !hidden {
		var notes []string
		f.Media, notes = a.c.load(ctx, own)
		f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
	}
	if seen.Quote != nil {
		f.Supplemental.Quote.Media, _ = a.c.load(ctx, quoted)
	}
}

// finalize answers an interaction that was not answered, and changes what waits in the window as it was changed on the platform.
func (a *adapter) finalize(ctx context.Context, r channel.Result) error {
	e := a.last()
	switch {
	case e.interaction != nil:
		a.finishInteraction(ctx, r)
	case a.k.Settings == nil || e.direct():
	case e.Type == messageUpdate:
		a.editWindow(ctx)
	case e.Type != messageCreate:
		a.k.Window.Forget(ctx, a.windowKey(), append(e.message.IDs, e.message.ID)...)
	}
	return nil
}

func (a *adapter) windowKey() channel.WindowKey {
	return channel.WindowKey{Channel: a.c.name, Account: a.c.account, Conversation: a.last().message.ChannelID}
}

// editWindow changes the text of a message that waits, or forgets it if its sender may not talk any more.
func (a *adapter) editWindow(ctx context.Context) {
	e, me := a.last(), a.c.me.Load().ID
	place := e.conversation()
	policy := a.k.Settings.Policy(channel.PolicyQuery{Channel: a.c.name, Account: a.c.account, Conversation: place.ID, Parent: place.ParentID, Kind: place.Kind})
	if policy.Sees(place.Kind, e.sender(me).Identity()) != channel.Yes {
		a.k.Window.Forget(ctx, a.windowKey(), e.message.ID)
		return
	}
	said := e.message.said()
	a.k.Window.Edit(ctx, a.windowKey(), e.message.ID, cmp.Or(e.read(said, me, false), shown(said)))
}
