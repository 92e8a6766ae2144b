package jsonuri

// Pattern matches uris: "*" stands for one segment, "**" for any number of them, none included. A star stands for whole
// segments only, and for reserved ones ("$tools") too; the other segments are written as in a uri and match themselves. To
// match a key that is itself a star, write "\*" or "\**". The empty pattern matches the root.
//
// A pattern is safe for concurrent use.
type Pattern struct {
	text  string
	parts []patternPart
}

type patternPart struct {
	stars int    // 1 for "*", 2 for "**"
	text  string // of a literal, as in a uri
}

// CompilePattern reads a pattern. Errors are [*URIError], and [*LimitError] for one of more segments than a uri can have:
// patterns come from callers, and matching takes time for each segment.
func CompilePattern(text string) (*Pattern, error) {
	p := &Pattern{text: text}
	if text == "" {
		return p, nil
	}
	for i := 0; i <= len(text); {
		if len(p.parts) == maxDocumentDepth {
			return nil, &LimitError{Limit: "depth", Max: maxDocumentDepth, Offset: int64(i)}
		}
		end := segmentEnd(text, i)
		switch segment := text[i:end]; segment {
		case "*":
			p.parts = append(p.parts, patternPart{stars: 1})
		case "**":
			p.parts = append(p.parts, patternPart{stars: 2})
		case `\*`, `\**`:
			p.parts = append(p.parts, patternPart{text: segment[1:]})
		default:
			s, err := scanSegment(text, i)
			if err != nil {
				return nil, err
			}
			end = s.end
			p.parts = append(p.parts, patternPart{text: segment})
		}
		i = end + 1
	}
	return p, nil
}

// Match says whether the pattern matches uri. It allocates nothing, and its time is at most the pattern's segments times
// the uri's.
func (p *Pattern) Match(uri []byte) bool { return matchPattern(p, uri, nil) }

// Stars returns what the stars of the pattern matched, in their order and in uri form (escaped, so that it can be put into
// another uri, see [Join]). A "**" that matched no segment gives "". Where several ways to match are possible, each "**" but
// the last takes as little as it can.
func (p *Pattern) Stars(uri string) (stars []string, ok bool) {
	taken := make([]span, len(p.parts))
	if !matchPattern(p, uri, taken) {
		return nil, false
	}
	for i, t := range taken {
		if p.parts[i].stars > 0 {
			stars = append(stars, uri[t.start:t.end])
		}
	}
	return stars, true
}

// String returns the pattern's text.
func (p *Pattern) String() string { return p.text }

// matchPattern matches uri and notes in taken, where that is not nil, what each star took. Only the last "**" met ever
// takes more: if a match exists with an earlier one taking more, it exists without, so nothing grows exponentially.
func matchPattern[T string | []byte](p *Pattern, uri T, taken []span) bool {
	var (
		i    = 0 // the next segment's start in uri, beyond its end when none is left
		next = 0 // the next part
		wild = -1
		rest = 0 // where what follows the "**" in parts[wild] is tried
		from = 0 // where that "**" began
	)
	if len(uri) == 0 {
		i = 1
	}
	for i <= len(uri) {
		if next < len(p.parts) && p.parts[next].stars == 2 {
			wild, from, rest = next, i, i
			take(taken, next, from, i)
			next++
			continue
		}
		end := segmentEnd(uri, i)
		if next < len(p.parts) && (p.parts[next].stars == 1 || string(uri[i:end]) == p.parts[next].text) {
			take(taken, next, i, end+1)
			next++
			i = end + 1
			continue
		}
		if wild < 0 {
			return false
		}
		rest = segmentEnd(uri, rest) + 1
		take(taken, wild, from, rest)
		next, i = wild+1, rest
	}
	for next < len(p.parts) && p.parts[next].stars == 2 {
		take(taken, next, i, i)
		next++
	}
	return next == len(p.parts)
}

// take notes that a star took the segments from start to before next, which is the start of the segment after them.
func take(taken []span, star, start, next int) {
	if taken == nil {
		return
	}
	if next > start {
		taken[star] = span{start: start, end: next - 1}
	} else {
		taken[star] = span{}
	}
}

// segmentEnd returns where the segment of uri that begins at i ends.
func segmentEnd[T string | []byte](uri T, i int) int {
	for ; i < len(uri) && uri[i] != '/'; i++ {
		if uri[i] == '\\' {
			i++
		}
	}
	return min(i, len(uri))
}
