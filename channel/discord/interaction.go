package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

// styles are the colors of buttons, by their words.
var styles = map[string]discordgo.ButtonStyle{"approve": discordgo.SuccessButton, "deny": discordgo.DangerButton, "remember": discordgo.SecondaryButton}

// question returns the message that asks a question. Arguments that do not fit into it are its file. It is one message or none, because no one approves
// what they have not read.
func question(q *channel.Question) (m outgoing, err error) {
	list, name := split(q.Text), q.File
	if len(list) > 1 && name == "" && q.Arguments != "" {
		name = "arguments-" + q.ID + ".json"
		list = split(fmt.Sprintf("The agent wants to call the tool `%s` with the arguments in the file `%s`.", q.Tool, name))
	}
	if len(list) != 1 {
		return m, &channel.NotSentError{Err: errors.New("discord: the question does not fit into one message")}
	}
	m = list[0]
	var row discordgo.ActionsRow
	for _, b := range q.Buttons() {
		row.Components = append(row.Components, discordgo.Button{Label: b.Label, Style: styles[b.Word], CustomID: b.Word + ":" + q.ID})
	}
	m.Components = []discordgo.ActionsRow{row}
	if name != "" {
		m.file = &platform.Form{File: name, Data: []byte(q.Arguments)}
	}
	return m, nil
}

// showDecision changes the message of a question that was decided.
func (c *Channel) showDecision(ctx context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error {
	m, err := question(asked.Question)
	if err != nil || sent.First() == "" {
		return err
	}
	outcome := "\n\n" + markup.Convert(d.Text(markup.Literal(d.By)), markup.Discord)
	if markup.UTF16(m.Content+outcome) > maxText {
		m.Content = ""
	}
	t := targetOf(&asked)
	if err = c.edit(ctx, &t, sent.First(), strings.TrimSpace(m.Content+outcome)); platform.Is(err, deleted, expired) {
		return nil
	}
	return err
}

// acknowledgeWithin is how long the platform waits until an interaction is acknowledged.
const acknowledgeWithin = 3 * time.Second

// acknowledge tells the platform that an interaction has come: of a command, that its answer follows; of a button, nothing that people see.
func (c *Channel) acknowledge(ctx context.Context, i *interaction) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acknowledgeWithin)
	defer cancel()
	in := map[string]any{"type": discordgo.InteractionResponseDeferredMessageUpdate}
	if i.Command != "" {
		in["type"] = discordgo.InteractionResponseDeferredChannelMessageWithSource
		in["data"] = map[string]any{"flags": discordgo.MessageFlagsEphemeral}
	}
	err := c.api.once(ctx, request{what: "acknowledge an interaction", method: http.MethodPost, path: "/interactions/" + i.ID + "/" + i.Token + "/callback", in: in})
	if err != nil && !platform.Is(err, repeated) {
		c.Log.WarnContext(ctx, "cannot acknowledge an interaction", "error", err)
	}
}

// reply shows a text to the person who caused the interaction, once. With "", it removes the sign that an answer follows.
func (a *adapter) reply(ctx context.Context, text string) {
	if a.answered {
		return
	}
	a.answered = true
	t := targetOf(&channel.Block{Target: a.last.replyPlan()})
	in := &outgoing{Content: text, Allowed: repliedTo, Flags: discordgo.MessageFlagsEphemeral}
	r := request{what: "answer an interaction", method: http.MethodPost, path: t.path(), in: in}
	if text == "" {
		r = request{what: "withdraw an answer", method: http.MethodDelete, path: t.messagePath("@original"), harmless: true}
	}
	if err := a.c.api.do(ctx, r); err != nil && !platform.Is(err, expired, deleted) {
		a.c.Log.WarnContext(ctx, "cannot answer an interaction", "error", err)
	}
}

// showPressed shows what became of a press. A question that is not open any more loses its buttons: after a crash, nothing else removes them.
func (a *adapter) showPressed(ctx context.Context, s channel.Pressed) {
	a.reply(ctx, s.Text())
	button := a.last.Interaction.Button
	if s != channel.PressUnknown || button == "" {
		return
	}
	if err := a.c.edit(ctx, &target{channel: a.last.Message.ChannelID}, button, ""); err != nil && !platform.Is(err, deleted) {
		a.c.Log.WarnContext(ctx, "cannot remove an old question's buttons", "error", err)
	}
}

// finishInteraction answers a command that the gates did not let in. One that ends without an answer loses the sign that one follows.
func (a *adapter) finishInteraction(ctx context.Context, r channel.Result) {
	if a.last.Kind != channel.EventCommand {
		return
	}
	switch _, refused := channel.RefusedPress(r); {
	case refused:
		a.reply(ctx, "You may not use commands here.")
	case r.Outcome == channel.OutcomeSilent || r.Outcome == channel.OutcomeObserved || r.Outcome == channel.OutcomeBlocked:
		a.reply(ctx, "")
	}
}
