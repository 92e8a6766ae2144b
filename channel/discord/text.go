package discord

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
)

// marks are what stands in texts for people, roles, channels, emoji, commands and times.
var marks = regexp.MustCompile(`<(?:(@[!&]?|#)(\d+)|a?(:\w+:)\d+|(/[^:<>]+):\d+|t:(-?\d{1,12})(?::[tTdDfFR])?)>`)

// read returns the text of a message as people see it. With cut, mentions of the bot are taken out.
func (e *event) read(m *message, me string, cut bool) string {
	var b strings.Builder
	text, end := m.Content, 0
	for _, at := range marks.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[end:at[0]])
		end = at[1]
		word := e.word(m, marks.FindStringSubmatch(text[at[0]:at[1]]))
		if cut && e.meansBot(m, text[at[0]:at[1]], me) {
			word = ""
			before := b.String()
			if strings.HasPrefix(text[end:], " ") && (before == "" || strings.HasSuffix(before, " ") || strings.HasSuffix(before, "\n")) {
				end++
			}
		}
		b.WriteString(word)
	}
	b.WriteString(text[end:])
	return strings.TrimSpace(b.String())
}

// word returns what people see of a mark; what is not known stays as it is.
func (e *event) word(m *message, mark []string) string {
	id := mark[2]
	switch kind := mark[1]; {
	case kind == "@" || kind == "@!":
		if i := slices.IndexFunc(m.Mentions, func(u mention) bool { return u.ID == id }); i >= 0 {
			u := sender(&m.Mentions[i].User, m.Mentions[i].Member, "", "")
			return "@" + cmp.Or(u.Name, u.Username)
		}
	case kind == "@&" && e.Names["&"+id] != "":
		return "@" + e.Names["&"+id]
	case kind == "#" && e.Names["#"+id] != "":
		return "#" + e.Names["#"+id]
	case mark[3] != "" || mark[4] != "":
		return mark[3] + mark[4]
	case mark[5] != "":
		seconds, _ := strconv.ParseInt(mark[5], 10, 64)
		return time.Unix(seconds, 0).UTC().Format("2006-01-02 15:04 UTC")
	}
	return mark[0]
}

// meansBot reports whether a mark mentions the bot: by name, or by the role that it alone has. In code there are no mentions, whatever stands there.
func (e *event) meansBot(m *message, mark, me string) bool {
	id := strings.Trim(mark, "<@!&>")
	if strings.HasPrefix(mark, "<@&") {
		return id == e.Role && slices.Contains(m.MentionRoles, id)
	}
	return strings.HasPrefix(mark, "<@") && id == me && slices.ContainsFunc(m.Mentions, func(u mention) bool { return u.ID == me })
}

// mentions returns who is addressed.
func (e *event) mentions(me string, names channel.Names) channel.MentionFacts {
	m := &e.message
	f := channel.MentionFacts{CanDetect: true, HasAnyMention: m.MentionEveryone || len(m.MentionRoles) > 0, WasMentioned: names.In(m.Content) || e.kind() == channel.EventCommand}
	for _, mark := range marks.FindAllString(m.Content, -1) {
		f.WasMentioned = f.WasMentioned || e.meansBot(m, mark, me)
		f.HasAnyMention = f.HasAnyMention || strings.HasPrefix(mark, "<@")
	}
	if m.RepliedTo != nil && m.RepliedTo.Author.ID == me {
		f.Implicit = append(f.Implicit, channel.ReplyToBot)
	}
	if e.Place.isThread() && e.Place.OwnerID == me {
		f.Implicit = append(f.Implicit, channel.BotThread)
	}
	return f
}

// maxText is what one message holds. The platform counts characters; here they are counted as it counts at most.
const maxText = 2000

// pieces cuts a model's Markdown into messages.
func pieces(text string) (list []string) {
	for _, p := range markup.Pieces(text, markup.Discord, markup.Limit{N: maxText, Marked: true}) {
		if strings.TrimSpace(p.Text) != "" { // the platform takes no message of nothing
			list = append(list, p.Text)
		}
	}
	return list
}

// epoch is when ids begin: the upper bits of an id are the milliseconds since then.
const epoch = 1420070400000

func timeOf(id string) time.Time {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n>>22 + epoch)
}

// compareIDs compares ids by their age.
func compareIDs(a, b string) int {
	pad := func(id string) string { return fmt.Sprintf("%20s", id) }
	return strings.Compare(pad(a), pad(b))
}
