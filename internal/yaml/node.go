package yaml

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Mapping
)

func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// Node is a value of a file. Aliases share the children of the node that they name.
type Node struct {
	Kind         Kind
	Line, Column int
	Text         string  // the decoded text; of a bool or number, as it is written
	Block        bool    // a text that begins with | or >
	Items        []*Node // of a list or a mapping
	Keys         []*Node // of a mapping, one for each item: texts

	json string // unless it is a list or a mapping: its JSON text
	size int    // the number of nodes that it expands to, itself included
}

// Get returns the member of a mapping, or nil. A nil node has none.
func (n *Node) Get(key string) *Node {
	for k, value := range n.Members() {
		if k.Text == key {
			return value
		}
	}
	return nil
}

// Members yields the keys and values of a mapping.
func (n *Node) Members() iter.Seq2[*Node, *Node] {
	return func(yield func(key, value *Node) bool) {
		if n == nil {
			return
		}
		for i, key := range n.Keys {
			if !yield(key, n.Items[i]) {
				return
			}
		}
	}
}

// Find follows names and indexes as far as they go and returns the last node on the way.
func (n *Node) Find(path []string) *Node {
	for _, name := range path {
		next := n.Get(name)
		if i, err := strconv.Atoi(name); n.Kind == List && err == nil && 0 <= i && i < len(n.Items) {
			next = n.Items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// FindKey is Find for the key of the last name.
func (n *Node) FindKey(path []string) *Node {
	last := len(path) - 1
	for key := range n.Find(path[:last]).Members() {
		if key.Text == path[last] {
			return key
		}
	}
	return n.Find(path)
}

// Float returns the value of a number.
func (n *Node) Float() (f float64, ok bool) {
	f, err := strconv.ParseFloat(n.json, 64)
	return f, n.Kind == Number && err == nil
}

// AppendJSON appends the node as JSON text, members in the order of the file.
func (n *Node) AppendJSON(dst []byte) []byte {
	brackets := "[]"
	switch n.Kind {
	case List:
	case Mapping:
		brackets = "{}"
	default:
		return append(dst, n.json...)
	}
	dst = append(dst, brackets[0])
	for i, item := range n.Items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.Kind == Mapping {
			dst = append(append(dst, n.Keys[i].json...), ':')
		}
		dst = item.AppendJSON(dst)
	}
	return append(dst, brackets[1])
}

// Within returns the position in the file of a character of n's text; line and col count from 1, col in bytes. It is exact where the line of
// the text is in the file as it is; otherwise it is the start of the text.
func (r *Reader) Within(n *Node, line, col int) (int, int) {
	lines := strings.Split(n.Text, "\n")
	fileLine, from := n.Line, n.Column-1
	if n.Block {
		fileLine, from = n.Line+line, 0
	}
	if line < 1 || line > len(lines) || fileLine > len(r.lines) || !n.Block && len(lines) > 1 {
		return n.Line, n.Column
	}
	source := []rune(r.lines[fileLine-1])
	source = source[min(from, len(source)):]
	before, _, found := strings.Cut(string(source), lines[line-1])
	if !found {
		return n.Line, n.Column
	}
	return fileLine, from + utf8.RuneCountInString(before) + Characters(n.Text, line, col)
}

// Characters turns a column of a text, which counts bytes, into one that counts characters, as editors do.
func Characters(text string, line, col int) int {
	for ; line > 1; line-- {
		_, text, _ = strings.Cut(text, "\n")
	}
	return utf8.RuneCountInString(text[:min(max(col-1, 0), len(text))]) + 1
}
