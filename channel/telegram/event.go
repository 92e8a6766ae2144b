package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
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
	press   *models.CallbackQuery // on a button below a message, which is not answered; nil
	to      addressing            // of the message, when its input was read
}

var errUpdate = errors.New("telegram: invalid update; expected a JSON object with update_id")

// readUpdate reads an update. It is invalid only if it has no id.
func readUpdate(data []byte) (*update, error) {
	u, unknown := readKnown[models.Update](data)
	if u.ID == 0 {
		return nil, errUpdate
	}
	for name, m := range map[string]**models.Message{
		"message": &u.Message, "channel_post": &u.ChannelPost, "edited_message": &u.EditedMessage, "edited_channel_post": &u.EditedChannelPost,
	} {
		if unknown[name] != nil {
			*m = readMessage(unknown[name])
		}
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

// readKnown reads the members of an object that have a form which the library knows, and returns the others.
func readKnown[T any](data []byte) (known T, unknown map[string]json.RawMessage) {
	_ = json.Unmarshal(data, &unknown) // what is no object has no members
	for name, value := range unknown {
		next := known
		member, _ := json.Marshal(map[string]json.RawMessage{name: value})
		if json.Unmarshal(member, &next) == nil {
			known = next
			delete(unknown, name)
		}
	}
	return known, unknown
}

// readMessage reads what the library knows of a message; nil: it cannot be read. A forwarded message stays one, because it is not by its sender.
func readMessage(data json.RawMessage) *models.Message {
	m, unknown := readKnown[models.Message](data)
	if unknown["forward_origin"] != nil {
		m.ForwardOrigin = &models.MessageOrigin{Type: models.MessageOriginTypeHiddenUser, MessageOriginHiddenUser: &models.MessageOriginHiddenUser{}}
	}
	if unknown["reply_to_message"] != nil {
		m.ReplyToMessage = readMessage(unknown["reply_to_message"])
	}
	if m.ID == 0 || m.Chat.ID == 0 {
		return nil
	}
	return &m
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

// run runs the turn of an event: of an update, or of those of an album, of which the last one is answered.
func (c *Channel) run(ctx context.Context, e *platform.Event) (channel.Result, error) {
	key, _ := channel.ParseEventKey(e.Meta.Event.Key) // the kernel has written it
	for _, raw := range e.Meta.Event.Raws() {
		if u, err := readUpdate(raw); err == nil && u.message != nil { // else another version of this server has stored it
			c.addUpdate(ctx, e, u, key.Conversation)
		}
	}
	return e.Run(ctx)
}

func (c *Channel) addUpdate(ctx context.Context, e *platform.Event, u *update, conversation string) {
	m, in := u.message, c.input(e.Kernel, u, conversation)
	one := platform.Message{Input: in, Kind: u.kind, Files: attachments(m, c.Files.Limit)}
	one.Mentions = func(names channel.Names) channel.MentionFacts { return mentioned(u, c.self().ID, names) }
	if u.edited {
		one.Edited = strconv.Itoa(m.ID)
	}
	if p, ok := readPress(u.press); ok {
		one.Press = &p
	}
	if u.to.otherBot {
		e.Admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "other_bot"}
	}
	e.Messages = append(e.Messages, one)
	e.Sender = c.sender(m)
	e.Place = channel.ConversationFacts{Kind: chatKind(&m.Chat), ID: conversation, Label: chatLabel(&m.Chat), ThreadID: in.ThreadID}
	current, replyTo := strconv.FormatInt(c.current(ctx, m.Chat.ID), 10), ""
	if current != conversation {
		e.Place.NativeChannelID = current
	}
	if e.Place.Kind == channel.Group {
		replyTo = strconv.Itoa(m.ID)
	}
	e.Reply = platform.ReplyPlan(e.Place.Kind, current, in.ThreadID, replyTo)
	e.Reply.NativeChannelID = current
	e.Delivery = c.delivery
	e.Complete = func(_ context.Context, f *channel.Facts, policy channel.Policy) (channel.MentionFacts, []platform.Attachment) {
		return channel.MentionFacts{}, c.addContext(f, m, policy)
	}
	e.ShowPress = func(ctx context.Context, s channel.Pressed) { c.answerPress(ctx, u, s.Text()) }
	e.Finalize = func(ctx context.Context, _ channel.Result) error {
		c.answerPress(ctx, u, "") // if nothing else has
		return nil
	}
}

// input returns what the kernel reads of an update, which has a message.
func (c *Channel) input(k *kernel.Kernel, u *update, conversation string) *channel.Input {
	m := u.message
	text, entities := textOf(m)
	u.to = readAddressing(text, entities, c.self())
	command, remove := u.to.command, u.to.mentions
	// The agent reads what is no command of this server. The name must be exact, because people write to all bots in this form.
	if command != "" && !k.HasCommand(c.s.Name, c.s.Account, command) {
		command, remove = "", slices.Concat(remove, u.to.suffix)
	}
	in := &channel.Input{
		ID: u.event, RawText: text, TextForAgent: cmp.Or(rewrite(text, slices.Concat(remove, links(text, entities))), inWords(m)),
		TextForCommands: cmp.Or(command, rewrite(text, remove)), ConversationID: conversation, ThreadID: topic(m),
		SenderID: c.sender(m).ID, GroupID: m.MediaGroupID, HasMedia: u.kind == channel.EventMessage && len(attachments(m, 0)) > 0,
	}
	if m.Date != 0 {
		in.Timestamp = time.Unix(int64(m.Date), 0).UTC()
	}
	return in
}

// repliedTo returns the message that m replies to, or nil. The header of a topic, to which all messages of the topic refer, does not count.
func repliedTo(m *models.Message) *models.Message {
	to := m.ReplyToMessage
	if to == nil || m.IsTopicMessage && to.ID == m.MessageThreadID {
		return nil
	}
	return to
}

// mentioned says whether a message is for the bot (CH-174).
func mentioned(u *update, self int64, names channel.Names) channel.MentionFacts {
	m := u.message
	text, _ := textOf(m)
	f := channel.MentionFacts{CanDetect: true, WasMentioned: u.to.self || names.In(text), HasAnyMention: u.to.anyone}
	quoted := false
	if to := repliedTo(m); to != nil && to.From != nil && to.From.ID == self && to.SenderChat == nil {
		f.Implicit, quoted = append(f.Implicit, channel.ReplyToBot), m.Quote != nil
	} else if m.ExternalReply != nil && m.ExternalReply.Origin.MessageOriginUser != nil {
		quoted = m.ExternalReply.Origin.MessageOriginUser.SenderUser.ID == self
	}
	if quoted {
		f.Implicit = append(f.Implicit, channel.QuotedBot)
	}
	return f
}

// addContext adds what the message quotes and where it was forwarded from. It returns the files of the message that is replied to.
func (c *Channel) addContext(f *channel.Facts, m *models.Message, policy channel.Policy) (quoted []platform.Attachment) {
	s := &f.Supplemental
	allowed := func(by channel.SenderFacts) channel.Tri { return policy.Sees(f.Conversation.Kind, by) }
	if to := repliedTo(m); to != nil {
		quoted = attachments(to, c.Files.Limit)
		by := c.sender(to)
		s.Quote = &channel.Quote{ID: strconv.Itoa(to.ID), Body: fullText(to), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: allowed(by)}
	} else if e := m.ExternalReply; e != nil {
		by, _ := c.origin(&e.Origin)
		s.Quote = &channel.Quote{Sender: by.Label(), IsExternal: true, IsSelf: by.IsSelf, SenderAllowed: allowed(by)}
		if e.MessageID != 0 {
			s.Quote.ID = strconv.Itoa(e.MessageID)
		}
	}
	if s.Quote != nil && m.Quote != nil {
		s.Quote.Body, s.Quote.IsQuote = m.Quote.Text, m.Quote.IsManual
	}
	if o := m.ForwardOrigin; o != nil {
		by, date := c.origin(o)
		s.Forwarded = &channel.Forwarded{From: cmp.Or(by.Name, by.Username), FromType: string(o.Type), FromID: by.ID, SenderAllowed: allowed(by)}
		if date != 0 {
			s.Forwarded.Date = time.Unix(int64(date), 0).UTC()
		}
	}
	return quoted
}

// origin returns who wrote a message first, and when. Someone who hides has a name only, which anybody may take.
func (c *Channel) origin(o *models.MessageOrigin) (by channel.SenderFacts, date int) {
	switch {
	case o.MessageOriginUser != nil:
		return c.user(&o.MessageOriginUser.SenderUser), o.MessageOriginUser.Date
	case o.MessageOriginHiddenUser != nil:
		return channel.SenderFacts{Name: o.MessageOriginHiddenUser.SenderUserName}, o.MessageOriginHiddenUser.Date
	case o.MessageOriginChat != nil:
		return asSender(&o.MessageOriginChat.SenderChat), o.MessageOriginChat.Date
	case o.MessageOriginChannel != nil:
		return asSender(&o.MessageOriginChannel.Chat), o.MessageOriginChannel.Date
	}
	return by, 0
}
