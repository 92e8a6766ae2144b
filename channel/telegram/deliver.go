package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
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

// poster sends the messages of answers.
func (c *Channel) poster() *platform.Poster {
	return &platform.Poster{
		Format: markup.TelegramHTML, Limit: markup.Limit{N: maxText}, Post: c.post, Gone: []*platform.Kind{gone}, Files: c.Files, MaxFile: maxUpload,
	}
}

// delivery is how the answer in a conversation is sent.
func (c *Channel) delivery(f *channel.Facts) *kernel.Delivery {
	d, direct := c.poster().Delivery(c.s.Preview), f.Conversation.Kind == channel.Direct
	d.PreviewEvery, d.WorkingEvery = previewEvery, typingEvery
	d.Working = func(ctx context.Context) error {
		p := c.target(ctx, &channel.Block{Target: f.Reply}, false)
		p["action"] = models.ChatActionTyping
		return c.api.Do(ctx, platform.Request{Name: "sendChatAction", In: p, Brief: true})
	}
	if !direct {
		d.PreviewEvery = previewEveryGroup
	}
	if c.s.Preview == PreviewDraft && direct {
		d.Preview = c.showDraft
	}
	return d
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
	n, _ := strconv.Atoi(o.Value) // the channel has written it
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

// uploads are the methods that send a kind of file.
var uploads = map[string]string{"document": "sendDocument", "photo": "sendPhoto", "audio": "sendAudio", "video": "sendVideo"}

// post sends a message, or replaces the text of one. A preview has no markup, because half of a text is seldom good markup.
func (c *Channel) post(ctx context.Context, m *platform.Post) (id string, err error) {
	p := c.target(ctx, m.Block, m.N == 0)
	if f := m.File; f != nil {
		kind := "document"
		switch {
		case f.Kind == channel.MediaImage && len(f.Data) <= maxPhoto:
			kind = "photo"
		case f.Kind == channel.MediaAudio, f.Kind == channel.MediaVideo:
			kind = string(f.Kind)
		}
		return c.send(ctx, platform.Request{Name: uploads[kind], In: &platform.Form{Fields: p, Name: kind, File: f.Name, Data: f.Data}}, p)
	}
	r := platform.Request{Name: "sendMessage", Brief: m.Preview}
	if m.Edit != "" {
		r.Name, r.Harmless = "editMessageText", !m.Preview
		p = params{"chat_id": p["chat_id"], "message_id": json.Number(m.Edit)}
	}
	p["link_preview_options"] = models.LinkPreviewOptions{IsDisabled: new(true)}
	if m.Buttons != nil {
		p["reply_markup"] = newKeyboard(m.Buttons)
	}
	marked := m.Text != "" && !m.Preview
	if p["text"] = m.Plain; marked {
		p["text"], p["parse_mode"] = m.Text, "HTML"
	}
	r.In = p
	id, err = c.send(ctx, r, p)
	if marked && platform.Is(err, badMarkup) { // once more, without markup (CH-177)
		c.Log.WarnContext(ctx, "platform refuses a message's markup; sending plain text")
		m.Text = ""
		return c.post(ctx, m)
	}
	if platform.Is(err, notModified) {
		return m.Edit, nil
	}
	return id, err
}

// showDraft shows the text of an unfinished block as a draft. The drafts of a block have one id.
func (c *Channel) showDraft(ctx context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
	p, id := c.target(ctx, &b, false), fnv.New32a()
	_, _ = id.Write([]byte(b.Key))
	p["draft_id"], p["text"] = id.Sum32()>>1|1, append(markup.Cut(b.Text, maxText, markup.UTF16), "")[0] // the id is positive
	return channel.Receipt{}, c.api.Do(ctx, platform.Request{Name: "sendMessageDraft", In: p, Brief: true})
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

// newKeyboard returns the buttons of a question, the last in its own row. The platform takes 64 bytes of data.
func newKeyboard(buttons []channel.Button) *keyboard {
	k := &keyboard{Rows: make([][]button, 2)}
	for i, b := range buttons {
		k.Rows[i/2] = append(k.Rows[i/2], button{b.Label, b.Word + ":" + b.Press.ID})
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

// answerPress shows a text to the person who pressed a button, once. The platform shows that it waits until there is an answer, which may be "".
func (c *Channel) answerPress(ctx context.Context, u *update, text string) {
	if u.press == nil {
		return
	}
	p := params{"callback_query_id": u.press.ID, "text": text}
	u.press = nil
	err := c.api.Do(ctx, platform.Request{Name: "answerCallbackQuery", In: p, Harmless: true})
	if err != nil && !platform.Is(err, tooLate) {
		c.Log.WarnContext(ctx, "cannot answer a button press", "error", err)
	}
}
