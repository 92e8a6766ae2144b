package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a workflow file. The YAML parser recurses and takes time that grows with the square of its tokens; with these
// bounds the worst file is refused or read within a fraction of a second, and far beyond what people write.
const (
	maxFile   = 256 << 10 // bytes
	maxTokens = 20_000
	maxDepth  = 64     // of brackets, of nodes, and of "- - -" on one line
	maxNodes  = 50_000 // with everything that aliases stand for
)

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	sequence
	mapping
)

func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// node is a value of a YAML file that knows where it stands.
type node struct {
	kind      kind
	line, col int
	text      string // of text decoded, of everything else that has no children as it is written
	json      string // of a number or boolean: its JSON text
	style     style
	items     []*node // of a sequence
	keys      []*node // of a mapping, beside items: text nodes
	size      int     // nodes that it stands for, itself included
}

// style is how text is written, which says where its first character stands.
type style uint8

const (
	plain style = iota
	quoted
	block // | or >
)

func (n *node) get(key string) *node {
	for i, k := range n.keys {
		if k.text == key {
			return n.items[i]
		}
	}
	return nil
}

// syntaxError is a problem of the YAML text itself.
type syntaxError struct {
	line, col int
	message   string
}

func (e *syntaxError) Error() string { return e.message }

// parseYAML reads one document.
func parseYAML(src string) (n *node, err error) {
	// The parser is foreign code that reads what people type: a panic of it is a file that cannot be read.
	defer func() {
		if recover() != nil {
			n, err = nil, &syntaxError{1, 1, "invalid YAML"}
		}
	}()
	if len(src) > maxFile {
		return nil, &syntaxError{1, 1, fmt.Sprintf("the file has %d bytes; expected at most %d", len(src), maxFile)}
	}
	if !utf8.ValidString(src) {
		line := 1 + strings.Count(src[:invalidAt(src)], "\n")
		return nil, &syntaxError{line, 1, "the file is not UTF-8 text; save it as UTF-8"}
	}
	tokens := lexer.Tokenize(src)
	if err := bound(tokens); err != nil {
		return nil, err
	}
	lines := strings.Split(src, "\n")
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, yamlError(err, lines)
	}
	var body ast.Node
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			line, col := place(d.Body)
			return nil, &syntaxError{line, col, "a second document starts here; expected one workflow per file"}
		}
		body = d.Body
	}
	if body == nil {
		return nil, &syntaxError{1, 1, "the file is empty; expected a workflow with name and bots"}
	}
	b := &builder{lines: lines}
	n = b.build(body, 0)
	if b.err != nil {
		return nil, b.err
	}
	return n, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return 0
}

// bound refuses what would make the parser slow or its stack deep.
func bound(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return &syntaxError{1, 1, fmt.Sprintf("the file is too large; expected at most %d words and symbols", maxTokens)}
	}
	flow, marks, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, marks = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.AliasType, token.TagType:
			if flow == 0 {
				marks++
			}
		case token.MappingValueType:
			if flow == 0 {
				marks++
			}
		}
		if max(flow, marks) > maxDepth {
			return &syntaxError{line, 1, fmt.Sprintf("values are nested too deeply here; expected at most %d levels", maxDepth)}
		}
	}
	return nil
}

func yamlError(err error, lines []string) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		return &syntaxError{1, 1, "invalid YAML: " + firstLine(err.Error())}
	}
	s := &syntaxError{1, 1, "invalid YAML: " + firstLine(y.GetMessage())}
	if t := y.GetToken(); t != nil && t.Position != nil {
		s.line, s.col = max(t.Position.Line, 1), max(t.Position.Column, 1)
		if col, hint := unquoted(lines, s.line); hint != "" {
			s.col, s.message = col, hint
		}
	}
	return s
}

// conditionForm is how a condition is written.
const conditionForm = `write a condition without braces and on one line, such as: input.level == "expert"`

