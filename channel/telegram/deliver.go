package telegram

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/markup"
)

// Intervals (CH-175, CH-176). The platform takes about one message a second in a chat, and twenty a minute in a group.
const (
	typingEvery       = 4 * time.Second
	previewEvery      = time.Second
	previewEveryGroup = 3 * time.Second
)

// maxText is what one message holds, in UTF-16 code units after parsing.
const maxText = 4096

// maxUpload bounds a file that is sent.
const maxUpload = 20 << 20

// delivery is how one turn's reply goes to its chat. Its methods are never called at the same time.
type delivery struct {
	c            *Channel
	chat, thread string
	kind         channel.ChatType
	shown        string    // by the preview that stands there
	slow         time.Time // until then, no previews
}

var (
	_ channel.Delivery  = (*delivery)(nil)
	_ channel.Previewer = streaming{}
	_ channel.Delivery  = streaming{}
	_ channel.Worker    = (*delivery)(nil)
	_ channel.Pacer     = (*delivery)(nil)
	_ channel.Durabler  = (*delivery)(nil)
	_ channel.Settler   = (*delivery)(nil)
	_ channel.Sender    = (*Channel)(nil)
)

// target is where a block goes.
type target struct {
	chat   int64
	thread int
	reply  int
	silent bool
	slow   func(time.Duration) // is told when the platform's rate limit was reached; nil
}

// targetOf reads the reply plan, which was frozen when the event was resolved.
func (c *Channel) targetOf(b *channel.Block) (t target, err error) {
	if t.chat, err = strconv.ParseInt(b.Target.Target(), 10, 64); err != nil {
		return t, &channel.NotSentError{Err: errors.New("telegram: the target is not a chat id"), Permanent: true}
	}
	t.chat = c.chats.now(t.chat)
	if v, _ := b.Target.MessageThreadID.Get(); v != "" {
		t.thread, _ = strconv.Atoi(v)
	}
	if v, _ := b.Target.ReplyToID.Get(); v != "" {
		t.reply, _ = strconv.Atoi(v)
	}
	t.silent = b.Silent
	return t, nil
}

// Deliver implements [channel.Delivery].
func (d *delivery) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
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
	return c.deliver(ctx, &m.Block, nil)
}

// Can implements [channel.Sender].
func (c *Channel) Can(need channel.Capabilities) (bool, error) {
	return !need.Media || c.store.Dir != "", nil
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
	t, err := c.targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	t.slow = slow
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
	chunks := c.split(text)
	if b.Question != nil {
		q, err := c.question(b.Question, b.Text)
		if err == nil {
			err = c.sendArguments(ctx, &t, b.Question)
		}
		if err != nil {
			return channel.Receipt{}, err
		}
		chunks = []chunk{q}
	}
	if len(chunks) == 0 && len(files) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	r := channel.Receipt{}
	if t.thread != 0 {
		r.ThreadID = strconv.Itoa(t.thread)
	}
	preview := 0
	if b.Preview != nil && len(b.Preview.MessageIDs) > 0 {
		preview, _ = strconv.Atoi(b.Preview.MessageIDs[0])
	}
	one := func(send func() (int, error)) error {
		id, err := send()
		if err == nil {
			if id != 0 {
				r.MessageIDs = append(r.MessageIDs, strconv.Itoa(id))
			}
			return nil
		}
		if len(r.MessageIDs) > 0 {
			return &channel.PartialError{Receipt: r, Err: err}
		}
		return err
	}
	for i, chunk := range chunks {
		at := t
		if i > 0 {
			at.reply, preview = 0, 0
		}
		err := one(func() (int, error) {
			if preview != 0 {
				id, err := c.edit(ctx, &at, preview, chunk)
				if !is(err, gone) {
					return id, err
				}
			}
			return c.send(ctx, &at, chunk)
		})
		if err != nil {
			return r, err
		}
		if at.reply != 0 {
			r.ReplyToID = strconv.Itoa(at.reply)
		}
		t.chat = at.chat
	}
	for i, file := range files {
		at := t
		if i > 0 || len(chunks) > 0 {
			at.reply = 0
		}
		if err := one(func() (int, error) { return c.upload(ctx, &at, file) }); err != nil {
			return r, err
		}
	}
	return r, nil
}

// chunk is the text of one message, with markup and without.
type chunk struct {
	marked   string
	mode     models.ParseMode // "" where the text is plain
	plain    string
	keyboard *keyboard // below it; nil is none
}

// split turns a model's Markdown into messages.
func (c *Channel) split(text string) []chunk {
	format := markup.TelegramHTML
	if c.parseMode == models.ParseModeMarkdown {
		format = markup.TelegramMarkdownV2
	}
	var chunks []chunk
	for _, p := range markup.Pieces(text, format, markup.Limit{N: maxText}) {
		if strings.TrimSpace(p.Plain) != "" { // the platform takes no message of nothing
			chunks = append(chunks, chunk{marked: p.Text, mode: c.parseMode, plain: p.Plain})
		}
	}
	return chunks
}

