package openai

import (
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

// media adds the images, the sound and the sources of a message.
func (d *decoder) media(m *chunkDelta) {
	for _, image := range m.Images {
		if url := image.Image.URL; url != "" {
			d.chunks = append(d.chunks, adapter.Chunk{Media: &adapter.Media{Type: typeOf(url), URL: url}})
		}
	}
	if len(d.sound)+len(m.Audio.Data) <= maxSound {
		d.sound = append(d.sound, m.Audio.Data...)
	}
	d.addText(m.Audio.Transcript, false)
}

// cite takes a list of sources: objects, or addresses.
func (d *decoder) cite(list json.RawMessage) {
	var all []json.RawMessage
	json.Unmarshal(list, &all) // what is no list names none
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
		if one.URL+one.Title == "" || d.cited[known] || len(d.cited) == maxCitations {
			continue
		}
		if d.cited == nil {
			d.cited = map[adapter.Citation]bool{}
		}
		d.cited[known] = true
		d.chunks = append(d.chunks, adapter.Chunk{Citation: &one})
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

// passSound passes on the sound when all of it has come. A stream's is 16-bit PCM of 24 kHz, which gets the header of a WAV file. A sound that
// cannot be decoded is left out.
func (a *answer) passSound() error {
	data, err := base64.StdEncoding.DecodeString(string(a.events.sound))
	if err != nil || len(data) == 0 {
		return nil
	}
	kind := adapter.SniffMedia(data, "")
	if adapter.MediaKind(kind) != adapter.KindAudio {
		kind, data = "audio/wav", append(wavHeader(len(data)), data...)
	}
	return a.Yield(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: adapter.DataURL(kind, data)}})
}

// wavHeader is the header of a WAV file with so many bytes of 16-bit mono PCM of 24 kHz.
func wavHeader(size int) []byte {
	h := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(36+size))
	h = append(h, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...) // 16 bytes, PCM, 1 channel
	h = binary.LittleEndian.AppendUint32(h, 24_000)
	h = binary.LittleEndian.AppendUint32(h, 48_000) // bytes a second
	h = append(h, "\x02\x00\x10\x00data"...)        // 2 bytes a sample of 16 bits
	return binary.LittleEndian.AppendUint32(h, uint32(size))
}
