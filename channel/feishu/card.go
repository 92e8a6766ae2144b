package feishu

import (
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// maxCard is what one message holds, as [wire] counts: the platform takes 30 KB of a request with a card, and some is left for what
// stands around the text. It takes 150 KB of one with a text, which nobody would read in one message.
const maxCard = 28_000

// wire counts a text in bytes of a request: it stands there as JSON in a string of JSON. It is a [markup.Unit].
func wire(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			n += 4 // \\\" and \\\\
		case r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
			n += 3 // \\n
		case r < ' ', r == '\u2028', r == '\u2029':
			n += 7 // \\u0001
		case r == utf8.RuneError:
			n += 7 // \\ufffd, where it is no character at all
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}

// card is the content of a card: one element with all of the text, and what stands below it. It says that all see the same card, which the platform asks of those
// that are changed.
func (b *body) card() (string, error) {
	element := map[string]any{"tag": "markdown", "content": b.marked}
	if b.marked == "" {
		element = map[string]any{"tag": "div", "text": map[string]any{"tag": "plain_text", "content": b.text}}
	}
	data, err := rawjson.Marshal(map[string]any{
		"schema": "2.0",
		"config": map[string]any{"update_multi": true},
		"body":   map[string]any{"elements": append([]any{element}, b.extra...)},
	})
	return string(data), err
}

// content is the type and the content of a message.
func (b *body) content() (kind, content string, err error) {
	switch {
	case b.kind != "":
		name := "file_key"
		if b.kind == "image" {
			name = "image_key"
		}
		data, err := rawjson.Marshal(map[string]string{name: b.key})
		return b.kind, string(data), err
	case b.marked != "":
		content, err = b.card()
		return "interactive", content, err
	}
	data, err := rawjson.Marshal(map[string]string{"text": harmless(b.text)})
	return "text", string(data), err
}

// harmless is a text in which nobody is mentioned: the platform has mentions as tags in texts, and no way to escape one.
func harmless(text string) string {
	if !strings.Contains(text, "<") {
		return text
	}
	return markup.BreakTags(text)
}
