package markup

import "unicode/utf8"

// Unit counts a text in what a platform's limits are given in. It must not be less for a longer text, and that of two texts one behind the
// other is the sum of both.
type Unit func(string) int

// Bytes counts bytes of UTF-8.
func Bytes(s string) int { return len(s) }

// Runes counts characters of Unicode.
func Runes(s string) int { return utf8.RuneCountInString(s) }

// UTF16 counts units of UTF-16, as Telegram does: two for what lies beyond the basic plane, such as most emoji.
func UTF16(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}
