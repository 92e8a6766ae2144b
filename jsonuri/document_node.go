package jsonuri

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// A node is one value of a document. Nodes stand in their parent's slice: a million elements are one allocation, not a
// million. The zero value is an empty object.
type node struct {
	kind nodeKind
	text []byte // of a string its content in escaped form, of a scalar its JSON text; null has none
	kids *kids  // of a container, nil while it is empty
}

type nodeKind uint8

const (
	nodeObject nodeKind = iota
	nodeArray
	nodeString
	nodeScalar
	nodeNull
)

type kids struct {
	nodes []node
	keys  []string       // of an object, plain text, as long as nodes
	index map[string]int // of an object with more than fewMembers
}

const (
	// fewMembers is how many keys are looked through one by one: that is faster than a map, and most objects are small.
	fewMembers = 8
	// What a node and a member's key take in memory beside their text.
	nodeSize = 40
	keySize  = 16
)

// child returns the index of the child called segment, -1 where there is none.
func (n *node) child(segment []byte) int {
	if n.kids == nil {
		return -1
	}
	switch {
	case n.kind == nodeArray:
		if i := parseIndex(segment); i < len(n.kids.nodes) {
			return i
		}
	case n.kids.index != nil:
		if i, ok := n.kids.index[string(segment)]; ok {
			return i
		}
	default:
		for i, k := range n.kids.keys {
			if k == string(segment) {
				return i
			}
		}
	}
	return -1
}

// add appends a member, null, to the object n, which has none of that key.
func (n *node) add(key string) *node {
	if n.kids == nil {
		n.kids = &kids{nodes: make([]node, 0, 4), keys: make([]string, 0, 4)} // most objects have a few members
	}
	k := n.kids
	k.nodes = append(k.nodes, node{kind: nodeNull})
	k.keys = append(k.keys, key)
	switch {
	case k.index != nil:
		k.index[key] = len(k.keys) - 1
	case len(k.keys) > fewMembers:
		k.reindex()
	}
	return &k.nodes[len(k.nodes)-1]
}

// slot returns the index that segment means in the array n, whether or not it is there.
func (n *node) slot(segment []byte) (int, error) {
	length, i := Node{n}.Len(), parseIndex(segment)
	switch {
	case i < 0:
		return 0, errors.New("expected an index, because this is an array")
	case i > length+maxFill, i >= maxElements:
		return 0, fmt.Errorf("the array has %d elements; expected an index at most %d beyond its end, and below %d", length, maxFill, maxElements)
	}
	return i, nil
}

// fill makes sure that the array n has an element i, adding null, and returns how many it added.
func (n *node) fill(i int) int {
	if n.kids == nil {
		n.kids = new(kids)
	}
	k := n.kids
	missing := i + 1 - len(k.nodes)
	for range missing {
		k.nodes = append(k.nodes, node{kind: nodeNull})
	}
	return max(missing, 0)
}

// remove removes the child i.
func (n *node) remove(i int) {
	k := n.kids
	k.nodes = slices.Delete(k.nodes, i, i+1)
	if n.kind == nodeObject {
		k.keys = slices.Delete(k.keys, i, i+1)
		if k.index != nil {
			k.reindex()
		}
	}
	if len(k.nodes) == 0 {
		n.kids = nil
	}
}

func (k *kids) reindex() {
	k.index = make(map[string]int, 2*len(k.keys))
	for i, key := range k.keys {
		k.index[key] = i
	}
}

// size returns the bytes of memory that n takes, about.
func (n *node) size() int {
	size := nodeSize + len(n.text)
	if n.kids != nil {
		for i := range n.kids.nodes {
			size += n.kids.nodes[i].size()
		}
		for _, key := range n.kids.keys {
			size += keySize + len(key)
		}
	}
	return size
}

// depth returns how many levels of containers are below n's own.
func (n *node) depth() int {
	depth := 0
	if n.kids != nil {
		for i := range n.kids.nodes {
			depth = max(depth, 1+n.kids.nodes[i].depth())
		}
	}
	return depth
}

// appendJSON appends n's JSON text.
func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case nodeNull:
		return append(dst, "null"...)
	case nodeScalar:
		return append(dst, n.text...)
	case nodeString:
		dst = append(dst, '"')
		dst = append(dst, n.text...)
		return append(dst, '"')
	}
	opening, closing := byte('{'), byte('}')
	if n.kind == nodeArray {
		opening, closing = '[', ']'
	}
	dst = append(dst, opening)
	if n.kids != nil {
		for i := range n.kids.nodes {
			if i > 0 {
				dst = append(dst, ',')
			}
			if n.kind == nodeObject {
				dst = append(dst, '"')
				dst = AppendEscaped(dst, []byte(n.kids.keys[i]))
				dst = append(dst, '"', ':')
			}
			dst = n.kids.nodes[i].appendJSON(dst)
		}
	}
	return append(dst, closing)
}

// walk visits n and what it holds; false if visit ended the walk.
func (n *node) walk(uri []byte, visit func(uri string, value []byte) bool) bool {
	if !visit(string(uri), n.appendJSON(nil)) {
		return false
	}
	for i := range (Node{n}).Len() {
		child := appendElement(uri, i)
		if n.kind == nodeObject {
			child = AppendSegment(uri, n.kids.keys[i])
		}
		if !n.kids.nodes[i].walk(child, visit) {
			return false
		}
	}
	return true
}

func appendElement(uri []byte, i int) []byte {
	if len(uri) > 0 {
		uri = append(uri, '/')
	}
	return strconv.AppendInt(uri, int64(i), 10)
}

// parseIndex returns the index that segment is: digits without a leading zero. Anything else is -1, and an index that no
// array can have is maxElements.
func parseIndex(segment []byte) int {
	if len(segment) == 0 || segment[0] == '0' && len(segment) > 1 {
		return -1
	}
	i := 0
	for _, c := range segment {
		if c < '0' || c > '9' {
			return -1
		}
		if i < maxElements {
			i = i*10 + int(c-'0')
		}
	}
	return min(i, maxElements)
}
