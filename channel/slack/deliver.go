package slack

import (
	"context"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

const (
	// maxText is what one message holds: 4 000 characters, of which what is escaped counts as it is written.
	maxText = 4000
	// previewEvery is the platform's limit of one conversation in the long run: one message a second. It asks to wait for those that come faster.
	previewEvery = time.Second
	// statusEvery is how often the sign of work is renewed: the platform removes a status after two minutes.
	statusEvery = time.Minute
)

// delivery sends the reply of one turn. Its methods are never called at the same time.
type delivery struct {
	c         *Channel
	message   *message // that is answered
	stream    *stream  // the preview that is being streamed by this process; nil
	shown     string   // by the preview, if that is edited
	hasStatus bool     // the assistant's thread shows that work goes on
	reacted   bool     // a reaction to the message was tried
}

// delivery is how the reply to a message is sent.
func (c *Channel) delivery(m *message) *kernel.Delivery {
	d := &delivery{c: c, message: m}
	k := &kernel.Delivery{Deliver: d.deliver, Working: d.work, Rest: d.rest, Settle: c.showDecision, Durable: true, WorkingEvery: statusEvery}
	if c.s.Preview != PreviewOff {
		k.Preview, k.PreviewEvery = d.preview, previewEvery
	}
	return k
}

// target is where a block goes.
type target struct{ conversation, thread string }

// targetOf reads the reply plan, which was frozen when the event was resolved.
func targetOf(b *channel.Block) (t target) {
	t.conversation = b.Target.Target()
	t.thread, _ = b.Target.MessageThreadID.Get()
	return t
}

// options adds the thread to the options of a message.
func (t target) options(list ...slackgo.MsgOption) []slackgo.MsgOption {
	if t.thread != "" {
		list = append(list, slackgo.MsgOptionTS(t.thread))
	}
	return list
}

// receipt is that of one message in a thread.
func (t target) receipt(ts string) channel.Receipt {
	return channel.Receipt{ThreadID: t.thread, MessageIDs: []string{ts}}
}

// deliver sends a block of the turn.
func (d *delivery) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if b.Question != nil {
		return d.c.ask(ctx, &b, d.message.thread)
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
	return out.Block.Preview.First() != "" && len(files) == 0 && len(split(text)) == 1
}

// split turns the Markdown of a model into messages.
func split(text string) (list []string) {
	for _, p := range markup.Pieces(text, markup.SlackMrkdwn, markup.Limit{N: maxText, Marked: true}) {
		list = append(list, p.Text)
	}
	return list
}

// deliver sends a block in as many messages as it needs. The first replaces the preview, if there is one. s is the preview as far as it is being
// streamed; nil.
func (c *Channel) deliver(ctx context.Context, b *channel.Block, s *stream) (channel.Receipt, error) {
	t := targetOf(b)
	text, files := platform.TextAndFiles(b)
	list := split(text)
	streamed := s != nil && c.finishStream(ctx, t, s, text) && len(list) > 0
	if streamed {
		list = list[:1]
	}
	edit := func(ts string) (found bool, err error) {
		if streamed || len(list) == 0 {
			return streamed, nil
		}
		return c.update(ctx, t, ts, list[0])
	}
	r, err := platform.SendMessages(b, channel.Receipt{ThreadID: t.thread}, len(list)+len(files), edit, func(n int) (string, error) {
		if n < len(list) {
			return c.post(ctx, t, list[n])
		}
		return "", c.sendFile(ctx, t, files[n-len(list)])
	})
	if err == nil {
		c.noteThread(ctx, t)
	}
	return r, err
}

// post sends one message, and returns its ts.
func (c *Channel) post(ctx context.Context, t target, text string, blocks ...slackgo.Block) (ts string, err error) {
	err = c.repeat(ctx, "chat.postMessage", false, func(ctx context.Context) error {
		ts, err = c.write(ctx, t, "", text, blocks...)
		return err
	})
	return ts, err
}

// update replaces the text and the blocks of a message. found is false if the message is deleted, or cannot be edited.
func (c *Channel) update(ctx context.Context, t target, ts, text string, blocks ...slackgo.Block) (found bool, err error) {
	err = c.repeat(ctx, "chat.update", true, func(ctx context.Context) error {
		_, err := c.write(ctx, t, ts, text, blocks...)
		return err
	})
	if platform.Is(err, gone) {
		return false, nil
	}
	return true, err
}

// write makes one attempt to send a message, or to replace the text and the blocks of the message ts. It returns the ts. Links are not unfolded: a model
// is not to fill the conversation with what others host.
func (c *Channel) write(ctx context.Context, t target, ts, text string, blocks ...slackgo.Block) (_ string, err error) {
	options := []slackgo.MsgOption{slackgo.MsgOptionText(text, false), slackgo.MsgOptionBlocks(blocks...)}
	if ts == "" {
		options = t.options(append(options, slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl())...)
		if _, ts, err = c.api.PostMessageContext(ctx, t.conversation, options...); err == nil && ts == "" {
			err = errAnswer
		}
		return ts, err
	}
	_, _, _, err = c.api.UpdateMessageContext(ctx, t.conversation, ts, options...)
	if err != nil && platform.Is(readError(ctx, err), streaming) { // by a process that has died
		if err = c.stopStream(ctx, t, ts, ""); err == nil {
			_, _, _, err = c.api.UpdateMessageContext(ctx, t.conversation, ts, options...)
		}
	}
	return ts, err
}

// preview shows the text so far, as much of it as one message holds.
func (d *delivery) preview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	t, ts := targetOf(&b), before.First()
	shown, err := false, error(nil)
	if d.stream != nil {
		shown = d.appendStream(ctx, t, b.Text)
	} else if ts == "" {
		ts, shown, err = d.startStream(ctx, t, b.Text)
	}
	if list := split(b.Text); !shown && len(list) > 0 {
		ts, err = d.editPreview(ctx, t, ts, list[0])
	}
	if err != nil {
		return channel.Receipt{}, platform.NotSent(err)
	}
	if ts == "" {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	d.c.noteThread(ctx, t)
	return t.receipt(ts), nil
}

// editPreview makes one attempt to show a text in a message, and returns its ts. The text may be the same as before, because more does not fit.
func (d *delivery) editPreview(ctx context.Context, t target, ts, text string) (string, error) {
	if text == d.shown {
		return ts, nil
	}
	err := d.c.call(ctx, "preview", func(ctx context.Context) (err error) {
		ts, err = d.c.write(ctx, t, ts, text)
		return err
	})
	if err == nil {
		d.shown = text
	}
	return ts, err
}
