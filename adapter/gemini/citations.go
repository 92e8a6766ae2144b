package gemini

import (
	"math/bits"

	"github.com/lingserve/lingserve/adapter"
)

// grounding lists the sources of an answer, and the places in its text that they support, in bytes.
type grounding struct {
	Chunks []struct {
		Web       source `json:"web"`
		Retrieved source `json:"retrievedContext"`
		Maps      source `json:"maps"`
		Image     struct {
			URL   string `json:"sourceUri"`
			Title string `json:"title"`
		} `json:"image"`
	} `json:"groundingChunks"`
	Supports []struct {
		Segment struct {
			Start int `json:"startIndex"`
			End   int `json:"endIndex"`
		} `json:"segment"`
		Chunks []int `json:"groundingChunkIndices"`
	} `json:"groundingSupports"`
}

type source struct {
	URL   string `json:"uri"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// quote is a quotation in the text; its place is in bytes.
type quote struct {
	Start int    `json:"startIndex"`
	End   int    `json:"endIndex"`
	URL   string `json:"uri"`
	Title string `json:"title"`
}

// citations returns the sources with their places in characters (MO-15).
func (a *answer) citations() (all []adapter.Citation) {
	g := &a.sources
	sources := make([]adapter.Citation, len(g.Chunks))
	for i, c := range g.Chunks {
		s := c.Web
		for _, other := range []source{c.Retrieved, c.Maps, {URL: c.Image.URL, Title: c.Image.Title}} {
			if s.URL == "" && s.Title == "" {
				s = other
			}
		}
		sources[i] = adapter.Citation{URL: s.URL, Title: s.Title, Text: s.Text}
	}
	placed := make([]bool, len(sources))
	for _, s := range g.Supports {
		for _, i := range s.Chunks {
			if 0 <= i && i < len(sources) {
				c := sources[i]
				c.Start, c.End = a.place.characters(s.Segment.Start), a.place.characters(s.Segment.End)
				all, placed[i] = append(all, c), true
			}
		}
	}
	for i, c := range sources {
		if !placed[i] {
			all = append(all, c)
		}
	}
	for _, q := range a.quoted {
		all = append(all, adapter.Citation{URL: q.URL, Title: q.Title, Start: a.place.characters(q.Start), End: a.place.characters(q.End)})
	}
	return all
}

// places counts the characters of a text up to a byte. It holds one bit for each byte, and none while the text is ASCII.
type places struct {
	bytes int
	inner []uint64 // a bit for each byte that does not begin a character
}

// add adds text.
func (p *places) add(s string) {
	for i := range len(s) {
		if s[i]&0xC0 == 0x80 {
			at := p.bytes + i
			for len(p.inner) <= at/64 {
				p.inner = append(p.inner, 0)
			}
			p.inner[at/64] |= 1 << (at % 64)
		}
	}
	p.bytes += len(s)
}

// characters returns how many characters the first n bytes have.
func (p *places) characters(n int) int {
	n = min(max(n, 0), p.bytes)
	count := n
	for i := 0; i*64 < n && i < len(p.inner); i++ {
		word := p.inner[i]
		if left := n - i*64; left < 64 {
			word &= 1<<left - 1
		}
		count -= bits.OnesCount64(word)
	}
	return count
}
