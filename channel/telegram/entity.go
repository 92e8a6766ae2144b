package telegram

import (
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"
)

// bytesOf returns the bytes of a text that an entity covers, which counts UTF-16 units. ok is false for an entity that is outside of the text, or that begins
// or ends within a character.
func bytesOf(text string, offset, length int) (from, to int, ok bool) {
	from, to = -1, -1
	unit := 0
	for i, r := range text + "\x00" { // the last character begins at the end of the text
		if unit == offset {
			from = i
		}
		if unit == offset+length {
			to = i
		}
		unit += utf16.RuneLen(r)
	}
	return from, to, from >= 0 && to > from
}

// edit replaces a part of a text.
type edit struct {
	from, to int // in bytes
	text     string
}

// addressing is who a message is for, by its entities.
type addressing struct {
	self     bool   // this bot is mentioned
	anyone   bool   // someone is
	otherBot bool   // the message is a command for another bot
	command  string // ",name rest"; "" is none
	suffix   []edit // remove "@name" of this bot behind the command
	mentions []edit // remove mentions of this bot
}

// readAddressing reads the entities of a text for the bot me.
func readAddressing(text string, entities []models.MessageEntity, me *models.User) (a addressing) {
	for _, e := range entities {
		from, to, ok := bytesOf(text, e.Offset, e.Length)
		if !ok {
			continue
		}
		word := text[from:to]
		switch e.Type {
		case models.MessageEntityTypeMention:
			a.mention(from, to, me.Username != "" && strings.EqualFold(word, "@"+me.Username))
		case models.MessageEntityTypeTextMention:
			a.mention(from, to, e.User != nil && e.User.ID == me.ID)
		case models.MessageEntityTypeBotCommand:
			a.readCommand(text, from, to, me.Username)
		}
	}
	return a
}

func (a *addressing) mention(from, to int, self bool) {
	a.anyone = true
	if self {
		a.self = true
		a.mentions = append(a.mentions, edit{from: from, to: to})
	}
}

// readCommand reads /name or /name@bot. Only at the beginning of a text it is a command.
func (a *addressing) readCommand(text string, from, to int, username string) {
	name, bot, named := strings.Cut(text[from:to], "@")
	self := strings.EqualFold(bot, username)
	if named {
		a.anyone, a.self = true, a.self || self
	}
	switch {
	case strings.TrimSpace(text[:from]) != "":
	case named && !self:
		a.otherBot = true
	case len(name) > 1 && name[0] == '/':
		a.command = "," + strings.ReplaceAll(name[1:], "_", ".") + text[to:]
		if named {
			a.suffix = append(a.suffix, edit{from: from + len(name), to: to})
		}
	}
}

// links adds the addresses of links that show other words, because a plain text would lose them.
func links(text string, entities []models.MessageEntity) (list []edit) {
	for _, e := range entities {
		if e.Type != models.MessageEntityTypeTextLink || e.URL == "" {
			continue
		}
		if from, to, ok := bytesOf(text, e.Offset, e.Length); ok && strings.TrimSuffix(e.URL, "/") != strings.TrimSuffix(text[from:to], "/") {
			list = append(list, edit{to, to, " (" + e.URL + ")"})
		}
	}
	return list
}

// rewrite applies edits to a text. With a part that is removed goes a blank that would begin a line, or be a second one.
func rewrite(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		if e.from < at {
			continue // entities may be nested
		}
		b.WriteString(text[at:e.from])
		b.WriteString(e.text)
		at = e.to
		if e.text == "" && strings.HasPrefix(text[at:], " ") && (e.from == 0 || strings.ContainsRune(" \n", rune(text[e.from-1]))) {
			at++
		}
	}
	b.WriteString(text[at:])
	return strings.TrimSpace(b.String())
}
