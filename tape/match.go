package tape

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// matcher finds the entries of a tape that a query selects.
type matcher struct {
	Query
	src   Source
	words []string // folded; none selects any text
	fold  cases.Caser
}

func newMatcher(q Query, src Source) *matcher {
	m := &matcher{Query: q, src: src, fold: cases.Fold()}
	m.words = strings.Fields(m.folded(q.Text))
	return m
}

// folded returns text as it is compared: compatibility forms (NFKC) and case do not count.
func (m *matcher) folded(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return strings.ToLower(s)
	}
	return norm.NFKC.String(m.fold.String(norm.NFKC.String(s)))
}

// selects reports whether the query selects an entry within its bounds of ids.
func (m *matcher) selects(e Entry) (bool, error) {
	if len(m.Kinds) > 0 && !slices.Contains(m.Kinds, e.Kind) || !m.From.IsZero() && e.Date.Before(m.From) || !m.To.IsZero() && e.Date.After(m.To) {
		return false, nil
	}
	if len(m.words) == 0 {
		return true, nil
	}
	found := m.hasWords(textOf(e))
	if found && e.Kind == KindToolResult {
		text, err := m.resultText(e)
		return m.hasWords(text), err
	}
	return found, nil
}

func (m *matcher) hasWords(text string) bool {
	if text == "" {
		return false
	}
	text = m.folded(text)
	for _, word := range m.words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// maxStep bounds the entries between a call and its result. Beyond it a result has no call.
const maxStep = 128

// resultText returns the text of an entry's results without those of searches, which their calls tell: or each search would find the ones
// before it.
func (m *matcher) resultText(e Entry) (string, error) {
	step := []Entry{e} // newest first, up to the calls
	for before, err := range m.src.Entries(0, e.ID, true) {
		if err != nil {
			return "", err
		}
		step = append(step, before)
		if before.Kind == KindToolCall || before.Kind == KindMessage || len(step) > maxStep {
			break
		}
	}
	var open []json.RawMessage // calls without a result
	var b strings.Builder
	for _, e := range slices.Backward(step) {
		switch e.Kind {
		case KindToolCall:
			open = elements(member(e.Payload, "calls"))
		case KindToolResult:
			b.Reset()
			open = appendResults(&b, e, open)
		}
	}
	return b.String(), nil
}

// appendResults writes the text of an entry's results, but of those of searches, and returns the calls that are open after it.
func appendResults(b *strings.Builder, e Entry, open []json.RawMessage) []json.RawMessage {
	ids := elements(member(e.Payload, "ids"))
	for i, result := range elements(member(e.Payload, "results")) {
		id := ""
		if i < len(ids) {
			id, _ = text(ids[i])
		}
		call := slices.IndexFunc(open, func(call json.RawMessage) bool { return id == "" || isText(member(call, "id"), id) })
		if call < 0 {
			appendText(b, result)
			continue
		}
		name, _ := text(member(member(open[call], "function"), "name"))
		if open = slices.Delete(open, call, call+1); name != "tape.search" && name != "tape_search" {
			appendText(b, result)
		}
	}
	return open
}

// textOf returns the text of an entry that a search covers, decoded.
func textOf(e Entry) string {
	var b strings.Builder
	switch e.Kind {
	case KindMessage:
		content := member(e.Payload, "content")
		if len(content) > 0 && content[0] != '[' {
			appendText(&b, content)
		}
		for _, part := range elements(content) { // the bytes of media are no text
			appendText(&b, member(part, "text"))
		}
	case KindToolCall:
		appendText(&b, member(e.Payload, "content"))
		for _, call := range elements(member(e.Payload, "calls")) {
			appendText(&b, member(call, "function"))
		}
	case KindToolResult:
		appendText(&b, member(e.Payload, "results"))
	case KindAnchor:
		appendText(&b, member(e.Payload, "name"))
		appendText(&b, member(e.Payload, "state"))
	case KindError:
		appendText(&b, member(e.Payload, "kind"))
		appendText(&b, member(e.Payload, "message"))
	}
	return b.String()
}

// appendText writes the strings and numbers of a value, decoded. A string that is JSON itself, as arguments and results often are, is taken
// apart too: in it, text may be escaped once more.
func appendText(b *strings.Builder, value json.RawMessage) {
	if len(value) == 0 {
		return
	}
	switch value[0] {
	case '"':
		s, _ := text(value)
		if t := strings.TrimLeft(s, " \t\r\n"); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
			appendText(b, json.RawMessage(t))
			return
		}
		b.WriteString(s + "\n")
	case '{':
		for _, v := range members(value) {
			appendText(b, v)
		}
	case '[':
		for _, v := range elements(value) {
			appendText(b, v)
		}
	case 't', 'f', 'n':
	default:
		b.Write(append(value, '\n'))
	}
}