// unquoted says what to do where a line has a template that is not quoted, which YAML takes for a mapping; col is where it begins.
func unquoted(lines []string, line int) (col int, hint string) {
	if line > len(lines) {
		return 0, ""
	}
	text := lines[line-1]
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '{' || text[i+1] != '{' && text[i+1] != '%' {
			continue
		}
		before, rest := strings.TrimSpace(text[:i]), strings.TrimSpace(text[i:])
		if !strings.HasSuffix(before, ":") && !strings.HasSuffix(before, "-") || strings.Count(before, `"`)%2 == 1 || strings.Count(before, "'")%2 == 1 {
			i++
			continue
		}
		col = utf8.RuneCountInString(text[:i]) + 1
		if strings.HasSuffix(before, "when:") {
			return col, conditionForm
		}
		if end := strings.IndexAny(rest, "}") + len("}}"); end <= len(rest) && strings.Trim(rest[end:], "}], ") == "" {
			rest = rest[:end] // what follows closes the mapping around
		}
		quote := "'"
		if strings.Contains(rest, quote) {
			quote = `"`
		}
		return col, fmt.Sprintf("YAML reads %s as the start of a mapping; put the text in quotes, such as %s%s%s", rest[:2], quote, short(rest), quote)
	}
	return 0, ""
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// place says where a node begins; the parser gives a mapping the place of its first colon.
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

// builder makes nodes of a syntax tree. Aliases share the node that they name: what they stand for is counted, not copied.
type builder struct {
	lines   []string
	anchors map[string]*node
	err     error
}

func (b *builder) fail(n ast.Node, message string) *node {
	line, col := place(n)
	if b.err == nil {
		b.err = &syntaxError{line, col, message}
	}
	return &node{line: line, col: col, size: 1}
}

func (b *builder) build(n ast.Node, depth int) *node {
	if b.err != nil || n == nil {
		return &node{line: 1, col: 1, size: 1}
	}
	if depth > maxDepth {
		return b.fail(n, fmt.Sprintf("values are nested too deeply here; expected at most %d levels", maxDepth))
	}
	line, col := place(n)
	out := &node{line: line, col: col, size: 1}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.kind, out.text = boolean, v.Token.Value
		out.json = strconv.FormatBool(v.Value)
	case *ast.IntegerNode:
		out.kind, out.text = number, v.Token.Value
		out.json = fmt.Sprint(v.Value)
	case *ast.FloatNode:
		out.kind, out.text = number, v.Token.Value
		if out.json = v.Token.Value; !json.Valid([]byte(out.json)) {
			if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
				return b.fail(n, "a number that is too large")
			}
			out.json = strconv.FormatFloat(v.Value, 'g', -1, 64)
		}
	case *ast.InfinityNode, *ast.NanNode:
		return b.fail(n, "infinity and not-a-number are not supported; expected a number")
	case *ast.StringNode:
		out.kind, out.text = text, v.Value
		out.size += len(out.text) / 32 // what it weighs where aliases repeat it
		if t := v.Token.Type; t == token.DoubleQuoteType || t == token.SingleQuoteType {
			out.style = quoted
			out.col = b.quote(line, col, t)
		}
	case *ast.LiteralNode:
		out.kind, out.text, out.style = text, v.Value.Value, block
		out.size += len(out.text) / 32
	case *ast.MappingNode:
		out.kind = mapping
		for _, m := range v.Values {
			b.member(out, m, depth)
		}
	case *ast.MappingValueNode:
		out.kind = mapping
		b.member(out, v, depth)
	case *ast.SequenceNode:
		out.kind = sequence
		for _, item := range v.Values {
			if whole, ok := wholeText(item); ok {
				line, col := place(item)
				out.items = append(out.items, &node{kind: text, line: line, col: col, text: whole, size: 1})
				continue
			}
			out.items = append(out.items, b.build(item, depth+1))
		}
	case *ast.AnchorNode:
		out = b.build(v.Value, depth+1)
		if b.anchors == nil {
			b.anchors = map[string]*node{}
		}
		b.anchors[v.Name.GetToken().Value] = out
		return out // counted already
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		target, ok := b.anchors[name]
		if !ok {
			return b.fail(n, fmt.Sprintf("*%s is undefined; expected &%s before it", name, name))
		}
		// A copy of the head, at the place of the alias; the children are shared.
		shared := *target
		shared.line, shared.col, shared.style = line, col, plain
		out = &shared
	case *ast.TagNode:
		if v.Start.Value == "!!str" {
			inner := b.build(v.Value, depth+1)
			if inner.kind == boolean || inner.kind == number {
				inner.kind = text
			}
			return inner
		}
		return b.fail(n, fmt.Sprintf("the tag %s is not supported", v.Start.Value))
	default:
		return b.fail(n, "this YAML syntax is not supported here; expected plain mappings, lists and values")
	}
	for _, item := range out.items {
		if _, alias := n.(*ast.AliasNode); !alias {
			out.size += item.size
		}
	}
	// An alias is a single node of the tree, yet whoever walks over it walks over all that it stands for.
	if out.size > maxNodes {
		return b.fail(n, fmt.Sprintf("the file's aliases expand to too many values; expected at most %d", maxNodes))
	}
	return out
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

