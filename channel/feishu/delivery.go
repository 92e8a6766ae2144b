package feishu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	// previewEvery is the pause between edits of a card. The platform takes five a second of one card, and five messages a second of all
	// bots in a conversation.
	previewEvery = time.Second

	// uuidLife is how long the platform takes a second message with a uuid for the first: an hour, less the time that calls may take.
	uuidLife = 50 * time.Minute

	// maxCard bounds the text of a card, measured by encodedSize. The platform takes 30 KB of a request with a card. It takes more of
	// one with a plain text, which is bounded in the same way, so that it can be read.
	maxCard = 28_000
)

// delivery returns how the answer to a message is sent.
func (c *Channel) delivery(m *message) *kernel.Delivery {
	sign := &workSign{c: c, messageID: m.ID}
	d := &kernel.Delivery{
		Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			if b.Question != nil {
				return c.ask(ctx, &b, m)
			}
			return c.deliver(ctx, &b)
		},
		Working: sign.show, Rest: sign.remove, WorkingEvery: time.Hour, // the sign stays until it is removed
		Settle: c.settle, Durable: true, PreviewEvery: previewEvery,
	}
	if c.s.Preview == PreviewEdit && c.s.Format == FormatCard { // a plain text can be edited only a few times
		d.Preview = c.preview
	}
	return d
}

// sendStored sends a reply that was stored.
func (c *Channel) sendStored(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
	return c.deliver(ctx, &out.Block)
}

// target is where a message goes.
type target struct {
	chat    string
	replyTo string // a message
	topic   string // of the message replyTo
	uuid    string
}

// targetOf reads the reply plan of a block.
func targetOf(b *channel.Block) (t target, err error) {
	t.chat = b.Target.Target()
	t.replyTo, _ = b.Target.ReplyToID.Get()
	t.topic, _ = b.Target.MessageThreadID.Get()
	switch {
	case t.chat == "":
		err = errors.New("feishu: the reply has no target")
	case t.topic != "" && t.replyTo == "":
		err = errors.New("feishu: cannot send to the topic, because it has no message to reply to")
	default:
		return t, nil
	}
	return t, &channel.NotSentError{Err: err, Permanent: true}
}

// nth returns the target of the n-th message of a block. Only the first one is a reply, except in a topic.
func (t target) nth(b *channel.Block, n int) target {
	t.uuid = uuid(b.Key, n)
	if n > 0 && t.topic == "" {
		t.replyTo = ""
	}
	return t
}

// receipt returns the receipt of a block whose first message is a reply as t says.
func (t target) receipt(ids ...string) channel.Receipt {
	return channel.Receipt{MessageIDs: ids, ThreadID: t.topic, ReplyToID: t.replyTo}
}

// uuid returns the name by which the platform recognizes another attempt to send the n-th message of a block: at most 50 characters.
func uuid(key string, n int) string {
	text := key + "." + strconv.Itoa(n)
	if len(text) <= 50 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// deliver sends a block in as many messages as it needs. The first takes the place of the preview.
func (c *Channel) deliver(ctx context.Context, b *channel.Block) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	text, files := b.Text, []channel.MediaFact(nil)
	for _, m := range b.Media {
		switch {
		case m.Path != "":
			files = append(files, m)
		case m.URL != "":
			text = strings.TrimSpace(text + "\n\n" + m.URL)
		}
	}
	parts := c.split(text)
	if len(parts)+len(files) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	r := t.receipt()
	for n := range len(parts) + len(files) {
		var id string
		switch at := t.nth(b, n); {
		case n >= len(parts):
			id, err = c.sendFile(ctx, at, files[n-len(parts)])
		case n == 0 && b.Preview != nil && len(b.Preview.MessageIDs) > 0:
			id, err = c.replace(ctx, b.Preview.MessageIDs[0], at, parts[0])
		default:
			id, err = c.post(ctx, at, parts[n], false)
		}
		switch {
		case err != nil && n > 0:
			return r, &channel.PartialError{Receipt: r, Err: err}
		case err != nil:
			return r, err
		}
		r.MessageIDs = append(r.MessageIDs, id)
	}
	return r, nil
}

