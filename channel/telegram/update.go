package telegram

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
)

// Update is what the platform tells a bot.
type Update = models.Update

// allowed are the updates that the channel asks for. What is not here costs neither the platform nor this server anything.
var allowed = []string{
	models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage, models.AllowedUpdateChannelPost,
	models.AllowedUpdateEditedChannelPost, models.AllowedUpdateCallbackQuery, models.AllowedUpdateMyChatMember,
}

// maxUpdate bounds one update (CH-171).
const maxUpdate = 1 << 20

// Raw reads a recorded update. What is newer than this server knows stays out: an update is unreadable only if it has no id.
func Raw(data []byte) (*Update, error) {
	u := new(Update)
	err := json.Unmarshal(data, u)
	if err == nil {
		if u.ID == 0 {
			return nil, errors.New("telegram: invalid update; expected a JSON object with update_id")
		}
		return u, nil
	}
	// The library refuses the whole of what has a member of a kind that it does not know. Origins are the one kind that must not
	// be lost: a forwarded message is not its sender's.
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return nil, errors.New("telegram: invalid update; expected a JSON object with update_id")
	}
	for name, member := range all {
		if m, ok := member.(map[string]any); ok {
			reduce(m, 0)
		} else if name != "update_id" {
			delete(all, name)
		}
	}
	if data, err = json.Marshal(all); err == nil {
		u = new(Update)
		if json.Unmarshal(data, u) == nil && u.ID != 0 {
			return u, nil
		}
	}
	id, ok := all["update_id"].(json.Number)
	if n, err := id.Int64(); ok && err == nil && n != 0 {
		return &Update{ID: n}, nil // nothing that an agent could be told
	}
	return nil, errors.New("telegram: invalid update; expected a JSON object with update_id")
}

// plain are the members of a message that an agent can be told of and whose form has not changed in years.
var plain = []string{
	"message_id", "message_thread_id", "from", "sender_chat", "date", "chat", "is_topic_message", "via_bot", "edit_date",
	"media_group_id", "text", "entities", "quote", "caption", "caption_entities", "photo", "document", "audio", "voice", "video",
	"video_note", "animation", "sticker", "migrate_to_chat_id", "migrate_from_chat_id",
}

// reduce leaves of a message what is plain, and says of an origin that there is one.
func reduce(m map[string]any, depth int) {
	kept := map[string]any{}
	for _, name := range plain {
		if v, ok := m[name]; ok {
			kept[name] = v
		}
	}
	if _, ok := m["forward_origin"]; ok {
		kept["forward_origin"] = map[string]any{"type": "hidden_user", "date": 0, "sender_user_name": ""}
	}
	if reply, ok := m["reply_to_message"].(map[string]any); ok && depth == 0 {
		reduce(reply, 1)
		kept["reply_to_message"] = reply
	}
	clear(m)
	for name, v := range kept {
		m[name] = v
	}
}

// message is the message that an update is about, and what kind of event it is. id is the event's own where that is not the message's.
func message(u *Update) (m *models.Message, kind channel.EventKind, id string) {
	of := func(what string, id any) string { return fmt.Sprint(what, ":", id) }
	switch {
	case u.Message != nil:
		m = u.Message
	case u.ChannelPost != nil:
		m = u.ChannelPost
	case u.EditedMessage != nil:
		return u.EditedMessage, channel.EventLifecycle, of("edit", u.ID)
	case u.EditedChannelPost != nil:
		return u.EditedChannelPost, channel.EventLifecycle, of("edit", u.ID)
	case u.CallbackQuery != nil:
		if at := u.CallbackQuery.Message.Message; at != nil {
			m = at
		} else if at := u.CallbackQuery.Message.InaccessibleMessage; at != nil {
			m = &models.Message{ID: at.MessageID, Chat: at.Chat}
		} else {
			m = &models.Message{Chat: models.Chat{ID: u.CallbackQuery.From.ID, Type: models.ChatTypePrivate}}
		}
		return press(u.CallbackQuery, m), channel.EventInteraction, of("callback", u.ID)
	case u.MessageReaction != nil:
		r := u.MessageReaction
		return &models.Message{ID: r.MessageID, Chat: r.Chat, From: r.User, Date: r.Date}, channel.EventReaction, of("reaction", u.ID)
	case u.MyChatMember != nil:
		c := u.MyChatMember
		return &models.Message{Chat: c.Chat, From: &c.From, Date: c.Date}, channel.EventLifecycle, of("member", u.ID)
	default:
		return nil, channel.EventUnknown, of("update", u.ID)
	}
	if m.MigrateToChatID != 0 || m.MigrateFromChatID != 0 || !speaks(m) {
		return m, channel.EventLifecycle, strconv.Itoa(m.ID)
	}
	return m, channel.EventMessage, strconv.Itoa(m.ID)
}

// speaks says whether somebody says something in a message: what is left are the platform's own notes.
func speaks(m *models.Message) bool {
	return m.Text != "" || m.Caption != "" || len(m.Photo) > 0 || m.Document != nil || m.Audio != nil || m.Voice != nil ||
		m.Video != nil || m.VideoNote != nil || m.Animation != nil || m.Sticker != nil || m.Location != nil || m.Venue != nil ||
		m.Contact != nil || m.Poll != nil || m.Dice != nil
}

// words are what a message says: its text or caption, with the entities of that.
func words(m *models.Message) (string, []models.MessageEntity) {
	if m.Text != "" {
		return m.Text, m.Entities
	}
	return m.Caption, m.CaptionEntities
}

// shown is what a message without a text says, in words.
func shown(m *models.Message) string {
	switch {
	case m.Sticker != nil:
		return strings.TrimSpace("[sticker " + m.Sticker.Emoji + "]")
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

// thread is the topic of a message, "" for none: the general topic of a forum is the chat itself (CH-173).
func thread(m *models.Message) string {
	if !m.IsTopicMessage || m.MessageThreadID <= generalTopic {
		return ""
	}
	return strconv.Itoa(m.MessageThreadID)
}

// generalTopic is the id of the topic that every forum has. It is not to be named when something is sent to it.
const generalTopic = 1

// chatKind is what the kernel calls a chat.
func chatKind(c *models.Chat) channel.ChatType {
	switch c.Type {
	case models.ChatTypePrivate:
		return channel.Direct
	case models.ChatTypeChannel:
		return channel.Broadcast
	default:
		return channel.Group
	}
}

// chatLabel is the name of a chat.
func chatLabel(c *models.Chat) string {
	if c.Title != "" {
		return c.Title
	}
	return strings.TrimSpace(c.FirstName + " " + c.LastName)
}

// sender is who wrote a message: a chat where somebody writes in its name (CH-173), else a person or a bot.
func sender(m *models.Message, me *models.User) channel.SenderFacts {
	if c := m.SenderChat; c != nil {
		return channel.SenderFacts{ID: strconv.FormatInt(c.ID, 10), Name: chatLabel(c), Username: c.Username, Tag: m.AuthorSignature}
	}
	if m.From == nil {
		return channel.SenderFacts{}
	}
	return user(m.From, me)
}

func user(u *models.User, me *models.User) channel.SenderFacts {
	return channel.SenderFacts{
		ID: strconv.FormatInt(u.ID, 10), Name: strings.TrimSpace(u.FirstName + " " + u.LastName), Username: u.Username,
		IsBot: u.IsBot, IsSelf: u.ID == me.ID,
	}
}
