package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
)

// What the buttons of a question are known by. The id of their block ends with the thread of the message that is answered, so that a press
// runs where the turn does that asks.
const (
	actionOfQuestion = "lingserve." // and a word
	blockQuestion    = "lingserve.question:"
)

// Limits of blocks, in characters.
const (
	maxValue   = 2000 // of a button
	maxBlockID = 255
)

// action is what somebody has done with a block.
type action struct {
	Type  string `json:"type"`
	ID    string `json:"action_id"`
	Block string `json:"block_id"`
	Value string `json:"value"`
}

// pressedMessage is the message whose button was pressed, as far as it is needed.
type pressedMessage struct {
	TS     string            `json:"ts"`
	Thread string            `json:"thread_ts"`
	Text   string            `json:"text"`
	Blocks []json.RawMessage `json:"blocks"`
}

// press is the press of one of the channel's buttons.
type press struct {
	channel.Press
	root string // the thread that the question was asked in; "" for none
	on   pressedMessage
}

// pressed reads a press, if it is one of the channel's own buttons.
func (m *message) pressed(a action, on pressedMessage) {
	thread, ours := strings.CutPrefix(a.Block, blockQuestion)
	word, named := strings.CutPrefix(a.ID, actionOfQuestion)
	if p, ok := channel.ReadPress(word, a.Value); ok && ours && named {
		m.press = &press{p, m.thread, on}
		m.thread = thread
	}
}

// Blocks of messages.
type (
	plainText struct {
		Type string `json:"type"` // plain_text, mrkdwn
		Text string `json:"text"`
	}
	section struct {
		Type string    `json:"type"` // section
		Text plainText `json:"text"`
	}
	actions struct {
		Type     string   `json:"type"` // actions
		ID       string   `json:"block_id"`
		Elements []button `json:"elements"`
	}
	button struct {
		Type  string    `json:"type"` // button
		Text  plainText `json:"text"`
		ID    string    `json:"action_id"`
		Value string    `json:"value"`
		Style string    `json:"style,omitempty"` // primary, danger
	}
	// richText shows texts as they are: nothing in them is markup.
	richText struct {
		Type     string     `json:"type"` // rich_text
		Elements []richPart `json:"elements"`
	}
	richPart struct {
		Type     string      `json:"type"` // rich_text_section, rich_text_preformatted
		Elements []richPiece `json:"elements"`
	}
	richPiece struct {
		Type  string          `json:"type"` // text
		Text  string          `json:"text"`
		Style map[string]bool `json:"style,omitempty"` // code
	}
)

// styles are the colors of buttons; one without is plain.
var styles = map[string]string{channel.LabelApprove: "primary", channel.LabelDeny: "danger"}

// call is the block that shows what a question asks about.
func call(q *channel.Question) richText {
	text := func(s string) richPiece { return richPiece{Type: "text", Text: s} }
	code := func(s string) richPiece { return richPiece{"text", s, map[string]bool{"code": true}} }
	if q.File != "" {
		return richText{"rich_text", []richPart{{"rich_text_section", []richPiece{
			text("The agent wants to call the tool "), code(q.Tool), text(" with the arguments in the file "), code(q.File),
		}}}}
	}
	return richText{"rich_text", []richPart{
		{"rich_text_section", []richPiece{text("The agent wants to call the tool "), code(q.Tool), text(" with")}},
		{"rich_text_preformatted", []richPiece{text(q.Arguments)}},
	}}
}

// ask sends a question with its buttons, in one message or not at all: nobody approves what they have not read. The text is what
// notifications show.
func (d *delivery) ask(ctx context.Context, b *channel.Block) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	q := b.Question
	text, blocks := b.Text, []any(nil)
	if q.File != "" {
		text = q.WithCommands()
	}
	if id := blockQuestion + d.thread; q.Text != "" && len(q.ID) <= maxValue && len(id) <= maxBlockID {
		below := actions{Type: "actions", ID: id}
		for _, k := range q.Buttons() {
			below.Elements = append(below.Elements, button{
				"button", plainText{"plain_text", k.Label}, actionOfQuestion + k.Word, q.ID, styles[k.Label],
			})
		}
		text, blocks = q.Text, []any{call(q), below}
	}
	pieces := markup.Pieces(text, markup.SlackMrkdwn, markup.Limit{N: maxText, Marked: true})
	if len(pieces) != 1 {
		return channel.Receipt{}, &channel.NotSentError{Err: errors.New("slack: the question does not fit into one message")}
	}
	if q.File != "" {
		if err := d.c.uploadData(ctx, t, q.File, []byte(q.Arguments)); err != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: fmt.Errorf("slack: the file of a question: %w", err)}
		}
	}
	ts, err := d.c.post(ctx, t, pieces[0].Text, blocks...)
	if err != nil {
		return channel.Receipt{}, err
	}
	return channel.Receipt{MessageIDs: []string{ts}, ThreadID: t.thread}, nil
}

