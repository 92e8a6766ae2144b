package telegram

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
)

// allowed are the updates that the channel asks for.
var allowed = []string{
	models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage, models.AllowedUpdateChannelPost,
	models.AllowedUpdateEditedChannelPost, models.AllowedUpdateCallbackQuery,
}

// update is what the platform tells of one message.
type update struct {
	id      int64
	message *models.Message // nil: there is nothing for an agent
	kind    channel.EventKind
	event   string                // the id of the event in its conversation
	edited  bool                  // the message came before
	press   *models.CallbackQuery // on a button below a message; nil
	to      addressing            // of the message, when its input was read
}

var errUpdate = errors.New("telegram: invalid update; expected a JSON object with update_id, and a message as the Bot API has it")

// readUpdate reads an update. With an error, it has at most an id.
func readUpdate(data []byte) (*update, error) {
	var u models.Update
	if json.Unmarshal(data, &u) != nil || u.ID == 0 {
		var known struct {
			ID int64 `json:"update_id"`
		}
		_ = json.Unmarshal(data, &known)
		return &update{id: known.ID}, errUpdate
	}
	r := &update{id: u.ID, kind: channel.EventUnknown}
	for _, m := range []*models.Message{u.Message, u.ChannelPost} {
		if m != nil {
			r.message, r.kind, r.event = m, channel.EventMessage, strconv.Itoa(m.ID)
		}
	}
	for _, m := range []*models.Message{u.EditedMessage, u.EditedChannelPost} {
		if m != nil {
			r.message, r.kind, r.event, r.edited = m, channel.EventLifecycle, fmt.Sprint("edit:", u.ID), true
		}
	}
	if c := u.CallbackQuery; c != nil {
		r.message, r.kind, r.event, r.press = pressedMessage(c), channel.EventInteraction, fmt.Sprint("callback:", u.ID), c
	}
	if r.kind == channel.EventMessage && (r.message.MigrateToChatID != 0 || r.message.MigrateFromChatID != 0 || !hasContent(r.message)) {
		r.kind = channel.EventLifecycle
	}
	return r, nil
}

// pressedMessage returns a message by the person who pressed a button, at the place of the button. The text is the command that the button stands for.
func pressedMessage(c *models.CallbackQuery) *models.Message {
	m := &models.Message{From: &c.From}
	if at := c.Message.Message; at != nil {
		m.ID, m.Chat, m.MessageThreadID, m.IsTopicMessage = at.ID, at.Chat, at.MessageThreadID, at.IsTopicMessage
	} else if at := c.Message.InaccessibleMessage; at != nil {
		m.ID, m.Chat = at.MessageID, at.Chat
	} else {
		m.Chat = models.Chat{ID: c.From.ID, Type: models.ChatTypePrivate}
	}
	if p, ok := readPress(c); ok {
		m.Text = p.Command()
	}
	return m
}

// hasContent reports whether a message says something. Others are notes of the platform.
func hasContent(m *models.Message) bool {
	return m.Text != "" || m.Caption != "" || len(attachments(m, 0)) > 0 || inWords(m) != ""
}

// textOf returns the text or the caption of a message, with its entities.
func textOf(m *models.Message) (string, []models.MessageEntity) {
	if m.Text != "" {
		return m.Text, m.Entities
	}
	return m.Caption, m.CaptionEntities
}

// inWords describes a message that has neither a text nor a file; "" for others.
func inWords(m *models.Message) string {
	switch {
	case m.Sticker != nil:
		return strings.TrimSpace("[sticker "+m.Sticker.Emoji) + "]"
	case m.Venue != nil:
		return fmt.Sprintf("[place: %s, %s, %g, %g]", m.Venue.Title, m.Venue.Address, m.Venue.Location.Latitude, m.Venue.Location.Longitude)
	case m.Location != nil:
		return fmt.Sprintf("[location: %g, %g]", m.Location.Latitude, m.Location.Longitude)
	case m.Contact != nil:
		return fmt.Sprintf("[contact: %s, %s]", strings.TrimSpace(m.Contact.FirstName+" "+m.Contact.LastName), m.Contact.PhoneNumber)
	case m.Poll != nil:
		var options []string
		for _, o := range m.Poll.Options {
			options = append(options, o.Text)
		}
		return fmt.Sprintf("[poll: %s (%s)]", m.Poll.Question, strings.Join(options, "; "))
	case m.Dice != nil:
		return fmt.Sprintf("[%s %d]", m.Dice.Emoji, m.Dice.Value)
	}
	return ""
}

// fullText is what a message says, with the addresses of its links.
func fullText(m *models.Message) string {
	text, entities := textOf(m)
	return cmp.Or(rewrite(text, links(text, entities)), inWords(m))
}

// generalTopic is the topic that every forum has. It is the chat itself, and must not be named in calls.
const generalTopic = 1

// topic returns the topic of a message; "" is none (CH-173).
func topic(m *models.Message) string {
	if !m.IsTopicMessage || m.MessageThreadID <= generalTopic {
		return ""
	}
	return strconv.Itoa(m.MessageThreadID)
}

var chatKinds = map[models.ChatType]channel.ChatType{models.ChatTypePrivate: channel.Direct, models.ChatTypeChannel: channel.Broadcast}

func chatKind(c *models.Chat) channel.ChatType { return cmp.Or(chatKinds[c.Type], channel.Group) }

func chatLabel(c *models.Chat) string {
	return cmp.Or(c.Title, strings.TrimSpace(c.FirstName+" "+c.LastName))
}

// sender returns who wrote a message: a chat, if someone writes in its name (CH-173), else a person or a bot.
func (c *Channel) sender(m *models.Message) channel.SenderFacts {
	switch {
	case m.SenderChat != nil:
		s := asSender(m.SenderChat)
		s.Tag = m.AuthorSignature
		return s
	case m.From != nil:
		return c.user(m.From)
	}
	return channel.SenderFacts{}
}

func asSender(c *models.Chat) channel.SenderFacts {
	return channel.SenderFacts{ID: strconv.FormatInt(c.ID, 10), Name: chatLabel(c), Username: c.Username}
}

func (c *Channel) user(u *models.User) channel.SenderFacts {
	return channel.SenderFacts{
		ID: strconv.FormatInt(u.ID, 10), Name: strings.TrimSpace(u.FirstName + " " + u.LastName), Username: u.Username,
		IsBot: u.IsBot, IsSelf: u.ID == c.self().ID,
	}
}
