package discord

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
)

// marks are what stands in texts for people, roles, channels, emoji and commands.
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

// meansBot reports whether a mark mentions the bot: by name, or by the role that it alone has. In code there are no mentions, whatever stands there.
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
	f := channel.MentionFacts{CanDetect: true, HasAnyMention: m.MentionEveryone || len(m.MentionRoles) > 0, WasMentioned: names.In(m.Content) || e.kind() == channel.EventCommand}
	for _, mark := range marks.FindAllString(m.Content, -1) {
		f.WasMentioned = f.WasMentioned || c.meansBot(e, m, mark)
		f.HasAnyMention = f.HasAnyMention || strings.HasPrefix(mark, "<@")
	}
	if to := m.ReferencedMessage; to != nil && to.Author != nil && to.Author.ID == me {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
	}
	return f
}
