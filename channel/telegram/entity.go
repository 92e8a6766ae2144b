package telegram

import (
	"slices"
	"strings"

	"github.com/go-telegram/bot/models"
)

// span finds the bytes that an entity covers; the Bot API counts in UTF-16 code units. ok is false for one that lies outside of the
// text, or that begins or ends inside of a character.
func span(text string, offset, length int) (from, to int, ok bool) {
	if offset < 0 || length <= 0 {
		return 0, 0, false
	}
	end := offset + length
	if end < offset {
		return 0, 0, false
	}
	from = -1
	units := 0
	for i, r := range text {
		if units == offset {
			from = i
		}
		if units == end {
			return from, i, from >= 0
		}
		if units > end {
			return 0, 0, false
		}
		units++
		if r > 0xffff {
			units++
		}
	}
	return from, len(text), units == end && from >= 0
}

// addressing is what the entities of a message say about who is meant.
type addressing struct {
	us      bool // this bot, by name
	anybody bool
	other   bool    // a command for another bot
	command string  // ",name rest", "" for none
	slash   []piece // this bot's name behind the command: "@name"
	cuts    []piece // this bot's name in the text, taken out
}

// addressed reads the entities of a text.
func addressed(text string, entities []models.MessageEntity, me *models.User) addressing {
	var a addressing
	for _, e := range entities {
		from, to, ok := span(text, e.Offset, e.Length)
		if !ok {
			continue
		}
		word := text[from:to]
		switch e.Type {
		case models.MessageEntityTypeMention:
			a.anybody = true
			if me.Username != "" && strings.EqualFold(word, "@"+me.Username) {
				a.us = true
				a.cuts = append(a.cuts, piece{from: from, to: to})
			}
		case models.MessageEntityTypeTextMention:
			a.anybody = true
			if e.User != nil && e.User.ID == me.ID {
				a.us = true
				a.cuts = append(a.cuts, piece{from: from, to: to})
			}
		case models.MessageEntityTypeBotCommand:
			name, whose, named := strings.Cut(word, "@")
			ours := strings.EqualFold(whose, me.Username)
			if named {
				a.anybody = true
				a.us = a.us || ours
			}
			if strings.TrimSpace(text[:from]) != "" {
				break // in a sentence it is a word
			}
			switch {
			case named && !ours:
				a.other = true
			case len(name) > 1 && name[0] == '/':
				a.command = "," + strings.ReplaceAll(name[1:], "_", ".") + text[to:]
				if named {
					a.slash = append(a.slash, piece{from: from + len(name), to: to})
				}
			}
		}
	}
	return a
}

// piece is a part of a text that is written in another way.
type piece struct {
	from, to int // in bytes
	text     string
}

// links writes the addresses of links that show other words behind those, for in a plain text they would be lost.
func links(text string, entities []models.MessageEntity) []piece {
	var list []piece
	for _, e := range entities {
		if e.Type != models.MessageEntityTypeTextLink || e.URL == "" {
			continue
		}
		if from, to, ok := span(text, e.Offset, e.Length); ok && strings.TrimSuffix(e.URL, "/") != strings.TrimSuffix(text[from:to], "/") {
			list = append(list, piece{to, to, " (" + e.URL + ")"})
		}
	}
	return list
}

// rewrite puts pieces in their places. A blank goes with a piece that is taken out, where there would be two or one at the start of
// a line.
func rewrite(text string, pieces []piece) string {
	if len(pieces) == 0 {
		return strings.TrimSpace(text)
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, p := range pieces {
		if p.from < at {
			continue // entities may lie in one another
		}
		b.WriteString(text[at:p.from])
		b.WriteString(p.text)
		at = p.to
		if p.text == "" && at < len(text) && text[at] == ' ' && (p.from == 0 || text[p.from-1] == ' ' || text[p.from-1] == '\n') {
			at++
		}
	}
	b.WriteString(text[at:])
	return strings.TrimSpace(b.String())
}
