package feishu

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// event is an event of the platform. It is stored as JSON. It has none of the event's tokens.
type event struct {
	ID      string // the same in every delivery
	Kind    string // such as im.message.receive_v1
	Tenant  string
	Sender  sender
	Message *message       `json:",omitempty"` // that the event is about; nil: it is about no conversation
	Edit    bool           `json:",omitempty"` // the message arrived before, and was changed since
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
	Updated  string    `json:"update_time,omitempty"`
	Chat     string    `json:"chat_id"`
	Thread   string    `json:"thread_id,omitempty"`
	ChatType string    `json:"chat_type,omitempty"`
	Type     string    `json:"message_type,omitempty"`
	Content  string    `json:"content,omitempty"` // JSON, by type
	Mentions []mention `json:"mentions,omitempty"`
}

// mention is a person whom a message mentions. The text has the key in place of the name.
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

// envelope is the body of a request. The challenge, by which the platform checks the address, has the fields of the first version.
type envelope struct {
	Encrypt string          `json:"encrypt"`
	Schema  string          `json:"schema"` // "" is the first version
	Header  header          `json:"header"`
	Event   json.RawMessage `json:"event"`

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

// readEvent reads an event of the second version. What has another form than expected is about no conversation.
func (all *envelope) readEvent() (*event, error) {
	h := &all.Header
	e := &event{ID: h.ID, Kind: h.Type, Tenant: h.Tenant}
	switch {
	case h.ID == "" || h.Type == "":
		return nil, errNoEvent
	case h.Type == eventPress:
		e.readPress(all.Event)
	case h.Type == eventMessage:
		var body struct {
			Sender  sender  `json:"sender"`
			Message message `json:"message"`
		}
		if json.Unmarshal(all.Event, &body) != nil || body.Message.ID == "" || body.Message.Chat == "" {
			return nil, errNoEvent
		}
		e.Sender, e.Message = body.Sender, &body.Message
	default:
		var body struct {
			message
			Operator userID `json:"operator_id"`
		}
		if json.Unmarshal(all.Event, &body) == nil && body.Chat != "" {
			e.Sender.ID, e.Message = body.Operator, &body.message
		}
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
	case e.Edit:
		return channel.EventLifecycle, "edit:" + e.Message.ID + ":" + e.Message.Updated
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
