package mcp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/internal/egress"
)

// remote is the way to a server over streamable HTTP: the SDK's, through a client that bounds what the SDK does not.
type remote struct {
	sdk.StreamableClientTransport
	server *server
	base   *http.Transport
	meter  meter
	ctx    context.Context // of everything that is sent
	cancel context.CancelCauseFunc
}

func newHTTP(s *server) *remote {
	r := &remote{server: s, meter: newMeter()}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.base = &http.Transport{
		Proxy:                  egress.Proxy(s.opts.ProxyEnv),
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxConnsPerHost:        64,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	r.Endpoint = s.URL
	r.MaxEventSize = maxMessage
	r.MaxRetries = 10 // the SDK's pauses grow to half a minute; the call's context bounds it as well
	r.HTTPClient = &http.Client{
		Transport: r,
		// Where the configuration does not point, no header with a key goes.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r
}

var errNoAnswer = errors.New("no answer to the request")

// forgottenKey is the key of an *atomic.Bool in a call's context, which tells whether the server refused the call because it does not know
// the session (404). The call's error does not say so if the connection ends first, which the SDK does for all calls at once.
type forgottenKey struct{}

// RoundTrip sends a request of the SDK.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	ended := func() {
		stop()
		cancel(nil)
	}
	if req.Method == http.MethodGet {
		// The SDK waits for the answer without a bound; only the stream that follows may last.
		timer := time.AfterFunc(r.server.times.listen, func() { cancel(errNoAnswer) })
		defer timer.Stop()
	}
	req = req.Clone(ctx)
	for name, value := range r.server.Header {
		req.Header.Set(name, value)
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		ended()
		if context.Cause(ctx) == errNoAnswer && req.Header.Get("Last-Event-ID") == "" {
			// It has no stream of notices, though it does not say so; all the rest may work.
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		}
		return nil, err
	}
	if forgotten, ok := ctx.Value(forgottenKey{}).(*atomic.Bool); ok && resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" {
		forgotten.Store(true)
	}
	resp.Body = &metered{resp.Body, r.meter, ended}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // an event is bounded, and the meter bounds all of them
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxMessage)
	}
	return resp, nil
}

func (r *remote) end() {
	r.cancel(errEnded)
	r.base.CloseIdleConnections()
}
