package agent

import (
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// Events on the tape behind a message of the model: its sources, and the images and sounds that it made. No model sees them.
const (
	entryCitations = "citations" // a list of adapter.Citation
	entryMedia     = "media"     // a list of keptMedia
)

// maxExtras is how many of each a reply may have.
const maxExtras = 512

// keptMedia is an image or a sound of a model's. What was data is a blob of the tape, as text.
type keptMedia struct {
	Type   string `json:"type"`
	URL    string `json:"url,omitempty"`
	Handle string `json:"handle,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`
}

// addExtras adds the sources and media of a chunk, and sends them to the reader.
func (r *run) addExtras(rep *reply, c *adapter.Chunk) {
	if c.Citation != nil && len(rep.citations) < maxExtras {
		rep.citations = append(rep.citations, *c.Citation)
		r.emit(turn.Event{Kind: turn.CitationEvent, Citation: c.Citation})
	}
	if c.Media == nil || len(rep.media) == maxExtras {
		return
	}
	kept := keptMedia{Type: c.Media.Type, URL: c.Media.URL}
	if kind, _, ok := adapter.OpenDataURL(c.Media.URL); ok {
		blob, _ := r.putBlob(c.Media.URL)
		kept = keptMedia{Type: kind, Handle: blob.Handle, Bytes: int(blob.Size)}
		if blob.Handle != "" {
			rep.blobs = append(rep.blobs, blob)
		}
	}
	rep.media = append(rep.media, kept)
	r.emit(turn.Event{Kind: turn.MediaEvent, Media: c.Media})
}

// extraEntries returns the entries of a reply's sources and media.
func (r *reply) extraEntries() (entries []tape.Entry) {
	if len(r.citations) > 0 {
		entries = append(entries, tape.NewEvent(entryCitations, r.citations))
	}
	if len(r.media) > 0 {
		entries = append(entries, tape.NewEvent(entryMedia, r.media).With(tape.Meta{Spill: r.blobs}))
	}
	return entries
}
