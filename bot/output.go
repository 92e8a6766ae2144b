package bot

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

var (
	null = json.RawMessage("null")

	errTooMuch = errors.New("bot: the run has written too much")
)

// output is what becomes of a model's answer: deltas, and the values that listeners want. It is used from one goroutine, and
// allocates nothing for a chunk but what its values need.
type output struct {
	bot     *ChatBot
	root    []byte
	thought []byte // uri of the reasoning
	hidden  bool
	failure error // of the tube
	writes  writes
	last    []byte // uri of the last delta, for the place where an answer was cut off

	reader   reader
	thinking escaper
	wrote    bool     // anything at all
	preamble bool     // the text began with something else than the document
	begun    [][]byte // behind prose: uris of the document's members, or its root's where it has none
	member   []byte   // uri of the last delta's member, if Config.Member is set
	muted    bool     // what was written turned out to be thoughts: listeners do not get its end
	thoughts bool     // any reasoning
	pause    bool     // between this reasoning and that before
	held     bool     // listeners get values only when it is certain that the document stays
	started  bool     // the document has begun
	begin    func()   // called when the document begins; may be nil
	buf      []byte   // of the chunk, escaped

	keep      bool   // the value is wanted
	collected []byte // the value's JSON text; of a string, its content
	isText    bool   // collected is the content of a string
}

func newOutput(b *ChatBot) *output {
	o := &output{bot: b, root: []byte(b.root), hidden: b.config.Quiet}
	o.thought = []byte(jsonuri.Join(b.root, "$reasoning_context"))
	o.writes.bot = b
	o.held = (b.config.OnInvalid.retries() || b.config.OnInvalid.Fails()) && b.config.format() == JSON
	o.keep = !b.config.NoValue || b.config.Schema != nil || o.held || b.config.Tools != nil // the first may give way to a second
	switch b.config.format() {
	case Text:
		o.reader, o.isText = &textReader{output: o}, true
	case HTML:
		o.reader = newHTMLReader(o)
	default:
		o.reader = &jsonReader{o, jsonuri.NewParser(o.handler(), &jsonuri.Options{Root: o.bot.root, Repair: true})}
		return o
	}
	o.keep = o.keep || b.listener.String != nil
	return o
}

// reader makes deltas of the text of an answer; there is one for each format.
type reader interface {
	// write takes a chunk of the text.
	write(chunk string) error
	// close ends the text. It is an error where that holds nothing of the format.
	close() error
	// MayStop says that nothing of use will come any more.
	MayStop() bool
	// Complete says that the document was closed by the model itself.
	Complete() bool
	// Repairs counts what was mended, by kind.
	Repairs() map[string]int
}

func (o *output) send(e tube.Event) {
	if o.failure != nil {
		return
	}
	e.Hidden = e.Hidden || o.hidden
	if _, err := o.bot.env.Tube.Send(e); err != nil {
		o.failure = err
	}
}

// set sends a value beside the answer: the one numbered n of those with a reserved name.
func (o *output) set(name string, n int, value []byte) error {
	o.send(tube.Event{Kind: tube.Set, URI: []byte(jsonuri.Join(o.bot.root, name+"/"+strconv.Itoa(n))), Value: value})
	return o.failure
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
		o.preamble = true
		o.think(d.Value)
		return
	}
	if o.preamble && !(len(d.URI) == len(o.root) && string(d.Value) == "{}") {
		o.addMember(d.URI)
	}
	o.start()
	if member := o.bot.config.Member; member != nil {
		if uri := o.memberOf(d.URI); !o.wrote || !bytes.Equal(uri, o.member) {
			o.member = append(o.member[:0], uri...)
			member(string(uri))
		}
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

// start retracts what the document replaces, when it begins.
func (o *output) start() {
	if !o.started && o.begin != nil {
		o.begin()
	}
	o.started = true
}

func (o *output) done(uri []byte) {
	if !o.muted {
		o.send(tube.Event{Kind: tube.Done, URI: uri})
	}
}

// write takes a chunk of the model's text.
func (o *output) write(chunk string) error {
	if !o.admit(chunk) {
		return o.failure
	}
	return o.reader.write(chunk)
}

// reason takes a chunk of the model's thinking.
func (o *output) reason(chunk string) {
	if !o.admit(chunk) {
		return
	}
	o.buf = o.thinking.append(o.buf[:0], chunk)
	o.think(o.buf)
}

// think sends content of a string as thinking.
func (o *output) think(content []byte) {
	if len(content) > 0 {
		if o.pause {
			o.pause = false
			o.send(tube.Event{Kind: tube.Append, URI: o.thought, Value: []byte(`\n\n`)})
		}
		o.thoughts = true
		o.send(tube.Event{Kind: tube.Append, URI: o.thought, Value: content})
	}
}

// close ends the output.
func (o *output) close() error {
	o.buf = o.thinking.close(o.buf[:0])
	o.think(o.buf)
	if err := o.reader.close(); err != nil {
		return err
	}
	return o.failure
}

// add appends content to the string that a whole answer is.
func (o *output) add(content []byte) {
	o.delta(jsonuri.Delta{URI: o.root, Op: jsonuri.Append, Value: content})
}

// completeString ends an answer that is one string.
func (o *output) completeString() {
	if o.bot.config.Done {
		o.done(o.root)
	}
	if l := o.bot.listener.String; l != nil && o.failure == nil && !o.muted {
		l(StringValue{URI: o.bot.root, Value: o.plain()})
	}
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

// plain returns the text of an answer that is one string.
func (o *output) plain() (text string) {
	_ = json.Unmarshal(o.value(), &text) // it was escaped here
	return text
}
