package discord

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// The events of the gateway that the channel reads.
const (
	ready             = "READY"
	messageCreate     = "MESSAGE_CREATE"
	messageUpdate     = "MESSAGE_UPDATE"
	messageDelete     = "MESSAGE_DELETE"
	messageDeleteBulk = "MESSAGE_DELETE_BULK"
	interactionCreate = "INTERACTION_CREATE"
)

// event is what is stored of an event: what came, and what a process without a connection to the gateway could not find out.
type event struct {
	Type  string            `json:"type"`
	Data  json.RawMessage   `json:"data"`
	Place discordgo.Channel `json:"place"`           // a direct conversation has no guild
	Names map[string]string `json:"names,omitempty"` // "&1" is the role 1, "#2" the channel 2
	Role  string            `json:"role,omitempty"`  // that the bot alone has, if it is mentioned

	message     discordgo.Message      // of an interaction: by the person who caused it
	interaction *discordgo.Interaction // nil for a message
	deleted     []string               // messages
}

// newEvent returns an event that has come, with what the library knows of its place; nil if it means nothing to an agent or a window.
func (c *Channel) newEvent(state *discordgo.State, kind string, data []byte) *event {
	switch kind {
	case ready, messageCreate, messageUpdate, messageDelete, messageDeleteBulk, interactionCreate:
	default:
		return nil
	}
	e := &event{Type: kind, Data: withoutComponents(data)}
	if err := e.decode(); err != nil {
		c.Log.Warn("invalid event from the platform", "type", kind)
		return nil
	}
	m := &e.message
	if ch, err := state.Channel(m.ChannelID); err == nil {
		e.setPlace(ch)
	}
	e.Place.GuildID, e.Names = m.GuildID, map[string]string{}
	for _, mark := range marks.FindAllStringSubmatch(m.Content, -1) {
		if ch, err := state.Channel(mark[2]); err == nil && mark[1] == "#" {
			e.Names["#"+mark[2]] = ch.Name
		}
	}
	own, _ := state.Member(m.GuildID, c.self.Load().ID)
	for _, id := range m.MentionRoles {
		if role, err := state.Role(m.GuildID, id); err == nil {
			e.Names["&"+id] = role.Name
			if role.Managed && own != nil && slices.Contains(own.Roles, id) {
				e.Role = id
			}
		}
	}
	return e
}

// setPlace keeps what is needed of a channel.
func (e *event) setPlace(ch *discordgo.Channel) {
	e.Place = discordgo.Channel{GuildID: ch.GuildID, Type: ch.Type, Name: ch.Name, ParentID: ch.ParentID}
}

// withoutComponents hides buttons and the like: the library refuses a message if it does not know one of them. In a text, there is a backslash before the
// second quotation mark.
func withoutComponents(data []byte) []byte {
	return bytes.ReplaceAll(data, []byte(`"components":`), []byte(`"no_components":`))
}

// decode reads Data.
func (e *event) decode() error {
	if e.Type != interactionCreate {
		var all struct {
			ID  string   `json:"id"`
			IDs []string `json:"ids"`
		}
		if err := json.Unmarshal(e.Data, &all); err != nil || e.Type == ready {
			return err
		}
		e.deleted = append(all.IDs, all.ID)
		return json.Unmarshal(e.Data, &e.message)
	}
	i := new(discordgo.Interaction)
	if err := json.Unmarshal(e.Data, i); err != nil {
		return err
	}
	e.interaction = i
	e.message = discordgo.Message{ID: i.ID, ChannelID: i.ChannelID, GuildID: i.GuildID, Member: i.Member, Author: i.User}
	e.message.Timestamp, _ = discordgo.SnowflakeTimestamp(i.ID)
	if i.Member != nil {
		e.message.Author = i.Member.User
	}
	return nil
}

func (e *event) direct() bool { return e.Place.GuildID == "" }

func (e *event) sender() string {
	if e.message.Author == nil {
		return ""
	}
	return e.message.Author.ID
}

// id names the event in its conversation.
func (e *event) id() string {
	switch e.Type {
	case messageUpdate:
		return fmt.Sprintf("edit:%s:%d", e.message.ID, e.message.EditedTimestamp.UnixMilli())
	case messageDelete, messageDeleteBulk:
		return "delete:" + strings.Join(e.deleted, ",")
	case interactionCreate:
		return "interaction:" + e.message.ID
	}
	return e.message.ID
}

// matters reports whether the event means something to an agent or a window. Windows are for guilds alone.
func (e *event) matters() bool {
	switch {
	case e.message.ChannelID == "":
		return false
	case e.interaction != nil:
		return e.interaction.Type == discordgo.InteractionApplicationCommand || e.interaction.Type == discordgo.InteractionMessageComponent
	case e.Type == messageUpdate: // without a time of the edit, the platform has only added what a link leads to
		return e.message.EditedTimestamp != nil && !e.direct()
	}
	return e.Type == messageCreate || !e.direct()
}

// kind is what the kernel calls the event.
func (e *event) kind() channel.EventKind {
	switch {
	case e.interaction != nil && e.interaction.Type == discordgo.InteractionApplicationCommand:
		return channel.EventCommand
	case e.interaction != nil:
		return channel.EventInteraction
	case e.Type == messageCreate && (e.message.Type == discordgo.MessageTypeDefault || e.message.Type == discordgo.MessageTypeReply):
		return channel.EventMessage
	}
	return channel.EventLifecycle // also joins, pins and threads that begin
}

