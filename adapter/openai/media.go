package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// maxCitations is how many sources of an answer are passed on.
const maxCitations = 512

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
func (a *answer) readMedia(d *delta) {
	a.cite(d.Annotations)
	for _, image := range d.Images {
		if url := image.Image.URL; url != "" {
			a.Pass(adapter.Chunk{Media: &adapter.Media{Type: typeOf(url), URL: url}})
		}
	}
	if d.Audio == nil { // of OpenAI's audio models: the sound in pieces, and what it says
		return
	}
	a.Hold(len(d.Audio.Data))
	a.sound = append(a.sound, d.Audio.Data...)
	a.Say(d.Audio.Transcript, "")
}

// cite passes on the sources in lists, each of which has objects or addresses. A source is passed on once: Perplexity repeats the lists in each
// event.
func (a *answer) cite(lists ...json.RawMessage) {
	for _, list := range lists {
		var sources []json.RawMessage
		_ = json.Unmarshal(list, &sources) // what is no list has none
		a.citeAll(sources)
	}
}

func (a *answer) citeAll(sources []json.RawMessage) {
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
		a.Pass(adapter.Chunk{Citation: &one})
	}
}

// typeOf is the media type that a data URL names.
func typeOf(url string) string {
	if d, ok := wire.ReadData(url); ok {
		return d.Type
	}
	return "image/png" // which most are
}

// yieldSound passes on the sound when all of it has come. A stream's is 16-bit PCM of 24 kHz, which gets the head of a WAV file.
func (a *answer) yieldSound() {
	data, err := base64.StdEncoding.AppendDecode(nil, a.sound)
	if err != nil || len(data) == 0 {
		return // a sound that cannot be played is none; what it says has been passed on
	}
	kind := adapter.SniffMedia(data, "")
	if adapter.MediaKind(kind) != adapter.KindAudio {
		kind, data = "audio/wav", append(wavHead(len(data)), data...)
	}
	a.Pass(adapter.Chunk{Media: &adapter.Media{Type: kind, URL: adapter.DataURL(kind, data)}})
}

// wavHead is the head of a WAV file with so many bytes of PCM: format 1, one channel, 24 000 samples and 48 000 bytes a second, 2 bytes and 16 bits
// a sample.
func wavHead(size int) []byte {
	head := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\xc0\x5d\x00\x00\x80\xbb\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
	binary.LittleEndian.PutUint32(head[4:], uint32(36+size))
	binary.LittleEndian.PutUint32(head[40:], uint32(size))
	return head
}
