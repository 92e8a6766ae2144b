package tape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
)

// blobScheme begins a text that stands for a blob.
const blobScheme = "tape-blob:"

// BlobURL returns a text that stands for the text of a blob. View replaces such a string by the blob's text in the content parts of
// a message that are not text, such as images: so large media are stored outside of the entries. The entry's meta names the blob
// (Spill), so that it is copied where the session is forked.
func BlobURL(handle string) string { return blobScheme + handle }

// BlobOf returns the handle of the blob that a text stands for; ok is false for any other text.
func BlobOf(text string) (handle string, ok bool) { return strings.CutPrefix(text, blobScheme) }

var quotedBlobURL = regexp.MustCompile(`"` + blobScheme + `([^"\\]*)"`)

// loadBlobs replaces the URLs of blobs in messages by the text of the blobs.
func (t *Tape) loadBlobs(ctx context.Context, messages []Message) ([]Message, error) {
	for i, m := range messages {
		if !bytes.Contains(m.JSON, []byte(`"`+blobScheme)) {
			continue
		}
		var c struct{ Content []json.RawMessage }
		if json.Unmarshal(m.JSON, &c) != nil {
			continue // a text
		}
		for k, part := range c.Content {
			filled, err := t.loadPart(ctx, part)
			if err != nil {
				return nil, err
			}
			c.Content[k] = filled
		}
		messages[i].JSON = setMember(m.JSON, "content", encode(c.Content))
	}
	return messages, nil
}

// loadPart replaces the URLs of blobs in a content part. A part whose blob is missing becomes a note.
func (t *Tape) loadPart(ctx context.Context, part json.RawMessage) (json.RawMessage, error) {
	if partType(part) == "text" {
		return part, nil
	}
	var failed error
	filled := quotedBlobURL.ReplaceAllFunc(part, func(url []byte) []byte {
		handle := quotedBlobURL.FindSubmatch(url)[1]
		data, _, err := t.ReadBlob(ctx, string(handle), 0, math.MaxInt64)
		failed = errors.Join(failed, err)
		return encode(string(data))
	})
	if errors.Is(failed, ErrNotFound) || errors.Is(failed, ErrDamaged) {
		return newObject("type", "text", "text", "[media is not available]"), nil
	}
	return filled, failed
}

// partType returns the type of a content part.
func partType(part json.RawMessage) string {
	var p struct{ Type string }
	_ = json.Unmarshal(part, &p) // other values have no type
	return p.Type
}
