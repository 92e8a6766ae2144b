package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxShown bounds the arguments of a question that fits into one message of every chat platform, in the units of shownSize.
const maxShown = 3000

// Text is the whole question as Markdown for a chat; false if its arguments have bytes that are not text.
//
// Every platform shows the text exactly: the arguments are a block of code, and [shown] escapes what a platform would change. The
// names of tools are letters, digits and `.`, `_` and `-`.
func (q *Question) Text() (markdown string, ok bool) {
	_, call, ok := q.Shown()
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%s\n\nWrite `,approve %s` to approve, or `,deny %s` to deny.", call, q.ID, q.ID), true
}

// Shown is the call that the question asks about: its arguments as people read them, and Markdown that says the same as [Question.Text]
// without the commands that answer it.
func (q *Question) Shown() (arguments, markdown string, ok bool) {
	arguments = shown(q.Arguments)
	if !utf8.Valid(q.Arguments) {
		return "", "", false
	}
	asks := "The agent wants to call the tool `%s` with"
	if q.Repeat {
		asks = "The server stopped while the tool `%s` ran, so the call may have had its effect. Run it once more with these arguments?"
	}
	return arguments, fmt.Sprintf(asks+"\n\n```json\n%s\n```", q.Tool, arguments), true
}

// FitsMessage reports whether the question with these arguments, as [Question.Shown] returns them, fits into one message of every chat platform.
func FitsMessage(arguments string) bool { return shownSize(arguments) <= maxShown }

// shownSize counts a text in what the strictest platforms count: units of UTF-16, where `&`, `<` and `>` count as they are escaped.
func shownSize(text string) int { return len(utf16.Encode([]rune(asHTML.Replace(text)))) }

var asHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// mention is the tag by which Feishu mentions a person, wherever it stands.
var mention = regexp.MustCompile("(?i)<(/?(?:at|person))")

// entity is an entity of HTML, which some clients resolve in code, too.
var entity = regexp.MustCompile("&(#?[0-9A-Za-z]+;)")

// escaped is an escape of JSON; two halves of a surrogate pair are one.
var escaped = regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|\\u[[:xdigit:]]{4}|\\.`)

// shown returns the same JSON, written so that people read what a program reads. Invisible characters become escapes, and escapes of
// visible characters become the characters. What ends a block of code on a platform, mentions a person or is an entity gets an escape.
// Spaces between values are left out, because they can push a value out of sight.
func shown(value json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return string(value) // the runner checks that it is JSON
	}
	text := escaped.ReplaceAllStringFunc(compact.String(), func(escape string) string {
		var char string
		err := json.Unmarshal([]byte(`"`+escape+`"`), &char)
		if r, _ := utf8.DecodeRuneInString(char); err != nil || r == utf8.RuneError || r == '"' || r == '\\' || !visible(r) {
			return escape
		}
		return char
	})
	var b strings.Builder
	for _, r := range text {
		if visible(r) {
			b.WriteRune(r)
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	text = strings.ReplaceAll(b.String(), "```", "``\\u0060")
	text = mention.ReplaceAllString(text, `\u003c$1`)
	return entity.ReplaceAllString(text, `\u0026$1`)
}

// visible reports whether people see a character and what it does. Not visible are controls, all spaces but the plain one, and
// characters that only change the direction, shape or place of others.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r) &&
		r != '\u2800' && r != '\ufffc' // an empty pattern of Braille, and the place of an object
}
