package yaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/lingserve/lingserve/internal/wording"
)

// Bounds of a file. The parser below recurses and takes time that grows with the square of its tokens; with these bounds the worst
// file is refused or read within a fraction of a second, and they are far beyond what people write.
const (
	MaxBytes  = 256 << 10
	MaxDepth  = 64 // of brackets, of nodes, and of "- - -" on one line
	maxTokens = 20_000
	maxNodes  = 50_000 // with everything that aliases expand to
)

// Parse reads the only document of a text. It returns nil if the text cannot be read, and a Null node if it is empty. A key that occurs
// twice and an anchor that is not allowed are problems, too, but the rest can be read for the sake of its own problems.
func (r *Reader) Parse(text string) (root *Node) {
	// One kind of line end, so that the parser and the places of problems count the same lines.
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	r.lines = strings.Split(text, "\n")
	// The parser is foreign code that reads what people type: if it panics, the file cannot be read.
	defer func() {
		if recover() != nil {
			root = r.refuse(1, 1, "invalid YAML")
		}
	}()
	if len(text) > MaxBytes {
		return r.refuse(1, 1, "the file has %d bytes; expected at most %d", len(text), MaxBytes)
	}
	if line := NotUTF8(text); line > 0 {
		return r.refuse(line, 1, "the file is not UTF-8 text; save it as UTF-8")
	}
	tokens := lexer.Tokenize(text)
	if !r.bounded(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // the builder finds these
	if err != nil {
		return r.invalid(err)
	}
	b := &builder{Reader: r, anchors: map[string]*Node{}}
	root = &Node{Line: 1, Column: 1, size: 1}
	found := false
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if found {
			line, col := place(d.Body)
			return r.refuse(line, col, "a second document starts here; expected only one")
		}
		root, found = b.build(d.Body, 0), true
	}
	if b.unreadable {
		return nil
	}
	return root
}

func (r *Reader) refuse(line, col int, format string, args ...any) *Node {
	r.Errorf(&Node{Line: line, Column: col}, "", format, args...)
	return nil
}

// NotUTF8 returns the first line that is not UTF-8 text, 0 if there is none.
func NotUTF8(s string) int {
	for i, c := range s {
		if c == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") { // the character itself is allowed
			return 1 + strings.Count(s[:i], "\n")
		}
	}
	return 0
}

// bounded refuses what would make the parser slow or its stack deep.
func (r *Reader) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.refuse(1, 1, "the file is too large; expected at most %d words and symbols", maxTokens)
		return false
	}
	brackets, marks, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, marks = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.AnchorType, token.AliasType, token.TagType:
			if brackets == 0 {
				marks++
			}
		}
		if max(brackets, marks) > MaxDepth {
			r.refuse(line, 1, tooDeep, MaxDepth)
			return false
		}
	}
	return true
}

const tooDeep = "values are nested too deeply here; expected at most %d levels"

// invalid reports what the parser says.
func (r *Reader) invalid(err error) *Node {
	var y yaml.Error
	if !errors.As(err, &y) {
		return r.refuse(1, 1, "invalid YAML: %s", FirstLine(err.Error()))
	}
	line, col := 1, 1
	if t := y.GetToken(); t != nil && t.Position != nil {
		line, col = max(t.Position.Line, 1), max(t.Position.Column, 1)
		if col, message := r.explain(line); message != "" {
			return r.refuse(line, col, "%s", message)
		}
		if line, col, message := hint(r.lines, line, y.GetMessage(), r.Explain != nil); message != "" {
			return r.refuse(line, col, "%s", message)
		}
	}
	return r.refuse(line, col, "invalid YAML: %s", FirstLine(y.GetMessage()))
}

