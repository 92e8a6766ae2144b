package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/internal/aside"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Observer counts streams. Its methods are called synchronously and must not block.
type Observer interface {
	// Stream is called when a client follows a run. The result gets the writes to the client, and the end.
	Stream(kind string) StreamObserver
	// Resumed is called when a client comes back with the id of an event.
	Resumed(outcome string)
}

// StreamObserver observes one stream. Wrote is called after each write, from one goroutine at a time.
type StreamObserver interface {
	Wrote(events, bytes int)
	// End has the number of times that the client has fallen so far behind that it continued from a snapshot.
	End(end string, snapshots int)
}

// Kinds of streams. StreamJSON is a client that waits for a whole document.
const (
	StreamSSE    = string(frame.SSE)
	StreamJSONL  = string(frame.JSONL)
	StreamUI     = "ui"
	StreamAGUI   = "agui"
	StreamOpenAI = "openai"
	StreamJSON   = "json"
)

// Ends of streams.
const (
	StreamComplete = "complete" // the client got all
	StreamLeft     = "left"     // the client disconnected
	StreamSlow     = "slow"     // the client took nothing for the time that a write may take
	StreamStopped  = "stopped"  // the server broke it off at its own end
	StreamRevoked  = "revoked"  // the server broke it off, because the client's key or token is no longer valid
)

// Outcomes of coming back.
const (
	ResumeFollowed = "followed" // the client continues where it was
	ResumeComplete = "complete" // it had everything already
	ResumeGone     = "gone"     // the run is lost
	ResumeInvalid  = "invalid"  // the id does not fit
)

// ErrRevoked is the cause of a stream's end whose key or token is no longer valid.
var ErrRevoked = errors.New("the key or token of this stream is no longer valid")

// View is how a client wants to see a run.
type View struct {
	Format    frame.Format
	KeepAlive bool // JSON Lines gets empty lines, too
	// CancelOnDisconnect cancels the run when this connection breaks.
	CancelOnDisconnect bool

	// Begin returns the reader of a stream, and its encoder; nil is that of the framing.
	Begin func() (frame.Encoder, *tube.Reader)

	// Of wires with an encoder, whose clients do not take back what was sent. If the run's server was lost, Begin is called when the run has
	// taken back what it writes again.
	Kind  string // of the stream, for metrics; "" is the framing's
	Media string // "" is the framing's
}

// Following is a client that follows a run.
type Following struct {
	s        *Server
	observer StreamObserver
	notes    notes
	end      string // "" until it is known

	ctx     context.Context // of the request
	release func()          // frees ctx and the run
}

// Follow counts a client that follows a run, until Over is called. The request that it returns also ends when the key or token that
// let it in is revoked, when the run can no longer be followed here, and when the server breaks streams off.
func (s *Server) Follow(w http.ResponseWriter, r *http.Request, of *run.Run, kind string) (*Following, *http.Request) {
	s.streams.Enter()
	f := &Following{s: s, observer: s.Observer.Stream(kind)}
	f.notes, _ = w.(notes)
	r, letGo := s.Hold(r)
	within, stop := of.Within(r.Context())
	ctx, cancel := context.WithCancelCause(within)
	unbind := context.AfterFunc(s.stopping, func() { cancel(errStopped) })
	leave := of.Hold()
	f.ctx, f.release = ctx, func() {
		leave()
		unbind()
		stop() // and with it ctx
		letGo()
	}
	return f, r.WithContext(ctx)
}

// Complete notes that the client got all.
func (f *Following) Complete() { f.end = StreamComplete }

// Over ends it. reader, where it is not nil, is what the client followed.
func (f *Following) Over(reader *tube.Reader) {
	defer f.s.streams.Leave()
	defer f.release()
	if f.end == "" {
		f.end = StreamLeft
		switch {
		case f.s.stopping.Err() != nil:
			f.end = StreamStopped
		case errors.Is(context.Cause(f.ctx), ErrRevoked):
			f.end = StreamRevoked
		}
	}
	if f.notes != nil {
		f.notes.StreamEnded(f.end)
	}
	snapshots := 0
	if reader != nil {
		snapshots = reader.Snapshots()
	}
	f.observer.End(f.end, snapshots)
}

// Broken ends a stream that could not be written, because its client went away or must go: without a clean end.
func (f *Following) Broken(out *Output, of *run.Run, v *View, err error) {
	if out.late(err) {
		f.end = StreamSlow
	}
	f.s.GiveUp(of, v)
	f.s.Log.DebugContext(of.Context(), "stream broken off", "run", of.ID, "cause", err)
	panic(http.ErrAbortHandler)
}

// GiveUp cancels a run whose client went away, if the client asked for that and the server has not cut it off itself.
func (s *Server) GiveUp(of *run.Run, v *View) {
	if v.CancelOnDisconnect && s.stopping.Err() == nil && !of.Moved() {
		s.Runs.Leave(of)
	}
}

// Wait waits until no request follows a run, or giveUp is closed.
func (s *Server) Wait(giveUp <-chan struct{}) { s.streams.Wait(giveUp) }

// breakTime is how long Detach waits for streams to notice that they are broken off. They do so at once, but for those that
// are stuck in a write.
const breakTime = time.Second

