package webhook

import (
	"bytes"
	"context"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// event is what one turn answers: a message, or several that were combined. The first one gets the reply.
type event struct {
	c        *Channel
	kernel   *kernel.Kernel
	claimed  *kernel.Claimed
	messages []*message
	ctx      context.Context // of the turn

	busy    chan struct{} // has an item while one of the functions below runs: parts of the reply keep their order
	session string
	answer  answer      // with its Turn from the beginning
	held    *time.Timer // releases the parts that are held; nil: none was
}

// releaseBefore is how long before the request stops waiting the reply goes to the callback: clocks of replicas differ.
const releaseBefore = time.Second

// key names a message.
func (c *Channel) key(m *message) channel.EventKey {
	return channel.EventKey{Channel: c.s.Name, Account: c.s.Account, Conversation: m.Conversation.ID, Thread: m.Conversation.Thread, ID: m.id}
}

// raw returns what is stored of a message until its turn has ended.
func (m *message) raw(body []byte) []byte { return append([]byte(m.id+"\n"), body...) }

// run runs the turn of an event.
func (c *Channel) run(ctx context.Context, k *kernel.Kernel, e *kernel.Claimed, meta kernel.Meta) (channel.Result, error) {
	ev := &event{c: c, kernel: k, claimed: e, ctx: ctx, busy: make(chan struct{}, 1)}
	for _, raw := range e.Raws() {
		id, body, _ := bytes.Cut(raw, []byte("\n"))
		m, err := parse(body)
		if err != nil { // an earlier version of this program has accepted it
			continue
		}
		m.id = string(id)
		ev.messages = append(ev.messages, m)
	}
	if c.result && e.Begun {
		ev.answer = c.load(ctx, e.Key)
	}
	ev.answer.Turn = meta.TurnID
	meta.Counted = true // when it was accepted
	return kernel.Run(ctx, k, meta, ev.messages, &kernel.Adapter[[]*message]{
		Ingest: ingest, Classify: classify, Preflight: ev.preflight, Resolve: ev.resolve, Finalize: ev.finalize,
	})
}

func inputOf(m *message) *channel.Input {
	return &channel.Input{
		ID: m.id, RawText: m.Text, TextForAgent: m.Text, TextForCommands: m.Text,
		ConversationID: m.Conversation.ID, ThreadID: m.Conversation.Thread, SenderID: m.Sender.ID, HasMedia: len(m.Media) > 0,
	}
}

func ingest(_ context.Context, list []*message) (*channel.Input, error) {
	var inputs []*channel.Input
	for _, m := range list {
		inputs = append(inputs, inputOf(m))
	}
	in := channel.MergeInputs(inputs)
	if in != nil {
		in.ID = list[0].id
	}
	return in, nil
}

func classify(_ context.Context, in *channel.Input) (channel.EventClass, error) {
	return platform.Classify(in, channel.EventMessage, false), nil
}

// preflight says how images of a message that is not answered are loaded.
func (ev *event) preflight(_ context.Context, in *channel.Input, _ channel.EventClass) (pf channel.Preflight, err error) {
	if in.HasMedia {
		pf.History.LoadMedia = platform.ImageLoader(ev.files(), ev.c.media.Load)
	}
	return pf, nil
}

// files are those of the messages, in order.
func (ev *event) files() (list []platform.Attachment) {
	for _, m := range ev.messages {
		list = append(list, m.files...)
	}
	return list
}

func (ev *event) resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
	c := ev.c
	f := c.facts(ctx, ev.kernel, in, ev.messages)
	platform.AddMedia(ctx, &f, ev.files(), nil, c.media.Load)
	if c.result {
		f.Reply.DeliveryTarget = ev.claimed.Key // the answer does not wait for replies to other messages
	}
	ev.session = f.Route.RouteSessionKey
	return &kernel.Turn{
		Facts: f, Record: kernel.RecordOptions{CreateIfMissing: true, UpdateLastRoute: true},
		Delivery: &kernel.Delivery{Deliver: ev.deliver, Durable: true},
	}, nil
}

var replyModes = map[channel.ChatType]channel.ReplyMode{
	channel.Direct: channel.ReplyDirect, channel.Group: channel.ReplyChannel, channel.Broadcast: channel.ReplyChannel,
}

