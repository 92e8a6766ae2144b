package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
)

// buttonValue is what an event of a press has of its button. The event itself does not say in which topic the card is, nor the kind of
// its chat.
type buttonValue struct {
	Question string `json:"lingserve_question"`
	Decision string `json:"decision"`
	Thread   string `json:"thread,omitempty"`
	ChatType string `json:"chat_type"`
}

// readPress reads the event of a press. A press of another button than the channel's is about no conversation.
func (e *event) readPress(raw json.RawMessage) {
	var body struct {
		Operator userID `json:"operator"`
		Action   struct {
			Value json.RawMessage `json:"value"`
		} `json:"action"`
		Context struct {
			Message string `json:"open_message_id"`
			Chat    string `json:"open_chat_id"`
		} `json:"context"`
	}
	var v buttonValue
	if json.Unmarshal(raw, &body) != nil || json.Unmarshal(body.Action.Value, &v) != nil || body.Context.Chat == "" {
		return
	}
	p, ok := channel.ReadPress(v.Decision, v.Question)
	if !ok {
		return
	}
	e.Press, e.Sender.ID = &p, body.Operator
	e.Message = &message{ID: body.Context.Message, Chat: body.Context.Chat, Thread: v.Thread, ChatType: v.ChatType}
}

// buttons returns the element of a card with the buttons of a question, which m has caused.
func buttons(q *channel.Question, m *message) any {
	styles := map[string]string{channel.LabelApprove: "primary", channel.LabelDeny: "danger"}
	var columns []any
	for _, b := range q.Buttons() {
		columns = append(columns, map[string]any{"tag": "column", "width": "auto", "elements": []any{map[string]any{
			"tag": "button", "text": map[string]any{"tag": "plain_text", "content": b.Label}, "type": cmp.Or(styles[b.Label], "default"),
			"behaviors": []any{map[string]any{"type": "callback", "value": buttonValue{q.ID, b.Word, m.Thread, m.ChatType}}},
		}}})
	}
	return map[string]any{"tag": "column_set", "columns": columns}
}

// hasButtons reports whether a question has buttons. Plain texts have none: commands answer the question.
func (c *Channel) hasButtons(q *channel.Question) bool {
	return c.s.Format == FormatCard && q.Text != ""
}

// ask sends a question in one message with its buttons, or not at all, so that people approve only what they could read.
func (c *Channel) ask(ctx context.Context, b *channel.Block, m *message) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	q, text := b.Question, b.Text
	if q.File != "" {
		text = q.WithCommands()
	}
	plain := markup.Convert(text, markup.Plain) // if the platform rejects the card
	if c.hasButtons(q) {
		text = q.Text
	}
	parts := c.split(text)
	if len(parts) != 1 {
		return channel.Receipt{}, &channel.NotSentError{Err: errors.New("feishu: the question does not fit into one message")}
	}
	if c.hasButtons(q) {
		parts[0].elements, parts[0].text = []any{buttons(q, m)}, plain
	}
	if q.File != "" {
		if _, err := c.upload(ctx, t.nth(b, 1), q.File, []byte(q.Arguments), false); err != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: fmt.Errorf("feishu: the file of a question: %w", err)}
		}
	}
	id, err := c.send(ctx, t.nth(b, 0), parts[0])
	return t.receipt(id), err
}

// openID is the form of ids of people.
var openID = regexp.MustCompile(`^ou_[0-9A-Za-z]+$`)

// settle replaces the buttons of a question with who decided what.
func (c *Channel) settle(ctx context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error {
	q := asked.Question
	if len(sent.MessageIDs) == 0 || !c.hasButtons(q) {
		return nil
	}
	by := markup.Escape(d.By, markup.FeishuCard)
	if openID.MatchString(d.By) {
		by = "<at id=" + d.By + "></at>" // events have no names; the client shows one
	}
	card := body{
		markup: markup.Convert(q.Text, markup.FeishuCard) + "\n\n" + d.Text(by), text: markup.Convert(q.Text, markup.Plain) + "\n\n" + d.Text(d.By),
	}
	_, err := c.send(ctx, target{card: sent.MessageIDs[0]}, card)
	if isKind(err, deleted) {
		return nil
	}
	return err
}

// pressTimeout is how long a press waits for its answer. The platform waits 3 s.
const pressTimeout = 2 * time.Second

// pressResponse waits for the answer to a press, and returns the response that shows it. If the turn takes longer, or runs in another
// process, the response is empty.
func pressResponse(ctx context.Context, answers <-chan channel.Pressed) any {
	timer := time.NewTimer(pressTimeout)
	defer timer.Stop()
	select {
	case state := <-answers:
		kind := "warning"
		if state.Taken() {
			kind = "success"
		}
		return map[string]any{"toast": map[string]string{"type": kind, "content": state.Text()}}
	case <-timer.C:
	case <-ctx.Done():
	}
	return struct{}{}
}

// answerPress shows what became of a press. If the question is no longer open, its buttons are removed: after a crash, nothing else would
// remove them.
func (a *adapter) answerPress(ctx context.Context, state channel.Pressed) {
	c, m := a.c, a.e.Message
	if request, ok := c.presses.LoadAndDelete(a.e.ID); ok {
		request.(chan channel.Pressed) <- state
	}
	if state != channel.PressUnknown || m.ID == "" {
		return
	}
	text := state.Text()
	if asked, _ := c.known.Peek(m.ID); asked != nil {
		text = asked.text + "\n\n" + text
	}
	if _, err := c.send(ctx, target{card: m.ID}, body{text: text}); err != nil && !isKind(err, deleted) {
		c.s.Log.WarnContext(ctx, "cannot remove an old question's buttons", "channel", c.s.Name, "error", err)
	}
}
