package htmlpath

import "strconv"

// tree knows the open elements and tells the handler of them.
type tree struct {
	handler  Handler
	maxDepth int
	maxPath  int

	stack  []element
	path   []byte           // of the innermost open element
	counts []map[string]int // by depth: the children so far of the element that is open there, by name
	raw    rawKind          // what text the innermost element holds
	fixes  map[string]int   // repairs, by kind
}

// element is an open element.
type element struct {
	name    string
	from    int  // length of the path before it
	foreign bool // it holds SVG or MathML, where HTML has other rules
	pre     bool // it is a pre, or in one: its text is kept as it is written
}

// top returns the innermost element, the zero value outside of all.
func (t *tree) top() element {
	if n := len(t.stack); n > 0 {
		return t.stack[n-1]
	}
	return element{}
}

// openTag opens an element, and closes it where it can hold nothing. limit names the limit that it is over, if any.
func (t *tree) openTag(name string, attributes []Attribute, closesItself bool) (limit string, most int) {
	if !t.top().foreign {
		t.imply(name)
	}
	around := t.top()
	if len(t.stack) >= t.maxDepth {
		return "depth", t.maxDepth
	}
	e := element{name: name, from: len(t.path), pre: around.pre || name == "pre" || name == "listing"}
	switch name {
	case "svg", "math":
		e.foreign = true
	case "foreignobject", "desc", "title", "annotation-xml":
	default:
		e.foreign = around.foreign
	}
	if len(t.path) > 0 {
		t.path = append(t.path, '/')
	}
	t.path = append(append(t.path, name...), '[')
	t.path = append(strconv.AppendInt(t.path, int64(t.number(name)), 10), ']')
	if len(t.path) > t.maxPath {
		t.path = t.path[:e.from]
		return "path", t.maxPath
	}
	if t.handler.Open != nil {
		t.handler.Open(t.path, []byte(name), attributes)
	}
	t.stack = append(t.stack, e)
	if len(t.stack) < len(t.counts) {
		clear(t.counts[len(t.stack)])
	}
	foreign := around.foreign || e.foreign
	switch {
	case voidNames[name] && !foreign, foreign && closesItself:
		t.closeTo(len(t.stack)-1, len(t.stack))
	case !foreign:
		t.raw = rawNames[name]
	}
	return "", 0
}

// number returns the number of the next child of this name.
func (t *tree) number(name string) int {
	depth := len(t.stack)
	for len(t.counts) <= depth {
		t.counts = append(t.counts, map[string]int{})
	}
	t.counts[depth][name]++
	return t.counts[depth][name]
}

// imply closes what ends where an element of this name begins.
func (t *tree) imply(name string) {
	for _, rule := range implied {
		if !rule.begin[name] {
			continue
		}
		from := -1
		for i := len(t.stack) - 1; i >= 0; i-- {
			e := t.stack[i]
			if rule.ends[e.name] && !e.foreign {
				from = i
			}
			if rule.within[e.name] {
				break
			}
		}
		if from >= 0 {
			t.closeTo(from, from)
		}
	}
}

// closeTag closes the element that an end tag names, with all in it.
func (t *tree) closeTag(name string) {
	stop := walls(name)
	for i := len(t.stack) - 1; i >= 0; i-- {
		if t.stack[i].name == name {
			t.closeTo(i, i+1)
			return
		}
		if stop[t.stack[i].name] {
			break
		}
	}
	t.fixes[fixStray]++
}

// closeTo closes elements until no more than n are open. Those from the depth unclosed on have no end tag.
func (t *tree) closeTo(n, unclosed int) {
	t.raw = rawNone
	for i := len(t.stack) - 1; i >= n; i-- {
		e := t.stack[i]
		if i >= unclosed && !optionalEnds[e.name] {
			t.fixes[fixUnclosed]++
		}
		if t.handler.Close != nil {
			t.handler.Close(t.path, []byte(e.name))
		}
		t.path = t.path[:e.from]
		t.stack = t.stack[:i]
	}
}
