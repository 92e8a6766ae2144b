package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
)

// buttonValue is what a press of a button comes with. An event does not say in what topic a card is, nor of what kind its chat is.
type buttonValue struct {
	Question string `json:"lingserve_question"`
	Decision string `json:"decision"`
	Thread   string `json:"thread,omitempty"`
	ChatType string `json:"chat_type"`
}

// pressed reads the press of a button; one that is not the channel's own is about no conversation.
func (e *Event) pressed(event json.RawMessage) {
	var body struct {
		Operator ids `json:"operator"`
		Action   struct {
			Value json.RawMessage `json:"value"`
		} `json:"action"`
		Context struct {
			Message string `json:"open_message_id"`
			Chat    string `json:"open_chat_id"`
		} `json:"context"`
	}
	var v buttonValue
	if json.Unmarshal(event, &body) != nil || json.Unmarshal(body.Action.Value, &v) != nil || body.Context.Chat == "" {
		return
	}
	p, ok := channel.ReadPress(v.Decision, v.Question)
	if !ok {
		return
	}
	e.sender.ID = body.Operator
	e.message = &message{ID: body.Context.Message, Chat: body.Context.Chat, Thread: v.Thread, ChatType: v.ChatType}
	e.press = &p
}

// buttons are the element of a card with the buttons of a question, beside each other.
func (d *delivery) buttons(q *channel.Question) map[string]any {
	var columns []any
	for _, b := range q.Buttons() {
		columns = append(columns, map[string]any{"tag": "column", "width": "auto", "elements": []any{map[string]any{
			"tag": "button", "text": map[string]any{"tag": "plain_text", "content": b.Label}, "type": cmp.Or(styles[b.Label], "default"),
			"behaviors": []any{map[string]any{"type": "callback", "value": buttonValue{q.ID, b.Word, d.answers.Thread, d.answers.ChatType}}},
		}}})
	}
	return map[string]any{"tag": "column_set", "columns": columns}
}

// styles are the colors of buttons; one without is plain.
var styles = map[string]string{channel.LabelApprove: "primary", channel.LabelDeny: "danger"}

// ask sends a question with its buttons, in one card or not at all: nobody approves what they have not read. Where there are no cards, the
// commands answer it.
func (d *delivery) ask(ctx context.Context, b *channel.Block) (channel.Receipt, error) {
	c := d.c
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	t.uuid, t.slow = uuid(b.Key, 0), d.slowDown
	q := b.Question
	text := b.Text
	if q.File != "" {
		text = q.WithCommands()
	}
	plain := markup.Convert(text, markup.Plain) // if the platform does not take the card
	if c.hasButtons(q) {
		text = q.Text
	}
	chunks := c.split(text)
	if len(chunks) != 1 {
		return channel.Receipt{}, &channel.NotSentError{Err: errors.New("feishu: the question does not fit into one message")}
	}
	if c.hasButtons(q) {
		chunks[0].extra, chunks[0].text = []any{d.buttons(q)}, plain
	}
	if q.File != "" {
		at := t
		at.uuid = uuid(b.Key, 1)
		if !at.topic {
			at.reply = "" // the question is the reply
		}
		if _, err := c.uploadData(ctx, &at, q.File, []byte(q.Arguments), false); err != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: fmt.Errorf("feishu: the file of a question: %w", err)}
		}
	}
	id, err := c.post(ctx, &t, chunks[0])
	if err != nil {
		return channel.Receipt{}, err
	}
	r := channel.Receipt{MessageIDs: []string{id}, ReplyToID: t.reply}
	r.ThreadID, _ = b.Target.MessageThreadID.Get()
	return r, nil
}

// hasButtons reports whether a question has buttons: plain texts have none.
func (c *Channel) hasButtons(q *channel.Question) bool { return c.format == FormatCard && q.Text != "" }

// openID is the form of ids of people.
var openID = regexp.MustCompile(`^ou_[0-9A-Za-z]+$`)

// Settle implements [channel.Settler].
func (d *delivery) Settle(ctx context.Context, asked channel.Block, sent channel.Receipt, x channel.Decided) error {
	if len(sent.MessageIDs) == 0 || !d.c.hasButtons(asked.Question) {
		return nil
	}
	by := markup.Escape(x.By, markup.FeishuCard)
	if openID.MatchString(x.By) {
		by = "<at id=" + x.By + "></at>" // events have no names; the client shows one
	}
	text := asked.Question.Text
	card := body{
		marked: markup.Convert(text, markup.FeishuCard) + "\n\n" + x.Text(by), text: markup.Convert(text, markup.Plain) + "\n\n" + x.Text(x.By),
	}
	err := d.c.patch(ctx, &target{chat: d.chat}, sent.MessageIDs[0], card)
	if is(err, gone) {
		return nil
	}
	return err
}

// presses are those whose requests wait to be answered.
type presses struct {
	mu      sync.Mutex
	waiting map[string]chan channel.Pressed // by the id of the event
}

// wait lets the request of an event be answered until done is called.
func (p *presses) wait(event string) (answer <-chan channel.Pressed, done func()) {
	ch := make(chan channel.Pressed, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[string]chan channel.Pressed{}
	}
	p.waiting[event] = ch
	return ch, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiting[event] == ch {
			delete(p.waiting, event)
		}
	}
}

