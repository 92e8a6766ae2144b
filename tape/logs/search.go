package logs

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/store"
)

// If the log of an engine implements [store.Terms], a search first looks into its index. A range has as its terms all that is in the text of
// its entries, as searches compare it, three characters at a time, or two in the scripts of East Asia, and at the end of a word what is left.
// So a word is in no range that does not have all its terms; one that is too short for a term is in none that has no term that begins with it.
//
// A range begins with an entry that begins a step, and ends before one: what a search is given of a tape are whole steps.

const (
	rangeEntries = 64        // beyond which a range ends with its step
	rangeText    = 16 << 10  // bytes of text, likewise
	termsText    = 256 << 10 // bytes of text, beyond which anything may be in the range
	looseMost    = 2 * rangeEntries
	headMost     = 512 // entries that a search looks at by itself, the newest ones mostly: what is sought is often there
	wordsMost    = 48  // terms of a query; more find nothing better
	rangesAtOnce = 128 // that are added with one call
)

// gram is up to three characters of 21 bits each.
type gram uint64

func (g gram) String() string {
	var b []byte
	for shift := 42; shift >= 0; shift -= 21 {
		if r := rune(g >> shift & (1<<21 - 1)); r != 0 {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

func gramOf(runes []rune) (g gram) {
	for i := range 3 {
		g <<= 21
		if i < len(runes) {
			g |= gram(runes[i])
		}
	}
	return g
}

// wide is the first of the characters of East Asia. Of them there are so many that two say what three others do, and three would be
// mostly seen once; and one is a word that is worth looking for.
const wide = 0x2e80

// lengthOf is how many characters a gram has that begins with this one.
func lengthOf(r rune) int {
	if r >= wide {
		return 2
	}
	return 3
}

// addGrams adds the grams of a text. Nothing that has white space or NUL in it is sought.
func addGrams(set map[gram]struct{}, text string) {
	var window [3]rune
	n := 0
	add := func() { // the gram that begins with the first
		set[gramOf(window[:min(n, lengthOf(window[0]))])] = struct{}{}
		window[0], window[1] = window[1], window[2]
		n--
	}
	for _, r := range text {
		if r == 0 || unicode.IsSpace(r) {
			for n > 0 { // what is left at the end of a word
				add()
			}
			continue
		}
		window[n] = r
		if n++; n == 3 {
			add()
		}
	}
	for n > 0 {
		add()
	}
}

// termsOf are the terms that a range must have to have all of these words; none: that says nothing.
func termsOf(words []string) (terms []store.Term) {
	add := func(text string, prefix bool) {
		t := store.Term{Text: text, Prefix: prefix}
		if strings.IndexByte(text, 0) < 0 && len(terms) < wordsMost && !slices.Contains(terms, t) {
			terms = append(terms, t)
		}
	}
	for _, word := range words {
		runes := []rune(word)
		whole := false
		for i, r := range runes {
			if end := i + lengthOf(r); end <= len(runes) {
				add(string(runes[i:end]), false)
				whole = true
			}
		}
		if !whole && (len(runes) > 1 || runes[0] >= wide) {
			add(word, true)
		}
	}
	return terms
}

// search yields the entries from a number on and before another that may have the words, in whole steps. ok is false if there is no index.
func (src *source) search(r store.Range) (entries iter.Seq2[store.Entry, error], ok bool) {
	index, can := src.s.space.(store.Terms)
	query := termsOf(src.words)
	if !can || len(query) == 0 || r.Before <= max(r.From, 1) || src.state.info.Entries <= headMost {
		return nil, false
	}
	return func(yield func(store.Entry, error) bool) {
		at := uint64(0)
		if r.Newest && r.Before > headMost {
			at = r.Before - headMost
		}
		x, err := index.Indexed(src.ctx, src.state.key, at)
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		if x.Behind >= 4*looseMost {
			src.s.indexer.add(src.state.key) // of a tape that was there before the index was, or after a crash
		}
		loose := x.Last + 1 // what follows is in no range
		if r.Newest && at < loose {
			loose = x.Start // the newest entries are looked at by themselves, up to the beginning of a range
		}
		ok := true
		pass := func(entries iter.Seq2[store.Entry, error]) {
			for e, err := range entries {
				if ok = yield(e, err) && (err == nil || e.N != 0); !ok {
					return
				}
			}
		}
		whole, found := r, r
		whole.From, found.Before = max(r.From, loose), min(r.Before, loose)
		if r.Newest && whole.From < whole.Before {
			pass(src.s.space.Read(src.ctx, src.state.key, src.from(whole)))
		}
		if ok && found.From < found.Before {
			pass(index.Find(src.ctx, src.state.key, query, found))
		}
		if ok && !r.Newest && whole.From < whole.Before {
			pass(src.s.space.Read(src.ctx, src.state.key, src.from(whole)))
		}
	}, true
}
