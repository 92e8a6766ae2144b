package jsonuri

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of a [Document]. A parser's own limits are lower or the same: they are here for deltas that come from elsewhere.
const (
	// maxDocumentDepth is twice the parser's default, so that whatever it lets pass also fits below a root.
	maxDocumentDepth = 1024
	// maxFill is how far beyond an array's end a slot may be; those between are filled with null.
	maxFill = 65536
	// maxElements is more than the parser's largest document can hold.
	maxElements = 16 << 20
)

var (
	// ErrContent says that what was to be appended is not the inside of a JSON string in UTF-8.
	ErrContent = errors.New("jsonuri: content is not the inside of a JSON string")
	// ErrValue says that what was to be set is not JSON text in UTF-8.
	ErrValue = errors.New("jsonuri: value is not JSON")
)

// Document is the fold of deltas. The zero value is an empty document, {}. It is not safe for concurrent use and must not
// be copied, see [Document.Clone].
//
// Where a delta meets something that is not a container on its way, that becomes an object: an array announces itself with
// [], so a "0" alone is a key. An array takes indexes only: anything else there is an error, since it would have to lose the
// elements or the delta.
//
// Values with a reserved uri are kept beside the document, see [Document.AppendReserved].
type Document struct {
	root     node
	reserved node // an object: uris up to and with the "$" segment
	size     int

	// A string arrives in many pieces, so the next delta mostly has the uri of the last one. Its node stays in place, since
	// only a delta with another uri moves nodes.
	last    *node
	lastURI []byte

	spans []span // of the uri at hand
	plain []byte // an unescaped segment
}

// Apply applies d. Errors are those of [Document.Append] and [Document.Set].
func (d *Document) Apply(delta Delta) error {
	if delta.Op == Append {
		return d.Append(delta.URI, delta.Value)
	}
	return d.Set(delta.URI, delta.Value)
}

// Append appends content, in its escaped form and without quotes, to the string at uri; a missing or non-string value
// there first becomes "". It keeps no reference to its arguments and allocates nothing, but for the string's growth, where
// uri is that of the delta before. A document that gives an error is as it was. Errors: [*URIError] for a uri that cannot be
// parsed or does not fit the array it leads into, [*LimitError], [ErrContent].
func (d *Document) Append(uri, content []byte) error {
	if !IsContent(content) {
		return fmt.Errorf("append at uri %.80q: %w", uri, ErrContent)
	}
	n, err := d.place(uri)
	if err != nil {
		return err
	}
	if n.kind != nodeString {
		d.size -= n.size()
		*n = node{kind: nodeString}
		d.size += n.size()
	}
	if len(n.text) > 0 && len(n.text)+len(content) > cap(n.text) {
		// A string that came in pieces has more to come; growing it from a few bytes would copy it many times.
		n.text = slices.Grow(n.text, max(len(content), 128))
	}
	n.text = append(n.text, content...)
	d.size += len(content)
	return nil
}

// Set sets the value at uri to the JSON text value; {} keeps an object that is there. A slot beyond an array's end fills it
// with null. It keeps no reference to its arguments, and a document that gives an error is as it was. Errors are those of
// Append, and [ErrValue].
func (d *Document) Set(uri, value []byte) error {
	fresh, err := newNode(value)
	if err != nil {
		return fmt.Errorf("set uri %.80q: %w", uri, err)
	}
	if fresh.kids != nil {
		if err := d.scan(uri); err != nil {
			return err
		}
		if len(d.spans)+fresh.depth() > maxDocumentDepth {
			return &LimitError{Limit: "depth", Max: maxDocumentDepth}
		}
	}
	n, err := d.place(uri)
	if err != nil {
		return err
	}
	if fresh.kind == nodeObject && fresh.kids == nil && n.kind == nodeObject {
		return nil
	}
	d.size += fresh.size() - n.size()
	*n = fresh
	return nil
}

// Get returns the JSON text of the value at uri, reserved uris included; false where there is none.
func (d *Document) Get(uri string) ([]byte, bool) {
	return d.AppendValue(nil, []byte(uri))
}

// Delete removes the value at uri; an array's later elements move up. It says whether there was one. Deleting the root
// empties the document and leaves what stands beside it.
func (d *Document) Delete(uri string) bool {
	d.last = nil
	path := []byte(uri)
	if len(path) == 0 {
		d.size -= d.root.size() - nodeSize
		d.root = node{}
		return true
	}
	if d.scan(path) != nil {
		return false
	}
	n, spans := d.start(path, false)
	if n == nil {
		return false
	}
	parent, key := &d.reserved, path // all of a reserved uri
	if len(spans) > 0 {
		last := len(spans) - 1
		parent, key = d.below(n, path, spans[:last]), d.segment(path, spans[last])
	}
	i := -1
	if parent != nil {
		i = parent.child(key)
	}
	if i < 0 {
		return false
	}
	d.size -= parent.kids.nodes[i].size()
	if parent.kind == nodeObject {
		d.size -= keySize + len(key)
	}
	parent.remove(i)
	return true
}

