// Package frame writes a run's events the way a reader asked for: Server-Sent Events or JSON Lines. The framing is the
// reader's choice; one run can be read in several at once.
package frame

import (
	"bytes"
	"slices"

	"github.com/lingserve/lingserve/tube"
)

// Format is a framing.
type Format string

const (
	SSE   Format = "sse"
	JSONL Format = "jsonl"
	JSON  Format = "json" // one document at the end; not a framing of events
)

// AppendSSE appends one event as Server-Sent Events text (WHATWG HTML, section 9.2): id, event for named ones, one data line.
// The data of a named event is its data alone, since its name is in the event field. An event that is a part of a snapshot
// has no id, so that a client keeps the one it came with.
func AppendSSE(dst []byte, run string, e tube.Event) []byte {
	begin := len(dst)
	if !e.Part {
		dst = append(dst, "id: "...)
		dst = e.AppendID(dst, run)
		dst = append(dst, '\n')
	}
	if e.Kind == tube.Named {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Name...)
		dst = append(dst, "\ndata: "...)
		dst = append(dst, e.Value...)
		return oneLine(append(dst, "\n\n"...), begin)
	}
	dst = append(dst, "data: {"...)
	dst = e.AppendMembers(dst)
	return oneLine(append(dst, "}\n\n"...), begin)
}

// AppendJSONL appends one event as a line: {"id":"run:n",…}. An event that is a part of a snapshot has no id.
func AppendJSONL(dst []byte, run string, e tube.Event) []byte {
	begin := len(dst)
	dst = append(dst, '{')
	if !e.Part {
		dst = append(dst, `"id":"`...)
		dst = e.AppendID(dst, run)
		dst = append(dst, `",`...)
	}
	dst = e.AppendMembers(dst)
	return oneLine(append(dst, "}\n"...), begin)
}

// breakEnd says how many bytes the break has that a text ends with, and what it is escaped as; 0 for none. Some readers of lines break
// at U+0085, U+2028 and U+2029, too: Python's splitlines, and with it clients that read lines of text. JSON can have them in strings
// alone, where the escape means the same.
func breakEnd(text []byte) (size int, escaped string) {
	n := len(text)
	switch {
	case n >= 2 && text[n-2] == 0xc2 && text[n-1] == 0x85:
		return 2, `\u0085`
	case n >= 3 && text[n-3] == 0xe2 && text[n-2] == 0x80 && text[n-1] == 0xa8:
		return 3, `\u2028`
	case n >= 3 && text[n-3] == 0xe2 && text[n-2] == 0x80 && text[n-1] == 0xa9:
		return 3, `\u2029`
	}
	return 0, ""
}

// What breaks begin with: U+0085, and the two others.
var (
	nextLine   = []byte("\u0085")
	separators = []byte("\u2028")[:2]
)

// growth is how many bytes more the text behind begin takes when its breaks of one size are escaped, which begin with start.
func growth(dst []byte, begin int, start []byte, size int) (more int) {
	first := bytes.IndexByte(dst[begin:], start[0]) // most texts have none, which is found out fastest so
	if first < 0 {
		return 0
	}
	for begin += first; ; {
		i := bytes.Index(dst[begin:], start)
		if i < 0 || begin+i+size > len(dst) {
			return more
		}
		if n, escaped := breakEnd(dst[:begin+i+size]); n == size {
			more += len(escaped) - n
		}
		begin += i + len(start)
	}
}

// oneLine escapes breaks in what was appended since begin. A text is gone through once for each of the two ways in which they begin,
// however often that begins something else, as it does dashes and quotes.
func oneLine(dst []byte, begin int) []byte {
	more := growth(dst, begin, nextLine, 2) + growth(dst, begin, separators, 3)
	if more == 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, more)[:from+more]
	for to := len(dst); to > from; { // from behind, until all that is left stands where it stood
		if n, escaped := breakEnd(dst[:from]); n > 0 {
			from, to = from-n, to-len(escaped)
			copy(dst[to:], escaped)
			continue
		}
		from, to = from-1, to-1
		dst[to] = dst[from]
	}
	return dst
}
