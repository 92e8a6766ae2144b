package tape

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	searchLimit = 20 // hits, unless the query has a limit
	hitLen      = 80 // code points of Hit.Text
)

// Hit is an entry that a search found.
type Hit struct {
	ID   int64
	Kind Kind
	Date time.Time
	Text string // the match and the text around it, 80 code points at most, on one line
}

// Search yields the entries in which each word of q.Text occurs, newest first, 20 unless q has a limit. Words are compared as
// parts of the decoded text, without regard to case and compatibility forms, so that 天气 finds 今天天气很好 and full-width
// letters find ASCII. Messages, calls, results, anchors and errors are searched, unless [Meta].SearchHidden is set. A search
// without a word is ErrInvalid.
func (t *Tape) Search(ctx context.Context, q Query) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		q.Newest = true
		if q.Limit == 0 {
			q.Limit = searchLimit
		}
		m := newMatcher(q)
		if len(m.words) == 0 {
			yield(Hit{}, fmt.Errorf("%w: expected a word to search for", ErrInvalid))
			return
		}
		for e, err := range t.Read(ctx, q) {
			if err != nil {
				yield(Hit{}, err)
				return
			}
			if !yield(Hit{ID: e.ID, Kind: e.Kind, Date: e.Date, Text: m.excerpt(textOf(e))}, nil) {
				return
			}
		}
	}
}

// matcher finds the entries of a tape that a query selects.
type matcher struct {
	Query
	words []string // folded; without words any text matches
	fold  cases.Caser
}

func newMatcher(q Query) *matcher {
	m := &matcher{Query: q, fold: cases.Fold()}
	m.words = strings.Fields(m.folded(q.Text))
	return m
}

// folded returns text for comparison, without compatibility forms (NFKC) and case.
func (m *matcher) folded(s string) string {
	return norm.NFKC.String(m.fold.String(norm.NFKC.String(s)))
}

// selects reports whether the query selects an entry within its range of ids.
func (m *matcher) selects(e Entry) bool {
	if len(m.Kinds) > 0 && !slices.Contains(m.Kinds, e.Kind) {
		return false
	}
	if len(m.words) == 0 {
		return true
	}
	text := m.folded(textOf(e))
	for _, word := range m.words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return !bool(MetaOf(e).SearchHidden)
}

// excerpt returns the part of text around the first of the words.
func (m *matcher) excerpt(text string) string {
	runes := []rune(norm.NFC.String(strings.Join(strings.Fields(text), " ")))
	folded := m.folded(string(runes)) // mostly a character for each one of runes
	match, length := len(folded), 0
	for _, word := range m.words {
		if i := strings.Index(folded, word); i >= 0 && i < match {
			match, length = i, utf8.RuneCountInString(word)
		}
	}
	begin := utf8.RuneCountInString(folded[:match]) - (hitLen-min(length, hitLen))/2
	begin = max(min(begin, len(runes)-hitLen), 0)
	return strings.TrimSpace(string(runes[begin:min(begin+hitLen, len(runes))]))
}

// textOf returns the text of an entry that a search covers, decoded.
func textOf(e Entry) string {
	p := PayloadOf(e)
	var b strings.Builder
	switch e.Kind {
	case KindMessage:
		appendText(&b, encode(TextOf(p.Content)))
	case KindToolCall:
		appendText(&b, p.Content)
		for _, call := range p.Calls {
			var c struct{ Function json.RawMessage }
			_ = json.Unmarshal(call, &c) // a call without a function has no text
			appendText(&b, c.Function)
		}
	case KindToolResult:
		for _, result := range p.Results {
			appendText(&b, result)
		}
	case KindAnchor:
		appendText(&b, encode(p.Name))
		appendText(&b, p.State)
	case KindError:
		b.WriteString(p.Kind + "\n" + p.Message)
	}
	return b.String()
}

// appendText writes the strings and numbers of a value, decoded. A string that contains JSON, as arguments and results often do,
// is decoded too: text in it may be escaped twice.
func appendText(b *strings.Builder, value json.RawMessage) {
	switch rawjson.Kind(value) {
	case "a string":
		s := text(value)
		if inner := strings.TrimSpace(s); inner != "" && (inner[0] == '{' || inner[0] == '[') && json.Valid([]byte(inner)) {
			appendText(b, json.RawMessage(inner))
			return
		}
		b.WriteString(s + "\n")
	case "an object":
		for _, v := range rawjson.Members(value) {
			appendText(b, v)
		}
	case "an array":
		for _, v := range elements(value) {
			appendText(b, v)
		}
	case "a number":
		b.Write(append(value, '\n'))
	}
}

// first returns at most n code points from the beginning of s.
func first(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
