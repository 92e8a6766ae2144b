package wire

import (
	"errors"
	"net/http"
	"os"
	"time"
)

// errStopped is why streams end before their runs do.
var errStopped = errors.New("the server is shutting down")

// Output is a client's connection as an answer writes to it: each write has a deadline.
type Output struct {
	s     *Server
	w     http.ResponseWriter
	rc    *http.ResponseController
	until time.Time // the deadline that is set
	// isStream says that nothing may be written any more when the server stops.
	isStream bool
	// perStream says that a deadline ends a stream even when nothing is written (HTTP/2): it is taken away after each flush.
	perStream bool
}

// NewOutput returns the output of a request's answer.
func (s *Server) NewOutput(w http.ResponseWriter, r *http.Request) *Output {
	return &Output{s: s, w: w, rc: http.NewResponseController(w), perStream: r.ProtoMajor >= 2}
}

// NewStream is NewOutput for a stream, which nothing is written to any more when the server stops.
func (s *Server) NewStream(w http.ResponseWriter, r *http.Request) *Output {
	out := s.NewOutput(w, r)
	out.isStream = true
	return out
}

// deadline gives the next write its time. Setting a deadline costs about as much as a small write, so one that has most of
// its time left stays.
func (o *Output) deadline() {
	now, timeout := time.Now(), o.s.WriteTimeout
	if o.until.Sub(now) > timeout-timeout/8 {
		return
	}
	o.until = now.Add(timeout)
	_ = o.rc.SetWriteDeadline(o.until) // writers of tests have no deadlines
}

// Write writes, unless the server stops.
func (o *Output) Write(p []byte) (int, error) {
	if o.isStream && o.s.stopping.Err() != nil {
		// A stream that was stuck until now must not go on to an end that the server has made of its run.
		return 0, errStopped
	}
	o.deadline()
	return o.w.Write(p)
}

// Flush sends what is written.
func (o *Output) Flush() error {
	o.deadline()
	err := o.rc.Flush()
	if o.perStream && !o.until.IsZero() {
		o.until = time.Time{}
		_ = o.rc.SetWriteDeadline(time.Time{})
	}
	return err
}

// late reports whether a write failed because the client did not take it in time.
func (o *Output) late(err error) bool {
	// A deadline of HTTP/2 ends the stream, and the error of the next write does not say why.
	return errors.Is(err, os.ErrDeadlineExceeded) || o.perStream && !o.until.IsZero() && !time.Now().Before(o.until)
}
