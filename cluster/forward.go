package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
)

// Forwarding says where a request goes, and what the receiver shall know of it.
type Forwarding struct {
	Replica   string // id of the holder
	Principal []byte // JSON of the caller; this package does not read it
	Client    string // address of the client
	Target    string // id of the run or session
	Body      []byte // read to its end; the request's own body is not used
}

// Forwarded is what the sender of a forwarded request has signed.
type Forwarded struct {
	Sender    string // id of the replica
	Principal []byte
	Client    string
	Target    string
}

type forwardedKey struct{}

// From returns what the sender has signed, if the request of a context was forwarded.
func From(ctx context.Context) (Forwarded, bool) {
	f, ok := ctx.Value(forwardedKey{}).(Forwarded)
	return f, ok
}

const (
	retryAfter = time.Second
	// bodyTimeout limits how long another replica takes to send a body that it has in memory.
	bodyTimeout = 30 * time.Second
	// bufferSize is for a few events; ReverseProxy's own 32 KiB would cost more memory than the rest of a stream.
	bufferSize = 8 << 10

	detailUnavailable = "the server that holds this run or session is unavailable; retry later"
	detailTooLarge    = "the request's body is too large to be forwarded"
	detailUnknown     = "the server that holds this run or session did not answer; the request may have been executed"
)

var errRefused = errors.New("the replica refused the request")

// notForwarded are headers of requests that stay here. The receiver must not learn the client's credentials. An interim response to
// Expect would erase the response's headers, and a connection that switches protocols is not supported.
var notForwarded = []string{"Authorization", "Cookie", "Expect", "Connection", "Upgrade"}

// Forward passes a request to its holder and the response to the client, streams included. If that is impossible, the response is 503 with
// Retry-After, and an EventSource's connection breaks off. A request that was forwarded to this replica is not forwarded again. A response
// that breaks off panics with http.ErrAbortHandler, which net/http knows.
//
// Headers that w already has stay, in place of the holder's. Forward sets no deadlines: if a slow client must not hold a stream, w sets one
// for each write.
func (c *Cluster) Forward(w http.ResponseWriter, r *http.Request, f Forwarding) {
	if _, forwarded := From(r.Context()); forwarded {
		w.Header().Set(refusedHeader, "1") // the first replica decides what its client gets
		writeProblem(w, http.StatusServiceUnavailable, detailUnavailable, retryAfter)
		return
	}
	if int64(len(f.Body)) > c.o.MaxBody {
		writeProblem(w, http.StatusRequestEntityTooLarge, detailTooLarge, 0)
		return
	}
	r = access.WithoutTicket(r)
	address, lifetime := c.route(f.Replica)
	sealed, err := c.sealEnvelope(envelope{
		Forwarded: Forwarded{Sender: c.local.ID, Principal: f.Principal, Client: f.Client, Target: f.Target},
		Receiver:  f.Replica, Method: r.Method, URI: r.URL.RequestURI(),
	}, f.Body)
	if address == "" || err != nil {
		c.refuseOrBreak(w, r, http.StatusServiceUnavailable, detailUnavailable)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(lifetime, func() { cancel(context.Cause(lifetime)) })()
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = "http", address, r.URL.RawQuery
			for _, name := range notForwarded {
				p.Out.Header.Del(name)
			}
			p.Out.Header.Set(envelopeHeader, sealed)
			p.Out.Body, p.Out.ContentLength, p.Out.TransferEncoding = http.NoBody, int64(len(f.Body)), nil
			if len(f.Body) > 0 {
				p.Out.Body = io.NopCloser(bytes.NewReader(f.Body))
			}
		},
		ModifyResponse: func(response *http.Response) error {
			if response.Header.Get(refusedHeader) != "" {
				return errRefused
			}
			for name := range w.Header() {
				if name != "Vary" { // its values add up
					response.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			c.handleForwardError(w, r, f, errors.Join(err, context.Cause(ctx)))
		},
		Transport: c.transport, FlushInterval: -1, BufferPool: buffers,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug), // the client sees that its stream breaks off
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// handleForwardError responds to a request that has no response from its holder.
func (c *Cluster) handleForwardError(w http.ResponseWriter, r *http.Request, f Forwarding, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client disconnected
	}
	c.log.WarnContext(r.Context(), "forwarding failed", "replica", f.Replica, "target", f.Target, "error", err)
	status, detail := http.StatusBadGateway, detailUnknown // a balancer that is told 503 would send it again
	op, isOp := errors.AsType[*net.OpError](err)
	if isOp && op.Op == "dial" || errors.Is(err, errRefused) || repeatable(r) {
		status, detail = http.StatusServiceUnavailable, detailUnavailable
	}
	c.refuseOrBreak(w, r, status, detail)
}

// repeatable reports whether a request does no more if it is sent again: it reads, deletes, follows a run, has a key, cancels a run or answers an
// approval.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		return true
	}
	if r.Header.Get("Last-Event-ID") != "" || r.Header.Get("Idempotency-Key") != "" {
		return true
	}
	path, isRun := strings.CutPrefix(r.URL.Path, "/v1/runs/")
	return isRun && strings.HasSuffix(path, "/cancel") || strings.Contains(r.URL.Path, "/approvals/")
}

