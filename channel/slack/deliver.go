package slack

import (
	"context"
	"errors"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/ratelimit"
)

const (
	// maxText is what one message holds: 4 000 characters, of which what is escaped counts as it is written.
	maxText = 4000
	// callEvery is the platform's limit of one conversation in the long run: one message a second.
	callEvery = time.Second
	// postBurst is how many messages the platform lets an app send at once.
	postBurst = 3
	// statusEvery is how often the sign of work is renewed: the platform removes a status after two minutes.
	statusEvery = time.Minute
)

// delivery sends the reply of one turn. Its methods are never called at the same time.
type delivery struct {
	c       *Channel
	message *message // that is answered
	stream  *stream  // the preview that is being streamed by this process; nil
	shown   string   // by the preview, if that is edited
	signed  sign
}

// delivery is how the reply to a message is sent.
func (c *Channel) delivery(m *message) *kernel.Delivery {
	d := &delivery{c: c, message: m}
	k := &kernel.Delivery{Deliver: d.deliver, Working: d.work, Rest: d.rest, Settle: d.showDecision, Durable: true, WorkingEvery: statusEvery}
	if c.preview != PreviewOff {
		k.Preview, k.PreviewEvery = d.preview, c.every
	}
	return k
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

// firstID is the ts of the first message of a receipt; "": it has none.
func firstID(r *channel.Receipt) string {
	if r == nil || len(r.MessageIDs) == 0 {
		return ""
	}
	return r.MessageIDs[0]
}

// receipt is that of one message in a thread.
func (t target) receipt(ts string) channel.Receipt {
	r := channel.Receipt{ThreadID: t.thread}
	if ts != "" {
		r.MessageIDs = []string{ts}
	}
	return r
}

// deliver sends a block of the turn.
func (d *delivery) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if b.Question != nil {
		return d.ask(ctx, &b)
	}
	var s *stream
	if b.Preview != nil {
		s, d.stream, d.shown = d.stream, nil, ""
	}
	return d.c.deliver(ctx, &b, s)
}

// send sends a reply that was stored. The process that made it may have died before it removed the sign of work.
func (c *Channel) send(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
	if key, err := channel.ParseEventKey(out.Event); err == nil && !timeOf(key.ID).IsZero() {
		defer func() { _ = c.removeReaction(ctx, key.Conversation, key.ID) }()
	}
	return c.deliver(ctx, &out.Block, nil)
}

// onlyEdits reports whether a reply replaces one message, and does nothing else.
func onlyEdits(out channel.Outbound, _ time.Duration) bool {
	text, files := platform.TextAndFiles(&out.Block)
	return firstID(out.Block.Preview) != "" && len(files) == 0 && len(chunks(text)) == 1
}

// chunks are the messages that a text needs.
func chunks(text string) (all []string) {
	for _, p := range markup.Pieces(text, markup.SlackMrkdwn, markup.Limit{N: maxText, Marked: true}) {
		if strings.TrimSpace(p.Plain) != "" { // the platform takes no empty message
			all = append(all, p.Text)
		}
	}
	return all
}

// deliver sends a block in as many messages as it needs. The first replaces the preview, if there is one. s is the preview as far as it is being
// streamed; nil.
func (c *Channel) deliver(ctx context.Context, b *channel.Block, s *stream) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	text, files := platform.TextAndFiles(b)
	list := chunks(text)
	finished := s != nil && c.finishStream(ctx, t, s, text)
	var edit func(ts string) (found bool, err error)
	switch {
	case finished && len(list) > 0:
		list = list[:1]
		edit = func(string) (bool, error) { return true, nil }
	case len(list) > 0:
		edit = func(ts string) (found bool, err error) {
			if err = c.update(ctx, t, ts, list[0]); is(err, gone) {
				return false, nil
			}
			return true, err
		}
	}
	return platform.SendMessages(b, t.receipt(""), len(list)+len(files), edit, func(n int) (string, error) {
		if n < len(list) {
			return c.post(ctx, t, list[n])
		}
		return "", c.upload(ctx, t, files[n-len(list)])
	})
}

// reservePost reserves the next message to a conversation and returns how long to wait before sending it.
func (c *Channel) reservePost(conversation string) time.Duration {
	wait := c.posts.Reserve(conversation, ratelimit.Rate{PerMinute: int(time.Minute / c.every), Burst: postBurst})
	c.noPreviews.extend(conversation, wait+c.every)
	return wait
}

