package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/tool"
)

// handler serves streamable HTTP as others do.
func handler(t *testing.T) http.Handler {
	server := newTestServer(t.Context())
	t.Cleanup(func() {
		for session := range server.Sessions() { // of clients that could take no leave
			_ = session.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

// over is a server that is reached over HTTP.
func over(t *testing.T, h http.Handler) Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return Server{Name: "test", URL: srv.URL, Free: []string{"*"}}
}

// hang answers nothing.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // net/http only sees the client leave when the body was read
	<-r.Context().Done()
}

func serveHTTP(t *testing.T) Server { return over(t, handler(t)) }

func TestHeadersGoWithEveryRequest(t *testing.T) { // AG-64
	var without atomic.Int64
	next := handler(t)
	s := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			without.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
	s.Header = map[string]string{"Authorization": "Bearer key"}
	c, _ := connect(t, s)
	ready(t, c)
	if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"a"}`); got.Text() != "a" {
		t.Error(got.Text())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if without.Load() > 0 {
		t.Errorf("%d requests had no header", without.Load())
	}
}

func TestNoHeaderGoesWhereARedirectPoints(t *testing.T) { // AG-64
	var followed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(other.Close)
	s := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	c, _ := connect(t, s)
	until(t, "it is away", func() bool { return c.Status()[0].State == Away })
	if followed.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

func TestAServerThatLostItsSessionsIsReachedAgain(t *testing.T) { // AG-65
	var current atomic.Pointer[http.Handler]
	set := func(h http.Handler) { current.Store(&h) }
	set(handler(t))
	s := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }))
	c, _ := connect(t, s)
	ready(t, c)
	set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"a"}`); got.Err == nil || got.Err.Kind != tool.KindUnavailable {
		t.Errorf("got %s", got.Text())
	}
	set(handler(t))
	until(t, "calls work again", func() bool { return ask(t.Context(), c, "mcp.test.echo", `{"text":"a"}`).Text() == "a" })
}

// DT-04
func TestACallOfAForgottenSessionIsMadeAgain(t *testing.T) {
	var current atomic.Pointer[http.Handler]
	set := func(h http.Handler) { current.Store(&h) }
	set(handler(t))
	s := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }))
	c, _ := connect(t, s)
	ready(t, c)
	set(handler(t)) // knows no session
	if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"a"}`); got.Text() != "a" {
		t.Errorf("got %s", got.Text())
	}
}

// DT-05
func TestPagesThatGoRoundEnd(t *testing.T) {
	var asked atomic.Int64
	inner := handler(t)
	s := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &message); message.Method != "tools/list" {
			r.Body = io.NopCloser(bytes.NewReader(body))
			inner.ServeHTTP(w, r)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[null,{"name":"one","inputSchema":{"type":"object"}}],"nextCursor":"same"}}`, message.ID)
	}))
	c, _ := connect(t, s)
	ready(t, c)
	if n := len(c.Tools()); n != 1 || asked.Load() != 2 {
		t.Errorf("%d tools after %d pages, want one after two", n, asked.Load())
	}
}

func TestHTTPServersThatDoNotWork(t *testing.T) { // AG-65
	write := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(body))
		}
	}
	stream := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for {
				if _, err := w.Write([]byte(body)); err != nil {
					return
				}
			}
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"an answer that never comes":    hang,
		"an error":                      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a login page":                  write("text/html", "<html>log in</html>"),
		"rubbish":                       write("application/json", "{"),
		"another message":               write("application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`),
		"JSON without end":              stream("application/json", strings.Repeat(" ", 1<<16)),
		"events without end":            stream("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"),
		"an event without end":          stream("text/event-stream", "data: "+strings.Repeat("x", 1<<16)+"\n"),
		"a connection that breaks":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"an error page without an end":  func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); stream("text/plain", "no ")(w, r) },
		"a page not found, without end": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404); stream("text/plain", "no ")(w, r) },
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			bad, good := over(t, h), serveHTTP(t)
			bad.Name, bad.times = "bad", patient
			bad.times.connect = 100 * time.Millisecond // not one of them lets the handshake succeed
			c, log := connect(t, bad, good)
			until(t, "the good one is ready", func() bool { return c.Status()[1].State == Ready })
			until(t, "the bad one was tried twice", func() bool { return strings.Count(log.String(), "MCP server is away") >= 2 })
			if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"fine"}`); got.Text() != "fine" {
				t.Errorf("the good one is touched: %s", got.Text())
			}
			if grown := heap() - before; grown > 256<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

func TestAServerWithoutNoticesWorks(t *testing.T) { // AG-65
	for name, get := range map[string]http.HandlerFunc{
		"refused":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"not found":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"no answer":   hang,
		"a home page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			next := handler(t)
			s := over(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					get(w, r)
					return
				}
				next.ServeHTTP(w, r)
			}))
			if name == "no answer" {
				s.times = patient
				s.times.listen = 100 * time.Millisecond
			}
			c, _ := connect(t, s)
			ready(t, c)
			if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"a"}`); got.Text() != "a" {
				t.Error(got.Text())
			}
		})
	}
}

func TestAServerThatGoesAwayInACall(t *testing.T) { // AG-65
	next := handler(t)
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"slow"`)) {
			srv.CloseClientConnections()
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c, _ := connect(t, Server{Name: "test", URL: srv.URL, Free: []string{"*"}})
	ready(t, c)
	if got := ask(t.Context(), c, "mcp.test.slow", ``); got.Err == nil || got.Err.Kind != tool.KindUnavailable && got.Err.Kind != tool.KindFailed {
		t.Errorf("got %s", got.Text())
	}
	until(t, "calls work again", func() bool { return ask(t.Context(), c, "mcp.test.echo", `{"text":"a"}`).Text() == "a" })
}
