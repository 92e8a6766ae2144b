package gemini

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
)

// sources are those of an answer, and the places in its text that they support, in bytes.
type sources struct {
	Grounding struct {
		Chunks []struct {
			Web       source `json:"web"`
			Retrieved source `json:"retrievedContext"`
			Maps      source `json:"maps"`
			Image     source `json:"image"`
		} `json:"groundingChunks"`
		Supports []struct {
			Segment quote `json:"segment"`
			Chunks  []int `json:"groundingChunkIndices"`
		} `json:"groundingSupports"`
	} `json:"groundingMetadata"`
	Quotes struct {
		Vertex []quote `json:"citations"`
		Gemini []quote `json:"citationSources"`
	} `json:"citationMetadata"`
}

type source struct {
	URL   string `json:"uri"`
	Image string `json:"sourceUri"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// quote is a place in the text, in bytes, and what is quoted there.
type quote struct {
	Start int    `json:"startIndex"`
	End   int    `json:"endIndex"`
	URL   string `json:"uri"`
	Title string `json:"title"`
}

// read adds the sources that a candidate names. They may come in several events, each with all that is known by then, or with a part.
func (s *sources) read(candidate []byte) {
	var more sources
	json.Unmarshal(candidate, &more) // what cannot be read is no source
	if g := &more.Grounding; len(g.Chunks) > 0 {
		s.Grounding.Chunks = g.Chunks
	}
	if g := &more.Grounding; len(g.Supports) > 0 {
		s.Grounding.Supports = g.Supports
	}
	s.Quotes.Vertex = append(append(s.Quotes.Vertex, more.Quotes.Vertex...), more.Quotes.Gemini...)
}

// citations returns the sources with their places in a text that came in pieces, in characters (MO-15).
func (s *sources) citations(pieces []string) (all []adapter.Citation) {
	if len(s.Grounding.Chunks)+len(s.Quotes.Vertex) == 0 {
		return nil
	}
	said := strings.Join(pieces, "")
	cite := func(c adapter.Citation, at quote) {
		characters := func(n int) int { return utf8.RuneCountInString(said[:min(max(n, 0), len(said))]) }
		c.Start, c.End = characters(at.Start), characters(at.End)
		all = append(all, c)
	}
	chunks := make([]adapter.Citation, len(s.Grounding.Chunks))
	for i, c := range s.Grounding.Chunks {
		found := cmp.Or(c.Web, c.Retrieved, c.Maps, c.Image)
		chunks[i] = adapter.Citation{URL: cmp.Or(found.URL, found.Image), Title: found.Title, Text: found.Text}
	}
	placed := map[int]bool{}
	for _, support := range s.Grounding.Supports {
		for _, i := range support.Chunks {
			if 0 <= i && i < len(chunks) {
				placed[i] = true
				cite(chunks[i], support.Segment)
			}
		}
	}
	for i, c := range chunks {
		if !placed[i] {
			cite(c, quote{})
		}
	}
	for _, q := range s.Quotes.Vertex {
		cite(adapter.Citation{URL: q.URL, Title: q.Title}, q)
	}
	return all
}
