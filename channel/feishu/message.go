package feishu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// maxDownload is how many bytes of one file the platform gives.
const maxDownload = 100 << 20

// event is an event of the platform. It is stored as JSON. It has none of the event's tokens.
type event struct {
	ID      string // the same in every delivery
	Kind    string // such as im.message.receive_v1
	Tenant  string
	Sender  sender
	Message *message       `json:",omitempty"` // that the event is about; nil: it is about no conversation
	Press   *channel.Press `json:",omitempty"` // of a button
}

// Kinds of events. Others of a conversation are accepted, and change nothing.
const (
	eventMessage = "im.message.receive_v1"
	eventRecall  = "im.message.recalled_v1"
	eventPress   = "card.action.trigger"
)

// message is a message, as the platform writes it.
type message struct {
	ID       string    `json:"message_id"`
	Root     string    `json:"root_id,omitempty"`
	Parent   string    `json:"parent_id,omitempty"`
	Created  string    `json:"create_time,omitempty"` // in milliseconds
	Chat     string    `json:"chat_id"`
	Thread   string    `json:"thread_id,omitempty"`
	ChatType string    `json:"chat_type,omitempty"`
	Type     string    `json:"message_type,omitempty"`
	Content  string    `json:"content,omitempty"` // JSON, by type
	Mentions []mention `json:"mentions,omitempty"`
}

// mention is a person that a message mentions. The text has the key in place of the name.
type mention struct {
	Key  string `json:"key"`
	ID   userID `json:"id"`
	Name string `json:"name"`
}

type sender struct {
	ID   userID `json:"sender_id"`
	Type string `json:"sender_type"` // user, app or bot
}

// userID is the id of a person for this app.
type userID struct {
	Open string `json:"open_id"`
}

// UnmarshalJSON also reads a string, which messages that are read by their id have.
func (u *userID) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &u.Open)
	}
	type plain userID
	return json.Unmarshal(data, (*plain)(u))
}

// envelope is the body of a request, decrypted. The challenge, by which the platform checks the address, has the fields of the first version.
type envelope struct {
	Schema string          `json:"schema"` // "" is the first version
	Header header          `json:"header"`
	Event  json.RawMessage `json:"event"`

	Type      string `json:"type"`
	Challenge string `json:"challenge"`
}

type header struct {
	ID     string `json:"event_id"`
	Type   string `json:"event_type"`
	App    string `json:"app_id"`
	Tenant string `json:"tenant_key"`
}

var errNoEvent = errors.New("feishu: invalid event; expected a JSON object with schema 2.0, header and event")

// readEvent reads an event of the second version. What has another form than expected is about no conversation.
func (all *envelope) readEvent() (*event, error) {
	h := &all.Header
	e := &event{ID: h.ID, Kind: h.Type, Tenant: h.Tenant}
	var body struct {
		Sender   sender  `json:"sender"`
		Message  message `json:"message"`
		message          // of an event that is not a new message
		Operator userID  `json:"operator_id"`
	}
	err := json.Unmarshal(all.Event, &body)
	switch {
	case h.ID == "" || h.Type == "", h.Type == eventMessage && (err != nil || body.Message.ID == "" || body.Message.Chat == ""):
		return nil, errNoEvent
	case h.Type == eventPress:
		e.readPress(all.Event)
	case h.Type == eventMessage:
		e.Sender, e.Message = body.Sender, &body.Message
	case err == nil && body.Chat != "":
		e.Sender.ID, e.Message = body.Operator, &body.message
	}
	return e, nil
}

// class returns what sort of event it is, and its id. A message has its own id, so that it runs once if the platform makes two events of it.
func (e *event) class() (kind channel.EventKind, id string) {
	switch {
	case e.Message == nil:
		return channel.EventUnknown, e.ID
	case e.Press != nil:
		return channel.EventInteraction, "press:" + e.ID
	case e.Kind == eventMessage:
		return channel.EventMessage, e.Message.ID
	}
	return channel.EventLifecycle, "event:" + e.ID
}

// chatKind returns the kind of the message's conversation.
func (m *message) chatKind() channel.ChatType {
	if m.ChatType == "p2p" {
		return channel.Direct
	}
	return channel.Group
}

