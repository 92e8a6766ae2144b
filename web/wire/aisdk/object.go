package aisdk

import (
	"bytes"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/jsonuri/linear"
	"github.com/lingserve/lingserve/tube"
)

// Object writes a run's document as useObject reads it: as one JSON text and nothing else, which grows; a document that is a string is
// that text. It cannot express errors: break the connection off if it is not complete.
type Object struct {
	text           linear.Writer
	over, complete bool
}

// NewObject returns the encoder of one stream. roots are where bots write, as [linear.Writer.Expect] takes them.
func NewObject(roots []string) *Object {
	o := new(Object)
	for _, root := range roots {
		o.text.Expect(root)
	}
	return o
}

// Append appends what an event adds to the text.
func (o *Object) Append(dst []byte, ev tube.Event) []byte {
	switch {
	case o.over:
		return dst
	case ev.Kind == tube.Done:
		o.text.Done(ev.URI)
	case ev.Kind != tube.Named:
		if jsonuri.Reserved(ev.URI) {
			return dst
		}
		o.text.Apply(jsonuri.Delta{Op: jsonuri.Op(ev.Kind), URI: ev.URI, Value: ev.Value})
	case ev.Terminal():
		o.over = true
		if ev.Name != "finished" || !bytes.Equal(ev.Value, []byte(`{"status":"completed"}`)) {
			return dst
		}
		text, err := o.text.Close(dst)
		o.complete = err == nil
		return text
	default:
		return dst
	}
	o.over = o.text.Err() != nil // the document has taken back what was written
	return o.text.AppendText(dst)
}

// Over says that nothing more can be written.
func (o *Object) Over() bool { return o.over }

// Complete says that the text is the whole document.
func (o *Object) Complete() bool { return o.complete }