func (b *builder) member(out *node, m *ast.MappingValueNode, depth int) {
	var key *node
	switch k := m.Key.(type) {
	case *ast.MergeKeyNode:
		b.fail(m.Key, "merge keys (<<) are not supported; write out the members")
		return
	case *ast.MappingKeyNode:
		b.fail(m.Key, "keys with ? are not supported; write key: value")
		return
	case *ast.StringNode:
		key = b.build(k, depth+1)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		line, col := place(k)
		key = &node{kind: text, line: line, col: col, text: k.GetToken().Value, size: 1}
	default:
		b.fail(m.Key, "expected a text key")
		return
	}
	if out.get(key.text) != nil {
		b.fail(m.Key, fmt.Sprintf("%q occurs twice; remove one", key.text))
		return
	}
	value := b.build(m.Value, depth+1)
	if value.kind == null && value.text == "" {
		// Nothing is written there; its place is that of the key.
		value.line, value.col = key.line, key.col
	}
	out.keys, out.items = append(out.keys, key), append(out.items, value)
}

// quote finds the column of a string's first quote: the scanner puts a string with escapes too far to the right.
func (b *builder) quote(line, col int, t token.Type) int {
	q := byte('"')
	if t == token.SingleQuoteType {
		q = '\''
	}
	if line > len(b.lines) {
		return col
	}
	runes := []rune(b.lines[line-1])
	for i := min(col, len(runes)) - 1; i >= 0; i-- {
		if runes[i] != rune(q) {
			continue
		}
		before := strings.TrimRight(string(runes[:i]), " \t")
		if before == "" || strings.ContainsRune(":,[{-?", rune(before[len(before)-1])) {
			return i + 1
		}
	}
	return col
}

// at says where the character at line and column of a template, both from 1, stands in the file. Only where that is certain:
// in a block of lines, and in a plain or quoted text of one line without escapes; else it is where the text begins.
func (n *node) at(lines []string, line, col int) (int, int) {
	col = characters(n.text, line, col)
	switch {
	case line < 1:
		return n.line, n.col
	case n.style == block:
		first := n.line // the lines are counted from 0, so this is the one after the mark
		indent := -1
		for i := first; i < len(lines); i++ {
			if t := strings.TrimLeft(lines[i], " "); strings.TrimSpace(t) != "" {
				indent = len(lines[i]) - len(t)
				break
			}
		}
		if indent < 0 || first+line-1 >= len(lines) || strings.HasPrefix(lines[n.line-1][min(len(lines[n.line-1]), n.col-1):], ">") {
			return n.line, n.col
		}
		return n.line + line, indent + max(col, 1)
	case line == 1 && !strings.Contains(n.text, "\n"):
		source := lines[min(n.line, len(lines))-1]
		start := n.col
		if n.style == quoted {
			start++
		}
		runes := []rune(source)
		if start-1 > len(runes) || !strings.HasPrefix(string(runes[start-1:]), n.text) {
			return n.line, n.col
		}
		return n.line, start + max(col, 1) - 1
	}
	return n.line, n.col
}

// characters turns a column of a text, which counts bytes, into one that counts characters, as editors do.
func characters(text string, line, col int) int {
	for ; line > 1; line-- {
		_, text, _ = strings.Cut(text, "\n")
	}
	return utf8.RuneCountInString(text[:min(max(col-1, 0), len(text))]) + 1
}

// appendJSON appends the node as JSON text, members in the order of the file.
func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case null:
		return append(dst, "null"...)
	case boolean, number:
		return append(dst, n.json...)
	case text:
		return appendString(dst, n.text)
	case sequence:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	default:
		dst = append(dst, '{')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, n.keys[i].text)
			dst = append(dst, ':')
			dst = item.appendJSON(dst)
		}
		return append(dst, '}')
	}
}

func appendString(dst []byte, s string) []byte { return append(dst, encode(s)...) }

// find follows JSON Pointer segments as far as they go and returns the last node on the way.
func (n *node) find(segments []string) *node {
	for _, s := range segments {
		next := n.get(s)
		if i, err := strconv.Atoi(s); n.kind == sequence && err == nil && 0 <= i && i < len(n.items) {
			next = n.items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n
}
