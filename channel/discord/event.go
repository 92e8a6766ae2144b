package discord

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
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

// event is what is stored of an event. It has the names that the connection to the gateway knew when it came.
type event struct {
	ID          string                    `json:"id"` // within its conversation
	Kind        channel.EventKind         `json:"kind"`
	Message     discordgo.Message         `json:"message"` // with names in place of codes; of an interaction: by the person who caused it
	Place       channel.ConversationFacts `json:"place"`
	Deleted     []string                  `json:"deleted,omitempty"`     // messages
	Interaction *interaction              `json:"interaction,omitempty"` // nil for a message
	ToBot       bool                      `json:"to_bot,omitempty"`      // the message mentions the bot
	ToAnyone    bool                      `json:"to_anyone,omitempty"`   // or someone
	answered    bool                      // the interaction
}

// interaction is an application command, or the press of a button.
type interaction struct {
	ID, Application, Token string
	Command                string         // "tape.info all of it"; "" of a button
	Press                  *channel.Press // nil: it is not one of the channel's buttons
}

// newEvent reads an event of the gateway; nil: it means nothing to an agent or a window. place is nil if state knows it.
func (c *Channel) newEvent(state *discordgo.State, kind string, data []byte, place *discordgo.Channel) *event {
	e := &event{Kind: channel.EventLifecycle}
	m, err := &e.Message, error(nil)
	// Buttons and the like are hidden: the library refuses a message if it does not know one of them. In a text, there is a backslash before the
	// second quotation mark.
	data = bytes.ReplaceAll(data, []byte(`"components":`), []byte(`"no_components":`))
	switch kind {
	case messageCreate:
		err = json.Unmarshal(data, m)
		if e.ID = m.ID; m.Type == discordgo.MessageTypeDefault || m.Type == discordgo.MessageTypeReply { // no joins, pins and threads that begin
			e.Kind = channel.EventMessage
		}
	case messageUpdate:
		if err = json.Unmarshal(data, m); m.EditedTimestamp != nil { // else the platform has only added what a link leads to
			e.ID = fmt.Sprintf("edit:%s:%d", m.ID, m.EditedTimestamp.UnixMilli())
		}
	case messageDelete, messageDeleteBulk:
		var bulk discordgo.MessageDeleteBulk
		err = errors.Join(json.Unmarshal(data, m), json.Unmarshal(data, &bulk))
		e.Deleted = append(bulk.Messages, m.ID)
		e.ID = "delete:" + strings.Join(e.Deleted, ",")
	case interactionCreate:
		err = e.readInteraction(data)
	}
	if err != nil {
		c.Log.Warn("invalid event from the platform", "type", kind)
	}
	if place == nil {
		place, _ = state.Channel(m.ChannelID)
	}
	place = cmp.Or(place, &discordgo.Channel{})
	m.GuildID = cmp.Or(m.GuildID, place.GuildID)
	if err != nil || e.ID == "" || e.Kind == channel.EventLifecycle && m.GuildID == "" { // windows are for guilds alone
		return nil
	}
	e.Place = channel.ConversationFacts{Kind: channel.Group, ID: m.ChannelID, Label: place.Name, SpaceID: m.GuildID}
	if m.GuildID == "" {
		e.Place.Kind = channel.Direct
	}
	if place.IsThread() { // it is a conversation in that of its channel
		e.Place.ParentID = place.ParentID
	}
	e.ToAnyone = m.MentionEveryone || strings.Contains(m.Content, "<@")
	e.ToBot = c.readContent(state, m.GuildID, m)
	if m.ReferencedMessage != nil {
		c.readContent(state, m.GuildID, m.ReferencedMessage)
	}
	return e
}

