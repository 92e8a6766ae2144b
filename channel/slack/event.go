package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// Event is what one request of the platform tells.
type Event struct {
	Type           string          `json:"type"`
	Challenge      string          `json:"challenge"`
	ID             string          `json:"event_id"`
	TeamID         string          `json:"team_id"`
	Authorizations []authorization `json:"authorizations"`
	Inner          json.RawMessage `json:"event"`

	message *message // nil where no agent could be told of it
}

// authorization is an installation of the app that may see an event.
type authorization struct {
	TeamID string `json:"team_id"`
	UserID string `json:"user_id"`
}

// The types of requests. The last two are ours: those come as forms.
const (
	typeChallenge   = "url_verification"
	typeEvent       = "event_callback"
	typeLimited     = "app_rate_limited"
	typeCommand     = "slash_command"
	typeInteraction = "interaction"
	typeProbe       = "ssl_check"
)

// typeActions is the type of an interaction with a block of a message.
const typeActions = "block_actions"

// message is what an event says, whichever kind it is of.
type message struct {
	kind         channel.EventKind
	id           string // of the event, within its conversation: of a message, its ts
	conversation string
	direct       bool
	thread       string // ts of its first message; "" outside of threads, and for that message itself
	parent       string // who wrote the first message of the thread; "" where the platform does not say
	ts           string // of the message that the event is about
	user, bot    string // ids
	isBot        bool
	name, handle string
	text         string
	native       bool // a slash command: nobody else is meant
	press        *press
	files        []file
	shared       *attachment
	change       change
}

// change is what has become of a message that was there before.
type change uint8

const (
	changeNone change = iota
	changeText
	changeGone
)

// file is a file of a message.
type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Type     string `json:"mimetype"`
	Mode     string `json:"mode"`
	Size     int64  `json:"size"`
	URL      string `json:"url_private"`
	Download string `json:"url_private_download"`
	Width    int    `json:"original_w"`
	Height   int    `json:"original_h"`
	Duration int64  `json:"duration_ms"`
	External bool   `json:"is_external"`
}

// attachment is what stands below a message: a message of elsewhere, or what a bot has to say.
type attachment struct {
	Share    bool   `json:"is_share"`
	Unfurl   bool   `json:"is_msg_unfurl"`
	AuthorID string `json:"author_id"`
	Author   string `json:"author_name"`
	Channel  string `json:"channel_id"`
	TS       string `json:"ts"`
	Text     string `json:"text"`
	Fallback string `json:"fallback"`
}

// inner is the event itself, as far as it is about a message.
type inner struct {
	Type        string            `json:"type"`
	Subtype     string            `json:"subtype"`
	Channel     string            `json:"channel"`
	ChannelType string            `json:"channel_type"`
	User        string            `json:"user"`
	BotID       string            `json:"bot_id"`
	Username    string            `json:"username"`
	Text        string            `json:"text"`
	TS          string            `json:"ts"`
	EventTS     string            `json:"event_ts"`
	ThreadTS    string            `json:"thread_ts"`
	ParentUser  string            `json:"parent_user_id"`
	DeletedTS   string            `json:"deleted_ts"`
	Edited      json.RawMessage   `json:"edited"`
	Files       []json.RawMessage `json:"files"`
	Attachments []json.RawMessage `json:"attachments"`
	Message     *inner            `json:"message"`
	Previous    *inner            `json:"previous_message"`
	Item        *struct {
		Type    string `json:"type"`
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	} `json:"item"`
	Profile *struct {
		Name     string `json:"name"`
		RealName string `json:"real_name"`
		Display  string `json:"display_name"`
	} `json:"user_profile"`
}

// maxEvent bounds the body of a request, in bytes.
const maxEvent = 1 << 20

var errNoEvent = errors.New("slack: invalid event; expected the JSON of the Events API, or the form of a slash command")

