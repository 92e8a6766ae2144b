package markup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown is the parser. It knows no definitions of links, since what it takes for one would be seen nowhere.
var markdown = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithInlineParsers(
		util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
		util.Prioritized(parser.NewCodeSpanParser(), 100),
		util.Prioritized(parser.NewLinkParser(), 200),
		util.Prioritized(parser.NewAutoLinkParser(), 300),
		util.Prioritized(parser.NewRawHTMLParser(), 400),
		util.Prioritized(emphasis{}, 500),
		util.Prioritized(strike{}, 500),
	),
	parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
)

// parse turns Markdown into runs of text, as they are seen.
func parse(source string, to Format) runs {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	if !utf8.ValidString(source) {
		source = strings.ToValidUTF8(source, "\ufffd")
	}
	var out runs
	if document(source) {
		out.add(source, style{block: true, lang: "json"})
		return out.trim()
	}
	for _, part := range sections(hideAddresses(source)) {
		w := walker{source: []byte(part.text), to: to}
		w.blocks(markdown.Parse(text.NewReader(w.source)), style{})
		if len(w.out) == 0 {
			continue
		}
		if len(out) > 0 {
			out.add(part.gap, part.between)
		}
		for _, r := range w.out {
			out.add(r.text, r.style)
		}
	}
	return out.trim()
}

// document says whether a text is a JSON document on several lines, such as a workflow's. As Markdown it would lose what its lines
// begin with, and quotes in its texts their backslashes, so that it were no JSON any more.
func document(source string) bool {
	source = strings.TrimSpace(source)
	return (strings.HasPrefix(source, "{\n") || strings.HasPrefix(source, "[\n")) && json.Valid([]byte(source))
}

// walker goes through a document.
type walker struct {
	source []byte
	to     Format
	out    runs
	indent string // of the lines of a list
	fresh  bool   // a marker has just been written: the next block stands behind it
}

// blocks writes the children of a container, with an empty line between them unless they are items of a tight list.
func (w *walker) blocks(parent ast.Node, s style) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.gap(n, s)
		w.block(n, s)
	}
}

// gap writes what stands between a block and the one before it.
func (w *walker) gap(n ast.Node, s style) {
	if w.fresh || len(w.out) == 0 {
		w.fresh = false
		return
	}
	if n.PreviousSibling() == nil && n.Parent().Kind() == ast.KindBlockquote {
		return // the quote itself has had its gap
	}
	space := style{quote: s.quote}
	between := "\n\n"
	if tight(n) {
		between = "\n"
	}
	w.out.add(between+w.indent, space)
}

// tight says whether a block follows the one before without an empty line.
func tight(n ast.Node) bool {
	if n.Kind() == ast.KindListItem {
		list, ok := n.Parent().(*ast.List)
		return ok && list.IsTight
	}
	item, ok := n.Parent().(*ast.ListItem)
	if !ok {
		return false
	}
	list, ok := item.Parent().(*ast.List)
	return ok && list.IsTight
}

func (w *walker) block(n ast.Node, s style) {
	switch n := n.(type) {
	case *ast.Heading:
		s.bold = true
		w.inlines(n, s)
	case *ast.ThematicBreak:
		w.out.add("———", s)
	case *ast.CodeBlock:
		w.code(n.Lines(), "", s)
	case *ast.FencedCodeBlock:
		w.code(n.Lines(), language(n.Language(w.source)), s)
	case *ast.HTMLBlock:
		lines := w.lines(n.Lines())
		if n.HasClosure() {
			lines += string(n.ClosureLine.Value(w.source))
		}
		w.text(lineBreak.ReplaceAllString(strings.TrimRight(lines, "\n"), "\n"), s)
	case *ast.Blockquote:
		s.quote = true
		w.blocks(n, s)
	case *ast.List:
		w.list(n, s)
	case *east.Table:
		w.table(n, s)
	default:
		if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
			w.blocks(n, s)
			return
		}
		w.inlines(n, s)
	}
}

// list writes items behind their markers, indented as deep as they lie.
func (w *walker) list(n *ast.List, s style) {
	number, outer := n.Start, w.indent
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "• "
		if n.IsOrdered() {
			marker = strconv.Itoa(number) + string(n.Marker) + " "
			number++
		}
		if item.PreviousSibling() != nil { // the list itself has had the gap before the first
			w.gap(item, s)
		}
		w.out.add(marker, style{quote: s.quote})
		w.indent = outer + strings.Repeat(" ", utf8.RuneCountInString(marker))
		w.fresh = true
		w.blocks(item, s)
		w.fresh = false
		w.indent = outer
	}
}

// code writes a block of code, which stands on lines of its own.
func (w *walker) code(lines *text.Segments, lang string, s style) {
	code := strings.TrimRight(w.lines(lines), "\n")
	if code == "" {
		return
	}
	w.out.add(showMarks.Replace(code), style{block: true, lang: lang, quote: s.quote})
}

// language is the first word of what stands behind a fence, if it can be a language's name.
func language(info []byte) string {
	for _, c := range info {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+-_#.", c) >= 0) {
			return ""
		}
	}
	return string(info)
}

func (w *walker) lines(s *text.Segments) string {
	var b strings.Builder
	for i := range s.Len() {
		line := s.At(i)
		b.Write(line.Value(w.source))
	}
	return b.String()
}

