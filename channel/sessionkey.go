package channel

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// KeyParts are what names a session. What is empty is the default, and left out.
type KeyParts struct{ Channel, Account, Conversation, Thread, Agent string }

// maxKey is how long a session's id may be, in bytes: that of a tape.
const maxKey = 512

// SessionKey is the id of a session: channel[@account][:conversation][#thread][~agent]. Parts are escaped as in an address, so that
// different parts never give one key; a key that would be longer than 512 bytes is a hash.
func SessionKey(p KeyParts) string {
	n := len(p.Channel) + len(p.Account) + len(p.Conversation) + len(p.Thread) + len(p.Agent)
	b := make([]byte, 0, n+16)
	b = appendPart(b, p.Channel)
	for _, part := range [...]struct {
		mark byte
		text string
	}{{'@', p.Account}, {':', p.Conversation}, {'#', p.Thread}, {'~', p.Agent}} {
		if part.text != "" {
			b = appendPart(append(b, part.mark), part.text)
		}
	}
	if len(b) <= maxKey {
		return string(b)
	}
	sum := sha256.Sum256(b)
	channel := string(appendPart(nil, p.Channel))
	if len(channel) > 64 {
		channel = "" // names are far shorter
	}
	return channel + "!" + hex.EncodeToString(sum[:]) // "!" is escaped in parts
}

// ConversationOf returns the part of a session's id that all sessions of a conversation share, such as those of a principal: what stands
// before the thread and the agent. It is "" for an id without marks, which a caller has chosen, and for a hash.
func ConversationOf(key string) string {
	if !strings.ContainsAny(key, "@:") || strings.Contains(key, "!") {
		return ""
	}
	if at := strings.IndexAny(key, "#~"); at >= 0 {
		key = key[:at]
	}
	return key
}

// ChannelOf returns the name of the channel that a session's id begins with, as [SessionKey] writes it; "" for an id that begins with none.
func ChannelOf(id string) string {
	if end := strings.IndexAny(id, "@:#~!"); end > 0 {
		return id[:end]
	}
	return ""
}

// appendPart escapes the marks, "%", control characters, blanks and what is not ASCII as bytes are escaped in an address.
func appendPart(b []byte, s string) []byte {
	const hexDigits = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("%@:#~!", c) >= 0 {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}
