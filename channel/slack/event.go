package slack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"

	"github.com/lingserve/lingserve/channel"
)

// event is what one request of the platform says.
type event struct {
	Type           string          `json:"type"`
	Challenge      string          `json:"challenge"`
	SSLCheck       string          `json:"ssl_check"` // of a form without an event, by which the platform checks the certificate
	ID             string          `json:"event_id"`
	TeamID         string          `json:"team_id"`
	Inner          json.RawMessage `json:"event"`
	Authorizations []struct {      // installations of the app that may see the event
		TeamID string `json:"team_id"`
		UserID string `json:"user_id"`
	} `json:"authorizations"`

	message *message // nil: nothing that an agent could be told, and no change of that
}

// message is what an event says, whichever kind it is of.
type message struct {
	slackgo.Msg  // that the event is about: its Timestamp, User, BotID, Username, Team, Text, Files and ParentUserId are read
	kind         channel.EventKind
	id           string // of the event, within its conversation: of a message, its ts
	conversation string
	direct       bool
	thread       string // ts of its first message; "" outside of threads, and for that message itself
	native       bool   // a slash command, which is for the app alone
	press        *press
	shared       *slackgo.Attachment // a message of elsewhere
	deleted      bool                // of a message that was there before: it was not edited, but deleted
}

// maxEvent bounds the body of a request, in bytes.
const maxEvent = 1 << 20

var errNoEvent = errors.New("slack: invalid event; expected the JSON of the Events API, or the form of a slash command")

// parseEvent parses the body of a request, or the payload of an envelope of Socket Mode: what is a form in the one is JSON in the other. Unknown events
// and members are left out.
func parseEvent(body []byte) (*event, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errNoEvent
		}
		fields := map[string]string{}
		for name := range form {
			fields[name] = form.Get(name)
		}
		if body = []byte(fields["payload"]); len(body) == 0 {
			body, _ = json.Marshal(fields) // texts
		}
	}
	e := new(event)
	var command slackgo.SlashCommand
	if json.Unmarshal(body, e) != nil {
		return nil, errNoEvent
	}
	switch {
	case e.Type == slackevents.CallbackEvent:
		e.message = e.parseMessage()
	case e.Type == string(slackgo.InteractionTypeBlockActions):
		return interactionEvent(body)
	case e.Type == "" && e.SSLCheck == "":
		if json.Unmarshal(body, &command) != nil {
			return nil, errNoEvent
		}
		return commandEvent(command)
	}
	return e, nil
}

// isDirect reports whether the id of a conversation is that of a direct one.
func isDirect(conversation string) bool { return strings.HasPrefix(conversation, "D") }

// starts are the subtypes of new messages.
var starts = []string{"", "file_share", "thread_broadcast", "me_message", "bot_message"}

// parseMessage parses the inner event; nil: it is about no message, or not understood. A member that has another type is left out. A change has the id of
// its event, for a message may change often.
func (e *event) parseMessage() *message {
	var in struct {
		slackgo.Message
		ChannelType string `json:"channel_type"`
	}
	err := json.Unmarshal(e.Inner, &in)
	if _, partly := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !partly || in.Type != "message" && in.Type != "app_mention" {
		return nil
	}
	m := &message{Msg: in.Msg, kind: channel.EventLifecycle, id: e.ID, conversation: in.Channel}
	m.direct = in.ChannelType == "im" || isDirect(in.Channel) // a mention has no type
	switch {
	case in.SubType == "message_changed" && in.SubMessage != nil:
		m.Msg = *in.SubMessage
		m.deleted = m.SubType == "tombstone" // there are answers to it
	case in.SubType == "message_deleted":
		if in.PreviousMessage != nil {
			m.Msg = *in.PreviousMessage
		}
		m.Timestamp, m.deleted = in.DeletedTimestamp, true
	case in.Edited != nil: // a mention that was written into a message later
	case !slices.Contains(starts, in.SubType):
		return nil
	default:
		m.kind, m.id = channel.EventMessage, in.Timestamp
	}
	if m.ThreadTimestamp != m.Timestamp {
		m.thread = m.ThreadTimestamp
	}
	m.readAttachments()
	isEmpty := m.kind == channel.EventMessage && m.Text == "" && len(m.Files) == 0 && m.shared == nil
	if m.conversation == "" || m.id == "" || isEmpty {
		return nil
	}
	return m
}

// readAttachments finds a message of elsewhere, and the texts of a bot, which may be there.
func (m *message) readAttachments() {
	var texts []string
	for i, a := range m.Attachments {
		if (a.IsShare || a.IsMsgUnfurl) && m.shared == nil {
			m.shared = &m.Attachments[i]
		} else if text := cmp.Or(a.Text, a.Fallback); text != "" {
			texts = append(texts, text)
		}
	}
	m.Text = cmp.Or(m.Text, strings.Join(texts, "\n"))
}

// commandEvent is the event of a slash command.
func commandEvent(c slackgo.SlashCommand) (*event, error) {
	if c.Command == "" || c.ChannelID == "" || c.UserID == "" || c.TriggerID == "" {
		return nil, errNoEvent
	}
	m := &message{kind: channel.EventMessage, id: "command:" + c.TriggerID, conversation: c.ChannelID, direct: isDirect(c.ChannelID), native: true}
	m.User, m.Text = c.UserID, ","+strings.TrimPrefix(cmp.Or(strings.TrimSpace(c.Text), "help"), ",")
	return &event{TeamID: c.TeamID, message: m}, nil
}

// interactionEvent is the event of what someone has done with a button.
func interactionEvent(payload []byte) (*event, error) {
	var p slackgo.InteractionCallback
	if json.Unmarshal(payload, &p) != nil {
		return nil, errNoEvent
	}
	e := &event{TeamID: p.Team.ID}
	if actions := p.ActionCallback.BlockActions; len(actions) == 1 && p.Channel.ID != "" && p.TriggerID != "" {
		e.message = pressMessage(&p, actions[0])
	}
	return e, nil
}

// timeOf is the time of a ts: seconds, a point, and six digits that tell messages of the same second apart.
func timeOf(ts string) time.Time {
	seconds, err := strconv.ParseFloat(ts, 64)
	if err != nil || seconds < 1 || seconds > 1<<40 {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
}

// sender is who wrote a message.
func (m *message) sender(me *slackgo.AuthTestResponse) channel.SenderFacts {
	return channel.SenderFacts{
		ID: cmp.Or(m.User, m.BotID), Name: m.Username, IsBot: m.BotID != "" || m.SubType == "bot_message" || m.User == "USLACKBOT",
		IsSelf: m.User != "" && m.User == me.UserID || m.BotID != "" && m.BotID == me.BotID,
	}
}

// chat is the kind of a conversation. A mention does not say whether it comes from a channel or from a group, so the two are one.
func (m *message) chat() channel.ChatType {
	if m.direct {
		return channel.Direct
	}
	return channel.Group
}

// concerns reports whether an event is for the workspace of the token. An app that several workspaces have gets the events of all at one address.
func (e *event) concerns(me *slackgo.AuthTestResponse) bool {
	for _, a := range e.Authorizations {
		if a.TeamID == "" || a.TeamID == me.TeamID || a.UserID == me.UserID {
			return true
		}
	}
	return len(e.Authorizations) == 0 && (e.TeamID == "" || e.TeamID == me.TeamID)
}
