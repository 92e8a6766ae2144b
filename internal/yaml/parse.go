package yaml

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
)

// Bounds of a file. They are far beyond what people write, and the largest file within them is read in a fraction of a second.
const (
	MaxBytes = 256 << 10
	MaxDepth = 64
	maxNodes = 50_000 // with everything that aliases expand to
)

// Parse reads the only document of a text. It returns nil if the text cannot be read, and a Null node if it is empty. A key that occurs
// twice and an anchor that is not allowed are problems, too, but Parse returns the rest, so that its problems are found.
func (r *Reader) Parse(text string) *Node {
	// One kind of line end, so that the parser and the positions of problems count the same lines.
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	r.lines = strings.Split(text, "\n")
	if len(text) > MaxBytes {
		return r.refuse(1, 1, "the file has %d bytes; expected at most %d", len(text), MaxBytes)
	}
	if line := NotUTF8(text); line > 0 {
		return r.refuse(line, 1, "the file is not UTF-8 text; save it as UTF-8")
	}
	var documents []yaml.Node
	limits := loaderlimits.New(loaderlimits.DepthValue(MaxDepth))
	if err := yaml.Load([]byte(text), &documents, yaml.WithAllDocuments(), yaml.WithPlugin(limits)); err != nil {
		return r.invalid(err)
	}
	b := &builder{Reader: r, anchors: map[*yaml.Node]*Node{}}
	var root *Node
	for _, document := range documents {
		body := document.Content[0]
		switch {
		case body.Kind == yaml.ScalarNode && body.Value == "":
		case root != nil:
			return r.refuse(body.Line, body.Column, "a second document starts here; expected only one")
		default:
			root = b.build(body, 0)
		}
	}
	if b.unreadable {
		return nil
	}
	return cmp.Or(root, node(&yaml.Node{}))
}

func (r *Reader) refuse(line, col int, format string, args ...any) *Node {
	r.Errorf(&Node{Line: line, Column: col}, "", format, args...)
	return nil
}

// NotUTF8 returns the first line that is not UTF-8 text, or 0.
func NotUTF8(s string) int {
	for i, c := range s {
		if c == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") { // the character itself is allowed
			return 1 + strings.Count(s[:i], "\n")
		}
	}
	return 0
}

const tooDeep = "values are nested too deeply here; expected at most %d levels"

// remedies explain the commonest messages of the parser. The problem is at the parser's position, or where the value begins that the parser
// was reading.
var remedies = []struct {
	message string
	atStart bool
	remedy  string
}{
	{"mapping values are not allowed", false, `YAML reads ": " as the end of a key; put a text with ": " in quotes, and indent the keys of a mapping alike`},
	{"block sequence entries are not allowed", false, "a list begins on the next line; put a text that begins with - in quotes"},
	{"did not find expected key", false, "expected key: value; put a text with quotes or brackets in quotes, and indent the keys of a mapping alike"},
	{"did not find expected '-' indicator", false, "expected an element that begins with -; indent the elements of a list alike"},
	{"did not find expected ','", false, "expected a comma or the end of the brackets; inside of brackets, put a text with braces, commas or quotes in quotes"},
	{"could not find expected ':'", true, "expected key: value; if this is more of the text above, begin that text with | and indent its lines"},
	{"found unexpected end of stream", true, "the text has no closing quote"},
	{"found unknown escape", true, `a backslash begins an escape in double quotes; write \\ for it, or use single quotes`},
	{"did not find expected comment or line break", true, "the text after | or > begins on the next line, indented"},
	{"did not find expected alphabetic or numeric character", true, "YAML reads * and & as the start of an alias or anchor; put the text in quotes"},
	{"unknown anchor", false, "YAML reads * as the start of an alias; put a text in quotes, or define the anchor before it"},
	{"found character that cannot start any token", false, "YAML does not read this character at the start of a value as text; put the text in quotes"},
	{"exceeded max depth", false, fmt.Sprintf(tooDeep, MaxDepth)},
}

// invalid reports a syntax error.
func (r *Reader) invalid(err error) *Node {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return r.refuse(1, 1, "invalid YAML: %s", FirstLine(err.Error()))
	}
	message, mark := "invalid YAML: "+FirstLine(e.Message), e.Mark
	for _, known := range remedies {
		if strings.HasPrefix(e.Message, known.message) {
			message = known.remedy
			if e.ContextMark.Line > 0 && (known.atStart || mark.Line > len(r.lines)) {
				mark = e.ContextMark
			}
			break
		}
	}
	line := max(mark.Line, 1)
	if line > len(r.lines) { // the end of a text without a last line break
		line, mark.Column = len(r.lines), utf8.RuneCountInString(r.lines[len(r.lines)-1])+1
	}
	if explained, message := r.explain(line); message != "" {
		return r.refuse(line, explained, "%s", message)
	}
	if text := r.lines[line-1]; strings.Contains(text[:indentation(text, " \t")], "\t") {
		return r.refuse(line, strings.Index(text, "\t")+1, "a tab indents this line; YAML takes only spaces, so replace each tab with two spaces")
	}
	return r.refuse(line, max(mark.Column, 1), "%s", message)
}

// indentation counts the characters of a set at the start of a line.
func indentation(text, set string) int { return len(text) - len(strings.TrimLeft(text, set)) }

