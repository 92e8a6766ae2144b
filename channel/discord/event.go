package discord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
)

// The events of the gateway that the channel reads.
const (
	messageCreate     = "MESSAGE_CREATE"
	messageUpdate     = "MESSAGE_UPDATE"
	messageDelete     = "MESSAGE_DELETE"
	messageDeleteBulk = "MESSAGE_DELETE_BULK"
	interactionCreate = "INTERACTION_CREATE"
)

// event is what is stored of an event: what came, and what another process could not find out.
type event struct {
	Type   string            `json:"type"`
	Data   json.RawMessage   `json:"data"`
	Place  place             `json:"place"`
	Names  map[string]string `json:"names,omitempty"`  // "&1" is the role 1, "#2" the channel 2
	Role   string            `json:"role,omitempty"`   // of the bot alone, if a role is mentioned
	Member *member           `json:"member,omitempty"` // the author, of a message that was fetched

	message     message      // of an interaction: by whoever caused it
	interaction *interaction // nil: the event is about a message
}

// The library's types of messages and interactions are not used: they refuse all of a message that has a component which is newer than they are.
type message struct {
	ID              string                         `json:"id"`
	ChannelID       string                         `json:"channel_id"`
	GuildID         string                         `json:"guild_id"`
	Type            discordgo.MessageType          `json:"type"`
	Content         string                         `json:"content"`
	Timestamp       time.Time                      `json:"timestamp"`
	Edited          *time.Time                     `json:"edited_timestamp"`
	Author          discordgo.User                 `json:"author"`
	Member          *member                        `json:"member"`
	WebhookID       string                         `json:"webhook_id"`
	Mentions        []mention                      `json:"mentions"`
	MentionRoles    []string                       `json:"mention_roles"`
	MentionEveryone bool                           `json:"mention_everyone"`
	Attachments     []*discordgo.MessageAttachment `json:"attachments"`
	Embeds          []embed                        `json:"embeds"`
	Stickers        []named                        `json:"sticker_items"`
	Poll            *poll                          `json:"poll"`
	Reference       *reference                     `json:"message_reference"`
	RepliedTo       *message                       `json:"referenced_message"`
	Snapshots       []struct {
		Message message `json:"message"`
	} `json:"message_snapshots"`
	IDs []string `json:"ids"` // of messages that were deleted together
}

type member struct {
	Nick  string          `json:"nick"`
	Roles []string        `json:"roles"`
	User  *discordgo.User `json:"user,omitempty"`
}

type mention struct {
	discordgo.User
	Member *member `json:"member"`
}

type named struct {
	Name string `json:"name"`
}

type embed struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

type poll struct {
	Question pollText `json:"question"`
	Answers  []struct {
		Text pollText `json:"poll_media"`
	} `json:"answers"`
}

type pollText struct {
	Text string `json:"text"`
}

type reference struct {
	Type      discordgo.MessageReferenceType `json:"type,omitempty"`
	MessageID string                         `json:"message_id"`
	ChannelID string                         `json:"channel_id,omitempty"`
	MustExist bool                           `json:"fail_if_not_exists"`
}

type interaction struct {
	ID            string                    `json:"id"`
	ApplicationID string                    `json:"application_id"`
	Token         string                    `json:"token"`
	Type          discordgo.InteractionType `json:"type"`
	ChannelID     string                    `json:"channel_id"`
	GuildID       string                    `json:"guild_id"`
	Member        *member                   `json:"member"` // in a guild
	User          *discordgo.User           `json:"user"`   // else
	Message       *message                  `json:"message"`
	Data          struct {
		Name     string `json:"name"`
		CustomID string `json:"custom_id"`
		Options  []struct {
			Value any `json:"value"`
		} `json:"options"`
	} `json:"data"`
}

// readEvent reads an event that was stored.
func readEvent(raw []byte) (*event, error) {
	e := new(event)
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, err
	}
	return e, e.decode()
}

// decode reads Data.
func (e *event) decode() error {
	if e.Type != interactionCreate {
		return json.Unmarshal(e.Data, &e.message)
	}
	i := new(interaction)
	if err := json.Unmarshal(e.Data, i); err != nil {
		return err
	}
	e.interaction = i
	e.message = message{ID: i.ID, ChannelID: i.ChannelID, GuildID: i.GuildID, Member: i.Member, Timestamp: timeOf(i.ID)}
	switch {
	case i.User != nil:
		e.message.Author = *i.User
	case i.Member != nil && i.Member.User != nil:
		e.message.Author = *i.Member.User
	}
	return nil
}

