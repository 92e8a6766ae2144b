package htmlpath

import "strconv"

// tree knows the open elements and tells the handler of them.
type tree struct {
	handler  Handler
	maxDepth int
	maxPath  int
	maxNames int

	stack  []element
	path   []byte             // of the innermost open element
	counts []map[*kind]uint64 // by depth: the children so far of the element that is open there
	kinds  map[string]*kind   // of the elements that were seen, by name
	kept   int                // open elements whose text is kept as it is written

	raw    rawKind // what text the innermost element holds
	name   []byte  // of the tag that is read
	text   []byte  // that is collected, decoded
	mended []byte
	blank  int // white space in a row, outside elements
	fixes  [fixKinds]int
}

// element is an open element.
type element struct {
	*kind
	name []byte // as it is spelled
	from int    // length of the path before it
	foreign
}

func (t *tree) init(h Handler, maxDepth, maxPath, maxNames int) {
	t.handler, t.maxDepth, t.maxPath, t.maxNames = h, maxDepth, maxPath, maxNames
	t.kinds = map[string]*kind{}
}

// kindOf returns the kind of a name; nil where there are too many.
func (t *tree) kindOf(name []byte) *kind {
	k := t.kinds[string(name)]
	if k == nil && len(t.kinds) < t.maxNames {
		k = kindNamed(string(name))
		t.kinds[k.name] = k
	}
	return k
}

// around returns the foreign content around the next element.
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
	k := t.kindOf(name)
	if k == nil {
		return "names", t.maxNames
	}
	around := t.around()
	if around == inHTML {
		t.imply(k)
	}
	if len(t.stack) >= t.maxDepth {
		return "depth", t.maxDepth
	}
	e := element{kind: k, name: k.text, from: len(t.path), foreign: around.inside(k)}
	if e.foreign.spelled(around) == inSVG {
		e.name = k.svg
		for i := range attributes {
			if spelled, ok := svgAttributes[string(attributes[i].Name)]; ok {
				attributes[i].Name = spelled
			}
		}
	}
	number := t.number(k)
	if len(t.path) > 0 {
		t.path = append(t.path, '/')
	}
	t.path = append(append(t.path, e.name...), '[')
	t.path = append(strconv.AppendUint(t.path, number, 10), ']')
	if len(t.path) > t.maxPath {
		t.path = t.path[:e.from]
		return "path", t.maxPath
	}
	if t.handler.Open != nil {
		t.handler.Open(t.path, e.name, attributes)
	}
	t.stack = append(t.stack, e)
	if depth := len(t.stack); depth < len(t.counts) {
		if len(t.counts[depth]) > 64 { // a large map takes long to clear, also when little is in it
			t.counts[depth] = map[*kind]uint64{}
		}
		clear(t.counts[depth])
	}
	k.open++
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
func (t *tree) number(k *kind) uint64 {
	depth := len(t.stack)
	for len(t.counts) <= depth {
		t.counts = append(t.counts, map[*kind]uint64{})
	}
	t.counts[depth][k]++
	return t.counts[depth][k]
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

// closeTag closes the element that an end tag names, with all in it. It returns false if it closes nothing.
func (t *tree) closeTag(name []byte) bool {
	k := t.kinds[string(name)]
	if k == nil || k.open == 0 {
		return false
	}
	walls := k.walls()
	for i := len(t.stack) - 1; i >= 0; i-- {
		e := &t.stack[i]
		if e.kind == k {
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
		e.open--
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
