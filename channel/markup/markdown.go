package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Format is a markup that a platform reads.
type Format uint8

// The formats.
const (
	// Plain has no markup. Addresses of links follow their texts.
	Plain Format = iota
	// TelegramHTML is parse_mode HTML of the Bot API.
	TelegramHTML
	// TelegramMarkdownV2 is parse_mode MarkdownV2 of the Bot API.
	TelegramMarkdownV2
	// SlackMrkdwn is what Slack takes in texts.
	SlackMrkdwn
	// FeishuCard is the element markdown of cards of Feishu and Lark, of version 2.0.
	FeishuCard
	// Discord is what Discord shows as Markdown. Both what is seen and the marks count in its limit: see [Limit.Marked].
	Discord
)

// Convert turns a model's Markdown (CommonMark with tables, ~~strike~~ and task lists) into a format. HTML in it is text.
func Convert(markdown string, to Format) string {
	return write(parse(markdown, to), to)
}

// Piece is a part of a reply, for one message.
type Piece struct {
	Text  string // in the format
	Plain string // the same without markup: what is sent where a platform refuses the markup after all
}

// Limit is what a platform takes in one message. The zero value is no limit.
type Limit struct {
	N    int
	Unit Unit // nil is UTF16
	// Marked says that the markup counts, too; else only what is seen does, as with Telegram.
	Marked bool
}

// Pieces is [Convert] for texts that are longer than a message may be. Markdown of nothing has no pieces.
func Pieces(markdown string, to Format, l Limit) []Piece {
	if l.Unit == nil {
		l.Unit = UTF16
	}
	var list []Piece
	for _, part := range cutRuns(parse(markdown, to), to, l) {
		list = append(list, Piece{Text: write(part, to), Plain: plain(part, l)})
	}
	return list
}

// Literal is Markdown that shows a line of text as it is.
func Literal(line string) string {
	var b strings.Builder
	for _, r := range line {
		if r < utf8.RuneSelf && unicode.In(r, unicode.Punct, unicode.Symbol) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Escape escapes a text that is no Markdown, so that a format shows it as it is.
func Escape(text string, to Format) string {
	return write([]run{{text: text}}, to)
}
