// Package frame writes a run's events the way a reader asked for: Server-Sent Events or JSON Lines. The framing is the
// reader's choice; one run can be read in several at once.
package frame

import (
	"bytes"
	"strings"

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

// otherBreaks are what some readers of lines break at beside CR and LF: Python's splitlines, and with it clients that read lines of
// text. JSON can have them in strings alone, where the escape means the same.
var otherBreaks = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// oneLine escapes them in what was appended since begin.
func oneLine(dst []byte, begin int) []byte {
	text := dst[begin:]
	if bytes.IndexByte(text, "\u2028"[0]) < 0 && bytes.IndexByte(text, "\u0085"[0]) < 0 {
		return dst // which is cheap to know
	}
	if !bytes.Contains(text, []byte("\u2028")) && !bytes.Contains(text, []byte("\u2029")) && !bytes.Contains(text, []byte("\u0085")) {
		return dst
	}
	return append(dst[:begin], otherBreaks.Replace(string(text))...)
}
