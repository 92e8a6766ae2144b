package bot

import (
	"github.com/lingserve/lingserve/htmlpath"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/tube"
)

// maxHTML is how much of a chunk is parsed at a time, in bytes. Each tag repeats the path to it, so that the events of a piece
// may be a thousand times as long, and they wait for its text.
const maxHTML = 4 << 10

// htmlReader reads answers that are HTML. The document is one string, as text is; and if they are wanted, there are also events
// for each tag and piece of text.
type htmlReader struct {
	*output
	parser *htmlpath.Parser
	text   escaper
	prose  escaper
	source []byte      // of the piece that is parsed, escaped
	events []htmlEvent // of this piece
}

// htmlEvent is the data of an "html" event; see Config.HTMLEvents.
type htmlEvent struct {
	URI        string            `json:"uri"`
	Path       string            `json:"path"`
	Type       string            `json:"type"`
	Name       string            `json:"name,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Text       string            `json:"text,omitempty"`
}

func newHTMLReader(o *output) *htmlReader {
	r := &htmlReader{output: o}
	h := htmlpath.Handler{
		Source: func(text []byte) { r.source = r.text.append(r.source, string(text)) },
		Prose: func(text []byte) {
			r.buf = r.prose.append(r.buf[:0], string(text))
			r.preamble = true
			r.think(r.buf)
		},
	}
	if o.bot.config.HTMLEvents {
		h.Open = r.openTag
		h.Text = func(path, text []byte) {
			r.addEvent(htmlEvent{Path: string(path), Type: "text_delta", Text: string(text)})
		}
		h.Close = func(path, name []byte) {
			r.addEvent(htmlEvent{Path: string(path), Type: "close_tag", Name: string(name)})
		}
	}
	r.parser = htmlpath.NewParser(h, &htmlpath.Options{Repair: true})
	return r
}

func (r *htmlReader) write(chunk string) error {
	for len(chunk) > 0 {
		n := min(len(chunk), maxHTML)
		_, err := r.parser.WriteString(chunk[:n])
		r.flush()
		if err != nil {
			return err
		}
		if r.failure != nil {
			return r.failure
		}
		chunk = chunk[n:]
	}
	return nil
}

func (r *htmlReader) close() error {
	err := r.parser.Close()
	r.source = r.text.close(r.source)
	r.flush()
	if err != nil {
		return err
	}
	r.completeString()
	return nil
}

func (r *htmlReader) mayStop() bool           { return r.parser.MayStop() }
func (r *htmlReader) complete() bool          { return r.parser.Complete() }
func (r *htmlReader) repairs() map[string]int { return r.parser.Repairs() }

func (r *htmlReader) openTag(path, name []byte, attributes []htmlpath.Attribute) {
	e := htmlEvent{Path: string(path), Type: "open_tag", Name: string(name)}
	for _, a := range attributes {
		if e.Attributes == nil {
			e.Attributes = map[string]string{}
		}
		e.Attributes[string(a.Name)] = string(a.Value)
	}
	r.addEvent(e)
}

func (r *htmlReader) addEvent(e htmlEvent) {
	e.URI = r.bot.root
	r.events = append(r.events, e)
}

// flush sends what was found: the text, and then what there is to say of it.
func (r *htmlReader) flush() {
	if len(r.source) > 0 {
		r.add(r.source)
		r.source = r.source[:0]
	}
	if len(r.events) == 0 {
		return
	}
	hidden := r.hidden || r.bot.env.Tube.Hides(r.root) // the text would be in them
	for _, e := range r.events {
		data, _ := rawjson.Marshal(e) // strings
		if r.failure == nil {
			_, r.failure = r.bot.env.Tube.Send(tube.Event{Kind: tube.Named, Name: "html", Value: data, Hidden: hidden})
		}
	}
	r.events = r.events[:0]
}