// preview shows the text so far, as much of it as one card holds. A rate limit is not waited for, because the next text comes soon.
func (c *Channel) preview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	t, err := targetOf(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	parts := c.split(b.Text)
	switch {
	case len(parts) == 0:
		return channel.Receipt{State: channel.Suppressed}, nil
	case len(before.MessageIDs) > 0:
		return before, c.edit(ctx, before.MessageIDs[0], parts[0], true)
	}
	t.uuid = uuid(b.Key+".p", 0) // with the uuid of the block, the platform would take the block for this message
	id, err := c.post(ctx, t, parts[0], true)
	return t.receipt(id), err
}

// body is what one message says.
type body struct {
	markup   string // for a card; "": the message is plain text
	text     string // without markup
	elements []any  // of the card, below the text
	fileType string // image or file: the message is a file
	fileKey  string
}

// split turns a model's Markdown into messages.
func (c *Channel) split(markdown string) (list []body) {
	format := markup.FeishuCard
	if c.s.Format == FormatText {
		format = markup.Plain
	}
	for _, p := range markup.Pieces(markdown, format, markup.Limit{N: maxCard, Unit: encodedSize, Marked: true}) {
		switch {
		case c.s.Format == FormatText:
			list = append(list, body{text: p.Text})
		case strings.TrimSpace(p.Plain) != "":
			list = append(list, body{markup: p.Text, text: p.Plain})
		}
	}
	return list
}

// encodedSize returns the bytes of a text in a request, where it is in a JSON string within a JSON string. It is a [markup.Unit].
func encodedSize(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			n += 4 // \\\" and \\\\
		case r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
			n += 3 // \\n
		case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
			n += 7 // \\u0001
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}

// encode returns the type and the content of a message.
func (b *body) encode() (messageType, content string, err error) {
	messageType = "text"
	var v any = map[string]string{"text": markup.BreakTags(b.text)} // the platform has no escape for the tags of mentions
	switch {
	case b.fileType != "":
		messageType, v = b.fileType, map[string]string{b.fileType + "_key": b.fileKey}
	case b.markup != "":
		messageType, v = "interactive", b.card()
	}
	data, err := rawjson.Marshal(v)
	return messageType, string(data), err
}

// card returns the content of a card. The platform asks of cards that are edited that they say update_multi: all people see the same card.
func (b *body) card() any {
	first := map[string]any{"tag": "markdown", "content": b.markup}
	if b.markup == "" {
		first = map[string]any{"tag": "div", "text": map[string]any{"tag": "plain_text", "content": b.text}}
	}
	return map[string]any{
		"schema": "2.0", "config": map[string]any{"update_multi": true}, "body": map[string]any{"elements": append([]any{first}, b.elements...)},
	}
}

// post sends one message. A card that the platform rejects is sent as plain text. A reply to a deleted message is sent as no reply.
func (c *Channel) post(ctx context.Context, t target, b body, impatient bool) (id string, err error) {
	id, err = c.postOnce(ctx, t, b, impatient)
	if isKind(err, badCard) && b.markup != "" {
		c.s.Log.WarnContext(ctx, "platform refuses a message's markup; sending plain text", "channel", c.s.Name)
		b.markup = ""
		id, err = c.postOnce(ctx, t, b, impatient)
	}
	if isKind(err, deleted) && t.replyTo != "" && t.topic == "" {
		t.replyTo = ""
		id, err = c.postOnce(ctx, t, b, impatient)
	}
	return id, err
}

func (c *Channel) postOnce(ctx context.Context, t target, b body, impatient bool) (id string, err error) {
	messageType, content, err := b.encode()
	if err != nil {
		return "", &channel.NotSentError{Err: err}
	}
	var got struct {
		Data struct {
			ID string `json:"message_id"`
		} `json:"data"`
	}
	in := map[string]any{"msg_type": messageType, "content": content, "uuid": t.uuid}
	r := request{name: "send a message", method: http.MethodPost, in: in, out: &got, repeatable: true, impatient: impatient}
	if t.replyTo == "" {
		r.path, in["receive_id"] = "im/v1/messages?receive_id_type=chat_id", t.chat
	} else {
		r.path = messagePath(t.replyTo) + "/reply"
		if t.topic != "" {
			in["reply_in_thread"] = true
		}
	}
	if err := c.api.do(ctx, r); err != nil {
		return "", err
	}
	c.remember(got.Data.ID, b.text)
	return got.Data.ID, nil
}

