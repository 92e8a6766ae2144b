// Package frame writes a run's events the way a reader asked for: Server-Sent Events or JSON Lines. The framing is the
// reader's choice; one run can be read in several at once.
package frame

import "github.com/lingserve/lingserve/tube"

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
		return append(dst, "\n\n"...)
	}
	dst = append(dst, "data: {"...)
	dst = e.AppendMembers(dst)
	return append(dst, "}\n\n"...)
}

// AppendJSONL appends one event as a line: {"id":"run:n",…}. An event that is a part of a snapshot has no id.
func AppendJSONL(dst []byte, run string, e tube.Event) []byte {
	dst = append(dst, '{')
	if !e.Part {
		dst = append(dst, `"id":"`...)
		dst = e.AppendID(dst, run)
		dst = append(dst, `",`...)
	}
	dst = e.AppendMembers(dst)
	return append(dst, "}\n"...)
}
