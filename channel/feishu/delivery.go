package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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
	d := c.poster(m).Delivery()
	d.Working = func(ctx context.Context) error { return c.addSign(ctx, m.ID) }
	d.Rest = func(ctx context.Context) error { return c.removeSigns(ctx, m.ID) }
	d.PreviewEvery, d.WorkingEvery = previewEvery, workingEvery
	if c.s.Preview != PreviewEdit {
		d.Preview = nil
	}
	return d
}

// poster sends the messages of answers to a message; nil: it is not known any more.
func (c *Channel) poster(m *message) *platform.Poster {
	return &platform.Poster{
		Format: markup.FeishuCard, Limit: markup.Limit{N: maxCard, Unit: encodedSize, Marked: true}, Gone: []*platform.Kind{deleted}, Mention: mentionTag,
		Files: c.Files, MaxFile: maxFile,
		Post: func(ctx context.Context, p *platform.Post) (string, error) { return c.post(ctx, p, m) },
	}
}

// target is where a message goes.
type target struct {
	card    string // "": the message is new. Else it takes the place of this card
	chat    string // for a new message
	replyTo string // a message
	topic   string // of the message replyTo
	uuid    string // by which the platform recognizes another attempt to send the message: at most 50 characters
	preview bool   // the next one comes soon: calls are made once where that leaves no second message
}

// targetOf reads the reply plan of the block that a message is a part of. Only the first message is a reply, except in a topic.
func targetOf(p *platform.Post) (t target, err error) {
	b := p.Block
	t = target{card: p.Edit, chat: b.Target.Target(), uuid: b.Key + "." + strconv.Itoa(p.N), preview: p.Preview}
	t.replyTo, _ = b.Target.ReplyToID.Get()
	t.topic, _ = b.Target.MessageThreadID.Get()
	switch {
	case t.topic != "" && t.replyTo == "":
		err = errors.New("feishu: cannot send to the topic, because it has no message to reply to")
		return t, &channel.NotSentError{Err: err, Permanent: true}
	case p.N > 0 && t.topic == "":
		t.replyTo = ""
	case p.Preview: // with the uuid of the block, the platform would take the block for this message
		t.uuid = b.Key + ".p"
	}
	return t, nil
}

// post sends a message, or replaces a card. m is the message that is answered.
func (c *Channel) post(ctx context.Context, p *platform.Post, m *message) (id string, err error) {
	t, err := targetOf(p)
	if err != nil {
		return "", err
	}
	b := body{markup: p.Text, text: p.Plain}
	switch {
	case p.File != nil:
		if b, err = c.upload(ctx, p.File); err != nil {
			return "", err
		}
	case p.Buttons != nil:
		b.elements = []any{buttons(p.Buttons, m)}
		b.text = markup.Convert(p.Block.Question.WithCommands(), markup.Plain) // if the platform rejects the card
	}
	return c.send(ctx, t, b)
}

// body is what one message says.
type body struct {
	markup   string // for a card; "": the message is plain text
	text     string // without markup
	elements []any  // of the card, below the text
	fileType string // image or file: the message is a file
	fileKey  string
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

// send sends one message, and returns its id. Markup that the platform rejects is replaced with plain text. If the message that it replies to is deleted,
// it is sent as no reply.
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

// upload uploads a file, or an image, and returns the message that shows it. A larger image is sent as a file.
func (c *Channel) upload(ctx context.Context, f *platform.File) (body, error) {
	kind, fields := "file", map[string]any{"file_type": "stream", "file_name": f.Name}
	if f.Kind == channel.MediaImage && len(f.Data) <= maxImage {
		kind, fields = "image", map[string]any{"image_type": "message"}
	}
	got, err := c.callRepeatedly(ctx, platform.Request{
		Name: "upload a file", Path: "im/v1/" + kind + "s", Harmless: true,
		In: &platform.Form{Fields: fields, Name: kind, File: f.Name, Data: f.Data},
	})
	if _, isNotSent := errors.AsType[*channel.NotSentError](err); err != nil && !isNotSent {
		err = &channel.NotSentError{Err: err, Retryable: true} // an upload is not visible
	}
	return body{fileType: kind, fileKey: cmp.Or(got.Data.ImageKey, got.Data.FileKey)}, err
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
func buttons(list []channel.Button, m *message) any {
	styles := map[string]string{channel.LabelApprove: "primary", channel.LabelDeny: "danger"}
	var columns []any
	for _, b := range list {
		columns = append(columns, map[string]any{"tag": "column", "width": "auto", "elements": []any{map[string]any{
			"tag": "button", "text": map[string]any{"tag": "plain_text", "content": b.Label}, "type": cmp.Or(styles[b.Label], "default"),
			"behaviors": []any{map[string]any{"type": "callback", "value": buttonValue{b.Press.ID, b.Word, m.Thread, m.ChatType}}},
		}}})
	}
	return map[string]any{"tag": "column_set", "columns": columns}
}

// openID is the form of ids of people.
var openID = regexp.MustCompile(`^ou_[0-9A-Za-z]+$`)

// mentionTag names a person. Events have no names; the client shows one.
func mentionTag(id string) string {
	if openID.MatchString(id) {
		return "<at id=" + id + "></at>"
	}
	return ""
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
