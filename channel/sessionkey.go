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

// keyMarks are the characters before the parts of a key, and before its hash.
const keyMarks = "@:#~!"

// SessionKey is the id of a session: channel[@account][:conversation][#thread][~agent]. Parts are escaped as in an address, so that
// different parts never give one key; a key that would be longer than 512 bytes is a hash.
func SessionKey(p KeyParts) string {
	channel := escape(p.Channel, "%"+keyMarks)
	key := channel
	for _, part := range [...]struct{ mark, text string }{{"@", p.Account}, {":", p.Conversation}, {"#", p.Thread}, {"~", p.Agent}} {
		if part.text != "" {
			key += part.mark + escape(part.text, "%"+keyMarks)
		}
	}
	if len(key) <= maxKey {
		return key
	}
	if len(channel) > 64 {
		channel = "" // names are far shorter
	}
	sum := sha256.Sum256([]byte(key))
	return channel + "!" + hex.EncodeToString(sum[:]) // "!" is escaped in parts
}

// ConversationOf returns the part of a session's id that all sessions of a conversation share, such as those of a principal: what stands
// before the thread and the agent. It is "" for an id without a conversation, which a caller has chosen, and for a hash.
func ConversationOf(key string) string {
	if parts := sessionParts.FindStringSubmatch(key); parts != nil {
		return parts[1]
	}
	return ""
}

// ChannelOf returns the name of the channel that a session's id begins with, as [SessionKey] writes it; "" for an id that begins with none.
func ChannelOf(id string) string {
	if end := strings.IndexAny(id, keyMarks); end > 0 {
		return id[:end]
	}
	return ""
}