func (e *event) readInteraction(data []byte) error {
	var i discordgo.Interaction
	if err := json.Unmarshal(data, &i); err != nil {
		return err
	}
	e.Interaction = &interaction{ID: i.ID, Application: i.AppID, Token: i.Token}
	e.ID, e.Kind = "interaction:"+i.ID, channel.EventInteraction
	switch i.Type {
	case discordgo.InteractionApplicationCommand:
		d := i.ApplicationCommandData()
		e.Kind = channel.EventCommand
		e.Interaction.Command = strings.ReplaceAll(d.Name, "_", ".")
		for _, o := range d.Options {
			e.Interaction.Command += fmt.Sprint(" ", o.Value)
		}
	case discordgo.InteractionMessageComponent:
		word, id, _ := strings.Cut(i.MessageComponentData().CustomID, ":")
		if p, ok := channel.ReadPress(word, id); ok {
			e.Interaction.Press = &p
		}
	default:
		e.ID = ""
	}
	e.Message = discordgo.Message{ID: i.ID, ChannelID: i.ChannelID, GuildID: i.GuildID, Member: i.Member, Author: i.User}
	e.Message.Timestamp, _ = discordgo.SnowflakeTimestamp(i.ID)
	if i.Member != nil {
		e.Message.Author = i.Member.User
	}
	return nil
}

// marks are the codes in texts for people, roles, channels, emoji and commands.
var marks = regexp.MustCompile(`<(?:@[!&]?\d+|#(\d+)|a?(:\w+:)\d+|(/[^:<>]+):\d+)>`)

// readContent puts names in place of the codes in the text of a message, and takes out mentions of the bot: by its name, or by the role that it alone has. In
// code there are no mentions, also if it looks like one. A forward has the content of the forwarded message.
func (c *Channel) readContent(state *discordgo.State, guild string, m *discordgo.Message) (toBot bool) {
	const mentionOfBot = "\x00"
	if forwards(m) {
		f := m.MessageSnapshots[0].Message
		m.Content, m.Attachments, m.Embeds, m.StickerItems, m.Mentions, m.MentionRoles = f.Content, f.Attachments, f.Embeds, f.StickerItems, f.Mentions, f.MentionRoles
	}
	self, names := c.self.Load().Bot.ID, map[string]string{}
	for _, u := range m.Mentions {
		name := "@" + cmp.Or(u.GlobalName, u.Username)
		if u.ID == self {
			name = mentionOfBot
		}
		names["<@"+u.ID+">"], names["<@!"+u.ID+">"] = name, name
	}
	member, _ := state.Member(guild, self)
	for _, id := range m.MentionRoles {
		role, err := state.Role(guild, id)
		switch {
		case err != nil:
		case role.Managed && member != nil && slices.Contains(member.Roles, id):
			names["<@&"+id+">"] = mentionOfBot
		default:
			names["<@&"+id+">"] = "@" + role.Name
		}
	}
	text := marks.ReplaceAllStringFunc(m.Content, func(mark string) string {
		part := marks.FindStringSubmatch(mark)
		if at, err := state.Channel(part[1]); err == nil {
			return "#" + at.Name
		}
		return cmp.Or(names[mark], part[2]+part[3], mark)
	})
	m.Content = strings.ReplaceAll(strings.ReplaceAll(text, mentionOfBot+" ", ""), mentionOfBot, "") // with the blank behind it
	return strings.Contains(text, mentionOfBot) && !forwards(m)
}

func (e *event) direct() bool { return e.Place.Kind == channel.Direct }

// input is the event as the kernel reads it.
func (c *Channel) input(e *event) *channel.Input {
	m := &e.Message
	in := &channel.Input{
		ID: e.ID, Timestamp: m.Timestamp.UTC(), ConversationID: m.ChannelID, SenderID: c.sender(m).ID, RawText: m.Content,
	}
	switch i := e.Interaction; {
	case i == nil:
		in.TextForAgent = textOf(m)
		in.TextForCommands, in.HasMedia = in.TextForAgent, len(m.Attachments) > 0
	case i.Press != nil:
		in.RawText = i.Press.Command()
	case i.Command != "":
		in.RawText, in.TextForCommands = "/"+i.Command, ","+i.Command
	}
	return in
}

func forwards(m *discordgo.Message) bool {
	r := m.MessageReference
	return r != nil && r.Type == discordgo.MessageReferenceTypeForward && len(m.MessageSnapshots) > 0 && m.MessageSnapshots[0].Message != nil
}

