package feishu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/markup"
)

// previewEvery is how often a card grows: the platform takes five changes of one a second, and five messages a second to one
// conversation from all bots together.
const previewEvery = time.Second

// honoured is how long the platform takes a second message with a uuid for the first: an hour, less what clocks and calls may take.
const honoured = 50 * time.Minute

// delivery is how one turn's reply goes to its chat. Its methods are never called at the same time.
type delivery struct {
	c        *Channel
	chat     string
	answers  *message  // what is answered
	reaction string    // the id of the reaction that says that work goes on; "" is none
	signed   bool      // that was given, or tried to
	shown    string    // by the preview that stands there, in its markup
	slow     time.Time // until then, no previews
}

var (
	_ channel.Delivery   = (*delivery)(nil)
	_ channel.Previewer  = streaming{}
	_ channel.Delivery   = streaming{}
	_ channel.Pacer      = (*delivery)(nil)
	_ channel.Worker     = (*delivery)(nil)
	_ channel.Rester     = (*delivery)(nil)
	_ channel.Settler    = (*delivery)(nil)
	_ channel.Durabler   = (*delivery)(nil)
	_ channel.Sender     = (*Channel)(nil)
	_ channel.Reconciler = (*Channel)(nil)
)

// target is where a message goes.
type target struct {
	chat  string
	reply string // the message that it replies to
	topic bool   // into the topic of that message
	uuid  string
	brief bool                // the next one comes soon: nothing is waited for
	slow  func(time.Duration) // is told when the platform's rate limit was reached; nil
}

// targetOf reads the reply plan, which was frozen when the event was resolved.
func targetOf(b *channel.Block) (t target, err error) {
	if t.chat = b.Target.Target(); t.chat == "" {
		return t, &channel.NotSentError{Err: errors.New("feishu: the reply has no target"), Permanent: true}
	}
	t.reply, _ = b.Target.ReplyToID.Get()
	topic, _ := b.Target.MessageThreadID.Get()
	t.topic = topic != ""
	if t.topic && t.reply == "" {
		return t, &channel.NotSentError{Err: errors.New("feishu: cannot send to the topic, because it has no message to reply to"), Permanent: true}
	}
	return t, nil
}

// uuid is by what the platform knows a second attempt to send the n-th message of a block: at most 50 characters.
func uuid(key string, n int) string {
	text := key + "." + strconv.Itoa(n)
	if len(text) <= 50 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Deliver implements [channel.Delivery].
func (d *delivery) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if b.Question != nil {
		return d.ask(ctx, &b)
	}
	r, err := d.c.deliver(ctx, &b, d.slowDown)
	if err == nil {
		d.shown = ""
	}
	return r, err
}

// slowDown holds previews back until the platform wants more calls.
func (d *delivery) slowDown(wait time.Duration) { d.slow = time.Now().Add(wait) }

// Send implements [channel.Sender]: what the outbox holds.
func (c *Channel) Send(ctx context.Context, m channel.Outbound) (channel.Receipt, error) {
	c.first.PeekOrAdd(m.Block.Key, time.Now())
	return c.deliver(ctx, &m.Block, nil)
}

// Reconcile implements [channel.Reconciler]. While the platform still knows the uuid of an attempt, another one is as good as the
// first: it may be made, as if nothing were there. After that, and after a restart, nobody knows when the first was made.
func (c *Channel) Reconcile(_ context.Context, m channel.Outbound) (channel.Receipt, error) {
	if at, ok := c.first.Peek(m.Block.Key); ok && time.Since(at) < honoured {
		return channel.Receipt{State: channel.NotSent}, nil
	}
	return channel.Receipt{State: channel.UnknownWhether}, nil
}

// Can implements [channel.Sender]. The platform notifies of every message.
func (c *Channel) Can(need channel.Capabilities) (bool, error) {
	return !need.Silent && (!need.Media || c.store.Dir != ""), nil
}

// Durable implements [channel.Durabler]: the end of an answer outlives a crash.
func (d *delivery) Durable(b channel.Block) *channel.Durable {
	thread, _ := b.Target.MessageThreadID.Get()
	reply, _ := b.Target.ReplyToID.Get()
	return &channel.Durable{Sender: d.c.sender(), Needs: channel.Capabilities{
		Thread: thread != "", Reply: reply != "", Media: len(b.Media) > 0, Silent: b.Silent,
	}}
}

// sender is the name that the outbox knows the channel by.
func (c *Channel) sender() string {
	if c.account == "" {
		return c.name
	}
	return c.name + "@" + c.account
}

