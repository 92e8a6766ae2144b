package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

// The platform takes about one message a second in a chat, and twenty a minute in a group. It shows typing for five seconds.
const (
	typingEvery       = 4 * time.Second
	previewEvery      = time.Second
	previewEveryGroup = 3 * time.Second
)

const (
	maxText   = 4096     // of a message, in UTF-16 units after parsing
	maxUpload = 20 << 20 // of a file, in bytes
	maxPhoto  = 10 << 20 // larger pictures are documents
)

// delivery is how the answer in a conversation is sent.
func (c *Channel) delivery(f *channel.Facts) *kernel.Delivery {
	d := &kernel.Delivery{
		Deliver: c.deliver, Settle: c.showDecision, Durable: true, PreviewEvery: previewEvery, WorkingEvery: typingEvery,
		Working: func(ctx context.Context) error { return c.showTyping(ctx, f.Reply) },
	}
	direct := f.Conversation.Kind == channel.Direct
	if !direct {
		d.PreviewEvery = previewEveryGroup
	}
	switch {
	case c.s.Preview == PreviewDraft && direct:
		d.Preview = c.showDraft
	case c.s.Preview != PreviewOff:
		d.Preview = c.previewer()
	}
	return d
}

// message is one message of an answer: a text, with markup and without, or a file.
type message struct {
	marked, plain string // marked is "" if the text has no markup
	keyboard      *keyboard
	file          *channel.MediaFact
	reply         bool // to what is answered
	brief         bool // a newer text comes soon
}

// deliver sends a block.
func (c *Channel) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if b.Question != nil {
		return c.ask(ctx, &b)
	}
	text, files := platform.TextAndFiles(&b)
	list := split(text)
	for i := range files {
		list = append(list, message{file: &files[i]})
	}
	return c.sendAll(ctx, &b, list)
}

// sendAll sends the messages of a block. The first is the reply, and replaces the preview.
func (c *Channel) sendAll(ctx context.Context, b *channel.Block, list []message) (channel.Receipt, error) {
	if len(list) > 0 {
		list[0].reply = true
	}
	edit := func(id string) (found bool, err error) {
		if list[0].file != nil {
			return false, nil
		}
		if _, err = c.put(ctx, b, id, list[0]); platform.Is(err, gone) {
			return false, nil
		}
		return true, err
	}
	return platform.SendMessages(b, receipt(b), len(list), edit, func(n int) (string, error) {
		if list[n].file != nil {
			return c.sendFile(ctx, b, list[n])
		}
		return c.put(ctx, b, "", list[n])
	})
}

// receipt returns the receipt of a block, for the messages with these ids.
func receipt(b *channel.Block, ids ...string) channel.Receipt {
	r := channel.Receipt{MessageIDs: ids}
	r.ThreadID, _ = b.Target.MessageThreadID.Get()
	r.ReplyToID, _ = b.Target.ReplyToID.Get()
	return r
}

// split turns the Markdown of a model into messages.
func split(text string) (list []message) {
	for _, p := range markup.Pieces(text, markup.TelegramHTML, markup.Limit{N: maxText}) {
		list = append(list, message{marked: p.Text, plain: p.Plain})
	}
	return list
}

// target returns the parameters of a call that sends to the place of a block, which was frozen when the event was resolved.
func (c *Channel) target(ctx context.Context, b *channel.Block, reply bool) params {
	chat, _ := strconv.ParseInt(b.Target.Target(), 10, 64) // the platform has no chat 0
	p := params{"chat_id": c.current(ctx, chat)}
	if b.Silent {
		p["disable_notification"] = true
	}
	if id := number(b.Target.MessageThreadID); id != 0 {
		p["message_thread_id"] = id
	}
	if id := number(b.Target.ReplyToID); id != 0 && reply {
		p["reply_parameters"] = models.ReplyParameters{MessageID: id, AllowSendingWithoutReply: true}
	}
	return p
}

func number(o channel.Opt) int {
	text, _ := o.Get()
	n, _ := strconv.Atoi(text) // the channel has written it
	return n
}

// send makes a call with the parameters p for a chat, and once more if the chat has another id by now. It returns the id of the message that is sent or
// changed.
func (c *Channel) send(ctx context.Context, r platform.Request, p params) (id string, err error) {
	var m struct {
		ID int `json:"message_id"`
	}
	r.Out = &m
	err = c.api.Do(ctx, r)
	if m, ok := errors.AsType[*migration](err); ok {
		c.learn(ctx, p["chat_id"].(int64), m.to)
		p["chat_id"] = m.to
		err = c.api.Do(ctx, r)
	}
	return strconv.Itoa(m.ID), err
}

// put sends a text, or replaces that of a message, and returns the id of the message.
func (c *Channel) put(ctx context.Context, b *channel.Block, edit string, m message) (id string, err error) {
	r, p := platform.Request{Name: "sendMessage", Brief: m.brief}, c.target(ctx, b, m.reply)
	if edit != "" {
		r.Name, r.Harmless = "editMessageText", !m.brief
		p = params{"chat_id": p["chat_id"], "message_id": json.Number(edit)}
	}
	p["link_preview_options"] = models.LinkPreviewOptions{IsDisabled: new(true)}
	if m.keyboard != nil {
		p["reply_markup"] = m.keyboard
	}
	if p["text"] = m.plain; m.marked != "" {
		p["text"], p["parse_mode"] = m.marked, "HTML"
	}
	r.In = p
	id, err = c.send(ctx, r, p)
	if m.marked != "" && platform.Is(err, badMarkup) { // once more, without markup (CH-177)
		c.Log.WarnContext(ctx, "platform refuses a message's markup; sending plain text")
		m.marked = ""
		return c.put(ctx, b, edit, m)
	}
	if platform.Is(err, notModified) {
		return edit, nil
	}
	return id, err
}

