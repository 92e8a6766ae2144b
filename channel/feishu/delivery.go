package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	// previewEvery is the pause between edits of a card. The platform takes five a second of one card, and five messages a second of all
	// bots in a conversation.
	previewEvery = time.Second

	// workingEvery is longer than any turn: a reaction stays until it is removed.
	workingEvery = 1000 * time.Hour

	// uuidLife is how long the platform takes a second message with a uuid for the first: an hour, less the time that calls may take.
	uuidLife = 50 * time.Minute

	// maxCard bounds the text of a card, measured by encodedSize. The platform takes 30 KB of a request with a card. It takes more of
	// one with a plain text, which is bounded in the same way, so that it can be read.
	maxCard = 28_000

	// Limits of the platform for uploads, in bytes.
	maxImage = 10 << 20
	maxFile  = 30 << 20
)

// delivery returns how the answer to a message is sent.
func (c *Channel) delivery(m *message) *kernel.Delivery {
	d := &kernel.Delivery{
		Deliver: func(ctx context.Context, b channel.Block) (channel.Receipt, error) {
			if b.Question != nil {
				return c.ask(ctx, &b, m)
			}
			return c.deliver(ctx, &b)
		},
		Working: func(ctx context.Context) error { return c.addSign(ctx, m.ID) },
		Rest:    func(ctx context.Context) error { return c.removeSigns(ctx, m.ID) },
		Settle:  c.showDecision, Durable: true, PreviewEvery: previewEvery, WorkingEvery: workingEvery,
	}
	if c.s.Preview == PreviewEdit {
		d.Preview = c.preview
	}
	return d
}

// target is where a message goes.
type target struct {
	card    string // "": the message is new. Else it takes the place of this card
	chat    string // for a new message; "": none is sent if the card is deleted
	replyTo string // a message
	topic   string // of the message replyTo
	uuid    string // by which the platform recognizes another attempt to send the message: at most 50 characters
	preview bool   // the next one comes soon: calls are made once where that leaves no second message
}

// targetOf reads the reply plan of a block.
func targetOf(b *channel.Block) (t target, err error) {
	t.chat = b.Target.Target()
	t.replyTo, _ = b.Target.ReplyToID.Get()
	t.topic, _ = b.Target.MessageThreadID.Get()
	if t.topic != "" && t.replyTo == "" {
		err = errors.New("feishu: cannot send to the topic, because it has no message to reply to")
		return t, &channel.NotSentError{Err: err, Permanent: true}
	}
	return t, nil
}

// nth returns the target of the n-th message of a block. Only the first one is a reply, except in a topic.
func (t target) nth(b *channel.Block, n int) target {
	t.uuid = b.Key + "." + strconv.Itoa(n)
	if n > 0 && t.topic == "" {
		t.replyTo = ""
	}
	return t
}

// receipt returns the receipt of a block whose first message is a reply as t says.
func (t target) receipt(ids ...string) channel.Receipt {
	return channel.Receipt{MessageIDs: ids, ThreadID: t.topic, ReplyToID: t.replyTo}
}

// deliver sends a block in as many messages as it needs. The first takes the place of the preview.
func (c *Channel) deliver(ctx context.Context, b *channel.Block) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	text, files := platform.TextAndFiles(b)
	parts := split(text)
	return platform.SendMessages(b, t.receipt(), len(parts)+len(files), nil, func(n int) (string, error) {
		at := t.nth(b, n)
		if n >= len(parts) {
			return c.sendFile(ctx, at, files[n-len(parts)])
		}
		if n == 0 {
			at.card = b.Preview.First()
		}
		return c.send(ctx, at, parts[n])
	})
}

