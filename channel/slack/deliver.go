package slack

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/internal/backoff"
)

// maxText is what one message holds: 4 000 characters, of which what is escaped counts as it is written.
const maxText = 4000

// delivery is how one turn's reply goes to its conversation. Its methods are never called at the same time.
type delivery struct {
	c            *Channel
	conversation string
	thread       string // of the message that is answered; "" outside of threads
	message      string // ts of that message; "" is none
	signed       bool   // it may have the reaction that says that work goes on
	shown        string // by the preview that stands there
}

var (
	_ channel.Delivery  = (*delivery)(nil)
	_ channel.Durabler  = (*delivery)(nil)
	_ channel.Worker    = (*delivery)(nil)
	_ channel.Rester    = (*delivery)(nil)
	_ channel.Settler   = (*delivery)(nil)
	_ channel.Delivery  = streaming{}
	_ channel.Previewer = streaming{}
	_ channel.Pacer     = streaming{}
	_ channel.Sender    = (*Channel)(nil)
)

// delivery is how the reply to a message goes out.
func (c *Channel) delivery(m *message) channel.Delivery {
	d := &delivery{c: c, conversation: m.conversation, thread: m.thread, message: m.ts}
	if c.preview == PreviewOff {
		return d
	}
	return streaming{d}
}

// target is where a block goes.
type target struct{ conversation, thread string }

// targetOf reads the reply plan, which was frozen when the event was resolved.
func targetOf(b *channel.Block) (t target, err error) {
	t.conversation = b.Target.Target()
	t.thread, _ = b.Target.MessageThreadID.Get()
	if t.conversation == "" {
		return t, &channel.NotSentError{Err: errors.New("slack: the reply has no target"), Permanent: true}
	}
	return t, nil
}

// Deliver implements [channel.Delivery].
func (d *delivery) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if b.Question != nil {
		return d.ask(ctx, &b)
	}
	r, err := d.c.deliver(ctx, &b)
	if err == nil {
		d.shown = ""
	}
	return r, err
}

// Send implements [channel.Sender]: what the outbox holds.
func (c *Channel) Send(ctx context.Context, m channel.Outbound) (channel.Receipt, error) {
	return c.deliver(ctx, &m.Block)
}

// Can implements [channel.Sender]. Whether somebody is notified is not for apps to say.
func (c *Channel) Can(need channel.Capabilities) (bool, error) {
	return !need.Media || c.store.Dir != "", nil
}

// Durable implements [channel.Durabler]: the end of an answer outlives a crash.
func (d *delivery) Durable(b channel.Block) *channel.Durable {
	thread, _ := b.Target.MessageThreadID.Get()
	return &channel.Durable{Sender: d.c.sender(), Needs: channel.Capabilities{Thread: thread != "", Media: len(b.Media) > 0}}
}

// deliver sends a block in as many messages as it needs. The first is what a preview showed, if there was one.
func (c *Channel) deliver(ctx context.Context, b *channel.Block) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	text := b.Text
	var files []channel.MediaFact
	for _, m := range b.Media {
		switch {
		case m.Path != "":
			files = append(files, m)
		case m.URL != "":
			text = strings.TrimSpace(text + "\n\n" + m.URL)
		}
	}
	var chunks []string
	for _, p := range markup.Pieces(text, markup.SlackMrkdwn, markup.Limit{N: maxText, Marked: true}) {
		if strings.TrimSpace(p.Plain) != "" { // the platform takes no message of nothing
			chunks = append(chunks, p.Text)
		}
	}
	if len(chunks) == 0 && len(files) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	preview := ""
	if b.Preview != nil && len(b.Preview.MessageIDs) > 0 {
		preview = b.Preview.MessageIDs[0]
	}
	r := channel.Receipt{ThreadID: t.thread}
	sent := 0
	partly := func(err error) error {
		if sent > 0 {
			return &channel.PartialError{Receipt: r, Err: err}
		}
		return err
	}
	for i, chunk := range chunks {
		ts, err := preview, error(nil)
		if i == 0 && preview != "" {
			err = c.update(ctx, t, preview, chunk)
		}
		if i > 0 || preview == "" || is(err, gone) {
			ts, err = c.post(ctx, t, chunk)
		}
		if err != nil {
			return r, partly(err)
		}
		sent++
		if ts != "" {
			r.MessageIDs = append(r.MessageIDs, ts)
		}
	}
	for _, f := range files {
		if err := c.upload(ctx, t, f); err != nil {
			return r, partly(err)
		}
		sent++
	}
	return r, nil
}

