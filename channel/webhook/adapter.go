package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/pairing"
	"github.com/lingserve/lingserve/turn"
)

// adapter reads one message for the kernel.
type adapter struct {
	c   *Channel
	k   *channel.Kernel
	id  string
	key channel.EventKey
}

var (
	_ channel.Adapter[*message] = (*adapter)(nil)
	_ channel.Classifier        = (*adapter)(nil)
	_ channel.Preflighter       = (*adapter)(nil)
	_ channel.Finalizer         = (*adapter)(nil)
	_ channel.Challenger        = (*challenger)(nil)
)

// event is what the kernel is given of a message.
func (c *Channel) event(k *channel.Kernel, m *message, id string, meta channel.Meta) channel.Event[*message] {
	meta.Channel, meta.Account = c.name, c.account
	a := &adapter{c: c, k: k, id: id}
	if m != nil {
		a.key = c.key(m, id)
	}
	if pairs, ok := k.Pairing.(pairing.Requester); ok {
		return channel.Event[*message]{Meta: meta, Raw: m, Adapter: &challenger{a, m, pairs}}
	}
	return channel.Event[*message]{Meta: meta, Raw: m, Adapter: a}
}

// Ingest implements [channel.Adapter].
func (a *adapter) Ingest(_ context.Context, m *message) (*channel.Input, error) {
	if m == nil {
		return nil, nil
	}
	return &channel.Input{
		ID: a.id, RawText: m.text, ConversationID: m.conversation.id, ThreadID: m.conversation.thread, SenderID: m.sender.id,
		Raw: m, HasMedia: len(m.media) > 0,
	}, nil
}

// Classify implements [channel.Classifier]. Who waits for the reply is answered with it, all others before it is made.
func (a *adapter) Classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	class := channel.EventClass{Kind: channel.EventMessage, CanStartAgentTurn: true, RequiresImmediateAck: !a.c.result}
	if _, command := turn.CommandName(in.RawText); command {
		class.Kind = channel.EventCommand
	}
	return class, nil
}

// Preflight implements [channel.Preflighter]: it knows how images of a message that is not answered are kept.
func (a *adapter) Preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (channel.Preflight, error) {
	var pf channel.Preflight
	if in.HasMedia {
		pf.History.LoadMedia = func(context.Context) ([]channel.MediaFact, error) { return a.c.files(channel.Parts[*message](in)) }
	}
	return pf, nil
}

// Resolve implements [channel.Adapter].
func (a *adapter) Resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	c := a.c
	list := channel.Parts[*message](in)
	if len(list) == 0 {
		return nil, errors.New("there is no message")
	}
	m := list[len(list)-1]
	f := a.facts(ctx, in.ID, in.RawText, list)
	if in.HasMedia {
		if channel.LetsIn(&f) {
			var err error
			if f.Media, err = c.files(list); err != nil {
				c.log.WarnContext(ctx, "cannot store a message's media", "channel", c.name, "error", err)
				f.Message.BodyForAgent = strings.TrimSpace(in.RawText + "\n[media could not be loaded]")
			}
		}
	}
	rec := c.known.of(in.ID)
	rec.belongs(f.Route.RouteSessionKey)
	return &channel.Assembled{
		Common:   channel.Common{Facts: f, Record: channel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true}},
		Delivery: &delivery{c: c, rec: rec, id: in.ID, to: m.conversation},
	}, nil
}

