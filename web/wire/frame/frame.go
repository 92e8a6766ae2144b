// Package frame writes a run's events the way a reader asked for: Server-Sent Events or JSON Lines. The framing is the
// reader's choice; one run can be read in several at once.
package frame

import (
	"bytes"

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

// breaks are line breaks that JSON allows in strings, with their escapes. Some readers of lines break there: Python's splitlines, and with it
// clients that read lines of text.
var breaks = [...]struct{ text, escape []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)},
	{[]byte("\u2028"), []byte(`\u2028`)},
	{[]byte("\u2029"), []byte(`\u2029`)},
}

// oneLine escapes line breaks in what was appended since begin. Most texts have none of the bytes that breaks start with, which is found out
// much faster than whether they have a break.
func oneLine(dst []byte, begin int) []byte {
	if bytes.IndexByte(dst[begin:], 0xc2) < 0 && bytes.IndexByte(dst[begin:], 0xe2) < 0 {
		return dst
	}
	for _, b := range breaks {
		if bytes.Contains(dst[begin:], b.text) {
			dst = append(dst[:begin], bytes.ReplaceAll(dst[begin:], b.text, b.escape)...)
		}
	}
	return dst
}