// table writes a table as lines of cells in columns: no platform here has tables.
func (w *walker) table(n *east.Table, s style) {
	var rows [][]string // of lines: a row has as many as its longest cell
	var widths []int
	header := 0 // lines
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		column, first := 0, len(rows)
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			in := walker{source: w.source, to: Plain}
			in.inlines(cell, style{})
			if column == len(widths) {
				widths = append(widths, 0)
			}
			for i, text := range strings.Split(write(in.out, Plain), "\n") {
				if first+i == len(rows) {
					rows = append(rows, nil)
				}
				line := &rows[first+i]
				*line = append(append(*line, make([]string, column-len(*line))...), text)
				widths[column] = max(widths[column], utf8.RuneCountInString(text))
			}
			column++
		}
		header = cmp.Or(header, len(rows))
	}
	var b strings.Builder
	head := ""
	for i, cells := range rows {
		if i == header {
			head = b.String()
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range cells {
			if j > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(cell)
			if j < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)))
			}
		}
	}
	w.out.add(b.String(), style{block: true, quote: s.quote, head: head})
}

// text writes text that may have lines, which are indented as the list that it is in.
func (w *walker) text(text string, s style) {
	if w.indent != "" {
		text = strings.ReplaceAll(text, "\n", "\n"+w.indent)
	}
	w.out.add(text, s)
}

func (w *walker) inlines(parent ast.Node, s style) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.inline(n, s)
	}
}

func (w *walker) inline(n ast.Node, s style) {
	switch n := n.(type) {
	case *ast.Text:
		value := n.Segment.Value(w.source)
		if n.IsRaw() {
			w.text(string(value), s)
		} else {
			w.text(unescape(value), s)
		}
		if n.SoftLineBreak() || n.HardLineBreak() {
			w.text("\n", s)
		}
	case *ast.String:
		w.text(string(n.Value), s)
	case *ast.CodeSpan:
		var b bytes.Buffer
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if t, ok := c.(*ast.Text); ok {
				b.Write(t.Segment.Value(w.source))
			}
		}
		s.code = s.link == "" // code in a link is no code: Telegram has not both
		w.out.add(showMarks.Replace(strings.ReplaceAll(b.String(), "\n", " ")), s)
	case *ast.Emphasis:
		if n.Level == 1 {
			s.italic = true
		} else {
			s.bold = true
		}
		w.inlines(n, s)
	case *east.Strikethrough:
		s.strike = true
		w.inlines(n, s)
	case *east.TaskCheckBox:
		if n.IsChecked {
			w.out.add("☑ ", s)
		} else {
			w.out.add("☐ ", s)
		}
	case *ast.Link:
		w.link(n, unescape(n.Destination), s)
	case *ast.Image:
		w.link(n, unescape(n.Destination), s)
	case *ast.AutoLink:
		w.out.add(hideMarks.Replace(string(n.Label(w.source))), s)
	case *ast.RawHTML:
		if lineBreak.Match(n.Segments.Value(w.source)) {
			w.text("\n", s)
			break
		}
		for i := range n.Segments.Len() {
			segment := n.Segments.At(i)
			w.text(string(segment.Value(w.source)), s)
		}
	default:
		w.inlines(n, s)
	}
}

// link writes a link, or the text and the address behind it where the address is none that a platform follows. Addresses that are
// the text itself are found by the platforms.
func (w *walker) link(n ast.Node, to string, s style) {
	in := walker{source: w.source, to: w.to, indent: w.indent}
	inside := s
	hidden := to
	to = showMarks.Replace(to)
	if follows(to) {
		if hidden = hideMarks.Replace(to); w.to != Plain {
			inside.link = to
		}
	}
	in.inlines(n, inside)
	switch shown := showMarks.Replace(in.out.text()); {
	case strings.TrimSpace(shown) == "", shown == to:
		w.out.add(hidden, s)
	default:
		for _, r := range in.out {
			w.out.add(r.text, r.style)
		}
		if inside.link == "" && to != "" {
			w.out.add(" ("+to+")", s)
		}
	}
}

// lineBreak is the tag that models write in cells of tables, for want of another line break there.
var lineBreak = regexp.MustCompile(`(?i)<br\s*/?>`)

// follows says whether an address is one that platforms let people follow.
func follows(to string) bool {
	scheme, rest, ok := strings.Cut(to, ":")
	if !ok || rest == "" || strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`<>"|`, r) }) {
		return false
	}
	switch strings.ToLower(scheme) {
	case "http", "https":
		return len(strings.TrimLeft(rest, "/")) > 0 && strings.HasPrefix(rest, "//")
	case "mailto", "tel":
		return true
	}
	return false
}

// unescape is what a text of the source means: backslashes and entities are resolved.
func unescape(source []byte) string {
	if bytes.IndexByte(source, '\\') < 0 && bytes.IndexByte(source, '&') < 0 {
		return string(source)
	}
	var b strings.Builder
	for i := 0; i < len(source); {
		switch c := source[i]; {
		case c == '\\' && i+1 < len(source) && util.IsPunct(source[i+1]):
			b.WriteByte(source[i+1])
			i += 2
		case c == '&':
			end := bytes.IndexByte(source[i:], ';')
			if end > 0 && end < 40 {
				entity := source[i : i+end+1]
				meant := util.ResolveEntityNames(util.ResolveNumericReferences(entity))
				b.Write(meant)
				i += len(entity)
				continue
			}
			fallthrough
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}
