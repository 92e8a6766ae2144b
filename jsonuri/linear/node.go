package linear

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/lingserve/lingserve/jsonuri"
)

type kind uint8

const (
	null kind = iota
	scalar
	str
	array
	object
)

// state is how far a value is written. It means something only where all values around it are open or settled: below one that
// waits, everything waits.
type state uint8

const (
	waiting state = iota
	open
	settled
)

// node is one value of the document.
type node struct {
	parent *node
	at     int // its place among the parent's kids
	kind   kind
	state  state
	queued bool // it stands in the parent's fresh or late
	wrote  bool // the parent's text has its key already
	gone   bool // it is no part of the document any more

	changed, done uint64   // when it was changed last, but for what is in its kids, and when its Done has come; 0 is never
	shapes        []*shape // of what other bots write below it

	text []byte // of a string its content in escaped form, of a scalar its JSON text
	n    int    // of a string that is open: how much of it is written

	kids  []*node
	keys  []string       // of an object: as long as kids
	index map[string]int // of an object with more than fewMembers
	fresh []int          // of an object: members to be written
	late  []int          // of an object: members to be written once more
	next  int            // of an array: the element to be written next; of an object: how many members are written
}

// fewMembers is how many keys are looked through one by one.
const fewMembers = 8

// member returns the place of a key, -1 where there is none.
func (n *node) member(key string) int {
	if n.index != nil {
		if i, ok := n.index[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range n.keys {
		if k == key {
			return i
		}
	}
	return -1
}

// add appends a kid, null, to a container.
func (n *node) add(key string) *node {
	kid := &node{parent: n, at: len(n.kids), shapes: step(n.shapes, key, n.kind, len(n.kids))}
	n.kids = append(n.kids, kid)
	if n.kind == array {
		return kid
	}
	n.keys = append(n.keys, key)
	if n.index != nil {
		n.index[key] = kid.at
	} else if len(n.keys) > fewMembers {
		n.index = make(map[string]int, 2*len(n.keys))
		for i, k := range n.keys {
			n.index[k] = i
		}
	}
	kid.queued = true
	n.fresh = append(n.fresh, kid.at)
	return kid
}

// size is how long the node's text is, about.
func (n *node) size() int {
	size := len(n.text) + 4
	for i, kid := range n.kids {
		if n.keys != nil {
			size += len(n.keys[i]) + 3
		}
		size += kid.size()
	}
	return size
}

// renew forgets what was written of a value, which is to be written once more.
func (n *node) renew() {
	n.state, n.n, n.next = waiting, 0, 0
	n.fresh, n.late = n.fresh[:0], n.late[:0]
	for i, kid := range n.kids {
		kid.renew()
		kid.wrote, kid.queued = false, n.kind == object && !kid.gone
		if kid.queued {
			n.fresh = append(n.fresh, i)
		}
	}
}

// same says whether two values are the same.
func (n *node) same(m *node) bool {
	if n.kind != m.kind || !bytes.Equal(n.text, m.text) {
		return false
	}
	switch n.kind {
	case array:
		if len(n.kids) != len(m.kids) {
			return false
		}
		for i, kid := range n.kids {
			if !kid.same(m.kids[i]) {
				return false
			}
		}
	case object:
		if n.members() != m.members() {
			return false
		}
		for i, kid := range m.kids {
			at := n.member(m.keys[i])
			if !kid.gone && (at < 0 || n.kids[at].gone || !n.kids[at].same(kid)) {
				return false
			}
		}
	}
	return true
}

// members counts those that are there.
func (n *node) members() (count int) {
	for _, kid := range n.kids {
		if !kid.gone {
			count++
		}
	}
	return count
}

// parse makes a value of JSON text; nil where it is none, or too deep for a document below so many containers.
func parse(text []byte, depth int, now uint64) *node {
	switch string(text) { // nearly everything
	case "{}":
		return &node{kind: object, changed: now}
	case "[]":
		return &node{kind: array, changed: now}
	case "null":
		return &node{changed: now}
	}
	if !json.Valid(text) || !utf8.Valid(text) {
		return nil
	}
	p := parser{text: text, now: now}
	n := p.value(depth)
	if p.deep {
		return nil
	}
	return n
}

// parser makes values of JSON text that is known to be valid.
type parser struct {
	text []byte
	i    int
	now  uint64
	deep bool
}

func (p *parser) space() {
	for p.i < len(p.text) && (p.text[p.i] == ' ' || p.text[p.i] == '\n' || p.text[p.i] == '\t' || p.text[p.i] == '\r') {
		p.i++
	}
}

// content passes a string and returns what is between its quotes.
func (p *parser) content() []byte {
	p.i++
	start := p.i
	for p.text[p.i] != '"' {
		if p.text[p.i] == '\\' {
			p.i++
		}
		p.i++
	}
	p.i++
	return p.text[start : p.i-1]
}

func (p *parser) value(depth int) *node {
	p.space()
	switch p.text[p.i] {
	case '"':
		return &node{kind: str, text: bytes.Clone(p.content()), changed: p.now}
	case '{', '[':
		return p.container(depth)
	case 'n':
		p.i += len("null")
		return &node{changed: p.now}
	}
	start := p.i
	for p.i < len(p.text) && bytes.IndexByte([]byte(" \t\r\n,]}"), p.text[p.i]) < 0 {
		p.i++
	}
	return &node{kind: scalar, text: bytes.Clone(p.text[start:p.i]), changed: p.now}
}

func (p *parser) container(depth int) *node {
	n := &node{kind: array, changed: p.now}
	closing := byte(']')
	if p.text[p.i] == '{' {
		n.kind, closing = object, '}'
	}
	if depth == maxDepth {
		p.deep = true
	}
	p.i++
	for !p.deep {
		p.space()
		switch p.text[p.i] {
		case closing:
			p.i++
			return n
		case ',':
			p.i++
			p.space()
		}
		var kid *node
		if n.kind == object {
			var key string
			_ = json.Unmarshal(quoted(p.content()), &key) // known to be one
			p.space()
			p.i++ // the colon
			if at := n.member(key); at >= 0 {
				kid = n.kids[at] // of a repeated key the last value counts
			} else {
				kid = n.add(key)
			}
		} else {
			kid = n.add("")
		}
		v := p.value(depth + 1)
		n.put(kid, v)
	}
	return n
}

func quoted(content []byte) []byte {
	return append(append(append(make([]byte, 0, len(content)+2), '"'), content...), '"')
}

// put puts a value that nothing was written of into the place of another.
func (n *node) put(old, fresh *node) {
	fresh.parent, fresh.at, fresh.queued, fresh.wrote = n, old.at, old.queued, old.wrote
	n.kids[old.at] = fresh
	fresh.share(old.shapes)
}

// shape is a tree of the places that bots write to. Below those that it has, nobody else writes.
type shape struct {
	kids map[string]*shape // by key
	any  *shape            // for every key or index
	root bool              // a bot begins here
}

// step are the shapes of a container's kid.
func step(shapes []*shape, key string, of kind, at int) (list []*shape) {
	if len(shapes) == 0 {
		return nil
	}
	if of == array {
		key = strconv.Itoa(at)
	}
	for _, s := range shapes {
		if kid := s.kids[key]; kid != nil {
			list = append(list, kid)
		}
		if s.any != nil {
			list = append(list, s.any)
		}
	}
	return list
}

// share gives a value its shapes, and what is in it those below.
func (n *node) share(shapes []*shape) {
	if len(shapes) == 0 && len(n.shapes) == 0 {
		return
	}
	n.shapes = shapes
	for i, kid := range n.kids {
		key := ""
		if n.kind == object {
			key = n.keys[i]
		}
		kid.share(step(shapes, key, n.kind, i))
	}
}

// isRoot says whether the value is one that another bot makes than what is around it.
func (n *node) isRoot() bool {
	for _, s := range n.shapes {
		if s.root {
			return true
		}
	}
	return false
}

// met says whether all have begun that write to a member of a container under its name. Those that write to all of them have
// begun with the last one, and whoever has begun is waited for where it writes.
func (n *node) met() bool {
	for _, s := range n.shapes {
		for key := range s.kids {
			at := n.member(key)
			if n.kind == array {
				at = n.element(key)
			}
			if at < 0 || at >= len(n.kids) || n.kids[at].gone {
				return false
			}
		}
	}
	return true
}

// Limits of a document, those of [jsonuri.Document].
const (
	maxDepth    = 1024
	maxFill     = 65536
	maxElements = 16 << 20
)

// element reads the index of an array's element; -1 where segment is none that the array takes.
func (n *node) element(segment string) int {
	if segment == "" || len(segment) > 8 || segment[0] == '0' && len(segment) > 1 || segment[0] == '+' {
		return -1
	}
	i, err := strconv.Atoi(segment)
	if err != nil || i < 0 || i > len(n.kids)+maxFill || i >= maxElements {
		return -1
	}
	return i
}

// segments splits a uri; false where it is none, or not of the document.
func segments(uri []byte) ([]string, bool) {
	if jsonuri.Reserved(uri) || !utf8.Valid(uri) {
		return nil, false
	}
	list, err := jsonuri.Parse(string(uri))
	return list, err == nil && len(list) <= maxDepth
}