// Raw reads the body of a recorded request. What is newer than this server knows stays out of it.
func Raw(body []byte) (*Event, error) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return form(body)
	}
	e := new(Event)
	if json.Unmarshal(body, e) != nil || e.Type == "" {
		return nil, errNoEvent
	}
	if e.Type == typeEvent {
		e.message = e.read()
	}
	return e, nil
}

// read reads the inner event; nil is one that no agent could be told of, or whose form is none.
func (e *Event) read() *message {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(e.Inner, &kind) != nil {
		return nil
	}
	switch kind.Type {
	case "message", "app_mention", "reaction_added", "reaction_removed":
	default:
		return nil
	}
	var in inner
	if json.Unmarshal(e.Inner, &in) != nil {
		return nil
	}
	m := in.read(e.ID)
	if m == nil || m.conversation == "" || m.id == "" {
		return nil
	}
	m.direct = in.ChannelType == "im" || strings.HasPrefix(m.conversation, "D") // a mention has no type
	return m
}

// read reads an event that is about a message. What a change is about is known by the event's own id, for a message may change often.
func (in *inner) read(event string) *message {
	m := &message{conversation: in.Channel, kind: channel.EventLifecycle, id: event}
	switch {
	case in.Type == "reaction_added" || in.Type == "reaction_removed":
		if in.Item == nil || in.Item.Type != "message" {
			return nil
		}
		m.kind, m.conversation, m.ts, m.user = channel.EventReaction, in.Item.Channel, in.Item.TS, in.User
	case in.Subtype == "message_changed":
		if in.Message == nil {
			return nil
		}
		m.of(in.Message)
		m.change = changeText
		if in.Message.Subtype == "tombstone" { // deleted, but there are answers to it
			m.change = changeGone
		}
	case in.Subtype == "message_deleted":
		if in.Previous != nil {
			m.of(in.Previous)
		}
		m.ts, m.change = in.DeletedTS, changeGone
	case len(in.Edited) > 0 && string(in.Edited) != "null": // a mention that was written into a message later
		m.of(in)
		m.change = changeText
	default:
		m.of(in)
		m.id = in.TS
		switch in.Subtype {
		case "", "file_share", "thread_broadcast", "me_message", "bot_message":
			if m.text != "" || len(m.files) > 0 || m.shared != nil {
				m.kind = channel.EventMessage
			}
		}
	}
	return m
}

// of takes what a message says and who wrote it.
func (m *message) of(in *inner) {
	m.ts, m.user, m.bot, m.text, m.parent, m.name = in.TS, in.User, in.BotID, in.Text, in.ParentUser, in.Username
	m.isBot = in.BotID != "" || in.Subtype == "bot_message" || in.User == "USLACKBOT"
	if in.ThreadTS != in.TS {
		m.thread = in.ThreadTS
	}
	if p := in.Profile; p != nil {
		m.name, m.handle = p.RealName, p.Name
		if p.Display != "" {
			m.name = p.Display
		}
	}
	for _, raw := range in.Files {
		var f file
		if json.Unmarshal(raw, &f) == nil { // one that is not understood does not keep the message from the agent
			m.files = append(m.files, f)
		}
	}
	var said []string
	for _, raw := range in.Attachments {
		var a attachment
		if json.Unmarshal(raw, &a) != nil {
			continue
		}
		if (a.Share || a.Unfurl) && m.shared == nil {
			m.shared = &a
		} else if a.Text != "" {
			said = append(said, a.Text)
		} else if a.Fallback != "" {
			said = append(said, a.Fallback)
		}
	}
	if m.text == "" { // bots say it there
		m.text = strings.Join(said, "\n")
	}
}