// input is the event as the kernel reads it.
func (c *Channel) input(e *event) *channel.Input {
	m := content(&e.message)
	in := &channel.Input{ID: e.id(), Timestamp: e.message.Timestamp.UTC(), ConversationID: e.message.ChannelID, SenderID: e.sender(), RawText: m.Content}
	switch e.kind() {
	case channel.EventCommand:
		command := commandText(e.interaction)
		in.RawText, in.TextForCommands = "/"+command, ","+command
	case channel.EventInteraction:
		p, _ := press(e)
		in.RawText = p.Command()
	default:
		in.TextForAgent = c.text(e, m, true)
		in.TextForCommands, in.HasMedia = in.TextForAgent, len(m.Attachments) > 0
	}
	return in
}

// content returns the message that has the words and files of m: what was forwarded, or m itself.
func content(m *discordgo.Message) *discordgo.Message {
	if !forwards(m) {
		return m
	}
	forwarded := *m.MessageSnapshots[0].Message
	forwarded.ID = m.ID
	return &forwarded
}

func forwards(m *discordgo.Message) bool {
	r := m.MessageReference
	return r != nil && r.Type == discordgo.MessageReferenceTypeForward && len(m.MessageSnapshots) > 0 && m.MessageSnapshots[0].Message != nil
}

// sender returns the facts of an author. A webhook has the name that its caller chose.
func (c *Channel) sender(m *discordgo.Message) channel.SenderFacts {
	u := cmp.Or(m.Author, &discordgo.User{})
	s := channel.SenderFacts{ID: u.ID, Name: u.GlobalName, Username: u.Username, IsBot: u.Bot || m.WebhookID != "", IsSelf: u.ID == c.self.Load().ID}
	if m.Member != nil {
		s.Name, s.Roles = cmp.Or(m.Member.Nick, s.Name), m.Member.Roles
	}
	return s
}

// files returns the files of a message.
func files(m *discordgo.Message) (list []platform.Attachment) {
	for _, f := range m.Attachments {
		contentType, _, _ := strings.Cut(f.ContentType, ";")
		list = append(list, platform.Attachment{ID: f.ID, Name: f.Filename, Source: f.URL, Fact: channel.MediaFact{
			Kind: platform.MediaKind(contentType), ContentType: contentType, MessageID: m.ID, Size: int64(f.Size),
			Width: f.Width, Height: f.Height, Duration: time.Duration(f.DurationSecs * float64(time.Second)),
		}})
	}
	return list
}

// marks are the codes in texts for people, roles, channels, emoji and commands.
var marks = regexp.MustCompile(`<(?:(@[!&]?|#)(\d+)|a?(:\w+:)\d+|(/[^:<>]+):\d+)>`)

// text returns the text of a message as people see it. With cut, mentions of the bot are taken out.
func (c *Channel) text(e *event, m *discordgo.Message, cut bool) string {
	text := marks.ReplaceAllStringFunc(m.Content, func(mark string) string {
		if cut && c.meansBot(e, m, mark) {
			return "\x00"
		}
		return shownAs(e, m, mark)
	})
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\x00 ", ""), "\x00", "") // with the blank behind a mention
	return cmp.Or(strings.TrimSpace(text), inWords(m))
}

// meansBot reports whether a mark mentions the bot: by name, or by the role that it alone has. In code there are no mentions, also if it looks like one.
func (c *Channel) meansBot(e *event, m *discordgo.Message, mark string) bool {
	id, me := strings.Trim(mark, "<@!&>"), c.self.Load().ID
	if strings.HasPrefix(mark, "<@&") {
		return id == e.Role && slices.Contains(m.MentionRoles, id)
	}
	return strings.HasPrefix(mark, "<@") && id == me && slices.ContainsFunc(m.Mentions, func(u *discordgo.User) bool { return u.ID == me })
}

// shownAs returns what people see of a mark; what is not known stays as it is.
func shownAs(e *event, m *discordgo.Message, mark string) string {
	part := marks.FindStringSubmatch(mark)
	switch kind, id := part[1], part[2]; {
	case kind == "@" || kind == "@!":
		if i := slices.IndexFunc(m.Mentions, func(u *discordgo.User) bool { return u.ID == id }); i >= 0 {
			return "@" + cmp.Or(m.Mentions[i].GlobalName, m.Mentions[i].Username)
		}
	case kind == "@&" && e.Names["&"+id] != "":
		return "@" + e.Names["&"+id]
	case kind == "#" && e.Names["#"+id] != "":
		return "#" + e.Names["#"+id]
	}
	return cmp.Or(part[3]+part[4], mark)
}

// inWords describes a message without a text.
func inWords(m *discordgo.Message) string {
	var lines []string
	for _, s := range m.StickerItems {
		lines = append(lines, "[sticker "+s.Name+"]")
	}
	if m.Poll != nil {
		lines = append(lines, "[poll: "+m.Poll.Question.Text+"]")
	}
	for _, e := range m.Embeds {
		lines = append(lines, strings.TrimSpace(e.Title+"\n"+e.Description))
	}
	return strings.Join(lines, "\n")
}

// mentions says whether a message is for the bot.
func (c *Channel) mentions(e *event, names channel.Names) channel.MentionFacts {
	m, me := &e.message, c.self.Load().ID
	f := channel.MentionFacts{CanDetect: true, HasAnyMention: m.MentionEveryone || len(m.MentionRoles) > 0}
	f.WasMentioned = names.In(m.Content) || e.kind() == channel.EventCommand
	for _, mark := range marks.FindAllString(m.Content, -1) {
		f.WasMentioned = f.WasMentioned || c.meansBot(e, m, mark)
		f.HasAnyMention = f.HasAnyMention || strings.HasPrefix(mark, "<@")
	}
	if to := m.ReferencedMessage; to != nil && to.Author != nil && to.Author.ID == me {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
	}
	return f
}
