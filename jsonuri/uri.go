package jsonuri

import (
	"fmt"
	"strings"
)

// URIError says why a text is not a uri.
type URIError struct {
	URI    string
	Offset int // bytes before the error
	Reason string
}

func (e *URIError) Error() string {
	return fmt.Sprintf("uri %.80q, byte %d: %s", e.URI, e.Offset, e.Reason) // a foreign text of any length does not belong into a message
}

// Format joins segments to a uri, with the escapes of [AppendSegment]. No segments give the root, "".
func Format(segments ...string) string {
	var uri []byte
	for _, s := range segments {
		uri = AppendSegment(uri, s)
	}
	return string(uri)
}

// Parse splits a uri into its segments: the inverse of [Format]. Every list of segments has exactly one uri, so what
// Format would not write is a [*URIError]: an unknown or needless escape, an empty segment, an unescaped "." or "..". The
// one exception is a reserved segment, which is its text with the "$" in front; [Reserved] tells the two apart.
func Parse(uri string) ([]string, error) {
	if uri == "" {
		return nil, nil
	}
	segments := make([]string, 0, strings.Count(uri, "/")+1)
	for i := 0; i <= len(uri); {
		s, err := scanSegment(uri, i)
		if err != nil {
			return nil, err
		}
		segment := uri[s.start:s.end]
		if s.escaped {
			segment = string(appendPlain(nil, segment))
		}
		segments = append(segments, segment)
		i = s.end + 1
	}
	return segments, nil
}

// AppendSegment appends segment to the uri dst, with a "/" between where dst is not the root. Inside a segment "\" is
// written "\\" and "/" is written "\/"; a segment that is exactly "." or "..", or begins with "$", has a "\" put in
// front; an empty segment is written "\e".
func AppendSegment[T string | []byte](dst []byte, segment T) []byte {
	if len(dst) > 0 {
		dst = append(dst, '/')
	}
	if len(segment) == 0 {
		return append(dst, '\\', 'e')
	}
	switch segment[0] {
	case '$':
		dst = append(dst, '\\')
	case '.':
		if len(segment) == 1 || len(segment) == 2 && segment[1] == '.' {
			dst = append(dst, '\\')
		}
	}
	// What needs no escape, which is nearly everything, is appended in one piece.
	from := 0
	for i := 0; i < len(segment); i++ {
		if c := segment[i]; c == '\\' || c == '/' {
			dst = append(dst, segment[from:i]...)
			dst = append(dst, '\\', c)
			from = i + 1
		}
	}
	return append(dst, segment[from:]...)
}

// Join puts root in front of uri; both are uris already, either may be the root.
func Join(root, uri string) string {
	if root == "" {
		return uri
	}
	if uri == "" {
		return root
	}
	return root + "/" + uri
}

// Reserved says whether a segment of uri begins with an unescaped "$": such a uri stands beside the document and a fold
// leaves it out.
func Reserved[T string | []byte](uri T) bool {
	return reservedStart(uri) >= 0
}

// reservedStart returns where the first reserved segment of uri begins, -1 where there is none.
func reservedStart[T string | []byte](uri T) int {
	for i := 0; i < len(uri); i = segmentEnd(uri, i) + 1 {
		if uri[i] == '$' {
			return i
		}
	}
	return -1
}

// A span is one segment of a uri, as it is written.
type span struct {
	start, end int
	escaped    bool // holds a "\"
}

// scanSegment finds the segment of uri that begins at start and checks that it is written as [AppendSegment] writes it.
func scanSegment[T string | []byte](uri T, start int) (span, error) {
	s := span{start: start, end: segmentEnd(uri, start)}
	segment := uri[start:s.end]
	switch string(segment) {
	case "":
		return s, uriError(uri, start, `empty segment; an empty key is written \e`)
	case ".", "..":
		return s, uriError(uri, start, `a segment that is exactly . or .. is written \. or \..`)
	}
	for i := range len(segment) {
		s.escaped = s.escaped || segment[i] == '\\'
	}
	if !s.escaped {
		return s, nil
	}
	var plain, written [128]byte
	want := AppendSegment(written[:0], appendPlain(plain[:0], segment))
	if segment[0] == '$' { // a reserved one
		want = want[1:]
	}
	for i, c := range want {
		if i == len(segment) || segment[i] != c {
			return s, uriError(uri, start+i, `wrong escape; expected \\, \/, or a segment that is \e, \. or \.., or begins with \$`)
		}
	}
	return s, nil
}

// appendPlain appends the plain text of a segment that scanSegment has passed.
func appendPlain[T string | []byte](dst []byte, segment T) []byte {
	if len(segment) == 2 && segment[0] == '\\' && segment[1] == 'e' {
		return dst
	}
	for i := 0; i < len(segment); i++ {
		if segment[i] == '\\' && i+1 < len(segment) {
			i++
		}
		dst = append(dst, segment[i])
	}
	return dst
}

func uriError[T string | []byte](uri T, offset int, reason string) error {
	return &URIError{URI: string(uri), Offset: offset, Reason: reason}
}
