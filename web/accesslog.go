package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// Which requests have a line in the log when they end: see [Options.AccessLog].
const (
	AccessLogOff  = "off"
	AccessLogRuns = "runs" // those that begin, follow, change or read runs, and those that were refused or have failed
	AccessLogAll  = "all"
)

type recorderKey struct{}

// recorder knows what there is to know of an answer, and gives each its time to be taken, since the server as a whole has none.
type recorder struct {
	http.ResponseWriter
	timeout time.Duration
	began   time.Time
	status  int
	first   time.Duration // to the first byte
	bytes   int64         // of the body
	visitor access.Visitor
	reason  string // a word that says why the request was refused
	end     string // of the stream that it got; "" without one
	taken   chi.Context
	account *adapter.Account // pays for the request's body and what is made of it; nil before a body is read, or if memory has no limit

	by   *forwardedBy // who sends a forwarded request; nil: the request is none
	read bool         // the body was read
	body []byte       // of a request that may have to be forwarded, until there is an answer
}

// recorderOf is the recorder of a request.
func recorderOf(r *http.Request) *recorder { return r.Context().Value(recorderKey{}).(*recorder) }

// sign fills in who sends a request, beside the principal.
func (s *Server) sign(r *http.Request, q *run.Request) {
	rec := recorderOf(r)
	q.Caller, q.KeyTag, q.Account = s.countedFor(r, wire.Who(r)), rec.visitor.Grant.KeyTag(), rec.account
}

// request returns a request as the recorder's. The router writes down which route it takes, so that the recorder knows it when the request
// has ended.
func (rec *recorder) request(r *http.Request) *http.Request {
	ctx := context.WithValue(r.Context(), chi.RouteCtxKey, &rec.taken)
	return r.WithContext(context.WithValue(ctx, recorderKey{}, rec))
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 {
		now := time.Now()
		rec.status, rec.first = status, now.Sub(rec.began)
		rec.body = nil
		_ = http.NewResponseController(rec.ResponseWriter).SetWriteDeadline(now.Add(rec.timeout))
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	return n, err
}

// Refused notes why a request gets this answer.
func (rec *recorder) Refused(reason string) { rec.reason = cmp.Or(rec.reason, reason) }

// StreamEnded notes how the stream ended that a request got.
func (rec *recorder) StreamEnded(end string) { rec.end = end }

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// noRoute stands for the route of what leads nowhere.
const noRoute = "other"

// route is the pattern that a request was led by.
func (s *Server) route(r *http.Request, rec *recorder) string {
	if pattern := rec.taken.RoutePattern(); pattern != "" {
		return pattern
	}
	// It was answered before it came to the router.
	method := r.Method
	if method == http.MethodOptions {
		method = r.Header.Get("Access-Control-Request-Method")
	}
	return cmp.Or(s.router.Find(chi.NewRouteContext(), method, r.URL.Path), noRoute)
}

// requested counts a request whose answer has ended, and writes its line.
func (s *Server) requested(r *http.Request, rec *recorder, broken bool) {
	took := time.Since(rec.began)
	route := s.route(r, rec)
	e := Exchange{Method: r.Method, Route: route, Status: rec.status, Bytes: rec.bytes, Took: took, Reason: rec.reason, Broken: broken}
	if e.Method != http.MethodOptions && !slices.Contains(methods, e.Method) {
		e.Method = noRoute
	}
	s.o.Observer.Requested(e)
	ctx := r.Context()
	if !s.worth(r, rec, route) || !s.log.Enabled(ctx, slog.LevelInfo) || s.collects(r, rec) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("method", e.Method), slog.String("path", pathOf(r, route)), slog.Int("status", rec.status),
		slog.Duration("took", took), slog.Int64("bytes", rec.bytes))
	if rec.status != 0 {
		attrs = append(attrs, slog.Duration("first_byte", rec.first))
	}
	attrs = append(attrs, s.callerAttrs(r)...)
	for _, a := range []slog.Attr{
		slog.String("program", programOf(r.Header.Get("User-Agent"))), slog.String("run", rec.Header().Get("X-Run-Id")), slog.String("reason", rec.reason),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if broken {
		attrs = append(attrs, slog.Bool("broken", true))
		if rec.end != "" && rec.end != wire.StreamComplete {
			attrs = append(attrs, slog.String("end", rec.end))
		}
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// callerAttrs are the attributes of a line that say who sent a request: the address and, where callers say who they are, the principal.
func (s *Server) callerAttrs(r *http.Request) (attrs []slog.Attr) {
	if client := s.client(r); client.IsValid() {
		attrs = append(attrs, slog.String("client", client.String()))
	}
	if rec := recorderOf(r); rec.visitor.By != "" { // else callers do not say who they are
		attrs = append(attrs, slog.String("principal", rec.visitor.Name), slog.String("by", rec.visitor.By))
		if rec.visitor.Key != "" {
			attrs = append(attrs, slog.String("key_id", rec.visitor.Key))
		}
	}
	return attrs
}

// probes are the routes that are asked over and over by machines.
var probes = []string{"/healthz", "/readyz"}

// worth says whether a request is to have a line.
func (s *Server) worth(r *http.Request, rec *recorder, route string) bool {
	switch s.o.AccessLog {
	case AccessLogOff:
		return false
	case AccessLogAll:
		return true
	}
	if slices.Contains(probes, route) {
		return false
	}
	return strings.HasPrefix(r.URL.Path, "/v1/runs") || rec.Header().Get("X-Run-Id") != "" || rec.reason != "" || rec.status >= 500
}

// collects reports whether the line of a request is one of many of its kind, which are left out: those of requests that were
// refused, or that are the client's mistake, for one reason and from one address.
func (s *Server) collects(r *http.Request, rec *recorder) bool {
	mistake := 400 <= rec.status && rec.status < 500 && rec.Header().Get("X-Run-Id") == ""
	if s.o.AccessLog == AccessLogAll || rec.reason == "" && !mistake {
		return false
	}
	kind := trail.Repeated{Reason: cmp.Or(rec.reason, strconv.Itoa(rec.status)), Client: access.Caller(s.client(r))}
	return !s.refusals.Allow(kind)
}

// client is the address that a request comes from.
func (s *Server) client(r *http.Request) netip.Addr { return s.o.Proxies.Client(r) }

// maxPath bounds an unknown path in the log, maxProgram the name of a client's program.
const maxPath, maxProgram = 100, 40

// pathOf returns the path of a request for the log: the pattern of its route, which has no names that people chose. The path of a request
// without a route is cut where such names may begin.
func pathOf(r *http.Request, route string) string {
	if route != noRoute {
		return route
	}
	for _, prefix := range []string{"/v1/sessions/", "/v1/agui/", "/v1/ui/"} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return prefix + "…"
		}
	}
	return wording.ClipTo(r.URL.Path, maxPath)
}

// programOf returns the first word of a User-Agent, which names a program and its version. The rest says much of a person's machine.
func programOf(agent string) string {
	program, _, _ := strings.Cut(agent, " ")
	return wording.ClipTo(program, maxProgram)
}
