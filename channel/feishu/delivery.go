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
	d := c.poster(m).Delivery(c.s.Preview)
	d.Working = func(ctx context.Context) error { return c.addSign(ctx, m.ID) }
	d.Rest = func(ctx context.Context) error { return c.removeSigns(ctx, m.ID) }
	d.PreviewEvery, d.WorkingEvery = previewEvery, workingEvery
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

// post sends a message, or replaces a card. m is the message that is answered. Markup that the platform rejects is replaced with plain
// text. If the message that it replies to is deleted, it is sent as no reply.
func (c *Channel) post(ctx context.Context, p *platform.Post, m *message) (id string, err error) {
	target := &p.Block.Target
	replyTo := target.ReplyToID.Value
	topic := target.MessageThreadID.Value // of the message replyTo
	if topic != "" && replyTo == "" {
		err = errors.New("feishu: cannot send to the topic, because it has no message to reply to")
		return "", &channel.NotSentError{Err: err, Permanent: true}
	}
	if topic == "" && p.N > 0 { // only the first message is a reply, except in a topic
		replyTo = ""
	}
	kind, plain, content, err := c.content(ctx, p, m)
	if err != nil {
		return "", err
	}
	in := map[string]any{"content": string(rawjson.MustMarshal(content))}
	r := platform.Request{Name: "send a message", In: in, Harmless: true, Brief: p.Preview}
	if p.Edit == "" {
		in["msg_type"], in["uuid"] = kind, uuid(p)
	}
	switch {
	case p.Edit != "":
		r.Name, r.Method, r.Path, r.Harmless = "change a card", http.MethodPatch, messagePath(p.Edit), !p.Preview
	case replyTo == "":
		r.Path, in["receive_id"] = "im/v1/messages?receive_id_type=chat_id", target.Target()
	default:
		r.Path = messagePath(replyTo) + "/reply"
		if topic != "" {
			in["reply_in_thread"] = true
		}
	}
	got, err := c.callRepeatedly(ctx, r)
	next := *p
	switch {
	case platform.Is(err, badCard) && p.Text != "":
		c.Log.WarnContext(ctx, "platform refuses a message's markup; sending plain text")
		next.Text = ""
		return c.post(ctx, &next, m)
	case platform.Is(err, deleted) && p.Edit == "" && replyTo != "" && topic == "":
		b := *p.Block
		b.Target.ReplyToID, next.Block = channel.None, &b
		return c.post(ctx, &next, m)
	case err != nil:
		return "", err
	}
	id = cmp.Or(p.Edit, got.Data.MessageID)
	bot := c.self() // a reply may quote the message
	c.known.Add(id, knownMessage{exists: true, text: plain, from: channel.SenderFacts{ID: bot.OpenID, Name: bot.Name, IsBot: true, IsSelf: true}})
	return id, nil
}

// uuid returns what the platform recognizes another attempt to send the message by: at most 50 characters. With that of the block, it would
// take the block for its preview.
func uuid(p *platform.Post) string {
	if p.Preview {
		return p.Block.Key + ".p"
	}
	return p.Block.Key + "." + strconv.Itoa(p.N)
}

// content returns the type and the content of a message, and its text without markup. Edited messages are cards. They need update_multi:
// all people see the same card.
func (c *Channel) content(ctx context.Context, p *platform.Post, m *message) (kind, plain string, content any, err error) {
	if p.File != nil {
		kind, key, err := c.upload(ctx, p.File)
		return kind, "", map[string]string{kind + "_key": key}, err
	}
	plain = p.Plain
	elements := []any{map[string]any{"tag": "markdown", "content": p.Text}}
	if p.Text == "" {
		elements = []any{map[string]any{"tag": "div", "text": map[string]any{"tag": "plain_text", "content": plain}}}
	}
	if p.Buttons != nil {
		plain = markup.Convert(p.Block.Question.WithCommands(), markup.Plain)
		elements = append(elements, buttons(p.Buttons, m))
	}
	if p.Text == "" && p.Edit == "" {
		return "text", plain, map[string]string{"text": markup.BreakTags(plain)}, nil // the platform has no escape for the tags of mentions
	}
	return "interactive", plain, map[string]any{
		"schema": "2.0", "config": map[string]any{"update_multi": true}, "body": map[string]any{"elements": elements},
	}, nil
}

// encodedSize returns the bytes of a text in a request, where it is in a JSON string within a JSON string. It is a [markup.Unit].
func encodedSize(s string) int {
	return len(rawjson.MustMarshal(string(rawjson.MustMarshal(s)))) - len(`"\"\""`)
}

// upload uploads a file, or an image, and returns its kind and its key. A larger image is sent as a file.
func (c *Channel) upload(ctx context.Context, f *platform.File) (kind, key string, err error) {
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
	return kind, cmp.Or(got.Data.ImageKey, got.Data.FileKey), err
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
func (c *Channel) answerPress(ctx context.Context, e *event, state channel.Pressed) {
	m := e.Message
	if request, ok := c.presses.LoadAndDelete(e.ID); ok {
		request.(chan channel.Pressed) <- state
	}
	if state != channel.PressUnknown || m.ID == "" {
		return
	}
	_, err := c.post(ctx, &platform.Post{Block: new(channel.Block), Edit: m.ID, Plain: state.Text()}, nil)
	if err != nil && !platform.Is(err, deleted) {
		c.Log.WarnContext(ctx, "cannot remove an old question's buttons", "error", err)
	}
}
