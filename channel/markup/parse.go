package markup

import (
	"cmp"
	"encoding/json"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxColumn is the width to which the cells of a column are filled up.
const maxColumn = 60

var (
	lineEnds     = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	languageName = regexp.MustCompile(`^[\w+#.-]*$`)
	lineBreak    = regexp.MustCompile(`(?i)<br\s*/?>`) // models write it in the cells of tables
	webAddress   = regexp.MustCompile(`(?i)^https?:///*[^/\x00- <>"|\x7f][^\x00- <>"|\x7f]*$`)
	otherAddress = regexp.MustCompile(`(?i)^(?:mailto|tel):[^\x00- <>"|\x7f]+$`)
)

// parse turns Markdown into runs of visible text.
func parse(source string, to Format) runs {
	source = strings.ToValidUTF8(lineEnds.Replace(source), "\ufffd")
	w := walker{source: []byte(source), to: to}
	switch {
	case isDocument(source):
		w.out.add(source, style{block: true, lang: "json"})
	case isHuge(source):
		w.out.add(source, style{})
	default:
		w.blocks(markdown.Parse(text.NewReader(w.source)), style{})
	}
	return w.out.trim()
}

// isDocument reports whether a text is a JSON document of several lines, such as the result of a workflow. Markdown would remove
// indents and backslashes from it.
func isDocument(source string) bool {
	source = strings.TrimSpace(source)
	return (strings.HasPrefix(source, "{\n") || strings.HasPrefix(source, "[\n")) && json.Valid([]byte(source))
}

// walker writes the nodes of a document as runs.
type walker struct {
	source  []byte
	to      Format
	out     runs
	indent  string // of the lines in a list
	noBreak bool   // the marker of an item was just written: its first block follows on the same line
}

func children(parent ast.Node) iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		for n := parent.FirstChild(); n != nil && yield(n); n = n.NextSibling() {
		}
	}
}

// blocks writes the blocks in a container.
func (w *walker) blocks(parent ast.Node, s style) {
	for n := range children(parent) {
		w.gap(n, s)
		w.block(n, s)
	}
}

// gap writes the empty line between a block and the one before it. In a tight list, it is only the end of the line.
func (w *walker) gap(n ast.Node, s style) {
	first := w.noBreak || len(w.out) == 0
	w.noBreak = false
	if first || n.PreviousSibling() == nil && n.Parent().Kind() == ast.KindBlockquote { // the gap before the quote is written
		return
	}
	list, ok := n.Parent().(*ast.List)
	if !ok {
		list, ok = n.Parent().Parent().(*ast.List)
	}
	gap := "\n\n"
	if ok && list.IsTight {
		gap = "\n"
	}
	w.out.add(gap+w.indent, style{quote: s.quote})
}

func (w *walker) block(n ast.Node, s style) {
	switch n := n.(type) {
	case *ast.Heading:
		if w.to == Discord && n.Level <= 3 && w.indent == "" {
			s.heading = n.Level
		} else {
			s.bold = true
		}
		w.inlines(n, s)
	case *ast.ThematicBreak:
		w.out.add("———", s)
	case *ast.CodeBlock:
		w.code(n, "", s)
	case *ast.FencedCodeBlock:
		w.code(n, languageName.FindString(string(n.Language(w.source))), s)
	case *ast.HTMLBlock:
		source := string(n.Lines().Value(w.source))
		if n.HasClosure() {
			source += string(n.ClosureLine.Value(w.source))
		}
		w.text(lineBreak.ReplaceAllString(strings.TrimRight(source, "\n"), "\n"), s)
	case *ast.Blockquote:
		s.quote = true
		w.blocks(n, s)
	case *ast.List:
		w.list(n, s)
	case *east.Table:
		w.table(n, s)
	default:
		w.inlines(n, s)
	}
}

// list writes the items of a list with their markers. Their lines are indented by the width of the marker.
func (w *walker) list(list *ast.List, s style) {
	number, outer := list.Start, w.indent
	for item := range children(list) {
		marker := "• "
		if list.IsOrdered() {
			marker = strconv.Itoa(number) + string(list.Marker) + " "
			number++
		}
		if item.PreviousSibling() != nil { // the gap before the list is written
			w.gap(item, s)
		}
		w.out.add(marker, style{quote: s.quote})
		w.indent = outer + strings.Repeat(" ", utf8.RuneCountInString(marker))
		w.noBreak = true
		w.blocks(item, s)
		w.noBreak = false
		w.indent = outer
	}
}

