package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EventKey names an event of a platform. `5` and "5" are one thread.
type EventKey struct {
	Channel, Account, Conversation, Thread, ID string
	Synthetic                                  bool // ID was made from content: the key lives for 60 s
}

// String is the key as one text, the parts escaped: other keys have other texts. Synthetic is no part of it.
func (k EventKey) String() string {
	var b strings.Builder
	b.Grow(len(k.Channel) + len(k.Account) + len(k.Conversation) + len(k.Thread) + len(k.ID) + 4)
	for i, part := range [...]string{k.Channel, k.Account, k.Conversation, k.Thread, k.ID} {
		if i > 0 {
			b.WriteByte('/')
		}
		escapeTo(&b, part)
	}
	return b.String()
}

// escapeTo writes a part of a key: what parts it from others, and what would make it unreadable in a log, as %XX.
func escapeTo(b *strings.Builder, part string) {
	const hex = "0123456789ABCDEF"
	for i := range len(part) {
		if c := part[i]; c == '/' || c == '%' || c <= ' ' || c >= 0x7f {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
}

// ParseEventKey reads what [EventKey.String] wrote.
func ParseEventKey(text string) (EventKey, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 {
		return EventKey{}, fmt.Errorf("channel: expected an event key of 5 parts, channel/account/conversation/thread/id, found %d", len(parts))
	}
	for i, part := range parts {
		plain, err := unescape(part)
		if err != nil {
			return EventKey{}, err
		}
		parts[i] = plain
	}
	return EventKey{Channel: parts[0], Account: parts[1], Conversation: parts[2], Thread: parts[3], ID: parts[4]}, nil
}

func unescape(part string) (string, error) {
	if !strings.Contains(part, "%") {
		return part, nil
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] != '%' {
			b = append(b, part[i])
			continue
		}
		if i+2 >= len(part) {
			return "", errors.New("channel: an event key ends in the middle of an escape")
		}
		high, low := unhex(part[i+1]), unhex(part[i+2])
		if high > 15 || low > 15 {
			return "", errors.New("channel: an event key has an escape that is not %XX")
		}
		b = append(b, high<<4|low)
		i += 2
	}
	return string(b), nil
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// text is what an agent would read.
func (in *Input) text() string {
	if strings.TrimSpace(in.TextForAgent) != "" {
		return in.TextForAgent
	}
	return in.RawText
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
	m.TextForAgent = joinLines(parts, (*Input).text)
	m.TextForCommands = joinLines(parts, func(in *Input) string {
		if in.TextForCommands != "" {
			return in.TextForCommands
		}
		return in.RawText
	})
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
		for _, k := range p.Implicit {
			if !slices.Contains(m.Implicit, k) {
				m.Implicit = append(m.Implicit, k)
			}
		}
		if p.AllowedImplicit != nil {
			m.AllowedImplicit = p.AllowedImplicit
		}
	}
	return m
}

// PlaceNamed is the conversation that [SessionKey] has made a name of, where it is one and not a hash.
func PlaceNamed(session string) (p WindowKey, ok bool) {
	rest, last := session, byte(0)
	parts := map[byte]string{}
	for rest != "" || last == 0 {
		end := strings.IndexAny(rest, "@:#~!")
		part, next := rest, byte(0)
		if end >= 0 {
			part, next = rest[:end], rest[end]
		}
		text, err := unescape(part)
		if _, twice := parts[last]; err != nil || twice || next == '!' {
			return p, false
		}
		parts[last] = text
		if end < 0 {
			break
		}
		rest, last = rest[end+1:], next
	}
	p = WindowKey{Channel: parts[0], Account: parts['@'], Conversation: parts[':'], Thread: parts['#']}
	return p, p.Channel != "" && p.Conversation != ""
}
