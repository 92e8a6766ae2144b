package telegram

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
)

// maxData is what the data of a button may have, in bytes.
const maxData = 64

// keyboard is what stands below a message. (The library's button always has the member copy_text, which the platform refuses.)
type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// buttons are those of a question, the last in a row of its own; nil for an id that the platform does not take as data. Their data are a word
// and the id.
func buttons(q *channel.Question) *keyboard {
	k := &keyboard{Rows: make([][]button, 2)}
	for i, b := range q.Buttons() {
		data := b.Word + ":" + q.ID
		if len(data) > maxData {
			return nil
		}
		k.Rows[i/2] = append(k.Rows[i/2], button{b.Label, data})
	}
	return k
}

// pressed is the press of one of the channel's buttons.
func pressed(u *Update) (p channel.Press, ok bool) {
	if u.CallbackQuery == nil {
		return p, false
	}
	word, id, _ := strings.Cut(u.CallbackQuery.Data, ":")
	return channel.ReadPress(word, id)
}

// question is the message that asks a question. Its text is shown in one message or not at all: nobody approves what they have not read.
func (c *Channel) question(q *channel.Question, withCommands string) (chunk, error) {
	text, keys := q.Text, buttons(q)
	if keys == nil || text == "" {
		text, keys = withCommands, nil
		if q.File != "" {
			text = q.WithCommands()
		}
	}
	chunks := c.split(text)
	if len(chunks) != 1 {
		return chunk{}, &channel.NotSentError{Err: errors.New("telegram: the question does not fit into one message")}
	}
	chunks[0].keyboard = keys
	return chunks[0], nil
}

// Settle implements [channel.Settler].
func (d *delivery) Settle(ctx context.Context, asked channel.Block, sent channel.Receipt, x channel.Decided) error {
	if len(sent.MessageIDs) == 0 {
		return nil
	}
	id, err := strconv.Atoi(sent.MessageIDs[0])
	if err != nil {
		return err
	}
	t, err := d.c.targetOf(&asked)
	if err != nil {
		return err
	}
	q := *asked.Question
	if q.Text == "" {
		q.Text = asked.Text
	}
	q.Text += "\n\n" + x.Text(markup.Literal(x.By))
	text, err := d.c.question(&q, q.Text)
	if err != nil {
		return err
	}
	text.keyboard = nil
	if _, err = d.c.edit(ctx, &t, id, text); is(err, gone) {
		return nil
	}
	return err
}

// answerPress shows a text to whoever has pressed a button. The platform shows that it waits until it is answered, with or without a text.
func (a *adapter) answerPress(ctx context.Context, text string) {
	if a.answered {
		return
	}
	a.answered = true
	err := a.c.api.do(ctx, request{
		method: "answerCallbackQuery", in: &bot.AnswerCallbackQueryParams{CallbackQueryID: a.u.CallbackQuery.ID, Text: text}, harmless: true,
	})
	if err != nil && !is(err, tooLate) {
		a.c.log.WarnContext(ctx, "cannot answer a button press", "channel", a.c.name, "error", err)
	}
}

// answer shows what became of a press. The buttons of a question that nobody asks any more are removed: nothing else would do that
// after a crash.
func (a *adapter) answer(ctx context.Context, s channel.Pressed) {
	a.answerPress(ctx, s.Text())
	m := a.u.CallbackQuery.Message.Message
	if s != channel.PressUnknown || m == nil {
		return
	}
	err := a.c.api.do(ctx, request{
		method: "editMessageReplyMarkup", in: &bot.EditMessageReplyMarkupParams{ChatID: m.Chat.ID, MessageID: m.ID}, harmless: true,
	})
	if err != nil && !is(err, gone, notModified) {
		a.c.log.WarnContext(ctx, "cannot remove an old question's buttons", "channel", a.c.name, "error", err)
	}
}

// press is what an update with a press says: the command that it stands for, by whoever has pressed, where the question was asked.
func press(c *models.CallbackQuery, at *models.Message) *models.Message {
	m := &models.Message{ID: at.ID, Chat: at.Chat, MessageThreadID: at.MessageThreadID, IsTopicMessage: at.IsTopicMessage, From: &c.From}
	if p, ok := pressed(&Update{CallbackQuery: c}); ok {
		m.Text = p.Command()
	}
	return m
}