// Walk calls visit for each value in document order, containers before what they hold and the root first, until it returns
// false; so it can be ranged over. The values are JSON text; each is written for its visit. The document must not be changed during the
// walk.
func (d *Document) Walk(visit func(uri string, value []byte) bool) {
	d.root.walk(nil, visit)
}

// AppendJSON appends the document's JSON text to dst: members in the order they first came, numbers as they were written.
func (d *Document) AppendJSON(dst []byte) []byte { return d.root.appendJSON(dst) }

// AppendReserved appends the reserved part as one JSON object, {uri: value}, uris up to and with the "$" segment;
// {} when there is none. What follows in a uri is the way into that value, as in a document.
func (d *Document) AppendReserved(dst []byte) []byte { return d.reserved.appendJSON(dst) }

// Size returns the bytes of memory that the document's text takes, about.
func (d *Document) Size() int { return d.size }

// place returns the node at uri and makes it, and what leads to it, where it is missing.
func (d *Document) place(uri []byte) (*node, error) {
	if d.last != nil && bytes.Equal(uri, d.lastURI) {
		return d.last, nil
	}
	// The whole uri is checked before anything is changed.
	if err := d.scan(uri); err != nil {
		return nil, err
	}
	d.last = nil
	n, spans := d.start(uri, true)
	for _, s := range spans {
		child, err := d.step(n, d.segment(uri, s))
		if err != nil {
			return nil, uriError(uri, s.start, err.Error())
		}
		n = child
	}
	d.last, d.lastURI = n, append(d.lastURI[:0], uri...)
	return n, nil
}

// step returns the child of n called segment, and makes it where it is missing.
func (d *Document) step(n *node, segment []byte) (*node, error) {
	switch n.kind {
	case nodeArray:
		i, err := n.slot(segment)
		if err != nil {
			return nil, err
		}
		d.size += nodeSize * n.fill(i)
		return &n.kids.nodes[i], nil
	case nodeObject:
		if i := n.child(segment); i >= 0 {
			return &n.kids.nodes[i], nil
		}
	default:
		d.size -= n.size()
		*n = node{}
		d.size += n.size()
	}
	d.size += nodeSize + keySize + len(segment)
	return n.add(string(segment)), nil
}

// below returns the node that spans of uri lead to from n on, nil where there is none.
func (d *Document) below(n *node, uri []byte, spans []span) *node {
	for _, s := range spans {
		i := n.child(d.segment(uri, s))
		if i < 0 {
			return nil
		}
		n = &n.kids.nodes[i]
	}
	return n
}

// scan finds the segments of uri.
func (d *Document) scan(uri []byte) error {
	d.spans = d.spans[:0]
	if len(uri) == 0 {
		return nil
	}
	for i := 0; i <= len(uri); {
		s, err := scanSegment(uri, i)
		if err != nil {
			return err
		}
		if len(d.spans) == maxDocumentDepth {
			return &LimitError{Limit: "depth", Max: maxDocumentDepth, Offset: int64(i)}
		}
		d.spans = append(d.spans, s)
		i = s.end + 1
	}
	if !utf8.Valid(uri) {
		return uriError(uri, 0, "not UTF-8")
	}
	return nil
}

// start returns the node where the way of the scanned uri begins, and the segments that go on from there. A reserved node
// that is missing is made or nil.
func (d *Document) start(uri []byte, create bool) (*node, []span) {
	if bytes.IndexByte(uri, '$') < 0 {
		return &d.root, d.spans
	}
	for i, s := range d.spans {
		if uri[s.start] != '$' {
			continue
		}
		key := uri[:s.end]
		if at := d.reserved.child(key); at >= 0 {
			return &d.reserved.kids.nodes[at], d.spans[i+1:]
		}
		if !create {
			return nil, nil
		}
		d.size += nodeSize + keySize + len(key)
		return d.reserved.add(string(key)), d.spans[i+1:]
	}
	return &d.root, d.spans
}

// segment returns the plain text of a segment, valid until the next call.
func (d *Document) segment(uri []byte, s span) []byte {
	if !s.escaped {
		return uri[s.start:s.end]
	}
	d.plain = appendPlain(d.plain[:0], uri[s.start:s.end])
	return d.plain
}