// send sends one message. Markup that the platform does not understand goes out as plain text (CH-177).
func (c *Channel) send(ctx context.Context, t *target, text chunk) (int, error) {
	var sent models.Message
	params := &bot.SendMessageParams{
		Text: text.marked, ParseMode: text.mode, MessageThreadID: t.thread, DisableNotification: t.silent,
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: new(true)},
	}
	if text.keyboard != nil {
		params.ReplyMarkup = text.keyboard
	}
	if t.reply != 0 {
		params.ReplyParameters = &models.ReplyParameters{MessageID: t.reply, AllowSendingWithoutReply: true}
	}
	err := c.there(ctx, t, func() error {
		params.ChatID = t.chat
		return c.api.do(ctx, request{method: "sendMessage", in: params, out: &sent, slow: t.slow})
	})
	if is(err, badMarkup) && text.mode != "" {
		c.log.WarnContext(ctx, "platform refuses a message's markup; sending plain text", "channel", c.name)
		params.Text, params.ParseMode = text.plain, ""
		err = c.api.do(ctx, request{method: "sendMessage", in: params, out: &sent, slow: t.slow})
	}
	return sent.ID, err
}

// edit puts a text in the place of a message's. That nothing is changed by it is as good.
func (c *Channel) edit(ctx context.Context, t *target, id int, text chunk) (int, error) {
	params := &bot.EditMessageTextParams{
		MessageID: id, Text: text.marked, ParseMode: text.mode,
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: new(true)},
	}
	call := func() error {
		err := c.there(ctx, t, func() error {
			params.ChatID = t.chat
			return c.api.do(ctx, request{method: "editMessageText", in: params, harmless: true, slow: t.slow})
		})
		if is(err, notModified) {
			return nil
		}
		return err
	}
	err := call()
	if is(err, badMarkup) && text.mode != "" {
		c.log.WarnContext(ctx, "platform refuses a message's markup; sending plain text", "channel", c.name)
		params.Text, params.ParseMode = text.plain, ""
		err = call()
	}
	return id, err
}

// there makes a call for a chat, and makes it once more where the chat has another id by now.
func (c *Channel) there(ctx context.Context, t *target, call func() error) error {
	err := call()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.kind != migrated || e.MigrateTo == 0 {
		return err
	}
	if err := c.chats.learn(t.chat, e.MigrateTo); err != nil {
		c.log.WarnContext(ctx, "cannot store a supergroup's new id", "channel", c.name, "error", err)
	}
	t.chat = e.MigrateTo
	return call()
}

// upload sends a file of the media folder.
func (c *Channel) upload(ctx context.Context, t *target, m channel.MediaFact) (int, error) {
	never := func(err error) (int, error) { return 0, &channel.NotSentError{Err: err} }
	data, err := c.store.Read(m.Path, maxUpload)
	if err != nil {
		return never(fmt.Errorf("telegram: %w", err))
	}
	method, field := "sendDocument", "document"
	switch {
	case m.Kind == channel.MediaImage && len(data) <= 10<<20: // larger pictures are documents
		method, field = "sendPhoto", "photo"
	case m.Kind == channel.MediaAudio:
		method, field = "sendAudio", "audio"
	case m.Kind == channel.MediaVideo:
		method, field = "sendVideo", "video"
	}
	return c.uploadData(ctx, t, method, &attempt.Form{Name: field, File: filepath.Base(m.Path), Data: data})
}

// sendArguments sends the arguments of a question that are too long for a message, before the question.
func (c *Channel) sendArguments(ctx context.Context, t *target, q *channel.Question) error {
	if q.File == "" {
		return nil
	}
	file := *t
	file.reply = 0 // the question is the reply
	_, err := c.uploadData(ctx, &file, "sendDocument", &attempt.Form{Name: "document", File: q.File, Data: []byte(q.Arguments)})
	t.chat = file.chat
	if err != nil {
		return &channel.NotSentError{Err: fmt.Errorf("telegram: the file of a question: %w", err)}
	}
	return nil
}

func (c *Channel) uploadData(ctx context.Context, t *target, method string, f *attempt.Form) (int, error) {
	f.Fields = map[string]string{}
	if t.thread != 0 {
		f.Fields["message_thread_id"] = strconv.Itoa(t.thread)
	}
	if t.silent {
		f.Fields["disable_notification"] = "true"
	}
	if t.reply != 0 {
		f.Fields["reply_parameters"] = fmt.Sprintf(`{"message_id":%d,"allow_sending_without_reply":true}`, t.reply)
	}
	var sent models.Message
	err := c.there(ctx, t, func() error {
		f.Fields["chat_id"] = strconv.FormatInt(t.chat, 10)
		return c.api.do(ctx, request{method: method, in: f, out: &sent, slow: t.slow})
	})
	return sent.ID, err
}

// PreviewEvery implements [channel.Pacer].
func (d *delivery) PreviewEvery(channel.Block) time.Duration {
	every := previewEvery
	if d.kind != channel.Direct {
		every = previewEveryGroup
	}
	return max(every, time.Until(d.slow))
}

// WorkingEvery implements [channel.Pacer].
func (d *delivery) WorkingEvery() time.Duration { return typingEvery }

