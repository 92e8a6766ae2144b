package htmlpath

import "strconv"

// tree knows the open elements and tells the handler of them.
type tree struct {
	handler  Handler
	maxDepth int
	maxPath  int
	maxNames int

	stack  []element
	path   []byte // of the innermost open element
	serial uint32 // of the last element that was opened; 0 is the document
	counts [][]count

	names map[string]int // of elements that were seen
	kinds []kind         // by the number in names
	openN []int          // how many of a kind are open
	kept  int            // open elements whose text is kept as it is written

	raw    rawKind // what text the innermost element holds
	name   []byte  // of the tag that is read
	text   []byte  // that is collected, decoded
	mended []byte
	blank  int // white space in a row, outside elements
	fixes  [fixKinds]int
}

// element is an open element.
type element struct {
	kind   int
	name   []byte
	from   int // length of the path before it
	serial uint32
	class  // of its kind
	foreign
}

// count is how many children of a kind an element has; of another element's, where the serial is another.
type count struct{ serial, n uint32 }

func (t *tree) init(h Handler, maxDepth, maxPath, maxNames int) {
	t.handler, t.maxDepth, t.maxPath, t.maxNames = h, maxDepth, maxPath, maxNames
	t.names = map[string]int{}
}

// kindOf returns the number of a name; -1 where there are too many.
func (t *tree) kindOf(name []byte) int {
	if n, ok := t.names[string(name)]; ok {
		return n
	}
	if len(t.kinds) >= t.maxNames {
		return -1
	}
	k := kindNamed(string(name))
	t.names[k.name] = len(t.kinds)
	t.kinds = append(t.kinds, k)
	t.openN = append(t.openN, 0)
	return len(t.kinds) - 1
}

// around returns the foreign content that the next element stands in.
func (t *tree) around() foreign {
	if n := len(t.stack); n > 0 {
		return t.stack[n-1].foreign
	}
	return inHTML
}

func (t *tree) foreign() bool { return t.around() != inHTML }

// top returns the name of the innermost element.
func (t *tree) top() []byte { return t.stack[len(t.stack)-1].name }

// openTag opens an element, and closes it where it can hold nothing. limit names the limit that it is over, if any.
func (t *tree) openTag(name []byte, attributes []Attribute, self bool) (limit string, most int) {
	n := t.kindOf(name)
	if n < 0 {
		return "names", t.maxNames
	}
	k := &t.kinds[n]
	around := t.around()
	if around == inHTML {
		t.imply(k)
	}
	if len(t.stack) >= t.maxDepth {
		return "depth", t.maxDepth
	}
	e := element{kind: n, name: k.text, from: len(t.path), class: k.class, foreign: around.inside(k)}
	if e.foreign.spelled(around) == inSVG {
		e.name = k.svg
		for i := range attributes {
			if spelled, ok := svgAttributes[string(attributes[i].Name)]; ok {
				attributes[i].Name = spelled
			}
		}
	}
	number := t.number(n)
	if len(t.path) > 0 {
		t.path = append(t.path, '/')
	}
	t.path = append(append(t.path, e.name...), '[')
	t.path = append(strconv.AppendUint(t.path, uint64(number), 10), ']')
	if len(t.path) > t.maxPath {
		t.path = t.path[:e.from]
		return "path", t.maxPath
	}
	if t.handler.Open != nil {
		t.handler.Open(t.path, e.name, attributes)
	}
	t.serial++
	e.serial = t.serial
	t.stack = append(t.stack, e)
	t.openN[n]++
	t.kept += k.kept()
	switch outside := around == inHTML && k.enters == inHTML; {
	case k.is(void), !outside && self:
		t.closeTo(len(t.stack) - 1)
	case outside:
		t.raw = k.raw
	}
	return "", 0
}

// number returns the number of the next child of a kind.
func (t *tree) number(kind int) uint32 {
	depth, parent := len(t.stack), uint32(0)
	if depth > 0 {
		parent = t.stack[depth-1].serial
	}
	for len(t.counts) <= depth {
		t.counts = append(t.counts, nil)
	}
	for len(t.counts[depth]) <= kind {
		t.counts[depth] = append(t.counts[depth], count{})
	}
	c := &t.counts[depth][kind]
	if c.serial != parent {
		*c = count{serial: parent}
	}
	c.n++
	return c.n
}

// imply closes what ends where an element of kind k begins.
func (t *tree) imply(k *kind) {
	if k.ends == 0 {
		return
	}
	from := -1
	for i := len(t.stack) - 1; i >= 0; i-- {
		e := &t.stack[i]
		if e.foreign == inHTML && e.is(k.ends) {
			from = i
		}
		if e.is(k.within) {
			break
		}
	}
	if from >= 0 {
		t.fixes[fixUnclosed] += t.unclosed(from)
		t.closeTo(from)
	}
}

// closeTag closes the element that an end tag names, with all in it; false where there is none that it can.
func (t *tree) closeTag(name []byte) bool {
	n, ok := t.names[string(name)]
	if !ok || t.openN[n] == 0 {
		return false
	}
	walls := t.kinds[n].walls()
	for i := len(t.stack) - 1; i >= 0; i-- {
		e := &t.stack[i]
		if e.kind == n {
			t.fixes[fixUnclosed] += t.unclosed(i + 1)
			t.closeTo(i)
			return true
		}
		if e.is(walls) {
			return false
		}
	}
	return false
}

// closeTo closes elements until no more than n are open.
func (t *tree) closeTo(n int) {
	t.raw = rawNone
	for i := len(t.stack) - 1; i >= n; i-- {
		e := t.stack[i]
		if t.handler.Close != nil {
			t.handler.Close(t.path, e.name)
		}
		t.path = t.path[:e.from]
		t.stack = t.stack[:i]
		t.openN[e.kind]--
		t.kept -= e.kept()
	}
}

// unclosed counts the open elements, from the one at this depth on, that should have had an end tag.
func (t *tree) unclosed(from int) (n int) {
	for _, e := range t.stack[from:] {
		if !e.is(optional) {
			n++
		}
	}
	return n
}