// Detach waits for the streams until ctx ends, then breaks off those that are left, without a clean end. Call it before the server ends
// runs, so that no client takes the server's end for its run's.
func (s *Server) Detach(ctx context.Context) {
	s.Wait(ctx.Done()) // clients that read the last events get the time to do so
	s.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakTime)
	defer cancel()
	s.Wait(ctx.Done())
}

// StreamHeaders says what follows, and tells every proxy not to hold it back.
func StreamHeaders(h http.Header, f frame.Format) {
	if f == frame.SSE {
		h.Set("Content-Type", "text/event-stream")
	} else {
		h.Set("Content-Type", "application/x-ndjson")
	}
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// AppendRetry appends the field that tells a browser how long to wait before it reconnects, spread so that clients that
// were cut off together do not come back together. There is no blank line behind it: the field belongs to the first event,
// since real clients dispatch an event that holds nothing else.
func AppendRetry(dst []byte) []byte {
	return fmt.Appendf(dst, "retry: %d\n", 1800+rand.IntN(401))
}

// Stream writes the run's events as they come. A stream that cannot continue to the run's end is broken off, because clients take
// a clean end for success.
func (s *Server) Stream(w http.ResponseWriter, r *http.Request, of *run.Run, v *View) {
	var reader *tube.Reader
	f, r := s.Follow(w, r, of, cmp.Or(v.Kind, string(v.Format)))
	defer func() { f.Over(reader) }()
	if s.stopping.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	o := frame.Options{Format: v.Format, Wrote: f.observer.Wrote}
	SetRun(w.Header(), of.ID)
	StreamHeaders(w.Header(), v.Format)
	if v.Media != "" {
		w.Header().Set("Content-Type", v.Media)
	}
	if v.Format == frame.SSE || v.KeepAlive {
		o.KeepAlive = s.KeepAlive
		// So that a client knows from when on silence means that the connection is dead.
		w.Header().Set("X-Keepalive", strconv.FormatFloat(s.KeepAlive.Seconds(), 'g', -1, 64))
	}
	out := s.NewStream(w, r)
	var err error
	aside.Run(func() { err = open(w, out, v) })
	if err != nil {
		f.Broken(out, of, v, err)
	}
	// A context alone ends a stream: waiting for a channel that all streams share is work for each token.
	ctx := r.Context()
	if v.Kind != "" && of.TakenOver() {
		if err := awaitRestart(ctx, out, of.Events(), o.KeepAlive); err != nil {
			f.Broken(out, of, v, err)
		}
	}
	o.Encoder, reader = v.Begin()
	if err := frame.Copy(ctx, out, of.ID, reader, o); err != nil {
		reader.Leave()
		f.Broken(out, of, v, err)
	}
	f.Complete()
	out.deadline() // for what net/http writes after us
}

// open sends the headers, even if no event waits: so the client knows that it is connected.
func open(w http.ResponseWriter, out *Output, v *View) error {
	w.WriteHeader(http.StatusOK)               // not left to the first flush, which passes the recorder that wants to know
	if v.Format == frame.SSE && v.Kind == "" { // clients of other protocols may stumble over the field
		if _, err := out.Write(AppendRetry(nil)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Await waits for the end of a run that r follows. A client that goes away meanwhile gets no answer, and no clean end. If limit is not 0
// and the run has not ended by then, Await calls late, and stops waiting if that returns false; else it calls late again after each
// KeepAlive.
func (s *Server) Await(r *http.Request, of *run.Run, v *View, limit time.Duration, late func() bool) (ended bool, p *Problem) {
	for limit = cmp.Or(limit, math.MaxInt64); ; limit = s.KeepAlive {
		wait, stop := context.WithTimeout(r.Context(), limit)
		err := of.Wait(wait)
		stop()
		switch {
		case err == nil:
			return true, nil
		case of.Moved():
			p := NewProblem(CodeOverloaded, "the server cannot store the end of this run now, or another server took the run over; read the run later")
			p.Run, p.Retry = of.ID, run.TapesRetry
			return false, p
		case r.Context().Err() != nil:
			s.GiveUp(of, v)
			panic(http.ErrAbortHandler)
		case !late():
			return false, nil
		}
	}
}

// AwaitOutput waits until a run has made a part of its document, or with reserved anything at all, the run has ended, or the time limit is
// over; 0 is no limit. The problem is that of a run that failed before: so the answer to it has a status.
func (s *Server) AwaitOutput(r *http.Request, of *run.Run, v *View, limit time.Duration, reserved bool) *Problem {
	s.streams.Enter()
	defer s.streams.Leave()
	reader := of.Events()
	defer reader.Leave()
	hasOutput := func() bool {
		for e := range reader.Waiting() {
			if e.Kind <= tube.Set && (reserved || !jsonuri.Reserved(e.URI)) {
				return true
			}
		}
		return reader.Ended()
	}
	late, isLate := time.After(cmp.Or(limit, math.MaxInt64)), false
	for !isLate && !hasOutput() {
		select {
		case <-reader.More():
		case <-late:
			isLate = true
		case <-s.stopping.Done():
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			s.GiveUp(of, v)
			panic(http.ErrAbortHandler)
		}
	}
	return OfNothing(of, reserved)
}
