package gemini

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// sources are those of an answer, the places in its text that they support, and quotes with their places. Places are in bytes.
type sources struct{ chunks, supports, quotes []wire.Object }

// read adds the sources that an event names. They may come in several events, each with all that is known by then, or with a part.
func (s *sources) read(named wire.Object) {
	if chunks := named.Objects("groundingChunks"); chunks != nil {
		s.chunks = chunks
	}
	if supports := named.Objects("groundingSupports"); supports != nil {
		s.supports = supports
	}
	s.quotes = append(append(s.quotes, named.Objects("citations")...), named.Objects("citationSources")...)
}

// citations returns the sources with their places in a text that came in pieces, in characters (MO-15).
func (s *sources) citations(pieces []string) (all []adapter.Citation) {
	if len(s.chunks)+len(s.quotes) == 0 {
		return nil
	}
	said := strings.Join(pieces, "")
	cite := func(c adapter.Citation, at wire.Object) {
		characters := func(name string) int { return utf8.RuneCountInString(said[:min(at.Count(name), len(said))]) }
		c.Start, c.End = characters("startIndex"), characters("endIndex")
		all = append(all, c)
	}
	chunks, placed := make([]adapter.Citation, len(s.chunks)), map[int]bool{}
	for i, chunk := range s.chunks {
		for _, kind := range []string{"web", "retrievedContext", "maps", "image"} {
			if c := chunk.Object(kind); c != nil {
				chunks[i] = adapter.Citation{URL: cmp.Or(c.Text("uri"), c.Text("sourceUri")), Title: c.Text("title"), Text: c.Text("text")}
			}
		}
	}
	for _, support := range s.supports {
		var supported []int
		json.Unmarshal(support["groundingChunkIndices"], &supported) // none, where they are no list of numbers
		for _, i := range supported {
			if 0 <= i && i < len(chunks) {
				placed[i] = true
				cite(chunks[i], support.Object("segment"))
			}
		}
	}
	for i, c := range chunks {
		if !placed[i] {
			cite(c, nil)
		}
	}
	for _, q := range s.quotes {
		cite(adapter.Citation{URL: q.Text("uri"), Title: q.Text("title")}, q)
	}
	return all
}
