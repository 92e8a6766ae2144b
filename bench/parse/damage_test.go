package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"unicode"

	"github.com/lingserve/lingserve/jsonuri"
)

// RP-11: of a damaged document, no word that its text still has is lost. Left out are texts in which a key is repeated before
// anything is wrong with them: there the last one counts, as in JSON (RP-10).
func TestRepairLosesNoWordOfADamagedDocument(t *testing.T) {
	check := func(name string, list []sample) {
		for _, s := range list {
			if s.cut || repeatsKey(s.Text) {
				continue
			}
			if got := mended(s.Text); lostWord(s, got) != "" {
				t.Errorf("%s: %q is lost of\n%s\nread as %s", name, lostWord(s, got), s.Text, got)
			}
		}
	}
	for i, way := range damages {
		check(way.name, samples(uint64(i), 30, way.do, nil))
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range uint64(300) {
		check("two at once", samples(i, 1, damages[r.IntN(17)].do, damages[r.IntN(17)].do))
	}
}

// repeatsKey reports whether an object has a key twice in what strict mode reads of text.
func repeatsKey(text string) (repeated bool) {
	seen := map[string]bool{}
	p := jsonuri.NewParser(jsonuri.Handler{Done: func(uri []byte) {
		repeated = repeated || seen[string(uri)]
		seen[string(uri)] = true
	}}, nil)
	_, _ = p.WriteString(text)
	return repeated
}

// lostWord returns a word that the original and its damaged text have more often than result; "" if there is none.
func lostWord(s sample, result string) string {
	original, _ := json.Marshal(s.want)
	count, there := wordsOf([]byte(result)), wordsOf([]byte(s.Text))
	for word, n := range wordsOf(original) {
		if count[word] < min(n, there[word]) {
			return word
		}
	}
	return ""
}

// wordsOf counts the words and numbers of a JSON text.
func wordsOf(text []byte) map[string]int {
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`\n`), []byte(" ")), []byte("e+"), []byte("e"))
	count := map[string]int{}
	for word := range bytes.FieldsFuncSeq(text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		count[string(word)]++
	}
	return count
}