// preview shows the text so far, as much of it as one card holds.
func (c *Channel) preview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	t, err := targetOf(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	parts := split(b.Text)
	if len(parts) == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	t.uuid, t.preview = b.Key+".p", true // with the uuid of the block, the platform would take the block for this message
	if before.First() != "" {
		_, err = c.send(ctx, target{card: before.First(), preview: true}, parts[0])
		return before, err
	}
	id, err := c.send(ctx, t, parts[0])
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
func split(markdown string) (list []body) {
	for _, p := range markup.Pieces(markdown, markup.FeishuCard, markup.Limit{N: maxCard, Unit: encodedSize, Marked: true}) {
		list = append(list, body{markup: p.Text, text: p.Plain})
	}
	return list
}

// encodedSize returns the bytes of a text in a request, where it is in a JSON string within a JSON string. It is a [markup.Unit].
func encodedSize(s string) int {
	inner, _ := rawjson.Marshal(s) // a string is always valid
	outer, _ := rawjson.Marshal(string(inner))
	return len(outer) - len(`"\"\""`)
}

// encode returns the type and the content of a new message.
func (b *body) encode() (messageType string, content any) {
	switch {
	case b.fileType != "":
		return b.fileType, map[string]string{b.fileType + "_key": b.fileKey}
	case b.markup != "":
		return "interactive", b.card()
	}
	return "text", map[string]string{"text": markup.BreakTags(b.text)} // the platform has no escape for the tags of mentions
}

// card returns the content of a card. Cards that are edited need update_multi: all people see the same card.
func (b *body) card() any {
	first := map[string]any{"tag": "markdown", "content": b.markup}
	if b.markup == "" {
		first = map[string]any{"tag": "div", "text": map[string]any{"tag": "plain_text", "content": b.text}}
	}
	return map[string]any{
		"schema": "2.0", "config": map[string]any{"update_multi": true}, "body": map[string]any{"elements": append([]any{first}, b.elements...)},
	}
}

// send sends one message, and returns its id. Markup that the platform rejects is replaced with plain text. If the card that the message is to
// replace is deleted, it is sent as a new one; if the message that it replies to is, it is sent as no reply.
func (c *Channel) send(ctx context.Context, t target, b body) (id string, err error) {
	for {
		id, err = c.sendOnce(ctx, t, &b)
		switch {
		case platform.Is(err, badCard) && b.markup != "":
			c.Log.WarnContext(ctx, "platform refuses a message's markup; sending plain text")
			b.markup = ""
			if t.card != "" {
				b.elements = nil
			}
		case platform.Is(err, deleted) && t.card != "" && t.chat != "":
			t.card = ""
		case platform.Is(err, deleted) && t.card == "" && t.replyTo != "" && t.topic == "":
			t.replyTo = ""
		case err != nil:
			return "", err
		default: // a reply may quote it
			bot := c.self()
			c.known.Add(id, knownMessage{exists: true, text: b.text, from: channel.SenderFacts{ID: bot.OpenID, Name: bot.Name, IsBot: true, IsSelf: true}})
			return id, nil
		}
	}
}

func (c *Channel) sendOnce(ctx context.Context, t target, b *body) (id string, err error) {
	kind, v := b.encode()
	if t.card != "" {
		v = b.card()
	}
	content, err := rawjson.Marshal(v)
	if err != nil {
		return "", &channel.NotSentError{Err: err}
	}
	in := map[string]any{"content": string(content)}
	r := platform.Request{Name: "send a message", In: in, Harmless: true, Brief: t.preview}
	if t.card == "" {
		in["msg_type"], in["uuid"] = kind, t.uuid
	}
	switch {
	case t.card != "":
		r.Name, r.Method, r.Path, r.Harmless = "change a card", http.MethodPatch, messagePath(t.card), !t.preview
	case t.replyTo == "":
		r.Path, in["receive_id"] = "im/v1/messages?receive_id_type=chat_id", t.chat
	default:
		r.Path = messagePath(t.replyTo) + "/reply"
		if t.topic != "" {
			in["reply_in_thread"] = true
		}
	}
	got, err := c.callRepeatedly(ctx, r)
	return cmp.Or(t.card, got.Data.MessageID), err
}

// sendFile sends a file of the media folder.
func (c *Channel) sendFile(ctx context.Context, t target, m channel.MediaFact) (id string, err error) {
	data, err := c.Files.Read(m.Path, maxFile)
	if err != nil {
		return "", err
	}
	return c.upload(ctx, t, filepath.Base(m.Path), data, m.Kind == channel.MediaImage && len(data) <= maxImage) // a larger image is sent as a file
}

// upload sends data as a file, or as an image.
func (c *Channel) upload(ctx context.Context, t target, name string, data []byte, isImage bool) (id string, err error) {
	kind, fields := "file", map[string]any{"file_type": "stream", "file_name": name}
	if isImage {
		kind, fields = "image", map[string]any{"image_type": "message"}
	}
	got, err := c.callRepeatedly(ctx, platform.Request{
		Name: "upload a file", Path: "im/v1/" + kind + "s", Harmless: true,
		In: &platform.Form{Fields: fields, Name: kind, File: name, Data: data},
	})
	if err != nil {
		if _, ok := errors.AsType[*channel.NotSentError](err); !ok {
			err = &channel.NotSentError{Err: err, Retryable: true} // an upload is not visible
		}
		return "", err
	}
	return c.send(ctx, t, body{fileType: kind, fileKey: cmp.Or(got.Data.ImageKey, got.Data.FileKey)})
}

// typing is the reaction that shows that work goes on.
const typing = "Typing"

// addSign adds the reaction to a message. It makes one attempt, because the answer waits for it.
func (c *Channel) addSign(ctx context.Context, messageID string) error {
	_, err := c.call(ctx, platform.Request{
		Name: "add a reaction", Path: messagePath(messageID) + "/reactions",
		In: map[string]any{"reaction_type": map[string]string{"emoji_type": typing}},
	})
	return err
}

// removeSigns removes the app's reactions that show work from a message. They are listed, because after a crash their ids are unknown.
func (c *Channel) removeSigns(ctx context.Context, messageID string) error {
	path := messagePath(messageID) + "/reactions"
	got, err := c.callRepeatedly(ctx, platform.Request{
		Name: "list reactions", Method: http.MethodGet, Path: path + "?page_size=50&reaction_type=" + typing, Harmless: true,
	})
	for _, one := range got.Data.Items {
		if one.Operator.ID == c.s.AppID {
			_, e := c.callRepeatedly(ctx, platform.Request{Name: "remove a reaction", Method: http.MethodDelete, Path: path + "/" + url.PathEscape(one.ReactionID), Harmless: true})
			err = errors.Join(err, e)
		}
	}
	if platform.Is(err, deleted, noScope) {
		return nil
	}
	return err
}

// buttonValue is what an event of a press has of its button. The event itself does not say in which topic the card is, nor the kind of
// its chat.
type buttonValue struct {
	Question string `json:"lingserve_question"`
	Decision string `json:"decision"`
	Thread   string `json:"thread,omitempty"`
	ChatType string `json:"chat_type"`
}

// readPress reads the event of a press. A press of another button than the channel's is about no conversation.
func (e *event) readPress(raw json.RawMessage) {
	var body struct {
		Operator userID `json:"operator"`
		Action   struct {
			Value json.RawMessage `json:"value"`
		} `json:"action"`
		Context struct {
			Message string `json:"open_message_id"`
			Chat    string `json:"open_chat_id"`
		} `json:"context"`
	}
	var v buttonValue
	if json.Unmarshal(raw, &body) != nil || json.Unmarshal(body.Action.Value, &v) != nil || body.Context.Chat == "" {
		return
	}
	p, ok := channel.ReadPress(v.Decision, v.Question)
	if !ok {
		return
	}
	e.Press, e.Sender.ID = &p, body.Operator
	e.Message = &message{ID: body.Context.Message, Chat: body.Context.Chat, Thread: v.Thread, ChatType: v.ChatType}
}

// buttons returns the element of a card with the buttons of a question, which m has caused.
func buttons(q *channel.Question, m *message) any {
	styles := map[string]string{channel.LabelApprove: "primary", channel.LabelDeny: "danger"}
	var columns []any
	for _, b := range q.Buttons() {
		columns = append(columns, map[string]any{"tag": "column", "width": "auto", "elements": []any{map[string]any{
			"tag": "button", "text": map[string]any{"tag": "plain_text", "content": b.Label}, "type": cmp.Or(styles[b.Label], "default"),
			"behaviors": []any{map[string]any{"type": "callback", "value": buttonValue{q.ID, b.Word, m.Thread, m.ChatType}}},
		}}})
	}
	return map[string]any{"tag": "column_set", "columns": columns}
}

// ask sends a question in one message with its buttons, or not at all, so that people approve only what they could read.
func (c *Channel) ask(ctx context.Context, b *channel.Block, m *message) (channel.Receipt, error) {
	t, err := targetOf(b)
	if err != nil {
		return channel.Receipt{}, err
	}
	q := b.Question
	parts := split(q.Text)
	if len(parts) != 1 {
		return channel.Receipt{}, &channel.NotSentError{Err: errors.New("feishu: the question does not fit into one message")}
	}
	parts[0].elements = []any{buttons(q, m)}
	parts[0].text = markup.Convert(q.WithCommands(), markup.Plain) // if the platform rejects the card
	if q.File != "" {
		if _, err := c.upload(ctx, t.nth(b, 1), q.File, []byte(q.Arguments), false); err != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: fmt.Errorf("feishu: the file of a question: %w", err)}
		}
	}
	id, err := c.send(ctx, t.nth(b, 0), parts[0])
	return t.receipt(id), err
}

