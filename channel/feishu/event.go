package feishu

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
)

// event is an event of the platform.
type event struct {
	id      string // the same in every delivery
	kind    string // such as im.message.receive_v1
	tenant  string
	sender  sender
	message *message // that the event is about; nil: it is about no conversation
	edit    bool     // the message arrived before, and was changed since
	press   *channel.Press
}

// Kinds of events. Others of a conversation are accepted, and change nothing.
const (
	eventMessage = "im.message.receive_v1"
	eventRecall  = "im.message.recalled_v1"
	eventPress   = "card.action.trigger"
)

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

// mention is a person whom a message mentions. The text has the key in place of the name.
type mention struct {
	Key  string `json:"key"`
	ID   userID `json:"id"`
	Name string `json:"name"`
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

type sender struct {
	ID   userID `json:"sender_id"`
	Type string `json:"sender_type"` // user, app or bot
}

// envelope is the body of a request, of both versions of events.
type envelope struct {
	Encrypt string `json:"encrypt"`

	Schema string          `json:"schema"`
	Header json.RawMessage `json:"header"`
	Event  json.RawMessage `json:"event"`

	// Of the first version, which the challenge still has.
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

// readEvent reads an event of the second version.
func (all *envelope) readEvent() (header, *event, error) {
	var h header
	if all.Schema == "" || json.Unmarshal(all.Header, &h) != nil || h.ID == "" || h.Type == "" {
		return header{}, nil, errNoEvent
	}
	e := &event{id: h.ID, kind: h.Type, tenant: h.Tenant}
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
		e.readPress(all.Event)
	default:
		var body struct {
			message
			Operator userID `json:"operator_id"`
		}
		// An event of an unknown form is about no conversation.
		if json.Unmarshal(all.Event, &body) == nil && body.Chat != "" {
			e.sender.ID, e.message = body.Operator, &body.message
		}
	}
	return h, e, nil
}

// withoutSecrets returns the event as it is stored: without the verification token, and without the token that a press has for changes
// of its card.
func (all *envelope) withoutSecrets() ([]byte, error) {
	var head, body map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(all.Header, &head), json.Unmarshal(all.Event, &body)); err != nil {
		return nil, err
	}
	delete(head, "token")
	delete(body, "token")
	return json.Marshal(map[string]any{"schema": all.Schema, "header": head, "event": body})
}

const editPrefix = "edit:"

// readStored reads the events of a claimed one: several if they are one message.
func readStored(claimed *kernel.Claimed) (list []*event) {
	key, _ := channel.ParseEventKey(claimed.Key) // the queue has read it
	for _, raw := range claimed.Raws() {
		var all envelope
		_ = json.Unmarshal(raw, &all) // an empty one is no event
		_, e, err := all.readEvent()
		if err != nil {
			e = &event{id: key.ID} // about no conversation
		}
		e.edit = strings.HasPrefix(key.ID, editPrefix)
		list = append(list, e)
	}
	return list
}

// key identifies an event. A message has its own id, so that it runs once if the platform makes two events of it.
func (c *Channel) key(e *event) channel.EventKey {
	return channel.EventKey{Channel: c.s.Name, Account: c.s.Account, Conversation: e.message.Chat, Thread: e.message.Thread, ID: e.inputID()}
}

func (e *event) inputID() string {
	switch {
	case e.press != nil:
		return "press:" + e.id
	case e.edit:
		return editPrefix + e.message.ID + ":" + e.message.Updated
	case e.kind == eventMessage:
		return e.message.ID
	}
	return "event:" + e.id
}

// class returns what sort of event it is.
func (e *event) class() channel.EventKind {
	switch {
	case e.message == nil:
		return channel.EventUnknown
	case e.press != nil:
		return channel.EventInteraction
	case e.kind == eventMessage && !e.edit:
		return channel.EventMessage
	}
	return channel.EventLifecycle
}

// wasEdited reports whether a message was changed since it was written.
func (m *message) wasEdited() bool { return m.Updated != "" && m.Created != "" && m.Updated != m.Created }

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
