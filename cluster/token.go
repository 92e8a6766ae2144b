package cluster

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// longestToken is the most bytes of a token: a subject has at most 4 KiB, and a person reads it.
const longestToken = 200

const (
	escape = '='
	hashed = "==" // begins the tokens of texts that are too long to be written out
)

// Token makes one token of a subject, or one key of a bucket, of any text: of a–z, A–Z, 0–9, '_' and '-', which stand for themselves, and
// '=', which escapes every other byte. Different texts have different tokens. One that would have more than 200 bytes
// is the hash of the text, which [Untoken] cannot undo.
func Token(text string) string {
	if text == "" {
		return string(escape)
	}
	size := len(text)
	for i := range len(text) {
		if !plain(text[i]) {
			size += 2
		}
	}
	if size == len(text) && size <= longestToken {
		return text
	}
	if size > longestToken {
		sum := sha256.Sum256([]byte(text))
		return hashed + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	const digits = "0123456789ABCDEF"
	token := make([]byte, 0, size)
	for i := range len(text) {
		if b := text[i]; plain(b) {
			token = append(token, b)
		} else {
			token = append(token, escape, digits[b>>4], digits[b&15])
		}
	}
	return string(token)
}

// Untoken is the text of a token that [Token] has made. It is not ok where the text was too long to be written out, and for
// what Token does not make.
func Untoken(token string) (text string, ok bool) {
	if token == string(escape) {
		return "", true
	}
	if token == "" || len(token) > longestToken {
		return "", false
	}
	if !strings.ContainsRune(token, escape) {
		return token, valid(token)
	}
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		if token[i] != escape {
			b = append(b, token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", false
		}
		high, low := digit(token[i+1]), digit(token[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b = append(b, byte(high<<4|low))
		i += 2
	}
	text = string(b)
	return text, Token(text) == token // nothing else than Token makes
}

func digit(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

func plain(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '-'
}

// valid says whether text can be a token.
func valid(text string) bool {
	for i := range len(text) {
		if !plain(text[i]) && text[i] != escape {
			return false
		}
	}
	return text != ""
}

// Name is the name of a stream or a bucket of this installation: Name("TAPES") is "lingserve_TAPES". Parts are what [Token]
// makes, or names in the source; anything else panics.
func (c *Cluster) Name(parts ...string) string { return join(c.options.Prefix, "_", parts) }

// Subject is a subject of this installation: Subject("tapes", Token(name)) is "lingserve.tapes.<name>". Tokens are what
// [Token] makes, names in the source, or the wildcards "*" and ">"; anything else panics.
func (c *Cluster) Subject(tokens ...string) string { return join(c.options.Prefix, ".", tokens) }

func join(prefix, separator string, parts []string) string {
	for _, part := range parts {
		if wildcard := separator == "." && (part == "*" || part == ">"); !wildcard && !valid(part) {
			panic(fmt.Sprintf("cluster: %.80q cannot be part of a name: use Token", part))
		}
	}
	return prefix + separator + strings.Join(parts, separator)
}
