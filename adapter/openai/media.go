package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// Bounds of what an answer has besides text.
const (
	maxCitations = 512
	maxSound     = 32 << 20 // bytes of a sound, as base64
)

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

// readMedia passes on the sources, images and pieces of sound that a delta has.
func (a *answer) readMedia(d *delta) error {
	if err := a.cite(d.Annotations); err != nil {
		return err
	}
	for _, image := range d.Images {
		if url := image.Image.URL; url != "" {
			if err := a.Yield(adapter.Chunk{Media: &adapter.Media{Type: typeOf(url), URL: url}}); err != nil {
				return err
			}
		}
	}
	if d.Audio == nil { // of OpenAI's audio models: the sound in pieces, and what it says
		return nil
	}
	if len(a.sound)+len(d.Audio.Data) <= maxSound {
		a.sound = append(a.sound, d.Audio.Data...)
	}
	return a.yieldText("", d.Audio.Transcript)
}

// cite passes on the sources in lists, each of which has objects or addresses. A source is passed on once: Perplexity repeats the lists in each
// event.
func (a *answer) cite(lists ...json.RawMessage) error {
	for _, list := range lists {
		var sources []json.RawMessage
		_ = json.Unmarshal(list, &sources) // what is no list has none
		if err := a.citeAll(sources); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) citeAll(sources []json.RawMessage) error {
	for _, raw := range sources {
		var s source
		if json.Unmarshal(raw, &s.URL) != nil && json.Unmarshal(raw, &s) != nil {
			continue
		}
		if s.Of != nil {
			s = *s.Of
		}
		one := adapter.Citation{URL: s.URL, Title: s.Title, Start: s.Start, End: s.End, Text: cmp.Or(s.Snippet, s.Text+s.Content)}
		known := adapter.Citation{URL: s.URL, Start: s.Start, End: s.End}
		if s.URL == "" {
			if len(s.IDs) > len("[]") {
				one.Title = "reference " + string(s.IDs[1:len(s.IDs)-1])
			}
			known = one
		}
		if one.URL+one.Title == "" || a.cited[known] || len(a.cited) == maxCitations {
			continue
		}
		if a.cited == nil {
			a.cited = map[adapter.Citation]bool{}
		}
		a.cited[known] = true
		if err := a.Yield(adapter.Chunk{Citation: &one}); err != nil {
			return err
		}
	}
	return nil
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

// yieldSound passes on the sound when all of it has come. A stream's is 16-bit PCM of 24 kHz, which gets the head of a WAV file.
func (a *answer) yieldSound() error {
	data, err := base64.StdEncoding.AppendDecode(nil, a.sound)
	if err != nil || len(data) == 0 {
		return nil // a sound that cannot be played is none; what it says has been passed on
	}
	kind := adapter.SniffMedia(data, "")
	if adapter.MediaKind(kind) != adapter.KindAudio {
		kind, data = "audio/wav", append(wavHead(len(data)), data...)
	}
	return a.Yield(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: adapter.DataURL(kind, data)}})
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