func (w *walker) code(n ast.Node, lang string, s style) {
	code := strings.TrimRight(string(n.Lines().Value(w.source)), "\n")
	w.out.add(code, style{block: true, lang: lang, quote: s.quote})
}

// table writes a table as code, with its cells in columns: the platforms have no tables.
func (w *walker) table(table ast.Node, s style) {
	var lines [][]string // of cells: a row has as many lines as its longest cell
	widths := make([]int, table.FirstChild().ChildCount())
	header := 0 // lines of the head
	for row := range children(table) {
		column, first := 0, len(lines)
		for cell := range children(row) {
			in := walker{source: w.source}
			in.inlines(cell, style{})
			for i, text := range strings.Split(in.out.text(), "\n") {
				if first+i == len(lines) {
					lines = append(lines, nil)
				}
				line := &lines[first+i]
				*line = append(append(*line, make([]string, column-len(*line))...), text)
				widths[column] = max(widths[column], min(utf8.RuneCountInString(text), maxColumn))
			}
			column++
		}
		header = cmp.Or(header, len(lines))
	}
	var b strings.Builder
	for i, cells := range lines {
		if i == header {
			s.head = strings.TrimSuffix(b.String(), "\n")
		}
		last := len(cells) - 1
		for j, cell := range cells[:last] {
			b.WriteString(cell + strings.Repeat(" ", max(0, widths[j]-utf8.RuneCountInString(cell))) + " | ")
		}
		b.WriteString(cells[last] + "\n")
	}
	w.out.add(strings.TrimSuffix(b.String(), "\n"), style{block: true, quote: s.quote, head: s.head})
}

// text writes text that may have several lines.
func (w *walker) text(text string, s style) {
	w.out.add(strings.ReplaceAll(text, "\n", "\n"+w.indent), s)
}

func (w *walker) inlines(parent ast.Node, s style) {
	for n := range children(parent) {
		w.inline(n, s)
	}
}

func (w *walker) inline(n ast.Node, s style) {
	switch n := n.(type) {
	case *ast.Text:
		value := string(n.Value(w.source))
		if !n.IsRaw() {
			value = unescape(value)
		}
		if n.SoftLineBreak() || n.HardLineBreak() {
			value += "\n"
		}
		w.text(value, s)
	case *ast.CodeSpan:
		s.code = s.link == "" // Telegram has no code in links
		for part := range children(n) {
			if t, ok := part.(*ast.Text); ok {
				w.out.add(strings.ReplaceAll(string(t.Value(w.source)), "\n", " "), s)
			}
		}
	case *ast.Emphasis:
		s.italic = s.italic || n.Level == 1
		s.bold = s.bold || n.Level > 1
		w.inlines(n, s)
	case *east.Strikethrough:
		s.strike = true
		w.inlines(n, s)
	case *east.TaskCheckBox:
		w.out.add(map[bool]string{false: "☐ ", true: "☑ "}[n.IsChecked], s)
	case *ast.Link:
		w.link(n, string(n.Destination), s)
	case *ast.Image:
		w.link(n, string(n.Destination), s)
	case *ast.AutoLink:
		w.out.add(unescape(string(n.Label(w.source))), s)
	case *ast.RawHTML:
		source := string(n.Segments.Value(w.source))
		if lineBreak.MatchString(source) {
			source = "\n"
		}
		w.text(source, s)
	default:
		w.inlines(n, s)
	}
}

// link writes a link or, if the format has no link to its address, the text and then the address. If the text is the address, the
// platform finds the link by itself.
func (w *walker) link(n ast.Node, destination string, s style) {
	to := unescape(destination)
	in := walker{source: w.source, to: w.to, indent: w.indent}
	inside := s
	if linkable(to, w.to) {
		inside.link = to
	}
	in.inlines(n, inside)
	if text := in.out.text(); strings.TrimSpace(text) == "" || text == to {
		w.out.add(to, s)
		return
	}
	w.out.append(in.out)
	if inside.link == "" && to != "" {
		w.out.add(" ("+to+")", s)
	}
}

// linkable reports whether a format can link to an address.
func linkable(to string, format Format) bool {
	other := format == TelegramHTML || format == SlackMrkdwn
	return format != Plain && webAddress.MatchString(to) || other && otherAddress.MatchString(to)
}

// unescape resolves backslashes and entities.
func unescape(source string) string {
	return string(util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences([]byte(source)))))
}