// refuseOrBreak responds with a status. An EventSource gives up at any status but 200, and a proxy makes 502 of a connection that closes without
// one: it gets a stream that breaks off after a second's retry time, and returns by itself.
func (c *Cluster) refuseOrBreak(w http.ResponseWriter, r *http.Request, status int, detail string) {
	comesBack := r.Method == http.MethodGet || r.Header.Get("Last-Event-ID") != ""
	if !comesBack || !strings.Contains(strings.Join(r.Header["Accept"], ","), "text/event-stream") {
		writeProblem(w, status, detail, retryAfter)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	_, _ = io.WriteString(w, "retry: "+strconv.FormatInt(retryAfter.Milliseconds(), 10)+"\n\n")
	_ = http.NewResponseController(w).Flush() // the stream breaks off next, in any case
	panic(http.ErrAbortHandler)
}

func writeProblem(w http.ResponseWriter, status int, detail string, retry time.Duration) {
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(retry.Seconds())))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}

// Handler verifies requests that other replicas have forwarded, and calls next for those that are valid. [From] returns what was signed.
func (c *Cluster) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.handlers.Enter()
		defer c.handlers.Leave()
		if c.base.Err() != nil { // Close may not have waited for it
			panic(http.ErrAbortHandler)
		}
		e, body, err := c.receive(w, r)
		if err != nil {
			c.reject(w, r, err)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, e.Forwarded))
		r.Header.Del(envelopeHeader)
		r.Body = http.NoBody
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// receive verifies a request and reads its body. It reads no body of a request that no replica has signed.
func (c *Cluster) receive(w http.ResponseWriter, r *http.Request) (envelope, []byte, error) {
	e, err := c.verifyHead(r)
	if err != nil {
		return e, nil, err
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // a test's writer may have no deadlines
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, c.o.MaxBody))
	if err != nil {
		return e, nil, err
	}
	_ = rc.SetReadDeadline(time.Time{})
	if sum := sha256.Sum256(body); !bytes.Equal(e.Body, sum[:]) {
		return e, nil, errAltered
	}
	if known, _ := c.replays.ContainsOrAdd(e.signature, struct{}{}); known { // the last check: a rejected request leaves nothing behind
		return e, nil, errors.New("the request was received before")
	}
	return e, body, nil
}

func (c *Cluster) reject(w http.ResponseWriter, r *http.Request, err error) {
	c.log.WarnContext(r.Context(), "rejected a forwarded request", "reason", err.Error(), "remote", r.RemoteAddr)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge { // the client gets this response
		writeProblem(w, http.StatusRequestEntityTooLarge, detailTooLarge, 0)
		return
	}
	w.Header().Set(refusedHeader, "1")
	writeProblem(w, http.StatusForbidden, "this listener serves only requests that a replica of this cluster has signed", 0)
}

// bufferPool has the buffers for bodies of responses.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte  { return p.pool.Get().(*[bufferSize]byte)[:] }
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[bufferSize]byte)(b)) }

var buffers = &bufferPool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
