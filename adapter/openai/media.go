package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Bounds of what an answer has besides text.
const (
	maxCitations = 512
	maxSound     = 32 << 20 // bytes of a sound, as base64
)

// beside is what an answer has beside its text and calls: sources and media. Only events that have such are looked at here.
type beside struct {
	// Of the event.
	found   []adapter.Chunk
	sources [2]json.RawMessage // "search_results" and "citations", as lists

	// Of the answer.
	told  [2]json.RawMessage // the sources that were passed on last: Perplexity repeats them in each event
	cited map[adapter.Citation]bool
	sound []byte // base64, as it comes
}

// source is a source in any of the shapes that servers have.
type source struct {
	URL     string          `json:"url"`
	Title   string          `json:"title"`
	Snippet string          `json:"snippet"`
	Text    string          `json:"text"`
	Content string          `json:"content"`
	Start   int             `json:"start_index"`
	End     int             `json:"end_index"`
	Of      *source         `json:"url_citation"`
	IDs     json.RawMessage `json:"reference_ids"` // of Mistral's references, to what its tools have found
}

// top takes the sources that stand beside the choices: Perplexity's search_results, which have titles, and citations, which are
// addresses. It says whether they are others than before.
func (b *beside) top(key, value []byte, kind jsonparser.ValueType) bool {
	at := 0
	if string(key) == "citations" {
		at = 1
	}
	if kind != jsonparser.Array || bytes.Equal(value, b.told[at]) {
		return false
	}
	b.sources[at] = bytes.Clone(value)
	return true
}

// part takes a member of a delta, and says whether it was one of these.
func (b *beside) part(key, value []byte, kind jsonparser.ValueType) bool {
	switch string(key) {
	case "annotations": // OpenAI's search models, OpenRouter
		if kind == jsonparser.Array {
			b.cite(value)
		}
	case "images": // OpenRouter
		var list []struct {
			Image struct {
				URL string `json:"url"`
			} `json:"image_url"`
		}
		if kind != jsonparser.Array || json.Unmarshal(value, &list) != nil {
			return kind == jsonparser.Array
		}
		for _, image := range list {
			if url := image.Image.URL; url != "" {
				b.found = append(b.found, adapter.Chunk{Media: &adapter.Media{Type: typeOf(url), URL: url}})
			}
		}
	case "audio": // OpenAI's audio models: the sound in pieces, and what it says
		if kind != jsonparser.Object {
			return false
		}
		if data := wire.StringAt(value, "data"); len(b.sound)+len(data) <= maxSound {
			b.sound = append(b.sound, data...)
		}
		if text, err := jsonparser.GetString(value, "transcript"); err == nil && text != "" {
			b.found = append(b.found, adapter.Chunk{Text: text})
		}
	default:
		return false
	}
	return true
}

// reference takes a part of Mistral's content that names a source.
func (b *beside) reference(value []byte) {
	switch string(wire.StringAt(value, "type")) {
	case "reference", "tool_reference":
		b.cite(append(append([]byte{'['}, value...), ']'))
	}
}

// cite takes a list of sources: objects, or addresses.
func (b *beside) cite(list json.RawMessage) {
	var all []json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return
	}
	for _, raw := range all {
		var s source
		if json.Unmarshal(raw, &s.URL) != nil && json.Unmarshal(raw, &s) != nil {
			continue
		}
		if s.Of != nil {
			s = *s.Of
		}
		text := s.Snippet
		if text == "" {
			text = s.Text + s.Content
		}
		one := adapter.Citation{URL: s.URL, Title: s.Title, Start: s.Start, End: s.End, Text: text}
		if s.URL == "" && len(s.IDs) > 2 {
			one.Title = "reference " + string(s.IDs[1:len(s.IDs)-1])
		}
		known := adapter.Citation{URL: one.URL, Start: one.Start, End: one.End}
		if one.URL == "" {
			known = one
		}
		if one.URL+one.Title == "" || b.cited[known] || len(b.cited) == maxCitations {
			continue
		}
		if b.cited == nil {
			b.cited = map[adapter.Citation]bool{}
		}
		b.cited[known] = true
		b.found = append(b.found, adapter.Chunk{Citation: &one})
	}
}

// typeOf is the media type that a data URL names.
func typeOf(url string) string {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if kind, _, ok := strings.Cut(rest[:min(len(rest), 64)], ";"); ok {
			return kind
		}
	}
	return "image/png" // which most are
}

// passBeside yields what the decoder has found beside the content; false when the reader has left.
func (a *answer) passBeside() bool {
	b := &a.events.beside
	for i, list := range b.sources {
		if list != nil {
			b.told[i] = list
			b.cite(list)
			b.sources[i] = nil
		}
	}
	for i := range b.found {
		if !a.Pass(b.found[i]) {
			return false
		}
	}
	b.found = b.found[:0]
	return true
}

// passSound yields the sound when all of it has come. A stream's is 16-bit PCM of 24 kHz, which gets the head of a WAV file.
func (a *answer) passSound() bool {
	b := &a.events.beside
	if len(b.sound) == 0 {
		return true
	}
	text := bytes.ReplaceAll(b.sound, []byte(`\/`), []byte("/"))
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	b.sound = nil
	if err != nil {
		return true // a sound that cannot be played is none; what it says has been told
	}
	data = data[:n]
	kind := adapter.SniffMedia(data, "")
	if adapter.MediaKind(kind) != adapter.KindAudio {
		kind, data = "audio/wav", append(wavHead(len(data)), data...)
	}
	return a.Pass(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: adapter.DataURL(kind, data)}})
}

// wavHead is the head of a WAV file with so many bytes of 16-bit mono PCM of 24 kHz.
func wavHead(size int) []byte {
	head, _ := binary.Append(nil, binary.LittleEndian, struct { // of sizes that are known: cannot fail
		RIFF             [4]byte
		Rest             uint32
		WAVE             [8]byte
		FormatSize       uint32
		Format, Channels uint16
		Rate, ByteRate   uint32
		Align, Bits      uint16
		Data             [4]byte
		Size             uint32
	}{[4]byte([]byte("RIFF")), uint32(36 + size), [8]byte([]byte("WAVEfmt ")), 16, 1, 1, 24_000, 48_000, 2, 16, [4]byte([]byte("data")), uint32(size)})
	return head
}
