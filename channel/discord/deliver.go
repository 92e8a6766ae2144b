package discord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
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

// delivery is how the answer of a turn is sent. That to an interaction can be sent for some minutes only, and is shown to one person: it is neither kept nor
// previewed, and the platform itself shows that work goes on.
func (a *adapter) delivery() *kernel.Delivery {
	c := a.c
	if a.last.Interaction != nil {
		return &kernel.Delivery{Settle: c.showDecision, Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			r, err := c.deliver(ctx, b)
			a.answered = a.answered || err == nil
			return r, err
		}}
	}
	d := &kernel.Delivery{Deliver: c.deliver, Settle: c.showDecision, Durable: true, PreviewEvery: previewEvery, WorkingEvery: typingEvery}
	d.Working = func(ctx context.Context) error {
		return c.api.Attempt(ctx, platform.Request{Name: "show typing", Path: "/channels/" + a.last.Message.ChannelID + "/typing"})
	}
	if c.s.Preview == PreviewEdit {
		d.Preview = c.showPreview
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
	file       *platform.Form                   // goes with it
	path       string                           // of the file in the media folder, until it is read
}

// repliedTo allows a message to notify the person who is replied to, and no one else.
var repliedTo = discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}, RepliedUser: true}

// split turns the Markdown of a model into messages.
func split(text string) (list []outgoing) {
	for _, p := range markup.Pieces(text, markup.Discord, markup.Limit{N: maxText, Marked: true}) {
		list = append(list, outgoing{Content: p.Text})
	}
	return list
}

// deliver sends a block.
func (c *Channel) deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	text, files := platform.TextAndFiles(&b)
	list, t := split(text), targetOf(&b)
	if b.Question != nil {
		q, err := question(b.Question)
		if err != nil {
			return channel.Receipt{}, err
		}
		list = []outgoing{q}
	}
	for _, f := range files {
		list = append(list, outgoing{path: f.Path})
	}
	edit := func(id string) (found bool, err error) {
		if list[0].Content != "" {
			err = c.edit(ctx, &t, id, list[0].Content)
		}
		if list[0].Content == "" || platform.Is(err, deleted) {
			return false, nil
		}
		return true, err
	}
	// The outbox repeats the end of an answer. The nonce makes it harmless to repeat other blocks at once.
	harmless := b.Kind != channel.ReplyFinal && t.interaction == ""
	return platform.SendMessages(&b, channel.Receipt{ReplyToID: t.reply}, len(list), edit, func(n int) (string, error) {
		if n > 0 {
			t.reply = ""
		}
		return c.send(ctx, t, list[n], b.Key+":"+strconv.Itoa(n), harmless)
	})
}

// send sends one message and returns its id. key names it, so that the platform ignores copies. An interaction that is too old is answered in its channel.
func (c *Channel) send(ctx context.Context, t target, m outgoing, key string, harmless bool) (string, error) {
	if m.path != "" {
		data, err := c.Files.Read(m.path, maxUpload)
		if err != nil {
			return "", err
		}
		m.file, m.path = &platform.Form{File: filepath.Base(m.path), Data: data}, ""
	}
	call := m
	call.Allowed, call.Flags = repliedTo, discordgo.MessageFlagsSuppressEmbeds // a preview of a link would tell its server of the answer
	if t.silent {
		call.Flags |= discordgo.MessageFlagsSuppressNotifications
	}
	if t.interaction != "" {
		call.Flags |= discordgo.MessageFlagsEphemeral
	} else {
		sum := sha256.Sum256([]byte(key))
		call.Nonce, call.Enforce = base64.RawURLEncoding.EncodeToString(sum[:])[:maxNonce], true
		if t.reply != "" {
			call.Reference = &discordgo.MessageReference{MessageID: t.reply, FailIfNotExists: new(false)}
		}
	}
	var sent struct {
		ID string `json:"id"`
	}
	r := platform.Request{Name: "send a message", Path: t.path(), In: &call, Out: &sent, Harmless: harmless}
	if m.file != nil {
		r.In = &platform.Form{Fields: map[string]any{"payload_json": &call}, Name: "files[0]", File: m.file.File, Data: m.file.Data}
	}
	err := c.api.Do(ctx, r)
	switch {
	case platform.Is(err, expired) && t.interaction != "":
		t.interaction = ""
		return c.send(ctx, t, m, key, harmless)
	case platform.Is(err, noReply) && t.reply != "":
		t.reply = ""
		return c.send(ctx, t, m, key, harmless)
	}
	return sent.ID, err
}

// edit changes the text of a message, and removes its buttons.
func (c *Channel) edit(ctx context.Context, t *target, id, text string) error {
	in := map[string]any{"content": text, "allowed_mentions": repliedTo, "components": []any{}}
	return c.api.Do(ctx, platform.Request{Name: "change a message", Method: http.MethodPatch, Path: t.messagePath(id), In: in, Harmless: true})
}

// showPreview shows what there is of a block. It has another nonce than the block: if it is not known whether it was sent, the block is a new message.
func (c *Channel) showPreview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	list, t := split(b.Text), targetOf(&b)
	switch {
	case len(list) == 0:
		return before, nil
	case before.First() != "":
		return before, c.edit(ctx, &t, before.First(), list[0].Content)
	}
	id, err := c.send(ctx, t, list[0], b.Key+":preview", false)
	return channel.Receipt{MessageIDs: []string{id}, ReplyToID: t.reply}, err
}

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
