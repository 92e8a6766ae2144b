package tape

import (
	"encoding/json"
	"slices"
)

// NewRefusal is an error that a turn met because of what the model was asked: it would be refused each time it is sent, and no later message
// would be answered. In views, what was said since the model's last reply stands as a note that has the message. Where onlyMedia is true, this
// is so for images and files alone.
func NewRefusal(kind, message string, onlyMedia bool) Entry {
	refused := "all"
	if onlyMedia {
		refused = "media"
	}
	return newEntry(KindError, "kind", kind, "message", message, "refused", refused)
}

// withNotes puts notes in place of what was refused: what was said to the model since its last reply before the error.
func withNotes(entries []Entry) []Entry {
	for i, e := range entries {
		if e.Kind != KindError {
			continue
		}
		p := PayloadOf(e)
		for k := i - 1; p.Refused != "" && k >= 0 && !isReply(entries[k]); k-- {
			entries[k].Payload = refusedPayload(entries[k], p.Refused == "media", p.Message)
		}
	}
	return entries
}

// isReply reports whether an entry is a reply of a model, or an anchor, which stands for replies.
func isReply(e Entry) bool {
	return e.Kind == KindToolCall || e.Kind == KindAnchor || e.Kind == KindMessage && PayloadOf(e).Role == "assistant"
}

// refusedPayload returns the payload of an entry whose content, or whose media, was refused.
func refusedPayload(e Entry, onlyMedia bool, reason string) json.RawMessage {
	p := PayloadOf(e)
	switch e.Kind {
	case KindMessage:
		return setMember(e.Payload, "content", refusedContent(p.Content, onlyMedia, reason))
	case KindToolResult:
		for i, r := range p.Results {
			p.Results[i] = refusedContent(r, onlyMedia, reason)
		}
		return setMember(e.Payload, "results", encode(p.Results))
	}
	return e.Payload
}

// refusedContent returns the part of a content, or of a tool's result, that was not refused, with a note.
func refusedContent(content json.RawMessage, onlyMedia bool, reason string) json.RawMessage {
	if !onlyMedia {
		return encode("[This was left out, because it was refused: " + reason + "]")
	}
	isMedia := func(part json.RawMessage) bool {
		var p struct{ Type string }
		_ = json.Unmarshal(part, &p) // other values have no type
		return p.Type != "text"
	}
	parts := elements(content)
	if !slices.ContainsFunc(parts, isMedia) {
		return content
	}
	note := newObject("type", "text", "text", "[Images and files were left out, because they were refused: "+reason+"]")
	return encode(append(slices.DeleteFunc(parts, isMedia), note))
}
