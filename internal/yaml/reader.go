// Package yaml reads the YAML that people write: the configuration, workflows and the front matter of skills.
//
// A [Reader] parses the text of a file into a tree of nodes that know their line and column, and its methods read values out of
// the tree. Problems are collected, so that a person sees all of them at once:
//
//	r := yaml.Reader{File: "a.yaml"}
//	if root := r.Parse(text); root != nil {
//		f := r.Fields(root, "", "name", "max")
//		name, ok := r.Text(f["name"], "name")
//		…
//	}
//	return r.Err()
//
// # Guarantees
//   - Every problem has a place: file, line and column.
//   - Hostile text is refused in a moment: bytes, tokens, depth and what aliases expand to are bounded.
//   - A mapping has each key once. Merge keys, tags and a second document are refused, and so are anchors and aliases unless the
//     Reader allows them.
package yaml

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
)

// maxProblems bounds what is reported of one file: more would hide the first, which is often the cause of the rest.
const maxProblems = 50

// Error is a problem of a file: its place (line and column from 1; 0 if unknown), the value it is about, and what was expected.
type Error struct {
	File         string
	Line, Column int
	Path         string // keys joined with dots, as in run.timeout; may be empty
	Message      string
}

func (e *Error) Error() string { return e.Place() + ": " + e.Detail() }

