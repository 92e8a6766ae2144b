package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	maxUpload    = 10 << 20                // bytes, in servers without boosts
	maxNonce     = 25
)

// delivery returns how the answer of a turn is sent.
func (a *adapter) delivery() *kernel.Delivery {
	c, shown := a.c, ""
	d := &kernel.Delivery{
		Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			r, err := c.deliver(ctx, &b)
			a.answered = a.answered || err == nil
			shown = ""
			return r, err
		},
		Settle: c.settle, Durable: true, PreviewEvery: previewEvery, WorkingEvery: typingEvery,
	}
	if a.last().interaction == nil { // else the platform shows that it waits
		d.Working = func(ctx context.Context) error {
			return c.api.once(ctx, &request{what: "show typing", method: http.MethodPost, path: "/channels/" + a.last().message.ChannelID + "/typing"})
		}
	}
	if c.preview == PreviewEdit {
		d.Preview = func(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
			list := pieces(b.Text)
			if len(list) == 0 || list[0] == shown {
				return before, nil
			}
			r, err := c.showPreview(ctx, &b, list[0], before)
			if err == nil {
				shown, a.answered = list[0], true
			}
			return r, err
		}
	}
	return d
}

// target is where a block goes.
type target struct {
	channel string
	reply   string // the message that the first one replies to
	// Of an interaction, whose answers the person who caused it sees alone. They are sent by another way.
	application, token string
	silent             bool
}

// interactionMark begins the delivery target of an interaction.
const interactionMark = "interaction"

func interactionTarget(i *interaction) string {
	return strings.Join([]string{interactionMark, i.ApplicationID, i.Token}, " ")
}

// targetOf reads the reply plan, which was frozen when the event was resolved.
func targetOf(b *channel.Block) target {
	t := target{channel: b.Target.To, silent: b.Silent}
	t.reply, _ = b.Target.ReplyToID.Get()
	if part := strings.Fields(b.Target.DeliveryTarget); len(part) == 3 && part[0] == interactionMark {
		t.application, t.token = part[1], part[2]
	}
	return t
}

// path is where messages are sent to, or with an id, where one is changed.
func (t *target) path(id string) string {
	path := "/channels/" + t.channel + "/messages"
	if t.token != "" {
		path = "/webhooks/" + t.application + "/" + url.PathEscape(t.token)
		if id != "" {
			path += "/messages"
		}
	}
	if id != "" {
		path += "/" + id
	}
	return path
}

// outgoing is a message that is sent.
type outgoing struct {
	Content    string                 `json:"content,omitempty"`
	Nonce      string                 `json:"nonce,omitempty"`
	Enforce    bool                   `json:"enforce_nonce,omitempty"`
	Allowed    allowed                `json:"allowed_mentions"`
	Reference  *reference             `json:"message_reference,omitempty"`
	Components []discordgo.ActionsRow `json:"components,omitempty"`
	Flags      discordgo.MessageFlags `json:"flags,omitempty"`
	file       *platform.Form         // goes with it
	path       string                 // of the file in the media folder, until it is read
}

// edited is what a message is changed to; its buttons go.
type edited struct {
	Content    string                 `json:"content,omitempty"` // "": it stays
	Allowed    allowed                `json:"allowed_mentions"`
	Components []discordgo.ActionsRow `json:"components"`
}

// allowed says whom a message notifies: nobody but the author of the message that it replies to.
type allowed struct {
	Parse       []string `json:"parse"`
	RepliedUser bool     `json:"replied_user"`
}

var replied = allowed{Parse: []string{}, RepliedUser: true}

// nonceOf names a message, so that the platform finds a repetition.
func nonceOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:maxNonce]
}

// messages returns the messages that a block becomes.
func messages(b *channel.Block) (list []outgoing, err error) {
	text := b.Text
	var files []outgoing
	for _, m := range b.Media {
		switch {
		case m.Path != "":
			files = append(files, outgoing{path: m.Path})
		case m.URL != "":
			text = strings.TrimSpace(text + "\n\n" + m.URL)
		}
	}
	if b.Question != nil {
		q, err := question(b.Question, b.Text)
		return append([]outgoing{q}, files...), err
	}
	for _, piece := range pieces(text) {
		list = append(list, outgoing{Content: piece})
	}
	return append(list, files...), nil
}

// deliver sends a block in as many messages as it needs. The first is the preview that stands there, if there is one.
func (c *Channel) deliver(ctx context.Context, b *channel.Block) (r channel.Receipt, err error) {
	list, err := messages(b)
	if err != nil {
		return r, err
	}
	if len(list) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	t := targetOf(b)
	// The outbox asks the platform for what was perhaps sent; other blocks are repeated at once, which the nonce makes harmless.
	harmless := b.Kind != channel.ReplyFinal && t.token == ""
	for i := range list {
		id := ""
		if i == 0 && b.Preview != nil && len(b.Preview.MessageIDs) > 0 && list[0].Content != "" {
			id = b.Preview.MessageIDs[0]
			if err = c.edit(ctx, &t, id, list[0].Content); is(err, deleted, expired) {
				id = ""
			}
		}
		if id == "" {
			list[i].Nonce = nonceOf(b.Key + ":" + strconv.Itoa(i))
			id, err = c.send(ctx, &t, list[i], harmless)
		}
		switch {
		case err != nil && len(r.MessageIDs) > 0:
			return r, &channel.PartialError{Receipt: r, Err: err}
		case err != nil:
			return r, err
		}
		r.MessageIDs = append(r.MessageIDs, id)
		r.ReplyToID, t.reply = t.reply, ""
	}
	return r, nil
}

