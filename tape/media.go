package tape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
)

// blobScheme begins a text that stands for a blob.
const blobScheme = "tape-blob:"

// BlobURL stands for the text that a blob holds. Where it is a string in a content part of a message that is no text,
// such as the url of an image, View puts the blob's text in its place: so large media lie beside the tape. The entry's
// meta names the blob (Spill), so that it goes along where the session is forked.
func BlobURL(handle string) string { return blobScheme + handle }

// BlobOf returns the handle of the blob that a text stands for; ok is false for any other text.
func BlobOf(text string) (handle string, ok bool) { return strings.CutPrefix(text, blobScheme) }

// lost takes the place of a part whose blob is not there.
var lost = json.RawMessage(`{"type":"text","text":"[media is not available]"}`)

// putBack returns the messages with the text of blobs in the place of their urls.
func (t *Tape) putBack(ctx context.Context, messages []Message) ([]Message, error) {
	for i, m := range messages {
		if !bytes.Contains(m.JSON, []byte(`"`+blobScheme)) {
			continue
		}
		parts := elements(member(m.JSON, "content"))
		for k, part := range parts {
			filled, err := t.fill(ctx, part)
			if err != nil {
				return nil, err
			}
			parts[k] = filled
		}
		if len(parts) > 0 {
			messages[i].JSON = replaceMember(m.JSON, "content", appendArray(nil, parts))
		}
	}
	return messages, nil
}

// fill returns a content part with the text of blobs in the place of their urls.
func (t *Tape) fill(ctx context.Context, part json.RawMessage) (json.RawMessage, error) {
	if kind, _ := text(member(part, "type")); kind == "text" {
		return part, nil
	}
	filled, err := t.fillValue(ctx, part)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
		return lost, nil
	}
	return filled, err
}

func (t *Tape) fillValue(ctx context.Context, value json.RawMessage) (json.RawMessage, error) {
	switch value[0] {
	case '"':
		s, _ := text(value)
		handle, ok := strings.CutPrefix(s, blobScheme)
		if !ok {
			return value, nil
		}
		data, _, err := t.ReadBlob(ctx, handle, 0, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		return appendString(make([]byte, 0, len(data)+2), strings.ToValidUTF8(string(data), "\uFFFD")), nil
	case '{':
		for name, old := range members(value) {
			filled, err := t.fillValue(ctx, old)
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(old, filled) {
				key, _ := text(name)
				value = replaceMember(value, key, filled)
			}
		}
	}
	return value, nil
}
