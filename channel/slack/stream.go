package slack

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel/markup"
)

// A message can be streamed: text can only be appended to it, and it cannot be edited before it ends. The platform ends it by itself after
// some minutes.

// maxStream is what a streamed message holds: 12 000 characters.
const maxStream = 12_000

// mentionStart is the beginning of a mention, in a text or in the address of a link.
var mentionStart = regexp.MustCompile(`(?i)((?:<|&lt;?|&#0*60;?|&#x0*3c;?)\\?|\][:(]\s*)([@#!])`)

// streamText is the Markdown of a model without the means to mention anyone: each mention has a mark without width. The text of a start is the
// start of the text.
func streamText(markdown string) string {
	return mentionStart.ReplaceAllString(strings.TrimSpace(markdown), "$1\u200b$2")
}

// startStream begins a stream: in a thread, and in a channel to a person. started is false if the platform does not stream there.
func (d *delivery) startStream(ctx context.Context, t target, markdown string) (ts string, started bool, err error) {
	c, m, text := d.c, d.message, streamText(markdown)
	place := "stream " + t.conversation
	if t.thread == "" || !m.direct && !personForm.MatchString(m.User) || c.refused.Contains(place) || markup.UTF16(text) > maxStream {
		return "", false, nil
	}
	options := []slackgo.MsgOption{slackgo.MsgOptionMarkdownText(text)}
	if !m.direct {
		options = append(options, slackgo.MsgOptionRecipientUserID(m.User), slackgo.MsgOptionRecipientTeamID(cmp.Or(m.Team, c.self().TeamID)))
	}
	err = c.call(ctx, "chat.startStream", func(ctx context.Context) (err error) {
		_, ts, err = c.api.StartStreamContext(ctx, t.conversation, t.options(options...)...)
		return err
	})
	if isLasting(err) {
		c.refused.Add(place, struct{}{})
		c.Log.DebugContext(ctx, "no stream; editing a message instead", "error", err)
		return "", false, nil
	}
	if err == nil {
		d.stream = text
	}
	return ts, true, err
}

// appendStream shows more of a text in the message ts. It reports false if that has to be edited from now on: the text has not only grown,
// or it is not known what is shown.
func (d *delivery) appendStream(ctx context.Context, t target, ts, markdown string) bool {
	text := streamText(markdown)
	rest, grown := strings.CutPrefix(text, d.stream)
	if grown && (rest == "" || markup.UTF16(text) > maxStream) { // what is too long is shown when it is finished
		return true
	}
	d.stream = ""
	if !grown {
		_ = d.c.stopStream(ctx, t, ts, "")
		return false
	}
	err := d.c.call(ctx, "chat.appendStream", func(ctx context.Context) error {
		_, _, err := d.c.api.AppendStreamContext(ctx, t.conversation, ts, slackgo.MsgOptionMarkdownText(rest))
		return err
	})
	if err == nil {
		d.stream = text
	}
	return err == nil
}

// finishStream ends the stream of the message ts, which shows the beginning of a text, with the rest. It reports whether the message shows
// all of the text; else it has to be edited, which also helps if it is not known what is shown.
func (c *Channel) finishStream(ctx context.Context, t target, ts, shown, markdown string) bool {
	text := streamText(markdown)
	rest, grown := strings.CutPrefix(text, shown)
	if !grown || markup.UTF16(text) > maxStream {
		rest, grown = "", false
	}
	return c.stopStream(ctx, t, ts, rest) == nil && grown
}

// stopStream makes one attempt to end a stream.
func (c *Channel) stopStream(ctx context.Context, t target, ts, rest string) error {
	var options []slackgo.MsgOption
	if rest != "" {
		options = append(options, slackgo.MsgOptionMarkdownText(rest))
	}
	return c.call(ctx, "chat.stopStream", func(ctx context.Context) error {
		_, _, err := c.api.StopStreamContext(ctx, t.conversation, ts, options...)
		return err
	})
}