// sender returns the facts of an author. A webhook has the name that its caller chose.
func (c *Channel) sender(m *discordgo.Message) channel.SenderFacts {
	u := cmp.Or(m.Author, &discordgo.User{})
	s := channel.SenderFacts{ID: u.ID, Name: u.GlobalName, Username: u.Username, IsBot: u.Bot || m.WebhookID != "", IsSelf: u.ID == c.self.Load().Bot.ID}
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

// textOf returns what a message says, or a description of one without a text.
func textOf(m *discordgo.Message) string {
	if text := strings.TrimSpace(m.Content); text != "" {
		return text
	}
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
	f := channel.MentionFacts{CanDetect: true, HasAnyMention: e.ToAnyone}
	f.WasMentioned = e.ToBot || names.In(e.Message.Content) || e.Kind == channel.EventCommand
	if to := e.Message.ReferencedMessage; to != nil && to.Author != nil && to.Author.ID == c.self.Load().Bot.ID {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
	}
	return f
}

// run runs the turn of an event: of one, or of the texts of one sender, of which the last one is answered.
func (c *Channel) run(ctx context.Context, ev *platform.Event) (channel.Result, error) {
	for _, raw := range ev.Meta.Event.Raws() {
		e := new(event)
		if json.Unmarshal(raw, e) == nil { // else another version of this server has written it
			c.addEvent(ev, e)
		}
	}
	return ev.Run(ctx)
}

func (c *Channel) addEvent(ev *platform.Event, e *event) {
	one := platform.Message{Input: c.input(e), Kind: e.Kind, Files: files(&e.Message), Deleted: e.Deleted}
	one.Mentions = func(names channel.Names) channel.MentionFacts { return c.mentions(e, names) }
	if e.Kind == channel.EventLifecycle {
		one.Edited = e.Message.ID
	}
	if one.Kind == channel.EventCommand && !ev.Kernel.HasCommand(ev.Meta.Channel, ev.Meta.Account, one.Input.TextForCommands) {
		one.Input.TextForCommands = "" // the agent reads what is no command of this server any more
	}
	ev.Sender, ev.Place, ev.Reply = c.sender(&e.Message), e.Place, e.replyPlan()
	ev.Acknowledge, ev.Finalize = nil, nil
	if i := e.Interaction; i != nil {
		one.Press = i.Press
		ev.Acknowledge = func(ctx context.Context) { c.acknowledge(ctx, i) }
		ev.Finalize = func(ctx context.Context, r channel.Result) error {
			c.finishInteraction(ctx, e, r)
			return nil
		}
	}
	ev.Messages = append(ev.Messages, one)
	ev.Complete = func(_ context.Context, f *channel.Facts, policy channel.Policy) (channel.MentionFacts, []platform.Attachment) {
		return channel.MentionFacts{}, c.addContext(f, e, policy)
	}
	ev.ShowPress = func(ctx context.Context, s channel.Pressed) { c.reply(ctx, e, s.Text()) }
	ev.Delivery = func(*channel.Facts) *kernel.Delivery { return c.delivery(e) }
}

// addContext adds what the message replies to, and where it was forwarded from. It returns the files of the message that is replied to.
func (c *Channel) addContext(f *channel.Facts, e *event, policy channel.Policy) (quoted []platform.Attachment) {
	if to := e.Message.ReferencedMessage; to != nil && e.Kind == channel.EventMessage {
		by := c.sender(to)
		allowed := policy.Sees(e.Place.Kind, by)
		f.Supplemental.Quote = &channel.Quote{ID: to.ID, Body: textOf(to), Sender: by.Label(), IsSelf: by.IsSelf, SenderAllowed: allowed}
		quoted = files(to)
	}
	if forwards(&e.Message) { // the platform does not name the author
		date := e.Message.MessageSnapshots[0].Message.Timestamp.UTC()
		f.Supplemental.Forwarded = &channel.Forwarded{FromType: "channel", FromID: e.Message.MessageReference.ChannelID, Date: date}
	}
	return quoted
}

// replyPlan is where the answer goes: to the interaction, to the message, or in a direct conversation just to the channel.
func (e *event) replyPlan() channel.ReplyPlanFacts {
	to, kind, replyTo := e.Message.ChannelID, channel.Direct, ""
	if e.Interaction == nil && !e.direct() {
		kind, replyTo = channel.Group, e.Message.ID
	}
	r := platform.ReplyPlan(kind, to, "", replyTo)
	if r.NativeChannelID = to; e.Interaction != nil {
		r.DeliveryTarget = "/webhooks/" + e.Interaction.Application + "/" + e.Interaction.Token
	}
	return r
}