// send sends one message. An interaction that is too old is answered in its channel, and a message that the bot may not reply to without reference.
func (c *Channel) send(ctx context.Context, t *target, m outgoing, harmless bool) (id string, err error) {
	var sent struct {
		ID string `json:"id"`
	}
	if m.path != "" {
		data, err := c.store.Read(m.path, maxUpload)
		if err != nil {
			return "", &channel.NotSentError{Err: fmt.Errorf("discord: %w", err)}
		}
		m.file = &platform.Form{File: filepath.Base(m.path), Data: data}
	}
	call := m
	call.Allowed, call.Flags, call.Enforce = replied, discordgo.MessageFlagsSuppressEmbeds, true
	if t.silent {
		call.Flags |= discordgo.MessageFlagsSuppressNotifications
	}
	if t.reply != "" {
		call.Reference = &reference{MessageID: t.reply}
	}
	if t.token != "" {
		call.Flags |= discordgo.MessageFlagsEphemeral
		call.Nonce, call.Enforce = "", false
		c.awaitAnswer(ctx, t.token)
	}
	err = c.api.do(ctx, request{what: "send a message", method: http.MethodPost, path: t.path(""), in: &call, out: &sent, file: m.file, harmless: harmless})
	switch {
	case is(err, expired) && t.token != "":
		t.token = ""
		return c.send(ctx, t, m, harmless)
	case is(err, noReply) && t.reply != "":
		t.reply = ""
		return c.send(ctx, t, m, harmless)
	}
	return sent.ID, err
}

// edit changes the text of a message, and takes its buttons away.
func (c *Channel) edit(ctx context.Context, t *target, id, text string) error {
	return c.api.do(ctx, request{
		what: "change a message", method: http.MethodPatch, path: t.path(id), in: &edited{Content: text, Allowed: replied, Components: []discordgo.ActionsRow{}}, harmless: true,
	})
}

// showPreview makes one attempt to show what there is of a block, for the next text comes soon.
func (c *Channel) showPreview(ctx context.Context, b *channel.Block, text string, before channel.Receipt) (r channel.Receipt, err error) {
	t := targetOf(b)
	r = before
	if len(before.MessageIDs) > 0 {
		err = c.api.once(ctx, &request{
			what: "change a preview", method: http.MethodPatch, path: t.path(before.MessageIDs[0]), in: &edited{Content: text, Allowed: replied, Components: []discordgo.ActionsRow{}},
		})
		return r, platform.NotSent(err, judge)
	}
	var id string
	// The block has another nonce: it is another message if nobody knows whether the preview was sent.
	if id, err = c.send(ctx, &t, outgoing{Content: text, Nonce: nonceOf(b.Key + ":preview")}, false); err == nil {
		r.MessageIDs, r.ReplyToID = []string{id}, t.reply
	}
	return r, err
}

// reconcile asks whether a reply was sent: it looks for its messages behind the one that is answered.
func (c *Channel) reconcile(ctx context.Context, m channel.Outbound) (r channel.Receipt, err error) {
	key, err := channel.ParseEventKey(m.Event)
	list, invalid := messages(&m.Block)
	if t := targetOf(&m.Block); err != nil || invalid != nil || t.token != "" || timeOf(key.ID).IsZero() {
		return channel.Receipt{State: channel.UnknownWhether}, errUnknown
	}
	var behind []message
	err = c.api.do(ctx, request{
		what: "look for a message", method: http.MethodGet, path: messagesAfter(m.Block.Target.To, key.ID), out: &behind, harmless: true,
	})
	if err != nil {
		return r, err
	}
	own := map[string]string{} // ids, by text
	for _, one := range behind {
		if one.Author.ID == c.me.Load().ID {
			own[one.Content] = one.ID
		}
	}
	for _, want := range list {
		if id := own[want.Content]; id != "" && want.file == nil && want.path == "" {
			r.MessageIDs = append(r.MessageIDs, id)
		}
	}
	switch {
	case len(r.MessageIDs) == len(list):
		return r, nil
	case len(own) == 0 && len(behind) < pageSize:
		return r, &channel.NotSentError{Err: errors.New("discord: the message is not there"), Retryable: true}
	}
	return channel.Receipt{State: channel.UnknownWhether}, errUnknown
}

var errUnknown = errors.New("discord: it cannot be found out whether the message was sent")

func messagesAfter(channel, id string) string {
	return fmt.Sprintf("/channels/%s/messages?limit=%d&after=%s", channel, pageSize, id)
}

// head is the beginning of a plain text.
func head(text string, limit int) string {
	if list := markup.Cut(text, limit, markup.UTF16); len(list) > 0 {
		return list[0]
	}
	return ""
}
