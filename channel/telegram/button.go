package telegram

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

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
	err := a.c.api.do(ctx, request{method: "answerCallbackQuery", params: p, harmless: true})
	if err != nil && !platform.Is(err, tooLate) {
		a.c.Log.WarnContext(ctx, "cannot answer a button press", "error", err)
	}
}

// showPressed shows what became of a press. It removes the buttons of a question that is not open any more, such as after a crash.
func (a *adapter) showPressed(ctx context.Context, s channel.Pressed) {
	a.answerPress(ctx, s.Text())
	m := a.last.press.Message.Message
	if s != channel.PressUnknown || m == nil {
		return
	}
	p := params{"chat_id": m.Chat.ID, "message_id": m.ID}
	err := a.c.api.do(ctx, request{method: "editMessageReplyMarkup", params: p, harmless: true})
	if err != nil && !platform.Is(err, gone, notModified) {
		a.c.Log.WarnContext(ctx, "cannot remove an old question's buttons", "error", err)
	}
}
