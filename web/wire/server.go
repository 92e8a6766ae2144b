// Package wire is what the wires of a server share. A wire is a protocol by which clients start and follow runs; each has a package
// below this one, with its handlers and its codec: native, openai, aisdk and agui.
//
// A handler reads a request with package request, starts or finds a run with [Server.Start] or [Server.Find], and follows it with
// [Server.Stream], which writes what the wire's encoder makes of the run's events. What goes wrong before that is a [Problem], which
// each wire writes in its own form.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/aside"
	"github.com/lingserve/lingserve/internal/gate"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Options are the parts of an HTTP server that its wires use.
type Options struct {
	run.Options
	Runs *run.Service

	Began        time.Time     // when the server started
	KeepAlive    time.Duration // of silence until a stream gets a comment
	WriteTimeout time.Duration // of one write to a client
	Observer     Observer

	// ReadBody reads a body within the limits for its caller.
	ReadBody func(w http.ResponseWriter, r *http.Request) ([]byte, *Problem)
	// ReadJSON is ReadBody for a body that must be JSON by its headers. [CheckBody] checks whether it is.
	ReadJSON func(w http.ResponseWriter, r *http.Request) ([]byte, *Problem)
	// Sign fills in who sends a request, beside the principal: the caller that it is counted for, the tag of its key, and the account that
	// pays.
	Sign func(r *http.Request, q *run.Request)
	// Hold returns the request with a context that ends when the key or token of the request is revoked. release must be called.
	Hold func(r *http.Request) (held *http.Request, release func())
}

// Server is what the handlers of a wire use of the server. Its methods are safe for concurrent use.
type Server struct {
	Options

	streams  gate.Gate       // requests that follow a run
	stopping context.Context // ends when streams must be broken off
	stop     context.CancelFunc
}

// New returns the server for wires with these options.
func New(o Options) *Server {
	s := &Server{Options: o}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// Start starts a run, or finds the one that the same request started before. It fills in the caller of the HTTP request, and
// the answer's headers say which of the two it was. q stays as it is.
func (s *Server) Start(w http.ResponseWriter, r *http.Request, q *run.Request) (*run.Run, run.Outcome, *Problem) {
	if q.Completion == nil {
		if f := request.CheckConversation(q); f != nil {
			return nil, run.Outcome{}, Invalid(*f)
		}
	}
	started := *q
	started.Who, started.Trace = Who(r), traceOf(r)
	s.Sign(r, &started)
	// A server that shuts down waits for whoever follows a run, and so for this request: its run may end before it is followed.
	s.streams.Enter()
	context.AfterFunc(r.Context(), s.streams.Leave)
	var of *run.Run
	var out run.Outcome
	var err error
	aside.Run(func() { of, out, err = s.Runs.Start(r.Context(), &started) })
	if err != nil {
		return nil, out, s.Problem(r.Context(), err)
	}
	if out.FollowUp != "" {
		w.Header().Set("X-Follow-Up-Id", out.FollowUp)
	}
	if out.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return of, out, nil
}

// traceOf reads the header "traceparent" of a request (W3C Trace Context); the result is zero if it is missing or invalid.
//
// It becomes the parent of the run that the request starts, so that the run is part of its caller's trace, even if it goes on after the
// request. A request that finds a run of another request cannot become its second parent; it is linked (see [run.Service.Start]).
func traceOf(r *http.Request) trace.SpanContext {
	if r.Header.Get("Traceparent") == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	return trace.SpanContextFromContext(ctx)
}

// ReadMembers reads a request that starts no run into v, a pointer to a struct; see [request.Decoder]. It has no query. Its body may be
// empty unless it is required.
func (s *Server) ReadMembers(w http.ResponseWriter, r *http.Request, required bool, v any) *Problem {
	text, p := s.ReadJSON(w, r)
	if p == nil {
		p = NoQuery(r)
	}
	if p != nil || !required && len(bytes.TrimSpace(text)) == 0 {
		return p
	}
	if p := CheckBody(text); p != nil {
		return p
	}
	d := new(request.Decoder)
	d.Read("", text, v)
	return Invalid(d.Faults...)
}

// ReadStart reads a request that starts a run: the body with read, which returns what in it does not fit, and the Idempotency-Key. If query
// is a pointer to a struct, it also reads the query into it, and the agent or workflow in the path.
func ReadStart[T any](
	s *Server, w http.ResponseWriter, r *http.Request, query any, read func(body []byte) (T, []run.Field),
) (in T, q *run.Request, p *Problem) {
	body, p := s.ReadJSON(w, r)
	if p != nil {
		return in, nil, p
	}
	d := new(request.Decoder)
	q = new(run.Request)
	d.IdempotencyKey(r, q)
	if query != nil {
		d.Query(r, query)
	}
	if p = Invalid(d.Faults...); p == nil && query != nil {
		q.Subject, p = s.PathTarget(r)
	}
	if p == nil {
		p = CheckBody(body)
	}
	if p != nil {
		return in, nil, p
	}
	in, faults := read(body)
	return in, q, Invalid(faults...)
}

// Find finds a run for the caller of a request.
func (s *Server) Find(r *http.Request, id string) (*run.Run, *Problem) {
	of, err := s.Runs.Find(r.Context(), Who(r), id)
	if err != nil {
		return nil, s.Problem(r.Context(), err)
	}
	return of, nil
}

// Who is the caller of a request. Without authentication, it is the one user of the server.
func Who(r *http.Request) access.Principal { return access.From(r.Context()) }

// PathValue returns a part of the path, which may have been escaped.
func PathValue(r *http.Request, name string) string {
	value := chi.URLParam(r, name)
	if r.URL.RawPath != "" { // chi matched the escaped path
		if plain, err := url.PathUnescape(value); err == nil {
			return plain
		}
	}
	return value
}

// SetRun names the run in the headers, as every answer does that has one.
func SetRun(h http.Header, id string) {
	h.Set("Location", "/v1/runs/"+id)
	h.Set("X-Run-Id", id)
}

// Send answers with a document. Large ones are written in pieces, each with its own deadline.
func (s *Server) Send(w http.ResponseWriter, r *http.Request, status int, media string, body ...[]byte) {
	const piece = 256 << 10
	h := w.Header()
	h.Set("Content-Type", media)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	length := 0
	for _, part := range body {
		length += len(part)
	}
	h.Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	out := s.NewOutput(w, r)
	for _, part := range body {
		for len(part) > 0 {
			n, err := out.Write(part[:min(piece, len(part))])
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			part = part[n:]
		}
	}
}

// SendJSON answers with a value as JSON. Characters of HTML stay as they are: nothing here is put into a page.
func (s *Server) SendJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err)
	}
	s.Send(w, r, status, "application/json", body.Bytes())
}

// notes keep what becomes known of a request on its way, for its line in the log and for metrics. The server's ResponseWriter has them.
type notes interface {
	Refused(reason string)  // why it is refused
	StreamEnded(end string) // how its stream ended
}
