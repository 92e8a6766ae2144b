// Package article writes the documents that benchmarks work on: an article as a model writes it, mostly prose, with a little
// of everything that JSON has. The same size always gives the same text.
package article

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// MinSize is the size of the smallest article.
const MinSize = 1 << 10

// JSON returns an article of exactly size bytes of JSON text; a size below [MinSize] panics.
func JSON(size int) []byte {
	if size < MinSize {
		panic("article: size is below MinSize")
	}
	w := &writer{random: rand.New(rand.NewPCG(1871, 4))}
	w.text = append(w.text, `{"question":"Why is the sky blue?","title":"The colour of the sky","outline":[`...)
	for i := range 8 {
		w.comma(i)
		w.string("topic", 4)
	}
	w.text = append(w.text, `],"sections":[`...)
	// Sections fill it, the closing words make the size exact.
	const closing = `],"closing":"`
	const end = `"}`
	for n := 0; ; n++ {
		mark := len(w.text)
		w.comma(n)
		w.section(n)
		if len(w.text)+len(closing)+len(end) > size {
			w.text = w.text[:mark]
			break
		}
	}
	w.text = append(w.text, closing...)
	pad := size - len(w.text) - len(end)
	w.text = append(w.text, strings.Repeat("and so on ", pad/10+1)[:pad]...)
	return append(w.text, end...)
}

// Tokens cuts text into pieces of n characters, as a model's tokens come.
func Tokens(text []byte, n int) []string {
	whole := string(text)
	tokens := make([]string, 0, len(whole)/n+1)
	start, chars := 0, 0
	for i := range whole {
		if chars == n {
			tokens = append(tokens, whole[start:i])
			start, chars = i, 0
		}
		chars++
	}
	if start < len(whole) {
		tokens = append(tokens, whole[start:])
	}
	return tokens
}

type writer struct {
	random *rand.Rand
	text   []byte
}

func (w *writer) section(n int) {
	w.text = append(w.text, `{"number":`...)
	w.text = strconv.AppendInt(w.text, int64(n), 10)
	w.text = append(w.text, `,"heading":`...)
	w.words(5)
	w.text = append(w.text, `,"paragraphs":[`...)
	for i := range 3 + w.random.IntN(3) {
		w.comma(i)
		w.words(60 + w.random.IntN(60))
	}
	w.text = append(w.text, `],"figures":[{"caption":`...)
	w.words(8)
	w.text = append(w.text, `,"width":640,"ratio":1.50,"shown":true}],"sources":[`...)
	for i := range 2 {
		w.comma(i)
		w.text = append(w.text, `{"name":`...)
		w.words(3)
		w.text = append(w.text, `,"year":`...)
		w.text = strconv.AppendInt(w.text, 1700+w.random.Int64N(320), 10)
		w.text = append(w.text, `,"pages":[12,13],"link":null}`...)
	}
	w.text = append(w.text, `]}`...)
}

func (w *writer) comma(i int) {
	if i > 0 {
		w.text = append(w.text, ',')
	}
}

func (w *writer) string(key string, words int) {
	w.text = append(append(append(w.text, `{"`...), key...), `":`...)
	w.words(words)
	w.text = append(w.text, '}')
}

// words writes a string of n words.
func (w *writer) words(n int) {
	w.text = append(w.text, '"')
	for i := range n {
		word := vocabulary[w.random.IntN(len(vocabulary))]
		if first := word[0]; i == 0 && first >= 'a' && first <= 'z' {
			w.text = append(append(w.text, first-'a'+'A'), word[1:]...)
		} else {
			w.text = append(w.text, word...)
		}
		switch {
		case i == n-1:
		case w.random.IntN(60) == 0:
			w.text = append(w.text, `.\n`...)
		case w.random.IntN(12) == 0:
			w.text = append(w.text, ", "...)
		default:
			w.text = append(w.text, ' ')
		}
	}
	w.text = append(w.text, `."`...)
}

// vocabulary has what prose has: short words and long ones, now and then a letter beyond ASCII or an escape (but no \u: one of the
// parsers that ours is measured beside cannot read it).
var vocabulary = strings.Fields(`the a of and to in is that it as by for with on at from this which light air sun sky blue
	red wave waves length shorter longer scattered scattering molecules atmosphere particles colour violet evening morning
	observer horizon because therefore however although between through across toward about under above when where while
	energy frequency spectrum refraction absorption intensity proportional power fourth measured experiment explained
	century physicist nitrogen oxygen ozone dust water droplets clouds white sees seen look looks appear appears thus
	rayleigh tyndall mie naïve café größer λ-dependent \"blue\" \"white\" a/b`)
