package tape

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	searchLimit = 20 // hits, unless told
	hitLen      = 80 // code points of Hit.Text
)

// Hit is an entry that a search found.
type Hit struct {
	ID   int64
	Kind Kind
	Date time.Time
	Text string // the match and what is around it, 80 code points at most, on one line
}

// Search yields the entries in which each word of q.Text occurs, newest first, 20 unless q.Limit says more or less. Words
// are compared as parts of the decoded text, without regard to case and compatibility forms, so that 天气 finds
// 今天天气很好 and full-width letters find ASCII. Messages, calls, results, anchors and errors are searched; what
// tape.search found is not. A search without a word is ErrInvalid.
func (t *Tape) Search(ctx context.Context, q Query) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		q.Newest = true
		if q.Limit == 0 {
			q.Limit = searchLimit
		}
		m := newMatcher(q, nil)
		if len(m.words) == 0 {
			yield(Hit{}, fmt.Errorf("%w: expected a word to search for", ErrInvalid))
			return
		}
		for e, err := range t.Read(ctx, q) {
			if err != nil {
				yield(Hit{}, err)
				return
			}
			if !yield(Hit{ID: e.ID, Kind: e.Kind, Date: e.Date, Text: m.around(textOf(e))}, nil) {
				return
			}
		}
	}
}

// around returns the part of text in which the first of the words is.
func (m *matcher) around(text string) string {
	// Segments of the text are folded one by one, to know where each came from.
	var folded strings.Builder
	for segment := range segments(text) {
		folded.WriteString(m.folded(segment))
	}
	at, length := -1, 0
	for _, word := range m.words {
		if i := strings.Index(folded.String(), word); i >= 0 && (at < 0 || i < at) {
			at, length = i, len(word)
		}
	}
	from, to, done := 0, 0, 0 // bytes of text, and folded ones
	for segment := range segments(text) {
		if done >= at+length {
			break
		}
		done += len(m.folded(segment))
		if to += len(segment); done <= at {
			from = to
		}
	}
	before, match := last(text[:from], hitLen), first(text[from:to], hitLen)
	near := []rune(before + match + first(text[to:], hitLen))
	begin := utf8.RuneCountInString(before) - (hitLen-utf8.RuneCountInString(match))/2
	begin = max(min(begin, len(near)-hitLen), 0)
	return oneLine(string(near[begin:min(begin+hitLen, len(near))]))
}

// segments yields the parts of s that normalize by themselves.
func segments(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s != "" {
			n := norm.NFKC.NextBoundaryInString(s, true)
			if n <= 0 {
				n = len(s)
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// first is at most n code points from the beginning of s, last from its end.
func first(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func last(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// oneLine has a space in the place of each run of white space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
