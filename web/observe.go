package web

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/agui"
	"github.com/lingserve/lingserve/web/frame"
	"github.com/lingserve/lingserve/web/openai"
)

// Observer is told what the server does, so that it can be counted. Its methods, and those of what they return, are called
// synchronously and from many goroutines: they must not block.
//
// It is told no id, no address and nothing that anybody says. A workflow's name is the exception: a request that brings a workflow of
// its own brings its name, too.
type Observer interface {
	run.Observer
	// Stream is told that a client follows a run. What it returns is told what the client gets, and of the end.
	Stream(kind string) StreamObserver
	// Resumed is told that a client came back with the id of an event.
	Resumed(outcome string)
	// Requested is told of a request whose answer has ended.
	Requested(e Exchange)
}

// CompletionWorkflow is the name of the workflow that stands for a chat completion, of which no workflow is configured.
const CompletionWorkflow = run.CompletionName

// RunObserver is told how a run goes on.
type RunObserver = run.RunObserver

// StreamObserver is told what a client gets. Wrote is called after each write, from one goroutine at a time.
type StreamObserver interface {
	Wrote(events, bytes int)
	// End has the number of times that the client has fallen so far behind that it went on from a snapshot.
	End(end string, snapshots int)
}

// Kinds of streams. StreamJSON is a client that waits for a whole document.
const (
	StreamSSE    = "sse"
	StreamJSONL  = "jsonl"
	StreamUI     = "ui"
	StreamAGUI   = "agui"
	StreamOpenAI = "openai"
	StreamJSON   = "json"
)

// Ends of streams.
const (
	StreamComplete = "complete" // the client was told all
	StreamLeft     = "left"     // the client disconnected
	StreamSlow     = "slow"     // the client took nothing for the time that a write may take
	StreamStopped  = "stopped"  // the server broke it off at its own end
	StreamRevoked  = "revoked"  // the server broke it off, since the client's key or token does not count any more
)

// Outcomes of coming back.
const (
	ResumeFollowed = "followed" // the client goes on where it was
	ResumeComplete = "complete" // it had everything already
	ResumeGone     = "gone"     // the run is lost
	ResumeInvalid  = "invalid"  // the id does not fit
)

// Exchange is a request and its answer, as far as metrics are concerned.
type Exchange struct {
	Method string // one of those that routes have, or "other"
	Route  string // a pattern, as /v1/runs/{run}; "other" for what leads nowhere
	Status int
	Bytes  int64         // of the body that was answered
	Took   time.Duration // to the end of the answer
	Reason string        // a word that says why it was refused; "" for one that was not
	Broken bool          // the answer has no clean end
}

// unobserved counts nothing.
type (
	unobserved       struct{}
	unobservedRun    struct{}
	unobservedStream struct{}
)

func (unobserved) Run(string, string) RunObserver { return unobservedRun{} }
func (unobserved) Stream(string) StreamObserver   { return unobservedStream{} }
func (unobserved) Resumed(string)                 {}
func (unobserved) Requested(Exchange)             {}
func (unobservedRun) First()                      {}
func (unobservedRun) End(string, string)          {}
func (unobservedStream) Wrote(int, int)           {}
func (unobservedStream) End(string, int)          {}

// kindOf names a stream after what its client reads.
func kindOf(f frame.Format, e frame.Encoder) string {
	switch e.(type) {
	case nil:
	case *agui.Encoder:
		return StreamAGUI
	case *openai.Stream:
		return StreamOpenAI
	default:
		return StreamUI // its documents have an encoder of their own
	}
	if f == frame.SSE {
		return StreamSSE
	}
	return StreamJSONL
}

// following is a client that follows a run.
type following struct {
	s    *Server
	o    StreamObserver
	note *note
	end  string // "" until it is known

	ctx   context.Context // of the request
	stop  func()          // frees ctx
	leave func()
}

// follow counts a client that follows a run until over is called. The request that is returned ends with the key or token that has let
// it in, too.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, run *run.Run, kind string) (*following, *http.Request) {
	s.streams.Enter()
	f := &following{s: s, o: s.observer.Stream(kind), note: noteOf(w)}
	r, f.leave = s.granted.enter(r, f.note.visitor.Grant)
	ctx, stop := run.Within(r.Context())
	f.ctx, f.stop = ctx, stop
	if ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	return f, r
}

// over ends it. Where nobody has said how, either side has gone.
func (f *following) over(r *tube.Reader) {
	defer f.s.streams.Leave()
	defer f.leave()
	defer f.stop()
	if f.end == "" {
		f.end = StreamLeft
		switch {
		case f.s.stopping.Err() != nil:
			f.end = StreamStopped
		case errors.Is(context.Cause(f.ctx), errRevoked):
			f.end = StreamRevoked
		}
	}
	f.note.end = f.end
	snapshots := 0
	if r != nil {
		snapshots = r.Snapshots()
	}
	f.o.End(f.end, snapshots)
}

// failed notes why a stream could not go on.
func (f *following) failed(out *output, err error) {
	if out.late(err) {
		f.end = StreamSlow
	}
}

// late says whether a write has failed because the client did not take it in time.
func (o *output) late(err error) bool {
	// A deadline of HTTP/2 ends the stream, and what the next write fails of does not say why.
	return errors.Is(err, os.ErrDeadlineExceeded) || o.perStream && !o.until.IsZero() && !time.Now().Before(o.until)
}

// Load is what a server has to do.
type Load struct {
	run.Load
	Overloaded []string // names of what there is too much of: memory, disk, runs, streams

	Connections int64  // that are open
	TurnedAway  uint64 // closed for the limit: silent ones, and those that came when there were far too many

	Memory adapter.Holdings // that answers of models have paid for
}

// Load tells what goes on now.
func (s *Server) Load() Load {
	l := Load{Load: s.runs.Load(), Overloaded: s.overloaded(), Memory: s.o.Ledger.Holdings()}
	if from := s.listener.Load(); from != nil {
		l.Connections, l.TurnedAway = from.open.Load(), from.turned.Load()
	}
	return l
}
