package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

const (
	previewEvery = 1500 * time.Millisecond // the platform takes five messages and edits in five seconds
	typingEvery  = 8 * time.Second         // the platform shows it for ten
	maxText      = 2000                    // characters of a message; UTF-16 units are never fewer
	maxUpload    = 10 << 20                // bytes, in servers without boosts
	maxNonce     = 25
)

// poster sends the messages of answers.
func (c *Channel) poster() *platform.Poster {
	return &platform.Poster{
		Format: markup.Discord, Limit: markup.Limit{N: maxText, Marked: true}, Post: c.post, Gone: []*platform.Kind{deleted, expired},
		Files: c.Files, MaxFile: maxUpload, Attach: true,
	}
}

// delivery is how the answer of a turn is sent. That to an interaction can be sent for some minutes only, and is shown to one person: it is neither kept nor
// previewed, and the platform itself shows that work goes on.
func (c *Channel) delivery(e *event) *kernel.Delivery {
	d := c.poster().Delivery(c.s.Preview)
	if e.Interaction != nil {
		return &kernel.Delivery{Settle: d.Settle, Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			r, err := d.Deliver(ctx, b)
			e.answered = e.answered || err == nil
			return r, err
		}}
	}
	d.PreviewEvery, d.WorkingEvery = previewEvery, typingEvery
	d.Working = func(ctx context.Context) error {
		return c.api.Attempt(ctx, platform.Request{Name: "show typing", Path: "/channels/" + e.Message.ChannelID + "/typing"})
	}
	return d
}

// pathOf returns the path that the messages of a reply plan are sent to, or that of the message with an id. The answers to an interaction
// have their own, which only the person who caused it sees.
func pathOf(plan *channel.ReplyPlanFacts, id string) string {
	switch {
	case plan.DeliveryTarget != "" && id == "":
		return plan.DeliveryTarget
	case plan.DeliveryTarget != "":
		return plan.DeliveryTarget + "/messages/" + id
	case id == "":
		return "/channels/" + plan.To + "/messages"
	}
	return "/channels/" + plan.To + "/messages/" + id
}

// outgoing is a message that is sent.
type outgoing struct {
	Content    string                           `json:"content,omitempty"`
	Nonce      string                           `json:"nonce,omitempty"`
	Enforce    bool                             `json:"enforce_nonce,omitempty"`
	Allowed    discordgo.MessageAllowedMentions `json:"allowed_mentions"`
	Reference  *discordgo.MessageReference      `json:"message_reference,omitempty"`
	Components []discordgo.ActionsRow           `json:"components,omitempty"`
	Flags      discordgo.MessageFlags           `json:"flags,omitempty"`
}

// repliedTo allows a message to notify the person who is replied to, and no one else.
var repliedTo = discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}, RepliedUser: true}

// post sends a message, or replaces the text of one and removes its buttons. An interaction that is too old is answered in its channel. A
// preview has another nonce than its block: if it is not known whether it was sent, the block is a new message.
func (c *Channel) post(ctx context.Context, m *platform.Post) (id string, err error) {
	plan := &m.Block.Target
	if m.Edit != "" {
		in := map[string]any{"content": m.Text, "allowed_mentions": repliedTo, "components": []any{}}
		return m.Edit, c.api.Do(ctx, platform.Request{Name: "change a message", Method: http.MethodPatch, Path: pathOf(plan, m.Edit), In: in, Harmless: true})
	}
	call := outgoing{Content: m.Text, Allowed: repliedTo, Flags: discordgo.MessageFlagsSuppressEmbeds} // a preview of a link would tell its server of the answer
	if m.Block.Silent {
		call.Flags |= discordgo.MessageFlagsSuppressNotifications
	}
	replies := plan.ReplyToID.Set && m.N == 0 && plan.DeliveryTarget == ""
	if plan.DeliveryTarget != "" {
		call.Flags |= discordgo.MessageFlagsEphemeral
	} else {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d:%t", m.Block.Key, m.N, m.Preview))
		call.Nonce, call.Enforce = base64.RawURLEncoding.EncodeToString(sum[:])[:maxNonce], true
	}
	if replies {
		call.Reference = &discordgo.MessageReference{MessageID: plan.ReplyToID.Value, FailIfNotExists: new(false)}
	}
	if m.Buttons != nil {
		call.Components = []discordgo.ActionsRow{newRow(m.Buttons)}
	}
	var sent struct {
		ID string `json:"id"`
	}
	// The outbox repeats the end of an answer. The nonce makes it harmless to repeat other blocks at once.
	harmless := m.Block.Kind != channel.ReplyFinal && call.Enforce && !m.Preview
	r := platform.Request{Name: "send a message", Path: pathOf(plan, ""), In: &call, Out: &sent, Harmless: harmless}
	if m.File != nil {
		r.In = &platform.Form{Fields: map[string]any{"payload_json": &call}, Name: "files[0]", File: m.File.Name, Data: m.File.Data}
	}
	err = c.api.Do(ctx, r)
	b, next := *m.Block, *m
	switch {
	case platform.Is(err, expired) && plan.DeliveryTarget != "":
		b.Target.DeliveryTarget = ""
	case platform.Is(err, noReply) && replies:
		b.Target.ReplyToID = channel.None
	default:
		return sent.ID, err
	}
	next.Block = &b
	return c.post(ctx, &next)
}

// styles are the colors of buttons, by their words.
var styles = map[string]discordgo.ButtonStyle{"approve": discordgo.SuccessButton, "deny": discordgo.DangerButton, "remember": discordgo.SecondaryButton}

func newRow(buttons []channel.Button) (row discordgo.ActionsRow) {
	for _, b := range buttons {
		row.Components = append(row.Components, discordgo.Button{Label: b.Label, Style: styles[b.Word], CustomID: b.Word + ":" + b.Press.ID})
	}
	return row
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
	err := c.api.Attempt(ctx, platform.Request{Name: "acknowledge an interaction", Path: "/interactions/" + i.ID + "/" + i.Token + "/callback", In: in})
	if err != nil && !platform.Is(err, repeated) {
		c.Log.WarnContext(ctx, "cannot acknowledge an interaction", "error", err)
	}
}

// reply shows a text to the person who caused the interaction, once. With "", it removes the sign that an answer follows.
func (c *Channel) reply(ctx context.Context, e *event, text string) {
	if e.answered {
		return
	}
	e.answered = true
	plan := e.replyPlan()
	in := &outgoing{Content: text, Allowed: repliedTo, Flags: discordgo.MessageFlagsEphemeral}
	r := platform.Request{Name: "answer an interaction", Path: pathOf(&plan, ""), In: in}
	if text == "" {
		r = platform.Request{Name: "withdraw an answer", Method: http.MethodDelete, Path: pathOf(&plan, "@original"), Harmless: true}
	}
	if err := c.api.Do(ctx, r); err != nil && !platform.Is(err, expired, deleted) {
		c.Log.WarnContext(ctx, "cannot answer an interaction", "error", err)
	}
}

// finishInteraction answers a command that the gates did not let in. One that ends without an answer loses the sign that one follows.
func (c *Channel) finishInteraction(ctx context.Context, e *event, r channel.Result) {
	switch _, refused := channel.RefusedPress(r); {
	case e.Kind != channel.EventCommand:
	case refused:
		c.reply(ctx, e, "You may not use commands here.")
	case r.Outcome == channel.OutcomeSilent || r.Outcome == channel.OutcomeObserved || r.Outcome == channel.OutcomeBlocked:
		c.reply(ctx, e, "")
	}
}