// FirstLine shortens the text of an error to at most 200 bytes of its first line.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// place returns where a node begins; the parser gives a mapping the place of its first colon.
func place(n ast.Node) (line, col int) {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return place(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return place(v.Key)
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(t.Position.Line, 1), max(t.Position.Column, 1)
}

// builder makes nodes of a syntax tree. What aliases stand for is counted, not copied.
type builder struct {
	*Reader
	anchors map[string]*Node
	path    []string // of the node that is built

	reported   int
	unreadable bool // a node is missing in the tree
}

// fail reports a problem at n and returns a node in its place, which is not what the text says.
func (b *builder) fail(n ast.Node, format string, args ...any) *Node {
	b.unreadable = true
	return b.report(n, format, args...)
}

// report reports a problem at n, and returns a node without a value.
func (b *builder) report(n ast.Node, format string, args ...any) *Node {
	line, col := place(n)
	out := &Node{Line: line, Column: col, size: 1}
	path := ""
	if len(b.path) <= 10 { // a longer one would hide the message
		path = wording.Clip(Path(b.path...))
	}
	if b.reported < maxProblems {
		b.Errorf(out, path, format, args...)
	}
	b.reported++
	return out
}

// stopped reports whether there are enough problems; the rest of the tree is not built.
func (b *builder) stopped() bool {
	b.unreadable = b.unreadable || b.reported >= maxProblems
	return b.reported >= maxProblems
}

func (b *builder) build(n ast.Node, depth int) *Node {
	if n == nil || b.stopped() {
		return &Node{Line: 1, Column: 1, size: 1}
	}
	if depth > MaxDepth {
		return b.fail(n, tooDeep, MaxDepth)
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		if !b.Aliases {
			b.report(n, "anchors, aliases and tags are not supported; write the value itself")
		}
	}
	line, col := place(n)
	out := &Node{Line: line, Column: col, size: 1}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.Kind, out.Text, out.json = Bool, v.Token.Value, strconv.FormatBool(v.Value)
	case *ast.IntegerNode:
		out.Kind, out.Text, out.json = Number, v.Token.Value, fmt.Sprint(v.Value)
	case *ast.FloatNode:
		out.Kind, out.Text, out.json = Number, v.Token.Value, v.Token.Value
		if json.Valid([]byte(out.json)) {
			break
		}
		if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
			return b.fail(n, "the number is too large; expected a smaller one")
		}
		out.json = strconv.FormatFloat(v.Value, 'g', -1, 64)
	case *ast.InfinityNode, *ast.NanNode:
		return b.fail(n, "infinity and not-a-number are not supported; expected a number")
	case *ast.StringNode:
		out.Kind, out.Text = Text, v.Value
		if t := v.Token.Type; t == token.DoubleQuoteType || t == token.SingleQuoteType {
			out.Style, out.Column = Quoted, b.quote(line, col, t)
		}
	case *ast.LiteralNode:
		out.Kind, out.Text, out.Style = Text, v.Value.Value, Block
	case *ast.MappingNode:
		b.members(out, v.Values, depth)
	case *ast.MappingValueNode:
		b.members(out, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		b.items(out, v.Values, depth)
	case *ast.AnchorNode:
		out = b.build(v.Value, depth+1)
		b.anchors[v.Name.GetToken().Value] = out
		return out // counted already
	case *ast.AliasNode:
		return b.alias(v)
	case *ast.TagNode:
		return b.tagged(v, depth)
	default:
		return b.fail(n, "this YAML syntax is not supported here; expected plain mappings, lists and values")
	}
	out.size += len(out.Text) / 32 // what it weighs if aliases repeat it
	for _, part := range slices.Concat(out.Keys, out.Items) {
		out.size += part.size
	}
	return b.expanded(n, out)
}

// tagged builds the value behind a tag.
func (b *builder) tagged(v *ast.TagNode, depth int) *Node {
	if v.Start.Value != "!!str" {
		return b.fail(v, "the tag %s is not supported; remove it", wording.Clip(FirstLine(v.Start.Value)))
	}
	inner := b.build(v.Value, depth+1)
	if inner.Kind == Bool || inner.Kind == Number {
		inner.Kind = Text
	}
	return inner
}

// items builds the elements of a list.
func (b *builder) items(out *Node, items []ast.Node, depth int) {
	out.Kind = List
	for _, item := range items {
		if whole, ok := wholeText(item); ok {
			line, col := place(item)
			out.Items = append(out.Items, &Node{Kind: Text, Line: line, Column: col, Text: whole, size: 1 + len(whole)/32})
			continue
		}
		out.Items = append(out.Items, b.build(item, depth+1))
	}
}

