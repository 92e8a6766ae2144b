package platform

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// Classify returns the class of an event. A message, a command and the press of a button of a question start a turn.
func Classify(in *channel.Input, kind channel.EventKind, press bool) channel.EventClass {
	if _, command := turn.CommandName(in.TextForCommands); command && kind == channel.EventMessage {
		kind = channel.EventCommand
	}
	return channel.EventClass{Kind: kind, CanStartAgentTurn: kind == channel.EventMessage || kind == channel.EventCommand || press}
}

// NewFacts returns the facts of a message by from in a place, the policy there, and who from is to its gates. agent answers if the settings name none. What is
// missing is the reply plan and the access.
func NewFacts(ctx context.Context, k *kernel.Kernel, m kernel.Meta, agent string, in *channel.Input, from channel.SenderFacts, at channel.ConversationFacts) (channel.Facts, channel.Policy, channel.Identity) {
	f := channel.Facts{
		Channel: m.Channel, Account: m.Account, MessageID: in.ID, From: from.ID, Timestamp: in.Timestamp, Sender: from, Conversation: at,
		Route: channel.RouteFacts{CreateIfMissing: true},
		Message: channel.MessageFacts{
			RawBody: in.RawText, BodyForAgent: in.TextForAgent, CommandBody: in.TextForCommands, SenderLabel: from.Label(), Preview: channel.Preview(in.RawText),
		},
	}
	NameSession(&f, at.ThreadID)
	policy, who := k.PolicyAt(ctx, f.PolicyQuery(), from)
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	f.Route.AgentID = cmp.Or(policy.Agent, agent)
	return f, policy, who
}

// NameSession names the session of a message: that of its conversation, or of a thread of that.
func NameSession(f *channel.Facts, thread string) {
	key := channel.KeyParts{Channel: f.Channel, Account: f.Account, Conversation: f.Conversation.ID}
	f.Route.ParentSessionKey = ""
	if thread != "" {
		f.Route.ParentSessionKey = channel.SessionKey(key)
		key.Thread = thread
	}
	f.Route.RouteSessionKey = channel.SessionKey(key)
}

// AddMedia adds the files of a message, and those of the message that it quotes, to its facts, which are complete but for that. The files are loaded if the
// gates let the message in; those of what context_visibility hides are not (CH-109).
func AddMedia(ctx context.Context, f *channel.Facts, own, quoted []Attachment, load func(context.Context, []Attachment) ([]channel.MediaFact, []string)) {
	f.Media = factsOf(own)
	if f.Supplemental.Quote != nil {
		f.Supplemental.Quote.Media = factsOf(quoted)
	}
	if len(own)+len(quoted) == 0 || !channel.LetsIn(f) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, channel.LoaderTimeout)
	defer cancel()
	seen, hidden := f.Supplemental.Visible(f.Access.Visibility)
	if !hidden {
		var notes []string
		f.Media, notes = load(ctx, own)
		f.Message.BodyForAgent = strings.TrimSpace(strings.Join(append([]string{f.Message.BodyForAgent}, notes...), "\n"))
	}
	if seen.Quote != nil {
		f.Supplemental.Quote.Media, _ = load(ctx, quoted)
	}
}

// ImageLoader returns the loader of the images of a message that is not answered; they wait with it for a later mention.
func ImageLoader(own []Attachment, load func(context.Context, []Attachment) ([]channel.MediaFact, []string)) func(context.Context) ([]channel.MediaFact, error) {
	return func(ctx context.Context) ([]channel.MediaFact, error) {
		images := slices.DeleteFunc(slices.Clone(own), func(a Attachment) bool { return a.Fact.Kind != channel.MediaImage })
		all, _ := load(ctx, images)
		return all, nil
	}
}

// EditWaiting puts a new text into a message that waits in a window, or removes the message if its sender may not talk there any more (CH-98).
func EditWaiting(ctx context.Context, k *kernel.Kernel, w channel.WindowKey, kind channel.ChatType, from channel.SenderFacts, messageID, text string) {
	if k.Window == nil || k.Settings == nil || kind == channel.Direct {
		return
	}
	policy := k.Settings.Policy(channel.PolicyQuery{Channel: w.Channel, Account: w.Account, Conversation: w.Conversation, Thread: w.Thread, Kind: kind})
	if policy.Sees(kind, from.Identity()) != channel.Yes {
		k.Window.Forget(ctx, w, messageID)
		return
	}
	k.Window.Edit(ctx, w, messageID, text)
}