// sendFile sends a file of the media folder.
func (c *Channel) sendFile(ctx context.Context, b *channel.Block, m message) (id string, err error) {
	data, err := c.Files.Read(m.file.Path, maxUpload)
	if err != nil {
		return "", err
	}
	kind := "document"
	switch {
	case m.file.Kind == channel.MediaImage && len(data) <= maxPhoto:
		kind = "photo"
	case m.file.Kind == channel.MediaAudio, m.file.Kind == channel.MediaVideo:
		kind = string(m.file.Kind)
	}
	return c.upload(ctx, b, kind, filepath.Base(m.file.Path), data, m.reply)
}

// uploads are the methods that send a kind of file.
var uploads = map[string]string{"document": "sendDocument", "photo": "sendPhoto", "audio": "sendAudio", "video": "sendVideo"}

func (c *Channel) upload(ctx context.Context, b *channel.Block, kind, name string, data []byte, reply bool) (id string, err error) {
	p := c.target(ctx, b, reply)
	f := &platform.Form{Fields: p, Name: kind, File: name, Data: data}
	return c.send(ctx, platform.Request{Name: uploads[kind], In: f}, p)
}

// showTyping shows that work goes on.
func (c *Channel) showTyping(ctx context.Context, plan channel.ReplyPlanFacts) error {
	p := c.target(ctx, &channel.Block{Target: plan}, false)
	p["action"] = models.ChatActionTyping
	return c.api.Do(ctx, platform.Request{Name: "sendChatAction", In: p, Brief: true})
}

// previewer returns what shows the text of an unfinished block, as much as a message holds. It is plain, because half of a text is seldom good markup.
func (c *Channel) previewer() func(context.Context, channel.Block, channel.Receipt) (channel.Receipt, error) {
	shown := ""
	return func(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
		text, id := head(b.Text), before.First()
		if id != "" && text == shown { // the new text does not fit
			return before, nil
		}
		id, err := c.put(ctx, &b, id, message{plain: text, reply: true, brief: true})
		if err != nil {
			return channel.Receipt{}, err
		}
		shown = text
		return receipt(&b, id), nil
	}
}

// showDraft shows the text of an unfinished block as a draft. The drafts of a block have one id.
func (c *Channel) showDraft(ctx context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
	p, text, id := c.target(ctx, &b, false), head(b.Text), fnv.New32a()
	_, _ = id.Write([]byte(b.Key))
	p["draft_id"], p["text"] = id.Sum32()>>1|1, text // the id is positive
	return channel.Receipt{}, c.api.Do(ctx, platform.Request{Name: "sendMessageDraft", In: p, Brief: true})
}

// head returns as much of the beginning of a text as a message holds.
func head(text string) string {
	return strings.TrimSpace(append(markup.Cut(text, maxText, markup.UTF16), "")[0])
}

// keyboard is the buttons below a message. The buttons of the library always have the member copy_text, which the platform refuses.
type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

// button has a word and the id of its question as data.
type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// buttons returns those of a question, the last in its own row. The platform takes 64 bytes of data.
func buttons(q *channel.Question) *keyboard {
	k := &keyboard{Rows: make([][]button, 2)}
	for i, b := range q.Buttons() {
		k.Rows[i/2] = append(k.Rows[i/2], button{b.Label, b.Word + ":" + q.ID})
	}
	return k
}

// readPress reads the press of a button of a question.
func readPress(c *models.CallbackQuery) (p channel.Press, ok bool) {
	if c == nil {
		return p, false
	}
	word, id, _ := strings.Cut(c.Data, ":")
	return channel.ReadPress(word, id)
}

// question returns the message with the text of a question. It is one message or none, because no one may approve what they have not read.
func question(text string) (message, error) {
	list := split(text)
	if len(list) != 1 {
		return message{}, &channel.NotSentError{Err: errors.New("telegram: the question does not fit into one message")}
	}
	return list[0], nil
}

// ask sends a question, and before it the file of its arguments if they are too long for a message.
func (c *Channel) ask(ctx context.Context, b *channel.Block) (channel.Receipt, error) {
	q, err := question(b.Question.Text)
	if err != nil {
		return channel.Receipt{}, err
	}
	q.keyboard = buttons(b.Question)
	if name := b.Question.File; name != "" {
		if _, err := c.upload(ctx, b, "document", name, []byte(b.Question.Arguments), false); err != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: fmt.Errorf("telegram: the file of a question: %w", err)}
		}
	}
	return c.sendAll(ctx, b, []message{q})
}

// showDecision says below a question what was decided, and removes its buttons.
func (c *Channel) showDecision(ctx context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error {
	m, err := question(asked.Question.Text + "\n\n" + d.Text(markup.Literal(d.By)))
	if err != nil || sent.First() == "" {
		return err
	}
	if _, err = c.put(ctx, &asked, sent.First(), m); platform.Is(err, gone) {
		return nil
	}
	return err
}

// answerPress shows a text to the person who pressed a button, once. The platform shows that it waits until there is an answer, which may be "".
func (a *adapter) answerPress(ctx context.Context, text string) {
	if a.answered {
		return
	}
	a.answered = true
	p := params{"callback_query_id": a.last.press.ID, "text": text}
	err := a.c.api.Do(ctx, platform.Request{Name: "answerCallbackQuery", In: p, Harmless: true})
	if err != nil && !platform.Is(err, tooLate) {
		a.c.Log.WarnContext(ctx, "cannot answer a button press", "error", err)
	}
}