// facts are what is known of messages, but for their media.
func (a *adapter) facts(ctx context.Context, id, text string, list []*message) channel.Facts {
	c, m := a.c, list[len(list)-1]
	from := channel.SenderFacts{ID: m.sender.id, Name: m.sender.name}
	policy, who := a.k.PolicyAt(ctx, channel.PolicyQuery{
		Channel: c.name, Account: c.account, Conversation: m.conversation.id, Thread: m.conversation.thread, Kind: m.conversation.kind,
	}, from)
	to := m.conversation.id
	f := channel.Facts{
		Channel: c.name, Account: c.account, MessageID: id, From: m.sender.id, Sender: from,
		Conversation: channel.ConversationFacts{Kind: m.conversation.kind, ID: to, ThreadID: m.conversation.thread},
		Route:        channel.RouteFacts{CreateIfMissing: true},
		Reply: channel.ReplyPlanFacts{
			To: to, OriginatingTo: to, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: modes[m.conversation.kind],
		},
		Message: channel.MessageFacts{RawBody: text, SenderLabel: m.sender.name, Preview: channel.Preview(text)},
	}
	key := channel.KeyParts{Channel: c.name, Account: c.account, Conversation: to}
	if thread := m.conversation.thread; thread != "" {
		f.Reply.Mode, f.Reply.MessageThreadID = channel.ReplyThread, channel.Some(thread)
		f.Route.ParentSessionKey = channel.SessionKey(key)
		key.Thread = thread
	}
	f.Route.RouteSessionKey = channel.SessionKey(key)
	if a.k.Routes == nil {
		f.Route.AgentID = cmp.Or(policy.Agent, c.agent)
	}
	names := channel.NewNames(policy.Patterns)
	var mentions []channel.MentionFacts
	for _, m := range list {
		named := names.In(m.text)
		f := channel.MentionFacts{CanDetect: m.mentioned != nil || len(policy.Patterns) > 0, WasMentioned: named || m.mentioned != nil && *m.mentioned}
		f.HasAnyMention = f.WasMentioned
		mentions = append(mentions, f)
	}
	f.Access = policy.Access(who, channel.MergeMentions(mentions...))
	f.Supplemental.GroupSystemPrompt = policy.SystemPrompt
	return f
}

// Finalize implements [channel.Finalizer]: of a turn that nobody waited for, because it began with the process before, whoever sends
// the message again is told now. A turn that is to be run again has come to nothing that anybody should be told.
func (a *adapter) Finalize(ctx context.Context, r channel.Result) error {
	again := false
	if a.c.result && a.k.Journal != nil {
		state, err := a.k.Journal.Peek(ctx, a.key)
		again = err == nil && state == channel.ClaimAccepted
	}
	a.c.known.of(a.id).finish(r, a.c.result, again)
	return nil
}

var modes = map[channel.ChatType]channel.ReplyMode{
	channel.Direct: channel.ReplyDirect, channel.Group: channel.ReplyChannel, channel.Broadcast: channel.ReplyChannel,
}

const (
	mediaPrefix = "webhook-"
	maxFolder   = 256 << 20 // bytes of all files that are kept
)

// files keeps the media of messages where the agent can read them, and returns their facts.
func (c *Channel) files(list []*message) (facts []channel.MediaFact, err error) {
	for _, m := range list {
		for _, one := range m.media {
			f := channel.MediaFact{ContentType: one.mime, Kind: kindOf(one.mime), Size: int64(len(one.data))}
			if c.media.Dir != "" {
				var failed error
				f.Path, failed = c.keep(one)
				err = errors.Join(err, failed)
			}
			facts = append(facts, f)
		}
	}
	return facts, err
}

func kindOf(mime string) channel.MediaKind {
	family, _, _ := strings.Cut(mime, "/")
	switch k := channel.MediaKind(family); k {
	case channel.MediaImage, channel.MediaAudio, channel.MediaVideo:
		return k
	}
	return channel.MediaDocument
}

// keep writes a file by a name that no sender chooses: that of its content.
func (c *Channel) keep(m medium) (string, error) {
	sum := sha256.Sum256(m.data)
	end := ""
	if known, err := mime.ExtensionsByType(m.mime); err == nil && len(known) > 0 {
		end = known[len(known)-1]
	}
	name := mediaPrefix + hex.EncodeToString(sum[:16]) + end
	if path, _, ok := c.media.Find(name); ok {
		return path, nil
	}
	path, _, err := c.media.Put(name, func(to io.Writer) error {
		_, err := to.Write(m.data)
		return err
	})
	return path, err
}

// challenger tells who may not talk yet how to be paired.
type challenger struct {
	*adapter
	m     *message
	pairs pairing.Requester
}

// Challenge implements [channel.Challenger].
func (a *challenger) Challenge(ctx context.Context, s channel.SenderFacts) error {
	code, tell, err := a.pairs.Request(ctx, a.c.name, a.c.account, s)
	if err != nil || !tell {
		return err
	}
	r := reply{
		Turn: "pairing", Message: a.id, Kind: string(channel.ReplyFinal), Final: true, id: "pairing-" + code,
		Text: fmt.Sprintf("You need to be paired before you can talk here. Your code is %s; the operator of this server pairs you with: lingserve channels pair approve %s", code, code),
	}
	r.Conversation.set(a.m.conversation)
	if a.c.known.of(a.id).hold(r) {
		return nil
	}
	if a.c.callback == "" {
		return errNoCallback
	}
	return a.c.post(ctx, r)
}