// newMessage is a call of chat.postMessage. Links are not unfolded: a model is not to fill the conversation with what others host.
type newMessage struct {
	Channel     string `json:"channel"`
	Thread      string `json:"thread_ts,omitempty"`
	Text        string `json:"text"`
	Blocks      []any  `json:"blocks,omitempty"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
}

// changed is a call of chat.update, or, without a text, of chat.delete.
type changed struct {
	Channel string `json:"channel"`
	TS      string `json:"ts"`
	Text    string `json:"text,omitempty"`
	Blocks  []any  `json:"blocks,omitempty"`
}

// post sends one message, in the conversation's pace, and returns its ts.
func (c *Channel) post(ctx context.Context, t target, text string, blocks ...any) (string, error) {
	if err := backoff.Sleep(ctx, c.pace.reservePost(t.conversation, c.postEvery)); err != nil {
		return "", &channel.NotSentError{Err: err, Retryable: true}
	}
	var sent struct {
		TS string `json:"ts"`
	}
	err := c.api.do(ctx, request{
		method: "chat.postMessage", in: &newMessage{Channel: t.conversation, Thread: t.thread, Text: text, Blocks: blocks}, out: &sent, slow: c.pace.slowDown,
	})
	if err == nil {
		c.wrote(ctx, t)
	}
	return sent.TS, err
}

// wrote notes that the bot takes part in a thread.
func (c *Channel) wrote(ctx context.Context, t target) {
	if err := c.threads.learn(t.conversation, t.thread); err != nil {
		c.log.WarnContext(ctx, "cannot store a thread", "channel", c.name, "error", err)
	}
}

// update puts a text in the place of a message's.
func (c *Channel) update(ctx context.Context, t target, ts, text string, blocks ...any) error {
	return c.api.do(ctx, request{
		method: "chat.update", in: &changed{Channel: t.conversation, TS: ts, Text: text, Blocks: blocks}, harmless: true, slow: c.pace.slowDown,
	})
}

// streaming is a delivery that shows a block while it is written.
type streaming struct{ *delivery }

// PreviewEvery implements [channel.Pacer].
func (d streaming) PreviewEvery(channel.Block) time.Duration { return d.c.previewEvery }

// WorkingEvery implements [channel.Pacer]: the sign stays until it is removed.
func (d streaming) WorkingEvery() time.Duration { return time.Hour }

// Preview implements [channel.Previewer]: the text as it stands so far, plain, for half of a text is seldom good markup. Where others
// have just shown something in the conversation, or the platform wants fewer calls, it is left out: a newer text comes soon.
func (d streaming) Preview(ctx context.Context, b channel.Block, prev channel.Receipt) (channel.Receipt, error) {
	c := d.c
	t, err := targetOf(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	text := head(b.Text, maxText)
	if len(prev.MessageIDs) > 0 && text == d.shown {
		return prev, nil
	}
	if text == "" || !c.pace.allowPreview(t.conversation, c.previewEvery) {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	if len(prev.MessageIDs) > 0 {
		_, err := c.api.call(ctx, request{
			method: "chat.update", in: &changed{Channel: t.conversation, TS: prev.MessageIDs[0], Text: text},
		})
		if err != nil {
			return channel.Receipt{}, c.noted(err)
		}
		d.shown = text
		return prev, nil
	}
	var sent struct {
		TS string `json:"ts"`
	}
	_, err = c.api.call(ctx, request{
		method: "chat.postMessage", in: &newMessage{Channel: t.conversation, Thread: t.thread, Text: text}, out: &sent,
	})
	if err != nil {
		return channel.Receipt{}, c.noted(err)
	}
	c.wrote(ctx, t)
	d.shown = text
	r := channel.Receipt{ThreadID: t.thread}
	if sent.TS != "" {
		r.MessageIDs = []string{sent.TS}
	}
	return r, nil
}

// noted is what the kernel is told of a call that was made once.
func (c *Channel) noted(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.kind == tooMany {
		c.pace.slowDown(e.RetryAfter)
	}
	return attempt.NotSent(err, judge)
}

// Abandon implements [channel.Previewer]: what is not to be seen is taken away; what stays because the answer was cut off says so.
func (d streaming) Abandon(ctx context.Context, prev channel.Receipt, cause error) error {
	if len(prev.MessageIDs) == 0 {
		return nil
	}
	c, ts, shown := d.c, prev.MessageIDs[0], d.shown
	d.shown = ""
	var err error
	if errors.Is(cause, channel.ErrSuppress) {
		err = c.api.do(ctx, request{method: "chat.delete", in: &changed{Channel: d.conversation, TS: ts}, harmless: true})
	} else if shown != "" {
		err = c.update(ctx, target{conversation: d.conversation}, ts, within(shown, maxText-len(cut))+cut)
	}
	if is(err, gone) {
		return nil
	}
	return err
}

const cut = " […]" // the answer ends here because it was cut off

// head is the start of a text, escaped, as much as one message holds.
func head(text string, limit int) string {
	for n := limit; n > 0; n -= n/4 + 1 { // escaped, a character is up to five
		pieces := markup.Cut(text, n, markup.UTF16)
		if len(pieces) == 0 {
			return ""
		}
		if s := markup.Escape(strings.TrimSpace(pieces[0]), markup.SlackMrkdwn); markup.UTF16(s) <= limit {
			return s
		}
	}
	return ""
}

// within is an escaped text that is made shorter where it must be; what is escaped is not cut in two.
func within(escaped string, limit int) string {
	if markup.UTF16(escaped) <= limit {
		return escaped
	}
	return head(unescape.Replace(escaped), limit)
}
