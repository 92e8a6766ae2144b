package jsonuri

// Reached is how far a uri leads into a document.
type Reached struct {
	End    int  // where in the uri the last segment ends whose value is there; 0 is the root alone
	Next   int  // where the segment after that one ends; End where the whole uri leads to a value
	Kind   byte // of the last value that is there: '{', '[', '"', or the first byte of its JSON text
	Length int  // how many elements or members that value has
}

// Reach says how far uri leads into the document as it is. It allocates nothing and its time does not depend on the document's
// size. Errors are those of a uri that cannot be parsed.
func (d *Document) Reach(uri []byte) (Reached, error) {
	if err := d.scan(uri); err != nil {
		return Reached{}, err
	}
	n, spans := d.start(uri, false)
	var r Reached
	if n == nil || len(spans) < len(d.spans) { // a reserved one
		if r.Next = len(uri); n == nil {
			r.Kind = d.root.first()
			return r, nil
		}
		r.End = d.spans[len(d.spans)-len(spans)-1].end
	}
	for _, s := range spans {
		r.Next = s.end
		i := n.child(d.segment(uri, s))
		if i < 0 {
			break
		}
		n, r.End = &n.kids.nodes[i], s.end
	}
	if r.End == len(uri) {
		r.Next = r.End
	}
	r.Kind, r.Length = n.first(), Node{n}.Len()
	return r, nil
}

// first is the first byte of n's JSON text.
func (n *node) first() byte {
	if n.kind == nodeScalar {
		return n.text[0]
	}
	return [...]byte{nodeObject: '{', nodeArray: '[', nodeString: '"', nodeNull: 'n'}[n.kind]
}

// AppendValue appends the JSON text of the value at uri to dst, reserved uris included; false where there is none.
func (d *Document) AppendValue(dst, uri []byte) ([]byte, bool) {
	if d.scan(uri) != nil {
		return dst, false
	}
	n, spans := d.start(uri, false)
	if n = d.below(n, uri, spans); n == nil {
		return dst, false
	}
	return n.appendJSON(dst), true
}

// CutReserved cuts a uri into what leads to its first reserved segment, without the "/" between, and what begins with that;
// false where there is none.
func CutReserved[T string | []byte](uri T) (root, reserved T, found bool) {
	i := reservedStart(uri)
	if i < 0 {
		return uri, uri[len(uri):], false
	}
	return uri[:max(i-1, 0)], uri[i:], true
}

// Node is one value of a [Document]. It is valid until the document changes.
type Node struct{ n *node }

// Root returns the document's outermost value.
func (d *Document) Root() Node { return Node{&d.root} }

// Kind returns the first byte of the value's JSON text: '{', '[', '"', 'n' or that of a number or literal.
func (n Node) Kind() byte { return n.n.first() }

// Text returns the content of a string in its escaped form, or the JSON text of a number or literal. It must not be changed.
func (n Node) Text() []byte {
	if n.n.kind == nodeNull {
		return nullText
	}
	return n.n.text
}

// Len returns the number of elements or members.
func (n Node) Len() int {
	if n.n.kids == nil {
		return 0
	}
	return len(n.n.kids.nodes)
}

// Child returns the element or member at index i, and a member's key.
func (n Node) Child(i int) (key string, child Node) {
	if n.n.kind == nodeObject {
		key = n.n.kids.keys[i]
	}
	return key, Node{&n.n.kids.nodes[i]}
}

// Find returns the index of the element or member called segment, -1 if there is none.
func (n Node) Find(segment string) int { return n.n.child([]byte(segment)) }
