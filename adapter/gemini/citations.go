package gemini

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
)

// grounding lists the sources of an answer, and the places in its text that they support, in bytes.
type grounding struct {
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

// cite keeps the sources that an event names. They may come in several events, each with all that is known by then, or with a part.
func (a *answer) cite(e *event) {
	var g grounding
	if json.Unmarshal(e.sources, &g); len(g.Chunks) > 0 {
		a.sources.Chunks = g.Chunks
	}
	if len(g.Supports) > 0 {
		a.sources.Supports = g.Supports
	}
	var q struct {
		Sources []quote `json:"citations"`
		Older   []quote `json:"citationSources"`
	}
	json.Unmarshal(e.quotes, &q)
	a.quoted = append(append(a.quoted, q.Sources...), q.Older...)
}

// citations returns the sources with their places in characters (MO-15).
func (a *answer) citations() (all []adapter.Citation) {
	if len(a.sources.Chunks)+len(a.quoted) == 0 {
		return nil
	}
	said := strings.Join(a.said, "")
	cite := func(c adapter.Citation, at quote) {
		characters := func(n int) int { return utf8.RuneCountInString(said[:min(max(n, 0), len(said))]) }
		c.Start, c.End = characters(at.Start), characters(at.End)
		all = append(all, c)
	}
	sources := make([]adapter.Citation, len(a.sources.Chunks))
	unplaced := map[int]bool{}
	for i, c := range a.sources.Chunks {
		s := cmp.Or(c.Web, c.Retrieved, c.Maps, c.Image)
		sources[i], unplaced[i] = adapter.Citation{URL: cmp.Or(s.URL, s.Image), Title: s.Title, Text: s.Text}, true
	}
	for _, s := range a.sources.Supports {
		for _, i := range s.Chunks {
			if 0 <= i && i < len(sources) {
				cite(sources[i], s.Segment)
				delete(unplaced, i)
			}
		}
	}
	for i, c := range sources {
		if unplaced[i] {
			all = append(all, c)
		}
	}
	for _, q := range a.quoted {
		cite(adapter.Citation{URL: q.URL, Title: q.Title}, q)
	}
	return all
}