// time returns when a message was written; zero if that is unknown.
func (m *message) time() time.Time {
	n, err := strconv.ParseInt(m.Created, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// repliedTo returns the id of the message that a message replies to, or "". In a topic, a message that replies to none has the topic's
// first message as its parent.
func (m *message) repliedTo() string {
	if m.Thread != "" && m.Parent == m.Root {
		return ""
	}
	return m.Parent
}

// content is what a message says.
type content struct {
	text  string // with the keys of mentions
	files []platform.Attachment
	all   bool // everybody is mentioned
}

// object is the content of a message, or a part of a rich text.
type object map[string]any

// get returns a field as text; "" if it has none.
func (o object) get(name string) string {
	if o[name] == nil {
		return ""
	}
	return fmt.Sprint(o[name])
}

// post is a rich text.
type post struct {
	Title    string     `json:"title"`
	Content  [][]object `json:"content"`  // by line
	Elements [][]object `json:"elements"` // the same of a card, as other apps read it
}

// keyOfAll is the key of a mention of everybody.
const keyOfAll = "@_all"

// descriptions are the texts of messages that are neither text nor files, with names of fields.
var descriptions = map[string]string{
	"sticker": "[sticker]", "location": "[location: $name, $latitude, $longitude]", "share_chat": "[chat: $chat_id]", "share_user": "[contact: $user_id]",
	"merge_forward": "[forwarded messages]", "folder": `[folder "$file_name"]`, "todo": "[todo: $summary]", "vote": "[vote: $topic]", "hongbao": "[hongbao]",
	"calendar": "[calendar: $summary]", "share_calendar_event": "[share calendar event: $summary]", "general_calendar": "[general calendar: $summary]",
	"video_chat": "[video chat: $topic]",
}

// read reads the content of a message. Content of another form than its type has is empty.
func (m *message) read() (c content) {
	raw := []byte(m.Content)
	var o object
	var p post
	switch m.Type {
	case "post":
		_ = json.Unmarshal(raw, &p)
		m.addPost(&c, p.Title, p.Content)
	case "interactive":
		_ = json.Unmarshal(raw, &p) // a card of another form is empty
		if m.addPost(&c, p.Title, p.Elements); strings.TrimSpace(c.text) == "" {
			c.text = "[card]"
		}
		c.files = nil // they cannot be loaded
	default:
		_ = json.Unmarshal(raw, &o)
		c.text = strings.Replace(os.Expand(descriptions[m.Type], o.get), ": ]", "]", 1)
		if m.Type == "text" {
			c.text, c.all = o.get("text"), strings.Contains(o.get("text"), keyOfAll)
		}
		m.addFile(&c, m.Type, o)
	}
	return c
}

// addPost adds a rich text.
func (m *message) addPost(c *content, title string, lines [][]object) {
	if title != "" {
		c.text = title + "\n"
	}
	for i, line := range lines {
		if i > 0 {
			c.text += "\n"
		}
		for _, o := range line {
			text := o.richText()
			c.text += text
			c.all = c.all || o["tag"] == "at" && text == keyOfAll
			m.addFile(c, o.get("tag"), o)
		}
	}
}

// endings are for files whose names have none.
var endings = map[channel.MediaKind]string{channel.MediaImage: ".jpg", channel.MediaAudio: ".ogg", channel.MediaVideo: ".mp4"}

// addFile adds the file of a message, or of a part of a rich text, if that is one. The platform does not say how large it is.
func (m *message) addFile(c *content, kind string, o object) {
	key, resource := o.get("file_key"), "file" // the platform keeps images apart from other files
	duration, _ := o["duration"].(float64)
	a := platform.Attachment{Name: o.get("file_name"), Fact: channel.MediaFact{MessageID: m.ID, Duration: time.Duration(duration) * time.Millisecond}}
	switch kind {
	case "image", "img":
		key, resource, a.Fact.Kind = o.get("image_key"), "image", channel.MediaImage
	case "file":
		a.Fact.Kind = platform.MediaKind(mime.TypeByExtension(platform.Ending(a.Name))) // the platform says no more of it
	case "audio":
		a.Fact.Kind, a.Fact.ContentType = channel.MediaAudio, "audio/ogg"
	case "media":
		a.Fact.Kind, a.Fact.ContentType = channel.MediaVideo, "video/mp4"
	default:
		return
	}
	if key == "" {
		return
	}
	sum := sha256.Sum256([]byte(m.ID + "/" + key))
	a.ID, a.Ending = hex.EncodeToString(sum[:16]), endings[a.Fact.Kind]
	a.Source = messagePath(m.ID) + "/resources/" + url.PathEscape(key) + "?type=" + resource
	c.files = append(c.files, a)
}

// richText returns the text of a part of a rich text.
func (o object) richText() string {
	text, href, user := o.get("text"), o.get("href"), o.get("user_id")
	switch o.get("tag") {
	case "text", "md":
		return text
	case "a":
		if href == "" || strings.TrimSuffix(href, "/") == strings.TrimSuffix(text, "/") {
			return text
		}
		return text + " (" + href + ")"
	case "at":
		switch {
		case user == "all":
			return keyOfAll
		case strings.HasPrefix(user, "@"): // a key, as in a plain text
			return user
		}
		return "@" + o.get("user_name")
	case "emotion":
		return "[" + o.get("emoji_type") + "]"
	case "hr":
		return "---"
	case "code_block":
		return "```" + strings.ToLower(o.get("language")) + "\n" + strings.TrimSuffix(text, "\n") + "\n```"
	}
	return ""
}

// mentionKey is the form of keys of mentions, such as @_user_1, with the space before.
var mentionKey = regexp.MustCompile(` ?@_(all|[a-z_]*[0-9]*)`)

// withNames replaces the keys of mentions in a text with names, and removes the mention of the person self.
func withNames(text string, mentions []mention, self string) string {
	return strings.TrimSpace(mentionKey.ReplaceAllStringFunc(text, func(match string) string {
		space, key, _ := strings.Cut(match, "@_")
		key = "@_" + key
		i := slices.IndexFunc(mentions, func(m mention) bool { return m.Key == key })
		switch {
		case key == keyOfAll:
			return space + "@all"
		case i < 0:
			return match
		case self != "" && mentions[i].ID.Open == self:
			return ""
		}
		return space + "@" + mentions[i].Name
	}))
}

// fetch writes a file.
func (c *Channel) fetch(ctx context.Context, a platform.Attachment, w io.Writer) error {
	_, err := c.call(ctx, platform.Request{Name: "load a file", Method: http.MethodGet, Path: a.Source, Out: w})
	return err
}