// openID is the form of ids of people.
var openID = regexp.MustCompile(`^ou_[0-9A-Za-z]+$`)

// showDecision replaces the buttons of a question with who decided what.
func (c *Channel) showDecision(ctx context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error {
	q := asked.Question
	if sent.First() == "" {
		return nil
	}
	by := markup.Escape(d.By, markup.FeishuCard)
	if openID.MatchString(d.By) {
		by = "<at id=" + d.By + "></at>" // events have no names; the client shows one
	}
	card := body{
		markup: markup.Convert(q.Text, markup.FeishuCard) + "\n\n" + d.Text(by), text: markup.Convert(q.Text, markup.Plain) + "\n\n" + d.Text(d.By),
	}
	_, err := c.send(ctx, target{card: sent.First()}, card)
	if platform.Is(err, deleted) {
		return nil
	}
	return err
}

// pressTimeout is how long a press waits for its answer. The platform waits 3 s.
const pressTimeout = 2 * time.Second

// pressResponse waits for the answer to a press, and returns the response that shows it. If the turn takes longer, or runs in another
// process, the response is empty.
func pressResponse(ctx context.Context, answers <-chan channel.Pressed) any {
	select {
	case state := <-answers:
		kind := "warning"
		if state.Decides() {
			kind = "success"
		}
		return map[string]any{"toast": map[string]string{"type": kind, "content": state.Text()}}
	case <-time.After(pressTimeout):
	case <-ctx.Done():
	}
	return struct{}{}
}

// answerPress shows what became of a press. If the question is no longer open, its buttons are removed: after a crash, nothing else would
// remove them.
func (a *adapter) answerPress(ctx context.Context, state channel.Pressed) {
	c, m := a.c, a.e.Message
	if request, ok := c.presses.LoadAndDelete(a.e.ID); ok {
		request.(chan channel.Pressed) <- state
	}
	if state != channel.PressUnknown || m.ID == "" {
		return
	}
	if _, err := c.send(ctx, target{card: m.ID}, body{text: state.Text()}); err != nil && !platform.Is(err, deleted) {
		c.Log.WarnContext(ctx, "cannot remove an old question's buttons", "error", err)
	}
}