// deliver sends a block in as many messages as it needs. The first is what a preview showed, if there was one.
func (c *Channel) deliver(ctx context.Context, b *channel.Block, slow func(time.Duration)) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	t.slow = slow
	text := b.Text
	var media []channel.MediaFact
	for _, m := range b.Media {
		switch {
		case m.Path != "":
			media = append(media, m)
		case m.URL != "":
			text = strings.TrimSpace(text + "\n\n" + m.URL)
		}
	}
	chunks := c.split(text)
	if len(chunks) == 0 && len(media) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	r := channel.Receipt{}
	r.ThreadID, _ = b.Target.MessageThreadID.Get()
	preview := ""
	if b.Preview != nil && len(b.Preview.MessageIDs) > 0 {
		preview = b.Preview.MessageIDs[0]
	}
	one := func(send func() (string, error)) error {
		id, err := send()
		if err == nil {
			if id != "" {
				r.MessageIDs = append(r.MessageIDs, id)
			}
			return nil
		}
		if len(r.MessageIDs) > 0 {
			return &channel.PartialError{Receipt: r, Err: err}
		}
		return err
	}
	n := 0
	next := func() *target {
		at := t
		at.uuid = uuid(b.Key, n)
		if n > 0 && !at.topic { // only the first is a reply
			at.reply = ""
		}
		n++
		return &at
	}
	for i, chunk := range chunks {
		at := next()
		err := one(func() (string, error) {
			if i == 0 && preview != "" {
				err := c.patch(ctx, at, preview, chunk)
				if !is(err, gone) {
					return preview, err
				}
			}
			return c.post(ctx, at, chunk)
		})
		if err != nil {
			return r, err
		}
		if i == 0 {
			r.ReplyToID = at.reply
		}
	}
	for _, m := range media {
		at := next()
		if err := one(func() (string, error) { return c.upload(ctx, at, m) }); err != nil {
			return r, err
		}
	}
	return r, nil
}

// body is what one message says.
type body struct {
	marked string // in the markup of cards; "" is a plain text
	text   string // without markup
	extra  []any  // elements of the card below the text
	kind   string // of a message that is neither a card nor a text
	key    string // of its file
}

// split turns a model's Markdown into messages.
func (c *Channel) split(markdown string) []body {
	var list []body
	if c.format == FormatText {
		for _, p := range markup.Pieces(markdown, markup.Plain, markup.Limit{N: maxCard, Unit: wire, Marked: true}) {
			list = append(list, body{text: p.Text})
		}
		return list
	}
	for _, p := range markup.Pieces(markdown, markup.FeishuCard, markup.Limit{N: maxCard, Unit: wire, Marked: true}) {
		if strings.TrimSpace(p.Plain) != "" {
			list = append(list, body{marked: p.Text, text: p.Plain})
		}
	}
	return list
}

// sent is what the platform says of a message that it has taken.
type sent struct {
	Data struct {
		ID string `json:"message_id"`
	} `json:"data"`
}

// post sends one message. A card that the platform does not take goes out without markup; what it is to reply to may be gone.
func (c *Channel) post(ctx context.Context, t *target, b body) (string, error) {
	id, err := c.postOnce(ctx, t, b)
	if is(err, badCard) && b.marked != "" {
		c.log.WarnContext(ctx, "platform refuses a message's markup; sending plain text", "channel", c.name)
		b.marked = ""
		id, err = c.postOnce(ctx, t, b)
	}
	if is(err, gone) && t.reply != "" && !t.topic {
		t.reply = ""
		id, err = c.postOnce(ctx, t, b)
	}
	return id, err
}

func (c *Channel) postOnce(ctx context.Context, t *target, b body) (string, error) {
	kind, content, err := b.content()
	if err != nil {
		return "", &channel.NotSentError{Err: err}
	}
	var got sent
	r := request{what: "send a message", method: http.MethodPost, out: &got, harmless: true, brief: t.brief, slow: t.slow}
	in := map[string]any{"msg_type": kind, "content": content, "uuid": t.uuid}
	if t.reply == "" {
		r.path, in["receive_id"] = "im/v1/messages?receive_id_type=chat_id", t.chat
	} else {
		r.path = "im/v1/messages/" + url.PathEscape(t.reply) + "/reply"
		if t.topic {
			in["reply_in_thread"] = true
		}
	}
	r.in = in
	if err = c.api.do(ctx, r); err == nil {
		c.wrote(got.Data.ID, b.text)
	}
	return got.Data.ID, err
}

// wrote remembers what a message of the bot says, for those who reply to it.
func (c *Channel) wrote(id, text string) {
	me := c.self()
	c.looked.Add(id, &found{text: text, from: channel.SenderFacts{ID: me.OpenID, Name: me.Name, IsBot: true, IsSelf: true}})
}