// facts returns what is known of messages, without their files.
func (c *Channel) facts(ctx context.Context, k *kernel.Kernel, in *channel.Input, list []*message) channel.Facts {
	m := list[len(list)-1]
	to, thread := m.Conversation.ID, m.Conversation.Thread
	place := channel.ConversationFacts{Kind: m.Conversation.Kind, ID: to, ThreadID: thread}
	f, policy, who := platform.NewFacts(ctx, k, kernel.Meta{Channel: c.s.Name, Account: c.s.Account}, c.s.Agent, in, m.Sender, place)
	f.Reply = channel.ReplyPlanFacts{
		To: to, OriginatingTo: to, ReplyToID: channel.None, MessageThreadID: channel.None, Mode: replyModes[m.Conversation.Kind],
	}
	if thread != "" {
		f.Reply.Mode, f.Reply.MessageThreadID = channel.ReplyThread, channel.Some(thread)
	}
	f.Access = policy.Access(who, mentions(list, policy.Patterns))
	return f
}

func mentions(list []*message, patterns []string) channel.MentionFacts {
	names := channel.NewNames(patterns)
	var all []channel.MentionFacts
	for _, m := range list {
		mentioned := names.In(m.Text) || m.Mentioned != nil && *m.Mentioned
		all = append(all, channel.MentionFacts{
			CanDetect: m.Mentioned != nil || len(patterns) > 0, WasMentioned: mentioned, HasAnyMention: mentioned,
		})
	}
	return channel.MergeMentions(all...)
}

// deliver holds a part of the reply for the answer, or sends it to the callback.
func (ev *event) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	ev.busy <- struct{}{}
	defer func() { <-ev.busy }()
	if wait, holds := ev.holds(); holds {
		ev.answer.add(partOf(&b))
		ev.c.save(ctx, ev.claimed.Key, ev.session, &ev.answer)
		if ev.held == nil && ev.c.s.Callback != "" {
			ev.held = time.AfterFunc(wait, ev.releaseLate)
		}
		return receiptOf(&b), nil
	}
	ev.release(ctx)
	send := ev.c.sendRepeatedly
	if b.Kind == channel.ReplyFinal && !b.IsError { // the outbox repeats it
		send = ev.c.send
	}
	return receiptOf(&b), send(ctx, replyTo(ev.messages[0], ev.answer.Turn, partOf(&b)))
}

func receiptOf(b *channel.Block) channel.Receipt { return channel.Receipt{MessageIDs: []string{b.Key}} }

// holds reports whether a request still waits for the reply, and for how long. Without a callback it waits for ever.
func (ev *event) holds() (wait time.Duration, holds bool) {
	wait = time.Until(ev.claimed.Arrived.Add(resultWait - releaseBefore))
	return wait, ev.c.result && (wait > 0 || ev.c.s.Callback == "")
}

// releaseLate sends the parts that are held while the turn goes on: one may be a question.
func (ev *event) releaseLate() {
	ev.busy <- struct{}{}
	defer func() { <-ev.busy }()
	if ev.answer.Status != statusDone {
		ev.release(ev.ctx)
	}
}

// release sends the parts that are held to the callback.
func (ev *event) release(ctx context.Context) {
	if len(ev.answer.Replies) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range ev.answer.Replies {
		if err := ev.c.sendRepeatedly(ctx, replyTo(ev.messages[0], ev.answer.Turn, p)); err != nil {
			ev.c.s.Log.WarnContext(ctx, "cannot send part of a reply to the callback", "channel", ev.c.s.Name, "error", err)
		}
	}
	ev.answer.Replies = nil
	ev.c.save(ctx, ev.claimed.Key, ev.session, &ev.answer)
}

// finalize answers the requests that wait, unless the event runs again. A sender who is to be paired is answered before.
func (ev *event) finalize(ctx context.Context, r channel.Result) error {
	c := ev.c
	if !c.result {
		return nil
	}
	ev.busy <- struct{}{}
	defer func() { <-ev.busy }()
	if ev.held != nil {
		ev.held.Stop()
	}
	if _, holds := ev.holds(); !holds {
		ev.release(ctx)
	}
	if !ev.claimed.Ended() && r.Admission.Reason != channel.ReasonPairingRequired {
		return nil
	}
	ev.answer.complete(r.TurnID, r.Admission, r.Outcome)
	c.saveAndAnswer(ctx, ev.claimed.Key, ev.session, &ev.answer)
	var merged answer
	merged.complete(r.TurnID, channel.Admission{Kind: channel.Handled, Reason: channel.ReasonMerged}, r.Outcome)
	for _, m := range ev.messages[1:] {
		c.saveAndAnswer(ctx, c.key(m).String(), ev.session, &merged)
	}
	return nil
}
