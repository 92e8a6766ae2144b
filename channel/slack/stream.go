package slack

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

const (
	// maxStream is what a streamed message holds: 12 000 characters.
	maxStream = 12_000
	// deniedFor is how long the platform is not asked again for what it has refused.
	deniedFor = time.Hour
)

// stream is a message that grows: text can only be appended to it, and it cannot be edited before it ends. The platform ends it by itself after some
// minutes.
type stream struct {
	ts   string
	text string // that was appended
}

// rest returns what has to be appended for a text to be shown. ok is false if the text does not begin with what is shown, or is too long.
func (s *stream) rest(text string) (rest string, ok bool) {
	text = streamText(text)
	rest, ok = strings.CutPrefix(text, s.text)
	return rest, ok && markup.UTF16(text) <= maxStream
}

// mentionStart is the beginning of a mention, in a text or in the address of a link.
var mentionStart = regexp.MustCompile(`(?i)((?:<|&lt;?|&#0*60;?|&#x0*3c;?)\\?|\][:(]\s*)([@#!])`)

// streamText is the Markdown of a model without the means to mention anyone: each mention has a mark without width. The text of a start is the
// start of the text.
func streamText(markdown string) string {
	return mentionStart.ReplaceAllString(strings.TrimSpace(markdown), "$1\u200b$2")
}

// canStream reports whether a text can be the beginning of a stream: in a thread, and in a channel to a person.
func (d *delivery) canStream(t target, text string) bool {
	_, fits := (&stream{}).rest(text)
	return fits && t.thread != "" && (d.message.direct || personForm.MatchString(d.message.User)) && !d.c.denied.active(streamIn(t))
}

func streamIn(t target) string { return "stream " + t.conversation }

// startStream begins a stream. handled is false if the platform does not stream there: the conversation gets no more streams for a while.
func (d *delivery) startStream(ctx context.Context, t target, text string) (ts string, handled bool, err error) {
	c, text := d.c, streamText(text)
	options := []slackgo.MsgOption{slackgo.MsgOptionTS(t.thread), slackgo.MsgOptionMarkdownText(text)}
	if !d.message.direct {
		team := cmp.Or(d.message.Team, c.self().TeamID)
		options = append(options, slackgo.MsgOptionRecipientUserID(d.message.User), slackgo.MsgOptionRecipientTeamID(team))
	}
	err = c.call(ctx, func(ctx context.Context) (err error) {
		_, ts, err = c.api.StartStreamContext(ctx, t.conversation, options...)
		return err
	})
	if e, refused := errors.AsType[*Error](err); refused && e.kind != down && e.kind != badToken {
		wait := deniedFor
		if e.kind == tooMany {
			wait = e.RetryAfter
		}
		c.denied.extend(streamIn(t), wait)
		c.log.DebugContext(ctx, "no stream; editing a message instead", "channel", c.name, "error", err)
		return "", false, nil
	}
	if err == nil && ts != "" {
		c.wrote(ctx, t)
		d.stream = &stream{ts, text}
	}
	return ts, true, err
}

// appendStream shows more of a text. handled is false if the message has to be edited from now on: the text has not only grown, or the platform has
// ended the stream.
func (d *delivery) appendStream(ctx context.Context, t target, text string) (handled bool, err error) {
	s := d.stream
	rest, ok := s.rest(text)
	switch {
	case !ok && strings.HasPrefix(streamText(text), s.text): // too long; it is shown when it is finished
		return true, nil
	case !ok:
		d.stream = nil
		_ = d.c.stopStream(ctx, t, s.ts, "") // else it ends when the message is edited
		return false, nil
	case rest == "":
		return true, nil
	}
	err = d.c.call(ctx, func(ctx context.Context) error {
		_, _, err := d.c.api.AppendStreamContext(ctx, t.conversation, s.ts, slackgo.MsgOptionMarkdownText(rest))
		return err
	})
	_, unreached := errors.AsType[*platform.Unreached](err)
	switch {
	case err == nil:
		s.text += rest
	case !is(err, tooMany) && !unreached: // it is not known what is shown
		d.stream = nil
		return false, nil
	}
	return true, err
}

// finishStream ends a stream with the rest of a text. It reports whether the message shows all of the text; else it has to be edited, which also helps
// if it is not known what is shown.
func (c *Channel) finishStream(ctx context.Context, t target, s *stream, text string) bool {
	rest, ok := s.rest(text)
	if !ok {
		rest = ""
	}
	return c.stopStream(ctx, t, s.ts, rest) == nil && ok
}

// stopStream makes one attempt to end a stream.
func (c *Channel) stopStream(ctx context.Context, t target, ts, rest string) error {
	var options []slackgo.MsgOption
	if rest != "" {
		options = append(options, slackgo.MsgOptionMarkdownText(rest))
	}
	return c.call(ctx, func(ctx context.Context) error {
		_, _, err := c.api.StopStreamContext(ctx, t.conversation, ts, options...)
		return err
	})
}
