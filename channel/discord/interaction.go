package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

// maxCustomID is how long the data of a button may be.
const maxCustomID = 100

// styles are the colors of buttons, by their words.
var styles = map[string]discordgo.ButtonStyle{"approve": discordgo.SuccessButton, "deny": discordgo.DangerButton, "remember": discordgo.SecondaryButton}

// buttons returns those of a question; nil for an id that is too long for them.
func buttons(q *channel.Question) []discordgo.ActionsRow {
	var row discordgo.ActionsRow
	for _, b := range q.Buttons() {
		data := b.Word + ":" + q.ID
		if len(data) > maxCustomID {
			return nil
		}
		row.Components = append(row.Components, discordgo.Button{Label: b.Label, Style: styles[b.Word], CustomID: data})
	}
	return []discordgo.ActionsRow{row}
}

// question returns the message that asks a question. Arguments that do not fit into it are its file. It is one message or none: nobody approves what
// they have not read.
func question(q *channel.Question, withCommands string) (m outgoing, err error) {
	m.Components = buttons(q)
	text, name := q.Text, q.File
	if m.Components == nil || text == "" {
		m.Components, text = nil, withCommands
	}
	list := pieces(text)
	if len(list) > 1 && name == "" && q.Arguments != "" {
		short := *q
		name = "arguments-" + q.ID + ".json"
		short.Text = fmt.Sprintf("The agent wants to call the tool `%s` with the arguments in the file `%s`.", q.Tool, name)
		if text = short.Text; m.Components == nil {
			text = short.WithCommands()
		}
		list = pieces(text)
	}
	if len(list) != 1 {
		return m, &channel.NotSentError{Err: errors.New("discord: the question does not fit into one message")}
	}
	m.Content = list[0]
	if name != "" {
		m.file = &platform.Form{File: name, Data: []byte(q.Arguments)}
	}
	return m, nil
}

// settle changes the message of a question that was decided.
func (c *Channel) settle(ctx context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error {
	if len(sent.MessageIDs) == 0 {
		return nil
	}
	m, err := question(asked.Question, asked.Text)
	if err != nil {
		return err
	}
	// The text was Markdown of the platform already: what was decided follows it.
	outcome := markup.Convert(d.Text(markup.Literal(d.By)), markup.Discord)
	t := targetOf(&asked)
	if err := c.edit(ctx, &t, sent.MessageIDs[0], head(m.Content, maxText-markup.UTF16(outcome)-2)+"\n\n"+outcome); !is(err, deleted, expired) {
		return err
	}
	return nil
}

// acknowledge tells the platform that an interaction has come: of a command, that its answer follows, and of a button, nothing that people see.
func (c *Channel) acknowledge(ctx context.Context, i *interaction) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	in := map[string]any{"type": discordgo.InteractionResponseDeferredMessageUpdate}
	if i.Type == discordgo.InteractionApplicationCommand {
		in["type"] = discordgo.InteractionResponseDeferredChannelMessageWithSource
		in["data"] = map[string]any{"flags": discordgo.MessageFlagsEphemeral}
	}
	err := c.api.once(ctx, &request{what: "answer an interaction", method: http.MethodPost, path: "/interactions/" + i.ID + "/" + i.Token + "/callback", in: in})
	if err != nil {
		c.log.WarnContext(ctx, "cannot acknowledge an interaction", "channel", c.name, "error", err)
	}
}

// awaitAnswer waits until an interaction is acknowledged; before that, nothing can be said to it.
func (c *Channel) awaitAnswer(ctx context.Context, token string) {
	if answered, ok := c.answering.Load(token); ok {
		select {
		case <-answered.(chan struct{}):
		case <-ctx.Done():
		}
	}
}

// tell shows a text to whoever has caused the interaction, once.
func (a *adapter) tell(ctx context.Context, text string) {
	if a.answered {
		return
	}
	a.answered = true
	e := a.last()
	b := channel.Block{Target: e.reply()}
	t := targetOf(&b)
	a.c.awaitAnswer(ctx, t.token)
	err := a.c.api.do(ctx, request{
		what: "answer an interaction", method: http.MethodPost, path: t.path(""),
		in: &outgoing{Content: text, Allowed: replied, Flags: discordgo.MessageFlagsEphemeral},
	})
	if err != nil && !is(err, expired) {
		a.c.log.WarnContext(ctx, "cannot answer an interaction", "channel", a.c.name, "error", err)
	}
}

// showPressed shows what became of a press. A question that is not open any more loses its buttons: after a crash, nothing else takes them away.
func (a *adapter) showPressed(ctx context.Context, s channel.Pressed) {
	a.tell(ctx, s.Text())
	i := a.last().interaction
	if s != channel.PressUnknown || i.Message == nil {
		return
	}
	t := target{channel: i.ChannelID}
	if err := a.c.edit(ctx, &t, i.Message.ID, ""); err != nil && !is(err, deleted) {
		a.c.log.WarnContext(ctx, "cannot remove an old question's buttons", "channel", a.c.name, "error", err)
	}
}

const commandRefused = "You may not use commands here."

// finishInteraction answers a press or a command that the gates do not let in. A command that has no answer loses the sign that one follows.
func (a *adapter) finishInteraction(ctx context.Context, r channel.Result) {
	command := a.last().kind() == channel.EventCommand
	refused, isRefused := channel.RefusedPress(r)
	switch {
	case a.answered:
	case isRefused && command:
		a.tell(ctx, commandRefused)
	case isRefused:
		a.tell(ctx, refused.Text())
	case command && (r.Outcome == channel.OutcomeSilent || r.Outcome == channel.OutcomeObserved || r.Outcome == channel.OutcomeBlocked):
		i := a.last().interaction
		t := target{application: i.ApplicationID, token: i.Token}
		a.c.awaitAnswer(ctx, t.token)
		err := a.c.api.do(ctx, request{what: "withdraw an answer", method: http.MethodDelete, path: t.path("@original"), harmless: true})
		if err != nil && !is(err, deleted, expired) {
			a.c.log.WarnContext(ctx, "cannot withdraw an answer", "channel", a.c.name, "error", err)
		}
	}
}
