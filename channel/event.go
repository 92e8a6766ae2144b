package channel

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// EventKey names an event of a platform. `5` and "5" are one thread.
type EventKey struct{ Channel, Account, Conversation, Thread, ID string }

// ThreadOfInteractions is the thread in the keys of interactions that do not wait for the messages of their conversation, because the platform waits a few
// seconds only. Erasing a session also removes these events of its conversations.
const ThreadOfInteractions = "interactions"

// String returns the key as one text, with its parts escaped, so that different keys have different texts.
func (k EventKey) String() string {
	return joinParts(k.Channel, k.Account, k.Conversation, k.Thread, k.ID)
}

// joinParts returns parts with "/" between them, which is escaped in them.
func joinParts(parts ...string) string {
	for i, part := range parts {
		parts[i] = escape(part, "/%")
	}
	return strings.Join(parts, "/")
}

// escape returns a text in which the marks, blanks, control characters and bytes that are not ASCII are escaped as %XX.
func escape(s, marks string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(marks, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ParseEventKey parses the result of [EventKey.String].
func ParseEventKey(text string) (EventKey, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 {
		return EventKey{}, fmt.Errorf("channel: expected an event key of 5 parts, channel/account/conversation/thread/id, found %d", len(parts))
	}
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return EventKey{}, fmt.Errorf("channel: an event key has an escape that is not %%XX: %w", err)
		}
		parts[i] = plain
	}
	return EventKey{Channel: parts[0], Account: parts[1], Conversation: parts[2], Thread: parts[3], ID: parts[4]}, nil
}

// MergeInputs merges the events of a burst, in order: every text by line, the id and the time of the last, which is what the reply
// goes to. Parts are the events themselves, for what only their channel can merge: media, and mentions ([MergeMentions]).
func MergeInputs(parts []*Input) *Input {
	if len(parts) == 0 {
		return nil
	}
	m := *parts[len(parts)-1]
	m.Parts = slices.Clone(parts)
	m.RawText = joinLines(parts, func(in *Input) string { return in.RawText })
	m.TextForAgent = joinLines(parts, func(in *Input) string { return cmp.Or(strings.TrimSpace(in.TextForAgent), in.RawText) })
	m.TextForCommands = joinLines(parts, func(in *Input) string { return cmp.Or(in.TextForCommands, in.RawText) })
	for _, p := range parts {
		m.HasMedia = m.HasMedia || p.HasMedia
	}
	return &m
}

func joinLines(parts []*Input, text func(*Input) string) string {
	lines := make([]string, 0, len(parts))
	for _, p := range parts {
		if t := text(p); t != "" {
			lines = append(lines, t)
		}
	}
	return strings.Join(lines, "\n")
}

// MergeMentions merges the mentions of the parts of a bundle: who is addressed in one part is addressed.
func MergeMentions(parts ...MentionFacts) MentionFacts {
	var m MentionFacts
	for _, p := range parts {
		m.CanDetect = m.CanDetect || p.CanDetect
		m.WasMentioned = m.WasMentioned || p.WasMentioned
		m.HasAnyMention = m.HasAnyMention || p.HasAnyMention
		m.Implicit = append(m.Implicit, p.Implicit...)
		if p.AllowedImplicit != nil {
			m.AllowedImplicit = p.AllowedImplicit
		}
	}
	return m
}

// sessionParts matches the id of a session with a conversation: what all sessions of the conversation share, and its channel, account, conversation
// and thread.
var sessionParts = regexp.MustCompile(`^(([^@:#~!]+)(?:@([^@:#~!]*))?:([^@:#~!]+))(?:#([^@:#~!]*))?(?:~[^@:#~!]*)?$`)

// PlaceNamed returns the conversation that the id of a session names. ok is false if it names none, as a hash does.
func PlaceNamed(session string) (p WindowKey, ok bool) {
	parts := sessionParts.FindStringSubmatch(session)
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return p, false
		}
	}
	if parts == nil {
		return p, false
	}
	return WindowKey{Channel: parts[2], Account: parts[3], Conversation: parts[4], Thread: parts[5]}, true
}
