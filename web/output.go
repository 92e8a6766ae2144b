package web

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/frame"
)

// errStopped is why streams end before their runs do.
var errStopped = errors.New("the server is shutting down")

// output is a client's connection as a stream writes to it: each write must be taken within a time.
type output struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	until   time.Time       // the deadline that is set
	stop    <-chan struct{} // closed when nothing more may be written
	// perStream says that a deadline ends a stream even when nothing is written (HTTP/2): it is taken away after each flush.
	perStream bool
}

func (s *Server) newOutput(w http.ResponseWriter, r *http.Request) *output {
	return &output{w: w, rc: http.NewResponseController(w), timeout: s.o.WriteTimeout, perStream: r.ProtoMajor >= 2}
}

// deadline gives the next write its time. Setting a deadline costs about as much as a small write, so one that has most of
// its time left stays.
func (o *output) deadline() {
	now := time.Now()
	if o.until.Sub(now) > o.timeout-o.timeout/8 {
		return
	}
	o.until = now.Add(o.timeout)
	_ = o.rc.SetWriteDeadline(o.until) // a writer without deadlines, of a test, has nobody to wait for
}

func (o *output) Write(p []byte) (int, error) {
	select {
	case <-o.stop:
		// A stream that was stuck until now must not go on to an end that the server has made of its run.
		return 0, errStopped
	default:
	}
	o.deadline()
	return o.w.Write(p)
}

func (o *output) Flush() error {
	o.deadline()
	err := o.rc.Flush()
	o.rest()
	return err
}

// rest takes the deadline away while nothing is written, where it would do harm.
func (o *output) rest() {
	if o.perStream && !o.until.IsZero() {
		o.until = time.Time{}
		_ = o.rc.SetWriteDeadline(time.Time{})
	}
}

// streamHeaders says what follows, and to all who stand between that it must not be held back.
func streamHeaders(h http.Header, f frame.Format) {
	if f == frame.SSE {
		h.Set("Content-Type", "text/event-stream")
	} else {
		h.Set("Content-Type", "application/x-ndjson")
	}
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// appendRetry appends the field that tells a browser how long to wait before it connects again, spread so that those who
// were cut off together do not come back together. There is no blank line behind it: the field belongs to the first event,
// since real clients dispatch an event that holds nothing else.
func appendRetry(dst []byte) []byte {
	return fmt.Appendf(dst, "retry: %d\n", 1800+rand.IntN(401))
}

// stream writes the run's events as they come. A stream that cannot go on to the run's end is broken off, since clients take
// a clean end for success.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, run *run.Run, reader *tube.Reader, v *view) {
	o := frame.Options{Format: v.format}
	if v.encode != nil {
		o.Encoder = v.encode(run)
	}
	f, r := s.follow(w, r, run, kindOf(v.format, o.Encoder))
	defer f.over(reader)
	defer run.Hold()()
	select {
	case <-s.stopping.Done():
		panic(http.ErrAbortHandler)
	default:
	}
	streamHeaders(w.Header(), v.format)
	if v.media != "" {
		w.Header().Set("Content-Type", v.media)
	}
	if v.format == frame.SSE || v.keepAlive {
		o.KeepAlive = s.o.KeepAlive
		// So that a client knows from when on silence means that the connection is dead.
		w.Header().Set("X-Keepalive", strconv.FormatFloat(s.o.KeepAlive.Seconds(), 'g', -1, 64))
	}
	w.WriteHeader(http.StatusOK) // not left to the first flush, which goes by the recorder that wants to know
	out := s.newOutput(w, r)
	out.stop = s.stopping.Done()
	var opening [16]byte
	if v.format == frame.SSE && v.encode == nil { // clients of other servers may stumble over the field
		if _, err := out.Write(appendRetry(opening[:0])); err != nil {
			f.failed(out, err)
			s.left(run, v, err)
		}
	}
	// The headers go out even where no event waits, so that the client knows that it is connected.
	if err := out.Flush(); err != nil {
		f.failed(out, err)
		s.left(run, v, err)
	}
	// A context alone ends a stream: to wait for a channel that all streams share is work for each token.
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(errStopped) })()
	o.Wrote = f.o.Wrote
	if err := frame.Copy(ctx, out, run.ID, reader, o); err != nil {
		reader.Leave()
		f.failed(out, err)
		s.left(run, v, err)
	}
	f.end = StreamComplete
	out.deadline() // for what net/http writes after us
}

// left ends a stream whose client has gone away or must go: without a clean end.
func (s *Server) left(run *run.Run, v *view, cause error) {
	s.giveUp(run, v)
	s.log.DebugContext(run.Context(), "stream broken off", "run", run.ID, "cause", cause)
	panic(http.ErrAbortHandler)
}

// giveUp cancels the run if this client asked for that, and the server has not cut it off itself.
func (s *Server) giveUp(run *run.Run, v *view) {
	if !v.leave {
		return
	}
	if s.stopping.Err() == nil && !run.Moved() {
		s.runs.Leave(run)
	}
}
