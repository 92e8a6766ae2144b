// Package wording writes the texts that errors and answers have in common.
package wording

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/edits"
)

// maxNames is how many names a message lists.
const maxNames = 40

// Expected lists the known names, and guesses which of them an unknown name was meant to be.
func Expected(name string, known []string) string {
	meant := ""
	if near := edits.Nearest(name, known); near != "" {
		meant = "did you mean " + near + "? "
	}
	if len(known) > maxNames {
		known = append(known[:maxNames:maxNames], "…")
	}
	return meant + "expected one of " + strings.Join(known, ", ")
}

// Alternatives lists words as one says them: a, b or c.
func Alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Clip shortens what a client wrote, for a message about it.
func Clip(text string) string { return ClipTo(text, 60) }

// ClipTo returns the first bytes of a text, in whole characters.
func ClipTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// ClipChars returns the first characters of a text.
func ClipChars(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// Quote is a clipped text in quotes.
func Quote(text string) string {
	quoted, _ := json.Marshal(Clip(text))
	return string(quoted)
}

// Plural writes a count with its unit.
func Plural(n int64, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return strconv.FormatInt(n, 10) + " " + unit
}

// CutOff counts the bytes at the end of text that are the beginning of a UTF-8 sequence.
func CutOff[T string | []byte](text T) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if rest := text[len(text)-n:]; utf8.RuneStart(rest[0]) {
			if utf8.FullRuneInString(string(rest)) {
				return 0
			}
			return n
		}
	}
	return 0
}