// form reads what comes as a form: slash commands, and what somebody does with buttons.
func form(body []byte) (*Event, error) {
	values, err := url.ParseQuery(string(body))
	switch {
	case err != nil:
		return nil, errNoEvent
	case values.Get("ssl_check") == "1":
		return &Event{Type: typeProbe}, nil
	case values.Has("payload"):
		return interaction(values.Get("payload"))
	case !values.Has("command"):
		return nil, errNoEvent
	}
	e := &Event{Type: typeCommand, TeamID: values.Get("team_id")}
	m := &message{
		kind: channel.EventMessage, id: "command:" + values.Get("trigger_id"), conversation: values.Get("channel_id"), user: values.Get("user_id"),
		handle: values.Get("user_name"), native: true, text: strings.TrimSpace(values.Get("text")),
	}
	if m.text == "" {
		m.text = "help"
	}
	if !strings.HasPrefix(m.text, ",") {
		m.text = "," + m.text
	}
	m.direct = strings.HasPrefix(m.conversation, "D")
	if m.conversation == "" || m.user == "" || m.id == "command:" {
		return nil, errNoEvent
	}
	e.message = m
	return e, nil
}

// interaction reads what somebody has done with a button or a form.
func interaction(payload string) (*Event, error) {
	var p struct {
		Type    string `json:"type"`
		Trigger string `json:"trigger_id"`
		Team    *struct {
			ID string `json:"id"`
		} `json:"team"`
		User struct {
			ID   string `json:"id"`
			Name string `json:"username"`
		} `json:"user"`
		Channel *struct {
			ID string `json:"id"`
		} `json:"channel"`
		Message json.RawMessage `json:"message"`
		Actions []action        `json:"actions"`
	}
	if json.Unmarshal([]byte(payload), &p) != nil || p.Type == "" {
		return nil, errNoEvent
	}
	e := &Event{Type: typeInteraction}
	if p.Team != nil {
		e.TeamID = p.Team.ID
	}
	if p.Channel == nil || p.Channel.ID == "" || p.Trigger == "" {
		return e, nil // of a window, which no conversation has
	}
	m := &message{
		kind: channel.EventInteraction, id: "interaction:" + p.Trigger, conversation: p.Channel.ID, user: p.User.ID,
		direct: strings.HasPrefix(p.Channel.ID, "D"), handle: p.User.Name,
	}
	var on pressedMessage
	if len(p.Message) > 0 && json.Unmarshal(p.Message, &on) == nil && on.Thread != on.TS {
		m.thread = on.Thread
	}
	if p.Type == typeActions && len(p.Actions) == 1 {
		m.pressed(p.Actions[0], on)
	}
	e.message = m
	return e, nil
}

// at is the time of a ts: seconds, a point, and six digits that tell messages of the same second apart.
func at(ts string) time.Time {
	whole, part, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || s <= 0 || s > 1<<40 {
		return time.Time{}
	}
	us, err := strconv.ParseInt(part, 10, 64)
	if err != nil || us < 0 || us > 999_999 {
		us = 0
	}
	return time.Unix(s, us*1000).UTC()
}

// sender is who wrote a message.
func (m *message) sender(me *identity) channel.SenderFacts {
	s := channel.SenderFacts{ID: m.user, Name: m.name, Username: m.handle, IsBot: m.isBot}
	if s.ID == "" {
		s.ID = m.bot
	}
	s.IsSelf = m.user != "" && m.user == me.UserID || m.bot != "" && m.bot == me.BotID
	return s
}

// chat is what the kernel calls a conversation's kind. A mention does not say whether it comes from a channel or from a group, so the
// two are one.
func (m *message) chat() channel.ChatType {
	if m.direct {
		return channel.Direct
	}
	return channel.Group
}

// ours says whether an event is for the workspace of the token: an app that several workspaces have gets the events of all at one
// address.
func (e *Event) ours(me *identity) bool {
	if len(e.Authorizations) == 0 {
		return e.TeamID == "" || e.TeamID == me.TeamID
	}
	for _, a := range e.Authorizations {
		if a.TeamID == "" || a.TeamID == me.TeamID || a.UserID == me.UserID {
			return true
		}
	}
	return false
}
