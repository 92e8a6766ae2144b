package tape

import (
	"encoding/json"
	"iter"
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

// withoutRefused holds back what is said to a model until its reply follows, or the error that says that it was refused.
func withoutRefused(entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var held []Entry
		flush := func() bool {
			for _, e := range held {
				if !yield(e, nil) {
					return false
				}
			}
			held = held[:0]
			return true
		}
		for e, err := range entries {
			if err != nil {
				yield(e, err)
				return
			}
			if e.Kind == KindError {
				if what, _ := text(member(e.Payload, "refused")); what != "" {
					message, _ := text(member(e.Payload, "message"))
					for i := range held {
						held[i].Payload = refused(&held[i], what == refusedMedia, message)
					}
				}
			}
			replies := e.Kind == KindToolCall || e.Kind == KindAnchor || e.Kind == KindMessage && isText(member(e.Payload, "role"), "assistant")
			asks := e.Kind == KindToolResult || e.Kind == KindMessage && !replies
			if asks || len(held) > 0 && !replies {
				held = append(held, e)
			} else if !flush() || !yield(e, nil) {
				return
			}
		}
		flush()
	}
}

// refused returns the payload of an entry of which all, or the media, was refused.
func refused(e *Entry, onlyMedia bool, why string) json.RawMessage {
	switch e.Kind {
	case KindMessage:
		content := member(e.Payload, "content")
		if left := refusedContent(content, onlyMedia, why); left != nil {
			return replaceMember(e.Payload, "content", left)
		}
	case KindToolResult:
		results := elements(member(e.Payload, "results"))
		for i, r := range results {
			if left := refusedContent(r, onlyMedia, why); left != nil {
				results[i] = left
			}
		}
		return replaceMember(e.Payload, "results", appendArray(nil, results))
	}
	return e.Payload
}

// refusedContent returns what is left of a content, or of a tool's result; nil is all of it.
func refusedContent(content json.RawMessage, onlyMedia bool, why string) json.RawMessage {
	if !onlyMedia {
		return appendString(nil, "[This was left out, because it was refused: "+why+"]")
	}
	var left []json.RawMessage
	parts := elements(content)
	for _, part := range parts {
		if kind, _ := text(member(part, "type")); kind == "text" {
			left = append(left, part)
		}
	}
	if len(left) == len(parts) {
		return nil
	}
	note := appendString(json.RawMessage(`{"type":"text","text":`), "[Images and files were left out, because they were refused: "+why+"]")
	return appendArray(nil, append(left, append(note, '}')))
}