// personForm is that of ids of people.
var personForm = regexp.MustCompile(`^[UW][A-Z0-9]{2,}$`)

// Settle implements [channel.Settler].
func (d *delivery) Settle(ctx context.Context, asked channel.Block, sent channel.Receipt, x channel.Decided) error {
	t, err := targetOf(&asked)
	if err != nil || len(sent.MessageIDs) == 0 || asked.Question.Text == "" {
		return err
	}
	by := markup.Escape(x.By, markup.SlackMrkdwn)
	if personForm.MatchString(x.By) {
		by = "<@" + x.By + ">" // shown by name; an edit notifies nobody
	}
	line := x.Text(by)
	text := markup.Convert(asked.Question.Text, markup.SlackMrkdwn) + "\n\n" + line
	err = d.c.update(ctx, t, sent.MessageIDs[0], text, call(asked.Question), said(line))
	if is(err, gone) {
		return nil
	}
	return err
}

// said is a block with a line in the platform's markup.
func said(line string) section { return section{"section", plainText{"mrkdwn", line}} }

// note is a call of chat.postEphemeral: a message that one person sees.
type note struct {
	Channel string `json:"channel"`
	User    string `json:"user"`
	Thread  string `json:"thread_ts,omitempty"`
	Text    string `json:"text"`
}

// answer shows what became of a press to whoever has pressed. If it has decided the question, the message says so, to everybody. The buttons
// of a question that nobody asks any more are removed: nothing else would do that after a crash.
func (a *adapter) answer(ctx context.Context, s channel.Pressed) {
	if s.Taken() {
		return
	}
	m, c := a.m, a.c
	err := c.api.do(ctx, request{
		method: "chat.postEphemeral", in: &note{m.conversation, m.user, m.press.root, s.Text()}, slow: c.pace.slowDown,
	})
	if err != nil {
		c.log.WarnContext(ctx, "cannot answer a button press", "channel", c.name, "error", err)
	}
	on := m.press.on
	if s != channel.PressUnknown || on.TS == "" {
		return
	}
	var blocks []any
	for _, raw := range on.Blocks {
		var b struct {
			ID string `json:"block_id"`
		}
		if json.Unmarshal(raw, &b) == nil && !strings.HasPrefix(b.ID, blockQuestion) {
			blocks = append(blocks, raw)
		}
	}
	t := target{conversation: m.conversation, thread: m.press.root}
	if err = c.update(ctx, t, on.TS, cmp.Or(on.Text, s.Text()), append(blocks, said(s.Text()))...); err != nil && !is(err, gone) {
		c.log.WarnContext(ctx, "cannot remove an old question's buttons", "channel", c.name, "error", err)
	}
}

// eyes is the reaction to a message that says that work goes on.
const eyes = "eyes"

// reaction is a call of reactions.add or reactions.remove.
type reaction struct {
	Channel string `json:"channel"`
	TS      string `json:"timestamp"`
	Name    string `json:"name"`
}

// Working implements [channel.Worker]. It makes one attempt: an answer that waits for its sign is worse than one without.
func (d *delivery) Working(ctx context.Context) error {
	if d.signed || d.message == "" {
		return nil
	}
	d.signed = true
	_, err := d.c.api.call(ctx, request{method: "reactions.add", in: &reaction{d.conversation, d.message, eyes}})
	if is(err, sameSign) { // left by a crash
		return nil
	}
	if _, refused := errors.AsType[*Error](err); refused {
		d.signed = false
	}
	return err
}

// Rest implements [channel.Rester].
func (d *delivery) Rest(ctx context.Context) error {
	if !d.signed {
		return nil
	}
	d.signed = false
	return d.c.unsign(ctx, d.conversation, d.message)
}

func (c *Channel) unsign(ctx context.Context, conversation, message string) error {
	err := c.api.do(ctx, request{method: "reactions.remove", in: &reaction{conversation, message, eyes}, harmless: true})
	if is(err, sameSign, gone, noScope) {
		return nil
	}
	return err
}

// clear removes the sign that a crash may have left at a message.
func (c *Channel) clear(ctx context.Context, entry channel.JournalEntry) error {
	e, err := Raw(entry.Raw)
	if err != nil || e.message == nil || e.message.kind != channel.EventMessage || e.message.ts == "" {
		return nil
	}
	return c.unsign(ctx, e.message.conversation, e.message.ts)
}