// answer gives an answer to the request of an event, if it still waits.
func (p *presses) answer(event string, s channel.Pressed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch := p.waiting[event]; ch != nil {
		ch <- s // the only one: it has room
		delete(p.waiting, event)
	}
}

// pressWait is how long the request of a press waits for its answer; the platform waits 3 s.
const pressWait = 2 * time.Second

// receivePress answers a press with a text that whoever has pressed is shown. If its turn takes longer, or runs elsewhere, there is none.
func (c *Channel) receivePress(w http.ResponseWriter, r *http.Request, door *channel.Door, e *Event, raw []byte) {
	pressed, done := c.presses.wait(e.ID)
	defer done()
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	isNew, err := door.Accept(r.Context(), channel.Arrival{
		Key: c.key(e), Raw: raw, Ack: func(context.Context, channel.Result) { end() }, Given: end,
	})
	if err != nil {
		c.log.WarnContext(r.Context(), "cannot accept an event; the platform must retry", "channel", c.name, "error", err)
		later(w)
		return
	}
	if !isNew[0] {
		end()
	}
	timer := time.NewTimer(pressWait)
	defer timer.Stop()
	var s channel.Pressed
	select {
	case s = <-pressed:
	case <-over:
		select {
		case s = <-pressed:
		default:
			answer(w, struct{}{})
			return
		}
	case <-timer.C:
		answer(w, struct{}{})
		return
	case <-r.Context().Done():
		return
	}
	kind := "warning"
	if s.Taken() {
		kind = "success"
	}
	answer(w, map[string]any{"toast": map[string]string{"type": kind, "content": s.Text()}})
}

// answer shows what became of a press. The buttons of a question that nobody asks any more are removed: nothing else would do that after a
// crash.
func (a *adapter) answer(ctx context.Context, s channel.Pressed) {
	c, m := a.c, a.e.message
	c.presses.answer(a.e.ID, s)
	if s != channel.PressUnknown || m.ID == "" {
		return
	}
	text := s.Text()
	if asked, _ := c.looked.Peek(m.ID); asked != nil {
		text = asked.text + "\n\n" + text
	}
	if err := c.patch(ctx, &target{chat: m.Chat}, m.ID, body{text: text}); err != nil && !is(err, gone) {
		c.log.WarnContext(ctx, "cannot remove an old question's buttons", "channel", c.name, "error", err)
	}
}

// typing is the reaction to a message that says that work goes on.
const typing = "Typing"

// Working implements [channel.Worker]. It makes one attempt: an answer that waits for its sign is worse than one without.
func (d *delivery) Working(ctx context.Context) error {
	if d.signed || d.answers.ID == "" {
		return nil
	}
	d.signed = true
	var got struct {
		Data struct {
			ID string `json:"reaction_id"`
		} `json:"data"`
	}
	err := d.c.api.call(ctx, request{
		what: "add a reaction", method: http.MethodPost, path: "im/v1/messages/" + url.PathEscape(d.answers.ID) + "/reactions",
		in: map[string]any{"reaction_type": map[string]string{"emoji_type": typing}}, out: &got,
	})
	if d.reaction = got.Data.ID; err != nil {
		_, isRefusal := errors.AsType[*Error](err)
		d.signed = !isRefusal
	}
	return err
}

// Rest implements [channel.Rester].
func (d *delivery) Rest(ctx context.Context) error {
	if !d.signed {
		return nil
	}
	d.signed = false
	if d.reaction == "" { // the platform may have taken it all the same
		return d.c.unsign(ctx, d.answers.ID)
	}
	return d.c.removeReaction(ctx, d.answers.ID, d.reaction)
}

func (c *Channel) removeReaction(ctx context.Context, message, reaction string) error {
	err := c.api.do(ctx, request{
		what: "remove a reaction", method: http.MethodDelete,
		path: "im/v1/messages/" + url.PathEscape(message) + "/reactions/" + url.PathEscape(reaction), harmless: true,
	})
	if is(err, gone) {
		return nil
	}
	return err
}

// unsign removes the app's sign from a message, whose id is not known.
func (c *Channel) unsign(ctx context.Context, message string) error {
	var got struct {
		Data struct {
			Items []struct {
				ID       string `json:"reaction_id"`
				Operator struct {
					ID string `json:"operator_id"`
				} `json:"operator"`
			} `json:"items"`
		} `json:"data"`
	}
	err := c.api.do(ctx, request{
		what: "list reactions", method: http.MethodGet, harmless: true, out: &got,
		path: "im/v1/messages/" + url.PathEscape(message) + "/reactions?page_size=50&reaction_type=" + typing,
	})
	if is(err, gone, noScope) {
		return nil
	}
	for _, one := range got.Data.Items {
		if one.Operator.ID == c.api.app {
			err = errors.Join(err, c.removeReaction(ctx, message, one.ID))
		}
	}
	return err
}

// clear removes the sign that a crash may have left at a message.
func (c *Channel) clear(ctx context.Context, entry channel.JournalEntry) error {
	e := accepted(entry)
	if kind, _ := e.kind(); kind != channel.EventMessage {
		return nil
	}
	return c.unsign(ctx, e.message.ID)
}
