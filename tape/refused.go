package tape

import (
	"encoding/json"
	"iter"
	"slices"
)

// NewRefusal is an error that a turn met because of what the model was asked: it would be refused each time it is sent, and no later message
// would be answered. In views, what was said since the model's last reply stands as a note that has the message. Where onlyMedia is true, this
// is so for images and files alone.
func NewRefusal(kind, message string, onlyMedia bool) Entry {
	what := refusedAll
	if onlyMedia {
		what = refusedMedia
	}
	return newEntry(KindError, struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Refused string `json:"refused"`
	}{kind, message, what})
}

// What an error says was refused.
const (
	refusedAll   = "all"
	refusedMedia = "media"
)

// withoutRefused delays the messages to a model until its reply follows, or the error that says that they were refused.
func withoutRefused(entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var delayed []Entry
		flush := func() bool {
			for _, e := range delayed {
				if !yield(e, nil) {
					return false
				}
			}
			delayed = delayed[:0]
			return true
		}
		for e, err := range entries {
			if err != nil {
				yield(e, err)
				return
			}
			p := payloadOf(e)
			if e.Kind == KindError && p.Refused != "" {
				for i := range delayed {
					delayed[i].Payload = refusedPayload(delayed[i], p.Refused == refusedMedia, p.Message)
				}
			}
			isReply := e.Kind == KindToolCall || e.Kind == KindAnchor || e.Kind == KindMessage && p.Role == "assistant"
			isRequest := e.Kind == KindToolResult || e.Kind == KindMessage && !isReply
			if isRequest || len(delayed) > 0 && !isReply {
				delayed = append(delayed, e)
			} else if !flush() || !yield(e, nil) {
				return
			}
		}
		flush()
	}
}

// refusedPayload returns the payload of an entry whose content, or whose media, was refused.
func refusedPayload(e Entry, onlyMedia bool, reason string) json.RawMessage {
	p := payloadOf(e)
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
	isMedia := func(part json.RawMessage) bool { return partType(part) != "text" }
	parts := elements(content)
	if !slices.ContainsFunc(parts, isMedia) {
		return content
	}
	note := encode(textPart{"text", "[Images and files were left out, because they were refused: " + reason + "]"})
	return encode(append(slices.DeleteFunc(parts, isMedia), note))
}
