// Package frame writes a run's events the way a reader asked for: Server-Sent Events or JSON Lines. The framing is the
// reader's choice; one run can be read in several at once.
package frame

import (
	"context"
	"io"
	"time"

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
// The data of a named event is its data alone, since its name is in the event field.
func AppendSSE(dst []byte, run string, e tube.Event) []byte { panic("frame: not built yet") }

// AppendJSONL appends one event as a line: {"id":"run:n",…}.
func AppendJSONL(dst []byte, run string, e tube.Event) []byte { panic("frame: not built yet") }

// Output is what a stream is written to.
type Output interface {
	io.Writer
	Flush() error
}

// Options of a stream.
type Options struct {
	Format    Format
	KeepAlive time.Duration   // an idle stream gets a comment (SSE) or an empty line (JSONL); 0: none
	Stop      <-chan struct{} // closed when the stream must be broken off
}

// Copy writes what r has, then follows it until its end: everything that waits in one write, a flush when it has caught up.
// It returns nil after the terminal event, ErrStopped, ctx's cause, or the error of a write.
func Copy(ctx context.Context, out Output, run string, r *tube.Reader, o Options) error {
	panic("frame: not built yet")
}
