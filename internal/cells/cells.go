// Package cells measures text on a terminal.
package cells

import (
	"unicode"

	"golang.org/x/text/width"
)

// Of returns how many cells a character takes.
func Of(r rune) int {
	switch {
	case r < 0x300: // combining characters begin here
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff: // vowels and ends of Hangul join what is before
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
