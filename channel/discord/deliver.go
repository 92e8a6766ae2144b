package discord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strconv"
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
		return c.api.once(ctx, request{what: "show typing", method: http.MethodPost, path: "/channels/" + a.last.Message.ChannelID + "/typing"})
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
	err := c.api.do(ctx, request{what: "send a message", method: http.MethodPost, path: t.path(), in: &call, out: &sent, file: m.file, harmless: harmless})
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

// edit changes the text of a message, unless that is "", and removes its buttons.
func (c *Channel) edit(ctx context.Context, t *target, id, text string) error {
	in := map[string]any{"allowed_mentions": repliedTo, "components": []any{}}
	if text != "" {
		in["content"] = text
	}
	return c.api.do(ctx, request{what: "change a message", method: http.MethodPatch, path: t.messagePath(id), in: in, harmless: true})
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
