package discord

import (
	"cmp"
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
func (a *adapter) delivery() *kernel.Delivery {
	c := a.c
	d := c.poster().Delivery()
	if a.last.Interaction != nil {
		return &kernel.Delivery{Settle: d.Settle, Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			r, err := d.Deliver(ctx, b)
			a.answered = a.answered || err == nil
			return r, err
		}}
	}
	d.PreviewEvery, d.WorkingEvery = previewEvery, typingEvery
	d.Working = func(ctx context.Context) error {
		return c.api.Attempt(ctx, platform.Request{Name: "show typing", Path: "/channels/" + a.last.Message.ChannelID + "/typing"})
	}
	if c.s.Preview != PreviewEdit {
		d.Preview = nil
	}
	return d
}

// target is where a block goes.
type target struct {
	channel     string
	reply       string // the message that the first one replies to
	interaction string // the path of the answers to one, which only the person who caused it sees; ""
	silent      bool
}

// targetOf reads the reply plan, which was frozen when the event was resolved.
func targetOf(b *channel.Block) target {
	t := target{channel: b.Target.To, interaction: b.Target.DeliveryTarget, silent: b.Silent}
	t.reply, _ = b.Target.ReplyToID.Get()
	return t
}

// path returns the path that messages are sent to.
func (t *target) path() string { return cmp.Or(t.interaction, "/channels/"+t.channel+"/messages") }

// messagePath returns the path of one message.
func (t *target) messagePath(id string) string {
	if t.interaction != "" {
		return t.interaction + "/messages/" + id
	}
	return t.path() + "/" + id
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

// post sends a message, or replaces the text of one.
func (c *Channel) post(ctx context.Context, m *platform.Post) (id string, err error) {
	t := targetOf(m.Block)
	if m.Edit != "" {
		return m.Edit, c.edit(ctx, &t, m.Edit, m.Text)
	}
	if m.N > 0 {
		t.reply = ""
	}
	return c.send(ctx, t, m)
}

// send sends one message and returns its id. An interaction that is too old is answered in its channel. A preview has another nonce than its block: if it is
// not known whether it was sent, the block is a new message. The outbox repeats the end of an answer. The nonce makes it harmless to repeat other blocks at
// once.
func (c *Channel) send(ctx context.Context, t target, m *platform.Post) (string, error) {
	call := outgoing{Content: m.Text, Allowed: repliedTo, Flags: discordgo.MessageFlagsSuppressEmbeds} // a preview of a link would tell its server of the answer
	if t.silent {
		call.Flags |= discordgo.MessageFlagsSuppressNotifications
	}
	if t.interaction != "" {
		call.Flags |= discordgo.MessageFlagsEphemeral
	} else {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d:%t", m.Block.Key, m.N, m.Preview))
		call.Nonce, call.Enforce = base64.RawURLEncoding.EncodeToString(sum[:])[:maxNonce], true
		if t.reply != "" {
			call.Reference = &discordgo.MessageReference{MessageID: t.reply, FailIfNotExists: new(false)}
		}
	}
	if m.Buttons != nil {
		call.Components = []discordgo.ActionsRow{newRow(m.Buttons)}
	}
	var sent struct {
		ID string `json:"id"`
	}
	harmless := m.Block.Kind != channel.ReplyFinal && t.interaction == "" && !m.Preview
	r := platform.Request{Name: "send a message", Path: t.path(), In: &call, Out: &sent, Harmless: harmless}
	if m.File != nil {
		r.In = &platform.Form{Fields: map[string]any{"payload_json": &call}, Name: "files[0]", File: m.File.Name, Data: m.File.Data}
	}
	err := c.api.Do(ctx, r)
	switch {
	case platform.Is(err, expired) && t.interaction != "":
		t.interaction = ""
		return c.send(ctx, t, m)
	case platform.Is(err, noReply) && t.reply != "":
		t.reply = ""
		return c.send(ctx, t, m)
	}
	return sent.ID, err
}

// edit changes the text of a message, and removes its buttons.
func (c *Channel) edit(ctx context.Context, t *target, id, text string) error {
	in := map[string]any{"content": text, "allowed_mentions": repliedTo, "components": []any{}}
	return c.api.Do(ctx, platform.Request{Name: "change a message", Method: http.MethodPatch, Path: t.messagePath(id), In: in, Harmless: true})
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
func (a *adapter) reply(ctx context.Context, text string) {
	if a.answered {
		return
	}
	a.answered = true
	t := targetOf(&channel.Block{Target: a.last.replyPlan()})
	in := &outgoing{Content: text, Allowed: repliedTo, Flags: discordgo.MessageFlagsEphemeral}
	r := platform.Request{Name: "answer an interaction", Path: t.path(), In: in}
	if text == "" {
		r = platform.Request{Name: "withdraw an answer", Method: http.MethodDelete, Path: t.messagePath("@original"), Harmless: true}
	}
	if err := a.c.api.Do(ctx, r); err != nil && !platform.Is(err, expired, deleted) {
		a.c.Log.WarnContext(ctx, "cannot answer an interaction", "error", err)
	}
}

// finishInteraction answers a command that the gates did not let in. One that ends without an answer loses the sign that one follows.
func (a *adapter) finishInteraction(ctx context.Context, r channel.Result) error {
	switch _, refused := channel.RefusedPress(r); {
	case a.last.Kind != channel.EventCommand:
	case refused:
		a.reply(ctx, "You may not use commands here.")
	case r.Outcome == channel.OutcomeSilent || r.Outcome == channel.OutcomeObserved || r.Outcome == channel.OutcomeBlocked:
		a.reply(ctx, "")
	}
	return nil
}
