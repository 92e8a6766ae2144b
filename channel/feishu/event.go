package feishu

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// Event is what the platform tells an app, as far as a channel is concerned.
type Event struct {
	ID     string // of the event; every delivery of it has the same
	Type   string // such as im.message.receive_v1
	Tenant string

	sender  sender
	message *message // that it is about; nil for one that no conversation has
	edit    bool     // the message came before, and has changed since
	press   *channel.Press
}

// message is a message in an event.
type message struct {
	ID       string    `json:"message_id"`
	Root     string    `json:"root_id"`
	Parent   string    `json:"parent_id"`
	Created  string    `json:"create_time"` // in milliseconds
	Updated  string    `json:"update_time"`
	Chat     string    `json:"chat_id"`
	Thread   string    `json:"thread_id"`
	ChatType string    `json:"chat_type"`
	Type     string    `json:"message_type"`
	Content  string    `json:"content"` // JSON, by type
	Mentions []mention `json:"mentions"`
}

// mention is somebody whom a message names. In its text there is the key.
type mention struct {
	Key  string `json:"key"`
	ID   ids    `json:"id"`
	Name string `json:"name"`
}

// ids are what the platform calls somebody. Only the first is the same for an app whatever its rights.
type ids struct {
	Open string `json:"open_id"`
}

// UnmarshalJSON takes the plain text, too, by which messages that are asked for have it.
func (i *ids) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &i.Open)
	}
	type plain ids
	return json.Unmarshal(data, (*plain)(i))
}

// sender is who wrote a message.
type sender struct {
	ID     ids    `json:"sender_id"`
	Type   string `json:"sender_type"` // user, app
	Tenant string `json:"tenant_key"`
}

// The events that are looked at. Others of a conversation are handled, and change nothing.
const (
	eventMessage = "im.message.receive_v1"
	eventRecall  = "im.message.recalled_v1"
	eventPress   = "card.action.trigger"
)

// Kinds of conversations.
const chatDirect = "p2p"

// maxEvent bounds the body of an event (CH-171, as for other webhooks).
const maxEvent = 1 << 20

// envelope is the body of an event, of all versions.
type envelope struct {
	Encrypt string `json:"encrypt"`

	Schema string          `json:"schema"`
	Header json.RawMessage `json:"header"`
	Event  json.RawMessage `json:"event"`

	// Of the first version, in which the question for the address still comes.
	Type      string `json:"type"`
	Token     string `json:"token"`
	Challenge string `json:"challenge"`
}

type header struct {
	ID     string `json:"event_id"`
	Type   string `json:"event_type"`
	Token  string `json:"token"`
	App    string `json:"app_id"`
	Tenant string `json:"tenant_key"`
}

var errNoEvent = errors.New("feishu: invalid event; expected a JSON object with schema 2.0, header and event")

// Raw reads a recorded event that is not encrypted.
func Raw(data []byte) (*Event, error) {
	var all envelope
	if json.Unmarshal(data, &all) != nil {
		return nil, errNoEvent
	}
	_, e, err := all.read()
	return e, err
}

// read reads an event of the second version.
func (all *envelope) read() (header, *Event, error) {
	var h header
	if all.Schema == "" || json.Unmarshal(all.Header, &h) != nil || h.ID == "" || h.Type == "" {
		return header{}, nil, errNoEvent
	}
	e := &Event{ID: h.ID, Type: h.Type, Tenant: h.Tenant}
	switch h.Type {
	case eventMessage:
		var body struct {
			Sender  sender  `json:"sender"`
			Message message `json:"message"`
		}
		if json.Unmarshal(all.Event, &body) != nil || body.Message.ID == "" || body.Message.Chat == "" {
			return header{}, nil, errNoEvent
		}
		e.sender, e.message = body.Sender, &body.Message
	case eventPress:
		e.pressed(all.Event)
	default:
		var body struct {
			message
			Operator ids `json:"operator_id"`
		}
		// What has another form than is known is about no conversation.
		if json.Unmarshal(all.Event, &body) == nil && body.Chat != "" {
			e.sender.ID, e.message = body.Operator, &body.message
		}
	}
	return h, e, nil
}

// bare is what the journal keeps of an event: all of it but the verification token, and the token that a press has for changes of its card.
// They are secrets and are not needed again.
func (all *envelope) bare() ([]byte, error) {
	var head, body map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(all.Header, &head), json.Unmarshal(all.Event, &body)); err != nil {
		return nil, err
	}
	delete(head, "token")
	delete(body, "token")
	return json.Marshal(map[string]any{"schema": all.Schema, "header": head, "event": body})
}

// kind is what sort of event it is, and its id: a message's own where somebody says something, so that an event that is made twice
// of one message is one.
func (e *Event) kind() (channel.EventKind, string) {
	switch {
	case e.message == nil:
		return channel.EventUnknown, e.ID
	case e.press != nil:
		return channel.EventInteraction, "press:" + e.ID
	case e.edit:
		return channel.EventLifecycle, "edit:" + e.message.ID + ":" + e.message.Updated
	case e.Type == eventMessage:
		return channel.EventMessage, e.message.ID
	}
	return channel.EventLifecycle, "event:" + e.ID
}

// key names an event in the journal. It is what the kernel makes of the input.
func (c *Channel) key(e *Event) channel.EventKey {
	_, id := e.kind()
	return channel.EventKey{Channel: c.name, Account: c.account, Conversation: e.message.Chat, Thread: e.message.Thread, ID: id}
}

// edited says whether a message has changed since it was written.
func (m *message) edited() bool { return m.Updated != "" && m.Created != "" && m.Updated != m.Created }

// chatKind is what the kernel calls a conversation.
func (m *message) chatKind() channel.ChatType {
	if m.ChatType == chatDirect {
		return channel.Direct
	}
	return channel.Group
}

// at is when a message was written.
func (m *message) at() time.Time {
	n, err := strconv.ParseInt(m.Created, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// quoted is the message that a message replies to. In a topic, every message that replies to none refers to the topic's first.
func (m *message) quoted() string {
	if m.Thread != "" && m.Parent == m.Root {
		return ""
	}
	return m.Parent
}