// remember stores the text of a message that was sent, for replies to it.
func (c *Channel) remember(id, text string) {
	bot := c.self()
	c.known.Add(id, &knownMessage{text: text, from: channel.SenderFacts{ID: bot.OpenID, Name: bot.Name, IsBot: true, IsSelf: true}})
}

// replace puts a message in the place of a card, or sends it if the card is deleted.
func (c *Channel) replace(ctx context.Context, id string, t target, b body) (string, error) {
	if err := c.edit(ctx, id, b, false); !isKind(err, deleted) {
		return id, err
	}
	return c.post(ctx, t, b, false)
}

// edit changes a card. Markup that the platform rejects is replaced with plain text. An edit that is only for the moment is not repeated
// if it may have been made.
func (c *Channel) edit(ctx context.Context, id string, b body, forNow bool) error {
	err := c.editOnce(ctx, id, b, forNow)
	if isKind(err, badCard) {
		c.s.Log.WarnContext(ctx, "platform refuses a card's markup; sending plain text", "channel", c.s.Name)
		err = c.editOnce(ctx, id, body{text: b.text}, forNow)
	}
	if err == nil {
		c.remember(id, b.text)
	}
	return err
}

func (c *Channel) editOnce(ctx context.Context, id string, b body, forNow bool) error {
	content, err := rawjson.Marshal(b.card())
	if err != nil {
		return &channel.NotSentError{Err: err}
	}
	return c.api.do(ctx, request{
		name: "change a card", method: http.MethodPatch, path: messagePath(id), in: map[string]any{"content": string(content)},
		repeatable: !forNow, impatient: forNow,
	})
}

// typing is the reaction that shows that work goes on.
const typing = "Typing"

// workSign is the reaction to the message that is answered.
type workSign struct {
	c                     *Channel
	messageID, reactionID string
}

// show adds the reaction. It makes one attempt, because the answer waits for it.
func (s *workSign) show(ctx context.Context) error {
	if s.reactionID != "" {
		return nil
	}
	var got struct {
		Data struct {
			ID string `json:"reaction_id"`
		} `json:"data"`
	}
	err := s.c.api.call(ctx, request{
		name: "add a reaction", method: http.MethodPost, path: messagePath(s.messageID) + "/reactions",
		in: map[string]any{"reaction_type": map[string]string{"emoji_type": typing}}, out: &got,
	})
	s.reactionID = got.Data.ID
	return err
}

func (s *workSign) remove(ctx context.Context) error {
	id := s.reactionID
	if id == "" { // the platform may have added it without an answer
		return s.c.removeSigns(ctx, s.messageID)
	}
	s.reactionID = ""
	return s.c.removeReaction(ctx, s.messageID, id)
}

func (c *Channel) removeReaction(ctx context.Context, messageID, reactionID string) error {
	err := c.api.do(ctx, request{
		name: "remove a reaction", method: http.MethodDelete, path: messagePath(messageID) + "/reactions/" + url.PathEscape(reactionID), repeatable: true,
	})
	if isKind(err, deleted) {
		return nil
	}
	return err
}

// removeSigns removes the app's own reactions that show work from a message.
func (c *Channel) removeSigns(ctx context.Context, messageID string) error {
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
		name: "list reactions", method: http.MethodGet, path: messagePath(messageID) + "/reactions?page_size=50&reaction_type=" + typing,
		out: &got, repeatable: true,
	})
	if isKind(err, deleted, noScope) {
		return nil
	}
	for _, one := range got.Data.Items {
		if one.Operator.ID == c.s.AppID {
			err = errors.Join(err, c.removeReaction(ctx, messageID, one.ID))
		}
	}
	return err
}