// alias returns a copy of the node that an alias names, with the place of the alias; the children are shared.
func (b *builder) alias(v *ast.AliasNode) *Node {
	name := v.Value.GetToken().Value
	target, ok := b.anchors[name]
	if !ok {
		name = wording.Clip(FirstLine(name))
		if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			return b.fail(v, "YAML reads * as the start of an alias; put the text in quotes%s", example("*"+name, b.Explain != nil))
		}
		return b.fail(v, "*%s is undefined; expected &%s before it", name, name)
	}
	out := *target
	out.Line, out.Column = place(v)
	out.Style = Plain
	return b.expanded(v, &out)
}

// expanded refuses a node that expands to too many: an alias is a single node of the tree, yet it has to be walked each time.
func (b *builder) expanded(n ast.Node, out *Node) *Node {
	if out.size <= maxNodes {
		return out
	}
	refused := b.fail(n, "the file's aliases expand to too many values; expected at most %d", maxNodes)
	b.reported = maxProblems // all that is around it is too much, too
	return refused
}

// wholeText mends how the scanner reads a list inside of braces: there it takes openai:gpt-4o, which YAML says is one text, for
// a mapping.
func wholeText(n ast.Node) (string, bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return "", false
	}
	key, ok := m.Values[0].Key.(*ast.StringNode)
	if !ok || key.Token.Type != token.StringType || m.Values[0].Value == nil {
		return "", false
	}
	t := m.Values[0].Value.GetToken()
	if t.Position == nil || t.Position.Line != key.Token.Position.Line ||
		t.Position.Column != key.Token.Position.Column+utf8.RuneCountInString(key.Value)+1 {
		return "", false
	}
	switch m.Values[0].Value.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.Value + ":" + t.Value, t.Type != token.DoubleQuoteType && t.Type != token.SingleQuoteType && t.Type != token.ImplicitNullType
	}
	return "", false
}

// members builds the members of a mapping.
func (b *builder) members(out *Node, members []*ast.MappingValueNode, depth int) {
	out.Kind = Mapping
	lines := map[string]int{} // by key
	for _, m := range members {
		key := b.key(m.Key)
		if key == nil {
			continue
		}
		b.path = append(b.path, key.Text)
		if first, ok := lines[key.Text]; ok {
			b.report(m.Key, "occurs twice, first in line %d; remove one", first)
		} else {
			lines[key.Text] = key.Line
			value := b.build(m.Value, depth+1)
			if value.Kind == Null && value.Text == "" {
				value.Line, value.Column = key.Line, key.Column // nothing is written there
			}
			out.Keys, out.Items = append(out.Keys, key), append(out.Items, value)
		}
		b.path = b.path[:len(b.path)-1]
	}
}

// key builds the key of a member, nil if it cannot be one.
func (b *builder) key(n ast.Node) *Node {
	switch k := n.(type) {
	case *ast.MergeKeyNode:
		b.fail(n, "merge keys (<<) are not supported; write out the members")
	case *ast.MappingKeyNode:
		b.fail(n, "keys with ? are not supported; write key: value")
	case *ast.StringNode:
		return b.build(k, 0)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		line, col := place(k)
		return &Node{Kind: Text, Line: line, Column: col, Text: k.GetToken().Value, size: 1}
	default:
		b.fail(n, "expected a text key")
	}
	return nil
}

// quote finds the column of a string's first quote: the scanner puts a string with escapes too far to the right.
func (b *builder) quote(line, col int, t token.Type) int {
	q := '"'
	if t == token.SingleQuoteType {
		q = '\''
	}
	if line > len(b.lines) {
		return col
	}
	runes := []rune(b.lines[line-1])
	for i := min(col, len(runes)) - 1; i >= 0; i-- {
		if runes[i] != q {
			continue
		}
		before := strings.TrimRight(string(runes[:i]), " \t")
		if before == "" || strings.ContainsRune(":,[{-?", rune(before[len(before)-1])) {
			return i + 1
		}
	}
	return col
}
