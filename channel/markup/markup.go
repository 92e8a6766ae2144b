package markup

import (
	"strings"
	"unicode/utf16"
)

// Format is a markup that a platform reads.
type Format uint8

// The formats.
const (
	// Plain has no markup. The address of a link follows its text.
	Plain Format = iota
	// TelegramHTML is parse_mode HTML of the Bot API.
	TelegramHTML
	// SlackMrkdwn is the markup of Slack's texts.
	SlackMrkdwn
	// FeishuCard is the element markdown of cards of Feishu and Lark, of version 2.0.
	FeishuCard
	// Discord is the Markdown of Discord's messages. Names that mention a person or a role are not escaped: the platform has a setting.
	Discord
)

// Convert turns a model's Markdown (CommonMark with tables, ~~strike~~ and task lists) into a format. HTML in it is text.
func Convert(markdown string, to Format) string {
	return write(parse(markdown, to), to)
}

// Piece is a part of a reply, for one message.
type Piece struct {
	Text  string // in the format
	Plain string // without markup, for a platform that refuses the markup
}

// Limit is the maximum size of a message. The zero value is no limit.
type Limit struct {
	N    int
	Unit Unit // nil is UTF16
	// Marked says that the markup counts, too. Telegram counts only the visible text.
	Marked bool
}

// Pieces is [Convert] for texts that may be too long for one message. None of the pieces is blank, because platforms take no blank message.
func Pieces(markdown string, to Format, l Limit) []Piece {
	if l.Unit == nil {
		l.Unit = UTF16
	}
	var list []Piece
	for _, part := range cut(parse(markdown, to), to, l) {
		if strings.TrimSpace(part.text()) == "" {
			continue
		}
		plain := write(part, Plain)
		if l.N > 0 && l.Unit(plain) > l.N { // too long with the addresses of the links
			plain = part.text()
		}
		list = append(list, Piece{Text: write(part, to), Plain: plain})
	}
	return list
}

// Cut cuts a plain text into pieces of at most limit units: between paragraphs if possible, else lines, sentences, words, and last
// characters. White space at a cut is dropped, and so are blank pieces. A character that is larger than the limit is a piece. A limit of 0
// or less is no limit.
func Cut(text string, limit int, unit Unit) []string {
	var pieces []string
	for _, part := range cut(runs{{text: text}}.trim(), Plain, Limit{N: limit, Unit: unit}) {
		pieces = append(pieces, part.text())
	}
	return pieces
}

// Literal returns Markdown that shows a line of text unchanged.
func Literal(line string) string { return literal.Replace(line) }

// Unit measures a text in the unit of a platform's limit. The size of two texts, joined, must be the sum of their sizes.
type Unit func(string) int

// UTF16 counts units of UTF-16, as Telegram does. Most emoji have two.
func UTF16(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
