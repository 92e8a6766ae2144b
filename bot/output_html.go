package bot

import (
	"github.com/lingserve/lingserve/htmlpath"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// htmlEvent is the name of the events that tell of tags and text; see Config.HTMLEvents.
const htmlEvent = "html"

// maxHTML is how much of a chunk is parsed at a time, in bytes. Each tag repeats the path to it, so that the events of a piece
// may be a thousand times as long, and they wait for its text.
const maxHTML = 4 << 10

// htmlReader reads answers that are HTML. The document is one string, as text is; and if they are wanted, there are also events
// for each tag and piece of text.
type htmlReader struct {
	*output
	*htmlpath.Parser
	text   escaper
	prose  escaper
	source []byte // of the piece that is parsed, escaped
	data   []byte // of its events
	ends   []int  // where in data each of them ends
	start  []byte // of the data of an event
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
		r.start = jsonuri.AppendEscaped([]byte(`{"uri":"`), o.bot.root)
		r.start = append(r.start, `","path":"`...)
		h.Open, h.Text, h.Close = r.openTag, r.textDelta, r.closeTag
	}
	r.Parser = htmlpath.NewParser(h, &htmlpath.Options{Repair: true})
	return r
}

func (r *htmlReader) write(chunk string) error {
	for len(chunk) > 0 {
		n := min(len(chunk), maxHTML)
		_, err := r.WriteString(chunk[:n])
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
	err := r.Close()
	r.source = r.text.close(r.source)
	r.flush()
	if err != nil {
		return err
	}
	r.completeString()
	return nil
}

// flush sends what was found: the text, and then what there is to say of it.
func (r *htmlReader) flush() {
	if len(r.source) > 0 {
		r.add(r.source)
		r.source = r.source[:0]
	}
	if len(r.ends) == 0 {
		return
	}
	hidden := r.bot.env.Tube.Hides(r.root) // the text would be in them
	from := 0
	for _, end := range r.ends {
		r.send(tube.Event{Kind: tube.Named, Name: htmlEvent, Value: r.data[from:end], Hidden: hidden})
		from = end
	}
	r.data, r.ends = r.data[:0], r.ends[:0]
}

func (r *htmlReader) openTag(path, name []byte, attributes []htmlpath.Attribute) {
	r.beginEvent(path, "open_tag")
	r.member("name", name)
	if len(attributes) > 0 {
		r.data = append(r.data, `,"attributes":{`...)
		for i, a := range attributes {
			if i > 0 {
				r.data = append(r.data, ',')
			}
			r.quoted(a.Name)
			r.data = append(r.data, ':')
			r.quoted(a.Value)
		}
		r.data = append(r.data, '}')
	}
	r.endEvent()
}

func (r *htmlReader) textDelta(path, text []byte) {
	r.beginEvent(path, "text_delta")
	r.member("text", text)
	r.endEvent()
}

func (r *htmlReader) closeTag(path, name []byte) {
	r.beginEvent(path, "close_tag")
	r.member("name", name)
	r.endEvent()
}

// beginEvent begins the data of an event.
func (r *htmlReader) beginEvent(path []byte, kind string) {
	r.data = append(r.data, r.start...)
	r.data = jsonuri.AppendEscaped(r.data, string(path))
	r.data = append(append(append(r.data, `","type":"`...), kind...), '"')
}

func (r *htmlReader) member(name string, text []byte) {
	r.data = append(append(append(r.data, `,"`...), name...), `":`...)
	r.quoted(text)
}

func (r *htmlReader) quoted(text []byte) {
	r.data = append(r.data, '"')
	r.data = jsonuri.AppendEscaped(r.data, string(text))
	r.data = append(r.data, '"')
}

func (r *htmlReader) endEvent() {
	r.data = append(r.data, '}')
	r.ends = append(r.ends, len(r.data))
}