// post sends one message, in the conversation's pace, and returns its ts.
func (c *Channel) post(ctx context.Context, t target, text string, blocks ...slackgo.Block) (ts string, err error) {
	if err := backoff.Sleep(ctx, c.reservePost(t.conversation)); err != nil {
		return "", &channel.NotSentError{Err: err, Retryable: true}
	}
	err = c.repeat(ctx, false, func(ctx context.Context) (err error) {
		ts, err = c.tryPost(ctx, t, text, blocks...)
		return err
	})
	return ts, err
}

// tryPost makes one attempt to send a message. Links are not unfolded: a model is not to fill the conversation with what others host.
func (c *Channel) tryPost(ctx context.Context, t target, text string, blocks ...slackgo.Block) (ts string, err error) {
	options := []slackgo.MsgOption{slackgo.MsgOptionText(text, false), slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl()}
	if t.thread != "" {
		options = append(options, slackgo.MsgOptionTS(t.thread))
	}
	if len(blocks) > 0 {
		options = append(options, slackgo.MsgOptionBlocks(blocks...))
	}
	_, ts, err = c.api.PostMessageContext(ctx, t.conversation, options...)
	if err == nil {
		c.wrote(ctx, t)
	}
	return ts, err
}

// wrote notes that the bot takes part in a thread.
func (c *Channel) wrote(ctx context.Context, t target) {
	if err := c.threads.learn(t.conversation, t.thread); err != nil {
		c.log.WarnContext(ctx, "cannot store a thread", "channel", c.name, "error", err)
	}
}

// update replaces the text and the blocks of a message.
func (c *Channel) update(ctx context.Context, t target, ts, text string, blocks ...slackgo.Block) error {
	return c.repeat(ctx, true, func(ctx context.Context) error { return c.tryUpdate(ctx, t, ts, text, blocks...) })
}

// tryUpdate makes one attempt to replace the text and the blocks of a message. A message that is still being streamed, by a process that has died, ends
// before.
func (c *Channel) tryUpdate(ctx context.Context, t target, ts, text string, blocks ...slackgo.Block) error {
	for stopped := false; ; stopped = true {
		_, _, _, err := c.api.UpdateMessageContext(ctx, t.conversation, ts, slackgo.MsgOptionText(text, false), slackgo.MsgOptionBlocks(blocks...))
		if !is(err, streaming) || stopped {
			return err
		}
		if _, _, err := c.api.StopStreamContext(ctx, t.conversation, ts); err != nil && !is(err, ended) {
			return err
		}
	}
}

// preview shows the text as it is so far. While the conversation was just written to, or the platform wants fewer calls, it is left out: a newer text
// comes soon.
func (d *delivery) preview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	c, ts := d.c, firstID(&before)
	t, err := targetOf(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	if c.noPreviews.active("") || !c.noPreviews.begin(t.conversation, c.every) {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	switch {
	case d.stream != nil:
		if handled, err := d.appendStream(ctx, t, b.Text); handled {
			return before, c.notePreview(err)
		}
	case ts == "" && d.canStream(t, b.Text):
		ts, handled, err := d.startStream(ctx, t, b.Text)
		if handled {
			return t.receipt(ts), c.notePreview(err)
		}
	}
	return d.editPreview(ctx, t, ts, b.Text)
}

// editPreview shows the start of a text in a message, plain: half of a text is seldom good markup.
func (d *delivery) editPreview(ctx context.Context, t target, ts, full string) (channel.Receipt, error) {
	text := head(full, maxText)
	if text == "" {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	if ts != "" && text == d.shown {
		return t.receipt(ts), nil
	}
	err := d.c.call(ctx, func(ctx context.Context) (err error) {
		if ts != "" {
			return d.c.tryUpdate(ctx, t, ts, text)
		}
		ts, err = d.c.tryPost(ctx, t, text)
		return err
	})
	if err == nil {
		d.shown = text
	}
	return t.receipt(ts), d.c.notePreview(err)
}

// notePreview returns the error for the kernel of a preview that was tried once.
func (c *Channel) notePreview(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.kind == tooMany {
		c.noPreviews.extend("", e.RetryAfter)
	}
	if err == nil {
		return nil
	}
	return platform.NotSent(err, judge)
}

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