// patch puts a card in the place of one that stands there.
func (c *Channel) patch(ctx context.Context, t *target, id string, b body) error {
	call := func(content string) error {
		return c.api.do(ctx, request{
			what: "change a card", method: http.MethodPatch, path: "im/v1/messages/" + url.PathEscape(id),
			in: map[string]any{"content": content}, harmless: true, slow: t.slow,
		})
	}
	content, err := b.card()
	if err != nil {
		return &channel.NotSentError{Err: err}
	}
	if err = call(content); is(err, badCard) {
		c.log.WarnContext(ctx, "platform refuses a card's markup; sending plain text", "channel", c.name)
		if content, err = (&body{text: b.text}).card(); err != nil {
			return &channel.NotSentError{Err: err}
		}
		err = call(content)
	}
	if err == nil {
		c.wrote(id, b.text)
	}
	return err
}

// PreviewEvery implements [channel.Pacer].
func (d *delivery) PreviewEvery(channel.Block) time.Duration {
	return max(previewEvery, time.Until(d.slow))
}

// WorkingEvery implements [channel.Pacer]: the sign stays until it is removed.
func (d *delivery) WorkingEvery() time.Duration { return time.Hour }

// streaming is a delivery that shows a block while it is written.
type streaming struct{ *delivery }

var errSlow = errors.New("feishu: the platform's rate limit was reached")

// Preview implements [channel.Previewer]: the text as it stands so far, as much as one card holds. A change is tried once, for the next
// text comes soon.
func (d streaming) Preview(ctx context.Context, b channel.Block, prev channel.Receipt) (channel.Receipt, error) {
	c := d.c
	t, err := targetOf(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	chunks := c.split(b.Text)
	if len(chunks) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	if wait := time.Until(d.slow); wait > 0 {
		return channel.Receipt{}, &channel.NotSentError{Err: errSlow, Retryable: true, RetryAfter: wait}
	}
	first := chunks[0]
	if len(prev.MessageIDs) == 0 {
		// Its uuid is its own: with that of the block, the platform would take the whole text for this beginning of it.
		t.uuid, t.brief, t.slow = uuid(b.Key+".p", 0), true, d.slowDown
		id, err := c.post(ctx, &t, first)
		if err != nil {
			return channel.Receipt{}, err
		}
		d.shown = first.marked
		r := channel.Receipt{MessageIDs: []string{id}, ReplyToID: t.reply}
		r.ThreadID, _ = b.Target.MessageThreadID.Get()
		return r, nil
	}
	if first.marked == d.shown {
		return prev, nil
	}
	content, err := first.card()
	if err != nil {
		return channel.Receipt{}, &channel.NotSentError{Err: err}
	}
	err = c.api.call(ctx, request{
		what: "change a card", method: http.MethodPatch, path: "im/v1/messages/" + url.PathEscape(prev.MessageIDs[0]),
		in: map[string]any{"content": content},
	})
	if err == nil {
		d.shown = first.marked
		return prev, nil
	}
	return channel.Receipt{}, d.noted(err)
}

// noted is what the kernel is told of a call that was made once.
func (d *delivery) noted(err error) error {
	e, isRefusal := errors.AsType[*Error](err)
	_, dial := errors.AsType[*attempt.Unreached](err)
	switch {
	case isRefusal && e.kind == tooMany:
		d.slowDown(e.RetryAfter)
		return &channel.NotSentError{Err: err, Retryable: true, RetryAfter: e.RetryAfter}
	case isRefusal && e.kind != down, dial:
		return &channel.NotSentError{Err: err, Retryable: dial, Permanent: isRefusal && slices.Contains(permanent, e.kind)}
	}
	return err
}

// Abandon implements [channel.Previewer]: what is not to be seen is taken away; what stays because the answer was cut off says so.
func (d streaming) Abandon(ctx context.Context, prev channel.Receipt, cause error) error {
	if len(prev.MessageIDs) == 0 {
		return nil
	}
	id, shown := prev.MessageIDs[0], d.shown
	d.shown = ""
	if errors.Is(cause, channel.ErrSuppress) {
		err := d.c.api.do(ctx, request{
			what: "recall a card", method: http.MethodDelete, path: "im/v1/messages/" + url.PathEscape(id), harmless: true,
		})
		if is(err, gone) {
			return nil
		}
		return err
	}
	if shown == "" {
		return nil
	}
	err := d.c.patch(ctx, &target{chat: d.chat}, id, body{marked: shown + cutOff, text: shown + cutOff})
	if is(err, gone) {
		return nil
	}
	return err
}

// cutOff says that an answer ends here because it was cut off. Of [maxCard], there is room for it.
const cutOff = " &#91;…&#93;"
