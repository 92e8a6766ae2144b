package bot

import (
	"encoding/json"
	"errors"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

var (
	null = json.RawMessage("null")

	errTooMuch = errors.New("bot: the run has written too much")
)

// output is what becomes of a model's text: deltas, and the values that listeners want. It is used from one goroutine, and
// allocates nothing for a chunk but what its values need.
type output struct {
	bot     *ChatBot
	root    []byte
	thought []byte // uri of the reasoning
	hidden  bool
	failure error // of the tube
	writes  writes
	last    []byte // uri of the last delta, for the place where an answer was cut off

	parser   *jsonuri.Parser // nil for text
	text     escaper
	thinking escaper
	wrote    bool   // anything at all
	thoughts bool   // any reasoning
	held     bool   // listeners are told only once it is certain that the document stays
	begin    func() // called when the document begins; may be nil
	buf      []byte // of the chunk, escaped

	keep      bool   // the value is wanted
	collected []byte // the value's JSON text; of a string, its content
	isText    bool   // collected is the content of a string
}

func newOutput(b *ChatBot) *output {
	o := &output{bot: b, root: []byte(b.root), hidden: b.config.Quiet}
	o.thought = []byte(jsonuri.Join(b.root, "$reasoning_context"))
	o.writes = writes{bot: b, observer: b.env.Writes, contested: &b.contested}
	o.held = b.config.OnInvalid == Retry && b.config.format() == JSON
	o.keep = !b.config.NoValue || b.config.Schema != nil || o.held
	if b.config.format() == Text {
		o.isText = true
		for _, l := range b.listeners {
			o.keep = o.keep || l.String != nil
		}
		return o
	}
	o.parser = jsonuri.NewParser(o.handler(), &jsonuri.Options{Root: b.root, Repair: true})
	return o
}

// handler listens to no more than is wanted: what is listened to is collected.
func (o *output) handler() jsonuri.Handler {
	h := jsonuri.Handler{Delta: o.delta}
	if !o.held {
		o.listen(&h)
		if o.bot.config.Done {
			h.Done = o.done
		}
	}
	if listener := h.Object; o.keep {
		h.Object = func(uri, value []byte) {
			if len(uri) == len(o.root) {
				o.collected, o.isText = append(o.collected[:0], value...), false
			}
			if listener != nil {
				listener(uri, value)
			}
		}
	}
	return h
}

// listen puts in what the bot's listeners want to be told.
func (o *output) listen(h *jsonuri.Handler) {
	var strings, objects, scalars bool
	for _, l := range o.bot.listeners {
		strings = strings || l.String != nil
		objects = objects || l.Object != nil
		scalars = scalars || l.Scalar != nil
	}
	listeners := o.bot.listeners
	if strings {
		h.String = func(uri []byte, value string) {
			v := StringValue{URI: string(uri), Value: value}
			for _, l := range listeners {
				if l.String != nil {
					l.String(v)
				}
			}
		}
	}
	if objects {
		h.Object = func(uri, value []byte) {
			v := ObjectValue{URI: string(uri), Value: append(json.RawMessage(nil), value...)}
			for _, l := range listeners {
				if l.Object != nil {
					l.Object(v)
				}
			}
		}
	}
	if scalars {
		h.Scalar = func(uri, value []byte) {
			v := ObjectValue{URI: string(uri), Value: append(json.RawMessage(nil), value...)}
			for _, l := range listeners {
				if l.Scalar != nil {
					l.Scalar(v)
				}
			}
		}
	}
}

func (o *output) send(e tube.Event) {
	if o.failure != nil {
		return
	}
	e.Hidden = o.hidden
	if _, err := o.bot.env.Tube.Send(e); err != nil {
		o.failure = err
	}
}

// admit counts text of the model; false where it is too much. The text is a better measure of what it will take in the result
// than the deltas, which repeat their uris.
func (o *output) admit(chunk string) bool {
	if w := o.bot.env.Written; w != nil && !w(len(chunk)) {
		o.failure = errTooMuch
		return false
	}
	return true
}

// delta sends what the parser found.
func (o *output) delta(d jsonuri.Delta) {
	appends := d.Op == jsonuri.Append
	if len(d.URI) == len(o.thought) && string(d.URI) == string(o.thought) {
		o.thoughts = true
		o.send(tube.Event{Kind: tube.Append, URI: d.URI, Value: d.Value})
		return
	}
	if !o.wrote && o.begin != nil {
		o.begin()
	}
	o.wrote = true
	o.last = append(o.last[:0], d.URI...)
	o.writes.delta(d.URI, appends, !appends && len(d.Value) == 2 && d.Value[0] == '[')
	kind := tube.Set
	if appends {
		kind = tube.Append
	}
	o.send(tube.Event{Kind: kind, URI: d.URI, Value: d.Value})
	if o.keep && len(d.URI) == len(o.root) { // a document that is a scalar
		if !appends || !o.isText {
			o.collected = o.collected[:0]
		}
		o.collected, o.isText = append(o.collected, d.Value...), appends
	}
}

func (o *output) done(uri []byte) { o.send(tube.Event{Kind: tube.Done, URI: uri}) }

// write takes a chunk of the model's text.
func (o *output) write(chunk string) error {
	if !o.admit(chunk) {
		return o.failure
	}
	if o.parser != nil {
		_, err := o.parser.WriteString(chunk)
		return err
	}
	o.buf = o.text.append(o.buf[:0], chunk)
	if len(o.buf) > 0 {
		o.delta(jsonuri.Delta{URI: o.root, Op: jsonuri.Append, Value: o.buf})
	}
	return nil
}

// reason takes a chunk of the model's thinking.
func (o *output) reason(chunk string) {
	if !o.admit(chunk) {
		return
	}
	o.buf = o.thinking.append(o.buf[:0], chunk)
	if len(o.buf) > 0 {
		o.thoughts = true
		o.send(tube.Event{Kind: tube.Append, URI: o.thought, Value: o.buf})
	}
}

// mayStop says that nothing of use will come any more.
func (o *output) mayStop() bool { return o.parser != nil && o.parser.MayStop() }

// complete says that the document was closed by the model itself.
func (o *output) complete() bool { return o.parser.Complete() }

// close ends the output.
func (o *output) close() error {
	if o.buf = o.thinking.close(o.buf[:0]); len(o.buf) > 0 {
		o.send(tube.Event{Kind: tube.Append, URI: o.thought, Value: o.buf})
	}
	if o.parser != nil {
		if err := o.parser.Close(); err != nil {
			return err
		}
		if !o.wrote && o.begin != nil { // an empty object without a root
			o.begin()
		}
		return o.failure
	}
	o.buf = o.text.close(o.buf[:0])
	if len(o.buf) > 0 || !o.wrote {
		o.delta(jsonuri.Delta{URI: o.root, Op: jsonuri.Append, Value: o.buf})
	}
	if o.bot.config.Done {
		o.done(o.root)
	}
	if o.failure != nil {
		return o.failure
	}
	for _, l := range o.bot.listeners {
		if l.String != nil {
			l.String(StringValue{URI: o.bot.root, Value: o.plain()})
		}
	}
	return nil
}

// value returns the JSON text of what was written.
func (o *output) value() json.RawMessage {
	if !o.keep {
		return nil
	}
	if o.isText {
		v := append(make(json.RawMessage, 0, len(o.collected)+2), '"')
		return append(append(v, o.collected...), '"')
	}
	if len(o.collected) == 0 {
		return null
	}
	return o.collected
}

// plain returns the text of a text bot.
func (o *output) plain() (text string) {
	if err := json.Unmarshal(o.value(), &text); err != nil {
		return "" // cannot be: it was escaped here
	}
	return text
}

func (o *output) repairs() map[string]int {
	if o.parser == nil {
		return nil
	}
	return o.parser.Repairs()
}
