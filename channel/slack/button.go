package slack

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// What the buttons of a question are known by. The id of their block ends with the thread of the message that is answered: a press runs in the lane of
// the turn that asks.
const (
	actionOfQuestion = "lingserve." // and a word
	blockOfQuestion  = "lingserve.question:"
)

// press is the press of one of the channel's buttons.
type press struct {
	channel.Press
	thread string // that the question was asked in; "": none
	on     slackgo.Message
}

// pressMessage returns a message by the person who pressed a button, in the thread of the message that is answered; nil: it is no button of the channel.
func pressMessage(p *slackgo.InteractionCallback, a *slackgo.BlockAction) *message {
	thread, ours := strings.CutPrefix(a.BlockID, blockOfQuestion)
	word, named := strings.CutPrefix(a.ActionID, actionOfQuestion)
	pressed, ok := channel.ReadPress(word, a.Value)
	if !ok || !ours || !named {
		return nil
	}
	m := &message{
		kind: channel.EventInteraction, id: "interaction:" + p.TriggerID, conversation: p.Channel.ID, direct: isDirect(p.Channel.ID), thread: thread,
		press: &press{Press: pressed, on: p.Message},
	}
	m.User, m.Text = p.User.ID, pressed.Command()
	if p.Message.ThreadTimestamp != p.Message.Timestamp {
		m.press.thread = p.Message.ThreadTimestamp
	}
	return m
}

// styles are the colors of buttons; one without is plain.
var styles = map[string]slackgo.Style{channel.LabelApprove: slackgo.StylePrimary, channel.LabelDeny: slackgo.StyleDanger}

// callBlock shows what a question asks about. Nothing in it is markup.
func callBlock(q *channel.Question) slackgo.Block {
	text := func(s string) slackgo.RichTextSectionElement { return slackgo.NewRichTextSectionTextElement(s, nil) }
	code := func(s string) slackgo.RichTextSectionElement {
		return slackgo.NewRichTextSectionTextElement(s, &slackgo.RichTextSectionTextStyle{Code: true})
	}
	sentence := []slackgo.RichTextSectionElement{text("The agent wants to call the tool "), code(q.Tool)}
	if q.File != "" {
		return slackgo.NewRichTextBlock("", slackgo.NewRichTextSection(append(sentence, text(" with the arguments in the file "), code(q.File))...))
	}
	return slackgo.NewRichTextBlock("", slackgo.NewRichTextSection(append(sentence, text(" with"))...),
		&slackgo.RichTextPreformatted{Type: slackgo.RTEPreformatted, Elements: []slackgo.RichTextSectionElement{text(q.Arguments)}})
}

// buttons is the block of a question's buttons.
func buttons(list []channel.Button, thread string) slackgo.Block {
	below := slackgo.NewActionBlock(blockOfQuestion + thread)
	for _, b := range list {
		label := slackgo.NewTextBlockObject(slackgo.PlainTextType, b.Label, false, false)
		button := slackgo.NewButtonBlockElement(actionOfQuestion+b.Word, b.Press.ID, label)
		button.Style = styles[b.Label]
		below.Elements.ElementSet = append(below.Elements.ElementSet, button)
	}
	return below
}

// lineBlock is a block with a line in the platform's markup.
func lineBlock(line string) slackgo.Block {
	return slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, line, false, false), nil, nil)
}

// personForm is that of ids of people.
var personForm = regexp.MustCompile(`^[UW][A-Z0-9]{2,}$`)

// mention shows a person by name. In an edit it notifies no one.
func mention(id string) string {
	if personForm.MatchString(id) {
		return "<@" + id + ">"
	}
	return ""
}

// answerPress shows the result of a press to the person who pressed. The message of a question shows to everybody that it is decided. The buttons of a
// question that is no longer open are removed: nothing else would do that after a crash.
func (c *Channel) answerPress(ctx context.Context, m *message, s channel.Pressed) {
	if s.Decides() {
		return
	}
	t := target{m.conversation, m.press.thread}
	err := c.repeat(ctx, "chat.postEphemeral", false, func(ctx context.Context) error {
		_, err := c.api.PostEphemeralContext(ctx, t.conversation, m.User, t.options(slackgo.MsgOptionText(s.Text(), false))...)
		return err
	})
	if err != nil {
		c.Log.WarnContext(ctx, "cannot answer a button press", "error", err)
	}
	on := m.press.on
	if s != channel.PressUnknown || on.Timestamp == "" {
		return
	}
	blocks := slices.DeleteFunc(on.Blocks.BlockSet, func(b slackgo.Block) bool { return strings.HasPrefix(b.ID(), blockOfQuestion) })
	_, err = c.put(ctx, t, on.Timestamp, cmp.Or(on.Text, s.Text()), append(blocks, lineBlock(s.Text()))...)
	if err != nil && !platform.Is(err, gone) {
		c.Log.WarnContext(ctx, "cannot remove an old question's buttons", "error", err)
	}
}