// Place is "file", "file:line" or "file:line:column".
func (e *Error) Place() string {
	switch {
	case e.Line == 0:
		return e.File
	case e.Column == 0:
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
}

// Detail is the path and the message, without the place.
func (e *Error) Detail() string { return strings.TrimPrefix(e.Path+": "+e.Message, ": ") }

// Reader reads one file and collects its problems. The zero value reads a file without a name and without aliases.
type Reader struct {
	File    string
	Aliases bool // allow anchors, aliases and the tag !!str

	lines    []string
	problems []*Error
}

// Add records a problem. Without a file, it is a problem of the reader's file.
func (r *Reader) Add(e *Error) {
	e.File = cmp.Or(e.File, r.File)
	r.problems = append(r.problems, e)
}

// Errorf records a problem at the place of n.
func (r *Reader) Errorf(n *Node, path, format string, args ...any) {
	r.Add(&Error{Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// NumProblems returns the number of problems so far.
func (r *Reader) NumProblems() int { return len(r.problems) }

// Problems returns the problems in the order of the file, and those of other files behind them. There are at most 51.
func (r *Reader) Problems() []*Error {
	all := slices.Clone(r.problems)
	slices.SortStableFunc(all, func(a, b *Error) int {
		switch {
		case a.File != b.File && a.File == r.File:
			return -1
		case a.File != b.File && b.File == r.File:
			return 1
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all = slices.CompactFunc(all, func(a, b *Error) bool { return *a == *b })
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems], &Error{File: r.File, Message: fmt.Sprintf("and %d more problems", more)})
	}
	return all
}

// Err joins the problems; nil if there are none.
func (r *Reader) Err() error {
	var errs []error
	for _, e := range r.Problems() {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Fields returns the members of a mapping by name. Each must be one of known, which are suggested in this order.
func (r *Reader) Fields(n *Node, path string, known ...string) map[string]*Node {
	f := map[string]*Node{}
	if n.Kind != Mapping {
		r.Errorf(n, path, "expected a mapping with %s, got %s", schema.List(known), n.Kind)
		return f
	}
	for i, k := range n.Keys {
		if slices.Contains(known, k.Text) {
			f[k.Text] = n.Items[i]
			continue
		}
		message := fmt.Sprintf("unknown field %q%s expected %s", wording.Clip(k.Text), edits.DidYouMean(k.Text, known, ";"), schema.List(known))
		if strings.Contains(k.Text, " ") {
			message += `; if this is text with ": " in it, put all of the text in quotes`
		}
		r.Errorf(k, "", "%s", message)
	}
	return f
}

// The methods below read a value at path. A nil node is an absent value: that is no problem, and there is no result.

// Text reads a text.
func (r *Reader) Text(n *Node, path string) (text string, ok bool) {
	if n == nil {
		return "", false
	}
	if n.Kind == Text {
		return n.Text, true
	}
	if col, message := r.explain(n.Line); message != "" && n.Kind == Mapping {
		r.Add(&Error{Line: n.Line, Column: col, Path: path, Message: message})
	} else if n.Kind == Bool || n.Kind == Number {
		r.Errorf(n, path, "%s is not text; put the value in quotes", wording.Clip(n.Text))
	} else {
		r.Errorf(n, path, "expected text, got %s%s", n.Kind, r.NotText(n))
	}
	return "", false
}

// NotText explains why a value is not text that was probably meant as text, behind a semicolon; "" if that is not known.
func (r *Reader) NotText(n *Node) string {
	switch {
	case n.Kind == Null && n.Line <= len(r.lines) && strings.Contains(r.lines[n.Line-1], ": #"):
		return "; YAML reads # as the start of a comment, so put the text in quotes"
	case n.Kind == Mapping && len(n.Keys) == 1 && n.Column == n.Keys[0].Column:
		return `; YAML reads ": " as the end of a key, so put the text in quotes`
	}
	return ""
}

// unquotedTemplate is a template that is not in quotes, behind a key or the dash of a list.
var unquotedTemplate = regexp.MustCompile(`^[^"']*?[:-]\s*(\{[{%])`)

// explain explains a line with a template that is not quoted, which YAML takes for a mapping; col is where it begins.
func (r *Reader) explain(line int) (col int, message string) {
	if line > len(r.lines) {
		return 0, ""
	}
	text := r.lines[line-1]
	at := unquotedTemplate.FindStringSubmatchIndex(text)
	if at == nil {
		return 0, ""
	}
	col = utf8.RuneCountInString(text[:at[2]]) + 1
	return col, fmt.Sprintf("YAML reads %s as the start of a mapping; put the text in quotes", text[at[2]:at[3]])
}

// Texts reads a text or a list of texts, and calls each for every one of them.
func (r *Reader) Texts(n *Node, path string, each func(n *Node, text string)) {
	if n == nil {
		return
	}
	items := []*Node{n}
	if n.Kind == List {
		items = n.Items
	}
	for _, item := range items {
		if t, ok := r.Text(item, path); ok {
			each(item, t)
		}
	}
}

// Int reads a whole number from least to most.
func (r *Reader) Int(n *Node, path string, least, most int) (i int, ok bool) {
	if n == nil {
		return 0, false
	}
	i, err := strconv.Atoi(n.json)
	if err != nil {
		got := n.Kind.String()
		if n.Kind == Number {
			got = n.Text
		}
		r.Errorf(n, path, "expected a whole number, got %s", got)
		return 0, false
	}
	if i < least || i > most {
		r.Errorf(n, path, "expected %d to %d, got %d", least, most, i)
		return 0, false
	}
	return i, true
}

// Bool reads true or false.
func (r *Reader) Bool(n *Node, path string) bool {
	if n != nil && n.Kind != Bool {
		r.Errorf(n, path, "expected true or false, got %s", n.Kind)
	}
	return n != nil && n.json == "true"
}

// Duration reads a time from least to most.
func (r *Reader) Duration(n *Node, path string, least, most time.Duration) (d time.Duration, ok bool) {
	t, ok := r.Text(n, path)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(t)
	if err != nil || d < least || d > most {
		r.Errorf(n, path, "expected a duration from %s to %s, such as 90s or 5m, got %q", FormatDuration(least), FormatDuration(most), wording.Clip(t))
		return 0, false
	}
	return d, true
}

// FormatDuration writes a duration as people do: 24h, not 24h0m0s.
func FormatDuration(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// Path joins the keys that lead to a value with dots. A key that could be taken for several is quoted.
func Path(keys ...string) string {
	parts := slices.Clone(keys)
	for i, key := range keys {
		if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '.' || r == '"' || r == 0x7f }) {
			parts[i] = strconv.Quote(key)
		}
	}
	return strings.Join(parts, ".")
}