// FirstLine shortens the text of an error to at most 200 bytes of its first line.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// builder makes nodes of the parser's nodes. What aliases expand to is counted, not copied.
type builder struct {
	*Reader
	anchors    map[*yaml.Node]*Node
	path       []string // of the node that is built
	unreadable bool     // a node is missing in the tree
}

// fail reports a problem at n and returns a node in its place, which is not what the text says.
func (b *builder) fail(n *yaml.Node, format string, args ...any) *Node {
	b.unreadable = true
	return b.report(n, format, args...)
}

// report reports a problem at n, and returns a node without a value.
func (b *builder) report(n *yaml.Node, format string, args ...any) *Node {
	out := node(n)
	b.Errorf(out, wording.Clip(Path(b.path...)), format, args...)
	return out
}

// node returns a node at the position of n, without a value.
func node(n *yaml.Node) *Node {
	return &Node{Line: max(n.Line, 1), Column: max(n.Column, 1), json: "null", size: 1}
}

// textNode returns a text at the position of n, whatever its tag is.
func textNode(n *yaml.Node) *Node {
	out := node(n)
	out.Kind, out.Text, out.json = Text, n.Value, string(rawjson.MustMarshal(n.Value))
	out.size += len(n.Value) / 32 // aliases can repeat it
	return out
}

func (b *builder) build(n *yaml.Node, depth int) *Node {
	if depth > MaxDepth {
		return b.fail(n, tooDeep, MaxDepth)
	}
	tagged := n.Style&yaml.TaggedStyle != 0
	if !b.Aliases && (tagged || n.Anchor != "" || n.Kind == yaml.AliasNode) {
		b.report(n, "anchors, aliases and tags are not supported; write the value itself")
	}
	if tagged && (n.ShortTag() != "!!str" || n.Kind != yaml.ScalarNode) {
		return b.fail(n, "the tag %s is not supported; remove it", wording.Clip(FirstLine(n.Tag)))
	}
	out := node(n)
	switch n.Kind {
	case yaml.MappingNode:
		out.Kind = Mapping
		b.members(out, n.Content, depth)
	case yaml.SequenceNode:
		out.Kind = List
		for _, item := range n.Content {
			out.append(b.build(item, depth+1))
		}
	case yaml.AliasNode:
		out = b.alias(n)
	default:
		out = b.scalar(n)
	}
	if out.size > maxNodes { // an alias is a single node of the tree, yet readers walk what it expands to
		return b.fail(n, "the file has too many values, or its aliases expand to too many; expected at most %d", maxNodes)
	}
	if n.Anchor != "" {
		b.anchors[n] = out
	}
	return out
}

// scalar reads a value that is not a list or mapping.
func (b *builder) scalar(n *yaml.Node) *Node {
	out := textNode(n)
	switch n.ShortTag() {
	case "!!null":
		out.Kind, out.json = Null, "null"
	case "!!bool":
		out.Kind, out.json = Bool, strings.ToLower(n.Value)
	case "!!int", "!!float":
		out.Kind, out.json = Number, n.Value
		var value any
		err := n.Load(&value)
		if f, _ := value.(float64); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return b.fail(n, "infinity and not-a-number are not supported; expected a number")
		}
		if !json.Valid([]byte(n.Value)) {
			out.json = fmt.Sprint(value)
		}
	default:
		out.Block = n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	}
	return out
}

// alias returns a copy of the node that an alias names, with the position of the alias; the children are shared.
func (b *builder) alias(n *yaml.Node) *Node {
	target, ok := b.anchors[n.Alias]
	if !ok {
		return b.fail(n, "*%s refers to itself; remove it", wording.Clip(FirstLine(n.Value)))
	}
	out := *target
	out.Line, out.Column, out.Block = n.Line, n.Column, false
	return &out
}

// members builds the members of a mapping.
func (b *builder) members(out *Node, content []*yaml.Node, depth int) {
	lines := map[string]int{} // by key
	for i := 0; i+1 < len(content); i += 2 {
		key := b.key(content[i])
		if key == nil {
			continue
		}
		b.path = append(b.path, key.Text)
		if first, ok := lines[key.Text]; ok {
			b.report(content[i], "occurs twice, first in line %d; remove one", first)
		} else {
			lines[key.Text] = key.Line
			value := b.build(content[i+1], depth+1)
			if value.Kind == Null && value.Text == "" {
				value.Line, value.Column = key.Line, key.Column // nothing is written there
			}
			out.Keys = append(out.Keys, key)
			out.size += key.size
			out.append(value)
		}
		b.path = b.path[:len(b.path)-1]
	}
}

// key returns the key of a member, nil if it cannot be one.
func (b *builder) key(n *yaml.Node) *Node {
	col, explained := b.explain(n.Line)
	switch {
	case n.Kind != yaml.ScalarNode && explained != "":
		b.unreadable = true
		return b.refuse(n.Line, col, "%s", explained)
	case n.Kind != yaml.ScalarNode || n.Anchor != "":
		b.fail(n, "expected a text key")
	case n.ShortTag() == "!!merge":
		b.fail(n, "merge keys (<<) are not supported; write out the members")
	default:
		return textNode(n)
	}
	return nil
}

// append adds an element of a list, or the value of a member.
func (n *Node) append(item *Node) {
	n.Items = append(n.Items, item)
	n.size += item.size
}
