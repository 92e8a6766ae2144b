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
	*platform.Poster
	c         *Channel
	message   *message // that is answered
	stream    string   // the text of the preview, if this process streams it; ""
	hasStatus bool     // the assistant's thread shows that work goes on
	reacted   bool     // a reaction to the message was tried
}

// delivery is how the reply to a message is sent.
func (c *Channel) delivery(m *message) *kernel.Delivery {
	d := &delivery{Poster: c.poster(m.thread), c: c, message: m}
	k := d.Delivery(c.s.Preview)
	k.Deliver, k.Working, k.Rest, k.WorkingEvery, k.PreviewEvery = d.deliver, d.work, d.rest, statusEvery, previewEvery
	if k.Preview != nil {
		k.Preview = d.preview
	}
	return k
}

var textLimit = markup.Limit{N: maxText, Marked: true}

// poster sends the messages of replies. thread is that of the message that is answered.
func (c *Channel) poster(thread string) *platform.Poster {
	return &platform.Poster{
		Format: markup.SlackMrkdwn, Limit: textLimit, Gone: []*platform.Kind{gone}, Files: c.Files, MaxFile: maxUpload, Mention: mention,
		Post: func(ctx context.Context, m *platform.Post) (string, error) { return c.post(ctx, m, thread) },
	}
}

// target is where a block goes.
type target struct{ conversation, thread string }

// targetOf reads the reply plan, which was frozen when the event was resolved.
func targetOf(b *channel.Block) target {
	return target{b.Target.Target(), b.Target.MessageThreadID.Value}
}

// options adds the thread to the options of a message.
func (t target) options(list ...slackgo.MsgOption) []slackgo.MsgOption {
	if t.thread != "" {
		list = append(list, slackgo.MsgOptionTS(t.thread))
	}
	return list
}

// deliver sends a block of the turn. A preview that is streamed ends with the rest of the text.
func (d *delivery) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	p, shown := *d.Poster, d.stream
	if shown != "" && b.Preview != nil {
		d.stream = ""
		text, _ := platform.TextAndFiles(&b)
		if d.c.finishStream(ctx, targetOf(&b), b.Preview.First(), shown, text) { // the message shows all of the text
			p.Limit = markup.Limit{}
			p.Post = func(ctx context.Context, m *platform.Post) (string, error) {
				if m.Edit != "" {
					return m.Edit, nil
				}
				return d.Post(ctx, m)
			}
		}
	}
	return p.Deliver(ctx, b)
}

// send sends a reply that was stored. The process that made it may have died before it removed the sign of work.
func (c *Channel) send(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
	if key, err := channel.ParseEventKey(out.Event); err == nil && !timeOf(key.ID).IsZero() {
		defer func() { _ = c.removeReaction(ctx, key.Conversation, key.ID) }()
	}
	return c.poster("").Send(ctx, out)
}

// onlyEdits reports whether a reply replaces one message, and does nothing else.
func onlyEdits(out channel.Outbound, _ time.Duration) bool {
	text, files := platform.TextAndFiles(&out.Block)
	return out.Block.Preview.First() != "" && len(files) == 0 && len(markup.Pieces(text, markup.SlackMrkdwn, textLimit)) == 1
}

// post sends a message, or replaces one. thread is that of the message that is answered.
func (c *Channel) post(ctx context.Context, m *platform.Post, thread string) (ts string, err error) {
	t, q := targetOf(m.Block), m.Block.Question
	switch {
	case m.File != nil:
		err = c.upload(ctx, t, m.File)
	case m.Outcome != "":
		ts, err = c.put(ctx, t, m.Edit, m.Text, callBlock(q), lineBlock(m.Outcome))
	case m.Buttons != nil:
		ts, err = c.put(ctx, t, "", m.Text, callBlock(q), buttons(m.Buttons, thread))
	case m.Preview: // one attempt
		err = platform.NotSent(c.call(ctx, "preview", func(ctx context.Context) (err error) {
			ts, err = c.write(ctx, t, m.Edit, m.Text)
			return err
		}))
	default:
		ts, err = c.put(ctx, t, m.Edit, m.Text)
	}
	if err == nil && m.Edit == "" && m.N == 0 {
		c.noteThread(ctx, t)
	}
	return ts, err
}

// put sends a message, or replaces the text and the blocks of the message ts, and returns its ts.
func (c *Channel) put(ctx context.Context, t target, ts, text string, blocks ...slackgo.Block) (sent string, err error) {
	name := "chat.postMessage"
	if ts != "" {
		name = "chat.update"
	}
	err = c.repeat(ctx, name, ts != "", func(ctx context.Context) error {
		sent, err = c.write(ctx, t, ts, text, blocks...)
		return err
	})
	return sent, err
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

// preview shows the text so far: in a stream, or else as much of it as one message holds.
func (d *delivery) preview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	t := targetOf(&b)
	switch {
	case d.stream != "":
		if d.appendStream(ctx, t, before.First(), b.Text) {
			return before, nil
		}
	case before.First() == "":
		ts, started, err := d.startStream(ctx, t, b.Text)
		if started && err == nil {
			d.c.noteThread(ctx, t)
		}
		if started {
			return channel.Receipt{ThreadID: t.thread, MessageIDs: []string{ts}}, platform.NotSent(err)
		}
	}
	return d.Poster.Preview(ctx, b, before)
}