// id names the event in its conversation.
func (e *event) id() string {
	switch e.Type {
	case messageUpdate:
		return fmt.Sprintf("edit:%s:%d", e.message.ID, e.message.Edited.UnixMilli())
	case messageDelete, messageDeleteBulk:
		return "delete:" + cmp.Or(e.message.ID, strings.Join(e.message.IDs, ","))
	case interactionCreate:
		return "interaction:" + e.message.ID
	}
	return e.message.ID
}

// kind is what the kernel calls the event.
func (e *event) kind() channel.EventKind {
	switch {
	case e.interaction != nil && e.interaction.Type == discordgo.InteractionApplicationCommand:
		return channel.EventCommand
	case e.interaction != nil:
		return channel.EventInteraction
	case e.Type != messageCreate || e.message.Type != discordgo.MessageTypeDefault && e.message.Type != discordgo.MessageTypeReply:
		return channel.EventLifecycle // also joins, pins and threads that begin
	}
	return channel.EventMessage
}

// press returns the press of one of the channel's buttons.
func (e *event) press() (p channel.Press, ok bool) {
	if e.kind() != channel.EventInteraction {
		return p, false
	}
	word, id, _ := strings.Cut(e.interaction.Data.CustomID, ":")
	return channel.ReadPress(word, id)
}

// command returns the text of an application command, behind its mark: "tape.info".
func (e *event) command() string {
	text := strings.ReplaceAll(e.interaction.Data.Name, "_", ".")
	for _, o := range e.interaction.Data.Options {
		text += fmt.Sprint(" ", o.Value)
	}
	return text
}

// input is the event as the kernel reads it.
func (c *Channel) input(e *event) *channel.Input {
	m := &e.message
	in := &channel.Input{ID: e.id(), Timestamp: m.Timestamp.UTC(), ConversationID: m.ChannelID, SenderID: m.Author.ID, Raw: e}
	switch e.kind() {
	case channel.EventCommand:
		in.RawText = "/" + e.command()
		in.TextForCommands = "," + e.command()
		return in
	case channel.EventInteraction:
		if p, ok := e.press(); ok {
			in.RawText = p.Command()
		}
		return in
	}
	said := m.said()
	in.RawText = said.Content
	in.TextForAgent = cmp.Or(e.read(said, c.me.Load().ID, true), shown(said))
	in.TextForCommands = in.TextForAgent
	in.HasMedia = len(said.Attachments) > 0
	return in
}

// said returns the message that has the words: what was forwarded, or the message itself.
func (m *message) said() *message {
	if m.forwards() {
		forwarded := m.Snapshots[0].Message
		forwarded.ID = m.ID
		return &forwarded
	}
	return m
}

func (m *message) forwards() bool {
	return m.Reference != nil && m.Reference.Type == discordgo.MessageReferenceTypeForward && len(m.Snapshots) > 0
}

// shown describes a message without a text.
func shown(m *message) string {
	var lines []string
	for _, s := range m.Stickers {
		lines = append(lines, "[sticker "+s.Name+"]")
	}
	if p := m.Poll; p != nil {
		var answers []string
		for _, a := range p.Answers {
			answers = append(answers, a.Text.Text)
		}
		lines = append(lines, fmt.Sprintf("[poll: %s (%s)]", p.Question.Text, strings.Join(answers, "; ")))
	}
	for _, e := range m.Embeds {
		lines = append(lines, strings.TrimSpace(e.Title+"\n"+e.Description))
	}
	return strings.Join(lines, "\n")
}

// sender returns the facts of an author; the name of a webhook is what its caller says.
func sender(u *discordgo.User, in *member, webhook, me string) channel.SenderFacts {
	s := channel.SenderFacts{ID: u.ID, Name: u.GlobalName, Username: u.Username, IsBot: u.Bot || webhook != "", IsSelf: u.ID == me && me != ""}
	if in != nil {
		s.Name, s.Roles = cmp.Or(in.Nick, s.Name), in.Roles
	}
	return s
}

func (e *event) sender(me string) channel.SenderFacts {
	in := e.Member
	if in == nil {
		in = e.message.Member
	}
	return sender(&e.message.Author, in, e.message.WebhookID, me)
}
