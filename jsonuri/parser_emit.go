package jsonuri

import "bytes"

// frame is an open object or array.
type frame struct {
	kind   byte     // '{' or '['
	stray  uint8    // repair: doubled opening brackets whose closing ones are to be skipped, and how the container was written
	indent int      // repair: of the line in which it began
	uriLen int      // the container's own uri is uri[:uriLen]
	index  int      // of an array's next element; the number of members of an object
	hashes int      // where the object's key hashes begin
	text   int      // where its text begins, if collected
	keys   keyTable // of an object that has many keys
}

// emitter turns what the grammar finds into deltas and resolved events. Both grammars, strict and repairing, end here.
type emitter struct {
	h          Handler
	root       int    // length of the root's part of uri
	uri        []byte // of the value that is read now
	stack      []frame
	keys       seenKeys
	uniqueKeys bool // a repeated key is refused
	depth      int  // limit
	gatherAll  bool // the text of containers is wanted
	gatherText bool // the text of strings is wanted

	text    []byte // the document as far as it is wanted: canonical JSON
	strText int    // where the open string's content begins in text
	sent    bool   // something of the open string was sent
	scratch []byte
}

func (d *emitter) set(value []byte) {
	if d.h.Delta != nil {
		d.h.Delta(Delta{URI: d.uri, Op: Set, Value: value})
	}
}

// top is the innermost open container; there must be one.
func (d *emitter) top() *frame { return &d.stack[len(d.stack)-1] }

// element makes the next element of the innermost array the value that is read now.
func (d *emitter) element() {
	f := d.top()
	d.uri = appendElement(d.uri[:f.uriLen], f.index)
	if d.gatherAll && f.index > 0 {
		d.text = append(d.text, ',')
	}
	f.index++
}

// member makes a member of the innermost object the value that is read now. raw is the key in its escaped form. It does
// nothing and returns false for a key that the object has already, if keys must be unique.
func (d *emitter) member(raw []byte, escaped bool) bool {
	f := d.top()
	key := raw
	if escaped {
		d.scratch = appendUnescaped(d.scratch[:0], raw)
		key = d.scratch
	}
	repeated := d.keys.add(f.hashes, &f.keys, key)
	if repeated && d.uniqueKeys {
		return false
	}
	d.uri = AppendSegment(d.uri[:f.uriLen], key)
	if repeated {
		d.set(nullText)
	}
	if d.gatherAll {
		if f.index > 0 {
			d.text = append(d.text, ',')
		}
		d.text = append(d.text, '"')
		d.text = append(d.text, raw...)
		d.text = append(d.text, '"', ':')
	}
	f.index++
	return true
}

var (
	nullText   = []byte("null")
	emptyArray = []byte("[]")
	emptyObj   = []byte("{}")
)

// open begins an object or array; false where that is too deep.
func (d *emitter) open(kind byte) bool {
	n := len(d.stack)
	if n >= d.depth {
		return false
	}
	if kind == '[' {
		d.set(emptyArray)
	} else if n > 0 || d.root > 0 {
		d.set(emptyObj)
	}
	// What a frame of this depth left behind is used again, above all its table of keys.
	if n < cap(d.stack) {
		d.stack = d.stack[:n+1]
	} else {
		d.stack = append(d.stack, frame{})
	}
	f := &d.stack[n]
	f.kind, f.stray, f.uriLen, f.index = kind, 0, len(d.uri), 0
	f.hashes, f.text = len(d.keys.hashes), len(d.text)
	f.keys = f.keys[:0]
	if d.gatherAll {
		d.text = append(d.text, kind)
	}
	return true
}

// close ends the innermost container.
func (d *emitter) close() {
	n := len(d.stack) - 1
	f := &d.stack[n]
	d.uri = d.uri[:f.uriLen]
	d.keys.hashes = d.keys.hashes[:f.hashes]
	if d.gatherAll {
		d.text = append(d.text, f.kind+2) // ASCII has the closing bracket two after the opening one
		d.h.Object(d.uri, d.text[f.text:])
	}
	d.stack = d.stack[:n]
	d.valueDone()
}

// scalar is a complete number or literal.
func (d *emitter) scalar(text []byte) {
	d.set(text)
	if d.gatherAll {
		d.text = append(d.text, text...)
	}
	if d.h.Scalar != nil {
		d.h.Scalar(d.uri, text)
	}
	d.valueDone()
}

func (d *emitter) openString() {
	d.sent = false
	if d.gatherText {
		if d.gatherAll {
			d.text = append(d.text, '"')
		} else {
			d.text = d.text[:0]
		}
		d.strText = len(d.text)
	}
}

// content is a piece of the open string, in its escaped form, that ends where a delta may.
func (d *emitter) content(raw []byte) {
	if d.h.Delta != nil {
		d.sent = true
		d.h.Delta(Delta{URI: d.uri, Op: Append, Value: raw})
	}
	if d.gatherText {
		d.text = append(d.text, raw...)
	}
}

// dropString takes the open string back: it was no value.
func (d *emitter) dropString() {
	if d.gatherAll {
		d.text = d.text[:d.strText-1]
	}
	d.set(nullText)
}

func (d *emitter) closeString() {
	if !d.sent && d.h.Delta != nil {
		d.h.Delta(Delta{URI: d.uri, Op: Append})
	}
	if d.gatherText {
		if d.h.String != nil {
			d.h.String(d.uri, d.unescape(d.text[d.strText:]))
		}
		if d.gatherAll {
			d.text = append(d.text, '"')
		}
	}
	d.valueDone()
}

func (d *emitter) unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		d.scratch = appendUnescaped(d.scratch[:0], raw)
		raw = d.scratch
	}
	return string(raw)
}

func (d *emitter) valueDone() {
	if d.h.Done != nil {
		d.h.Done(d.uri)
	}
	if len(d.stack) == 0 && d.h.Finish != nil {
		d.h.Finish()
	}
}