// Working implements [channel.Worker]: the sign of typing. A failure of it is told to nobody but the kernel, which then gives it up.
func (d *delivery) Working(ctx context.Context) error {
	t, err := d.c.targetOf(&channel.Block{Target: channel.ReplyPlanFacts{To: d.chat, MessageThreadID: channel.Some(d.thread)}})
	if err != nil {
		return err
	}
	return d.c.there(ctx, &t, func() error {
		return d.c.api.call(ctx, callTimeout, "sendChatAction", &bot.SendChatActionParams{
			ChatID: t.chat, MessageThreadID: t.thread, Action: models.ChatActionTyping,
		}, nil)
	})
}

// streaming is a delivery that shows a block while it is written.
type streaming struct{ *delivery }

// Preview implements [channel.Previewer]: the text as it stands so far, plain, for half of a text is seldom good markup. It makes no
// second attempt, for the next text comes soon.
func (d streaming) Preview(ctx context.Context, b channel.Block, prev channel.Receipt) (channel.Receipt, error) {
	c := d.c
	t, err := c.targetOf(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	text := head(b.Text, maxText)
	if text == "" {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	if wait := time.Until(d.slow); wait > 0 {
		return channel.Receipt{}, &channel.NotSentError{Err: errSlow, Retryable: true, RetryAfter: wait}
	}
	r := channel.Receipt{}
	if c.preview == PreviewDraft && d.kind == channel.Direct {
		return r, d.noted(c.api.call(ctx, callTimeout, "sendMessageDraft", &draft{
			ChatID: t.chat, MessageThreadID: t.thread, DraftID: draftID(b.Key), Text: text,
		}, nil))
	}
	if len(prev.MessageIDs) == 0 {
		var sent models.Message
		params := &bot.SendMessageParams{
			Text: text, MessageThreadID: t.thread, DisableNotification: t.silent,
			LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: new(true)},
		}
		if t.reply != 0 {
			params.ReplyParameters = &models.ReplyParameters{MessageID: t.reply, AllowSendingWithoutReply: true}
			r.ReplyToID = strconv.Itoa(t.reply)
		}
		err := c.there(ctx, &t, func() error {
			params.ChatID = t.chat
			return c.api.call(ctx, callTimeout, "sendMessage", params, &sent)
		})
		if err == nil {
			r.MessageIDs, d.shown = []string{strconv.Itoa(sent.ID)}, text
		}
		return r, d.noted(err)
	}
	if text == d.shown {
		return prev, nil
	}
	id, err := strconv.Atoi(prev.MessageIDs[0])
	if err != nil {
		return channel.Receipt{}, &channel.NotSentError{Err: errors.New("telegram: the preview has no message id")}
	}
	err = c.api.call(ctx, callTimeout, "editMessageText", &bot.EditMessageTextParams{
		ChatID: t.chat, MessageID: id, Text: text, LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: new(true)},
	}, nil)
	if err == nil || is(err, notModified) {
		d.shown = text
		return prev, nil
	}
	return channel.Receipt{}, d.noted(err)
}

var errSlow = errors.New("telegram: the platform's rate limit was reached")

// draft is a call of sendMessageDraft. (The library's has a text for draft_id, which is a number.)
type draft struct {
	ChatID          int64  `json:"chat_id"`
	MessageThreadID int    `json:"message_thread_id,omitempty"`
	DraftID         uint32 `json:"draft_id"`
	Text            string `json:"text"`
}

// draftID is the same for all drafts of a block, and never 0.
func draftID(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return h.Sum32()>>1 | 1
}

// noted is what the kernel is told of a call that was made once.
func (d *delivery) noted(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.kind == tooMany {
		d.slowDown(e.RetryAfter)
	}
	return attempt.NotSent(err, judge)
}

// Abandon implements [channel.Previewer]: what is not to be seen is taken away; what stays because the answer was cut off says so.
func (d streaming) Abandon(ctx context.Context, prev channel.Receipt, cause error) error {
	if len(prev.MessageIDs) == 0 {
		return nil // a draft goes by itself
	}
	id, err := strconv.Atoi(prev.MessageIDs[0])
	if err != nil {
		return nil
	}
	t, err := d.c.targetOf(&channel.Block{Target: channel.ReplyPlanFacts{To: d.chat}})
	if err != nil {
		return err
	}
	shown := d.shown
	d.shown = ""
	if errors.Is(cause, channel.ErrSuppress) {
		err := d.c.api.do(ctx, request{
			method: "deleteMessage", in: &bot.DeleteMessageParams{ChatID: t.chat, MessageID: id}, harmless: true,
		})
		if is(err, gone) {
			return nil
		}
		return err
	}
	if shown == "" {
		return nil
	}
	const cut = " […]" // the answer ends here because it was cut off
	_, err = d.c.edit(ctx, &t, id, chunk{marked: head(shown, maxText-len(cut)) + cut})
	return err
}

// head is the start of a text, as much as one message holds.
func head(text string, limit int) string {
	pieces := markup.Cut(text, limit, markup.UTF16)
	if len(pieces) == 0 {
		return ""
	}
	return strings.TrimSpace(pieces[0])
}
