package tape

import (
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// matcher says which entries a query selects, in the order in which it is given them.
//
// What a tool that searches the tape has found is not searched again, or each search would find the ones before it.
// Whether a result is one is said by its call, which with newest first comes later: until then, entries are held back.
type matcher struct {
	q     *Query
	words []string // folded; none selects any text
	fold  cases.Caser

	calls []tapeCall // that are open, oldest first
	held  []candidate
}

// tapeCall is a call that waits for its result.
type tapeCall struct {
	id     string
	search bool
}

// candidate is an entry that is selected unless its call says otherwise.
type candidate struct {
	entry Entry
	fits  bool // but for the text, where it is a result
}

// maxHeld bounds the entries that wait for their call. A step has fewer; beyond it they are taken to have none.
const maxHeld = 128

func newMatcher(q Query) *matcher {
	m := &matcher{q: &q}
	if q.Text != "" {
		m.fold = cases.Fold()
		m.words = strings.Fields(m.folded(q.Text))
	}
	return m
}

// folded is text as it is compared: compatibility forms (NFKC) and case do not count.
func (m *matcher) folded(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(s)
	}
	return norm.NFKC.String(m.fold.String(norm.NFKC.String(s)))
}

// next is given the entry that follows, and appends those to dst that are known to be selected now.
func (m *matcher) next(dst []Entry, e Entry) []Entry {
	fits := m.fits(e)
	if len(m.words) == 0 {
		if fits {
			dst = append(dst, e)
		}
		return dst
	}
	if !m.q.Newest {
		switch e.Kind {
		case KindToolCall:
			m.calls = callsOf(e)
		case KindMessage:
			m.calls = nil
		case KindToolResult:
			if m.hasWords(m.resultText(e)) && fits {
				dst = append(dst, e)
			}
			return dst
		}
		if fits && m.hasWords(textOf(e)) {
			dst = append(dst, e)
		}
		return dst
	}
	switch e.Kind {
	case KindToolResult:
		m.held = append(m.held, candidate{e, fits})
		if len(m.held) > maxHeld {
			dst = m.release(dst)
		}
		return dst
	case KindToolCall:
		m.calls = callsOf(e)
		dst = m.release(dst)
	case KindMessage:
		dst = m.release(dst)
	}
	switch {
	case !fits || !m.hasWords(textOf(e)):
	case len(m.held) > 0:
		m.held = append(m.held, candidate{e, true})
	default:
		dst = append(dst, e)
	}
	return dst
}

// rest appends those that are selected and that next has not given.
func (m *matcher) rest(dst []Entry) []Entry { return m.release(dst) }

// release appends what was held and is selected, as the calls say that are known now.
func (m *matcher) release(dst []Entry) []Entry {
	for i, c := range slices.Backward(m.held) { // in the order of the tape, for results that go by position
		if c.entry.Kind == KindToolResult {
			m.held[i].fits = m.hasWords(m.resultText(c.entry)) && c.fits
		}
	}
	for _, c := range m.held {
		if c.fits {
			dst = append(dst, c.entry)
		}
	}
	m.held, m.calls = nil, nil
	return dst
}

// fits says whether e is selected but for its text.
func (m *matcher) fits(e Entry) bool {
	q := m.q
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
		(q.From.IsZero() || !e.Date.Before(q.From)) && (q.To.IsZero() || !e.Date.After(q.To))
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

// searchTool is the tool whose results are not searched, under its own name and the one that models see.
func searchTool(name string) bool { return name == "tape.search" || name == "tape_search" }

func callsOf(e Entry) []tapeCall {
	var p struct {
		Calls []json.RawMessage `json:"calls"`
	}
	_ = json.Unmarshal(e.Payload, &p) // what has no calls has none
	calls := make([]tapeCall, 0, len(p.Calls))
	for _, raw := range p.Calls {
		var c Call
		if json.Unmarshal(raw, &c) == nil {
			calls = append(calls, tapeCall{c.ID, searchTool(c.Function.Name)})
		}
	}
	return calls
}

// resultText is the text of the results that are not those of a search. It takes their calls away.
func (m *matcher) resultText(e Entry) string {
	var p struct {
		IDs     []json.RawMessage `json:"ids"`
		Results []json.RawMessage `json:"results"`
	}
	_ = json.Unmarshal(e.Payload, &p)
	var b strings.Builder
	for i, result := range p.Results {
		id := ""
		if i < len(p.IDs) {
			id, _ = text(p.IDs[i])
		}
		at := slices.IndexFunc(m.calls, func(c tapeCall) bool { return id == "" || c.id == id })
		if at >= 0 {
			search := m.calls[at].search
			m.calls = slices.Delete(m.calls, at, at+1)
			if search {
				continue
			}
		}
		appendText(&b, result)
	}
	return b.String()
}

// textOf is the text of an entry that a search covers, decoded.
func textOf(e Entry) string {
	var b strings.Builder
	for name, value := range objectMembers(e.Payload) {
		switch e.Kind {
		case KindMessage:
			if string(name) == "content" {
				appendContent(&b, value)
			}
		case KindToolCall:
			switch string(name) {
			case "content":
				appendText(&b, value)
			case "calls":
				for _, call := range elements(value) {
					for name, value := range objectMembers(call) {
						if string(name) == "function" {
							appendText(&b, value)
						}
					}
				}
			}
		case KindToolResult:
			if string(name) == "results" {
				appendText(&b, value)
			}
		case KindAnchor:
			if string(name) == "name" || string(name) == "state" {
				appendText(&b, value)
			}
		case KindError:
			if string(name) == "kind" || string(name) == "message" {
				appendText(&b, value)
			}
		}
	}
	return b.String()
}

// appendContent writes the text of a message's content; the bytes of media are no text.
func appendContent(b *strings.Builder, content json.RawMessage) {
	if content[0] != '[' {
		appendText(b, content)
		return
	}
	for _, part := range elements(content) {
		for name, value := range objectMembers(part) {
			if string(name) == "text" {
				appendText(b, value)
			}
		}
	}
}

// appendText writes the strings and numbers of a value, decoded. A string that is JSON itself, as arguments and results
// often are, is taken apart too: in it, text may be escaped once more.
func appendText(b *strings.Builder, value json.RawMessage) {
	switch value[0] {
	case '"':
		s, _ := text(value)
		if t := strings.TrimLeft(s, " \t\r\n"); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
			appendText(b, json.RawMessage(t))
			return
		}
		b.WriteString(s)
		b.WriteByte('\n')
	case '{':
		for _, v := range objectMembers(value) {
			appendText(b, v)
		}
	case '[':
		for _, v := range elements(value) {
			appendText(b, v)
		}
	case 't', 'f', 'n':
	default:
		b.Write(value)
		b.WriteByte('\n')
	}
}
