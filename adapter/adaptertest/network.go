package adaptertest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/longtest"
)

// testConnect tells a server that takes no connection from one that takes its time. The dialer gives up as that of [adapter.Transport] does.
func testConnect(t *testing.T, s Subject) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			time.Sleep(3 * time.Second)
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}}
		defer transport.CloseIdleConnections()
		p := s.New(t, Options{Transport: transport, BaseURL: "http://" + host, Key: Key})
		m := guarded(t, s.Prefix, s.Model, p, &adapter.Registry{
			Timeouts: adapter.Timeouts{FirstToken: time.Hour},
			Retries:  adapter.Retries{Attempts: 2, Base: 1},
		})
		began := time.Now()
		got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
		if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeTimeout || !strings.Contains(e.Message, "could not connect to the model's server ("+s.Prefix+") in time") {
			t.Errorf("%v", got.err)
		}
		if took := time.Since(began); took < 6*time.Second || took > 6*time.Second+time.Millisecond || dials.Load() != 2 {
			t.Errorf("%d dials in %v", dials.Load(), took)
		}
	})
}

// testUnreachable asks where nothing listens, and by a transport whose error tells everything.
func testUnreachable(t *testing.T, s Subject) {
	got := hear(t, t.Context(), s.bare(t, Options{BaseURL: "http://127.0.0.1:1"}).Stream(t.Context(), question()), nil)
	if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeUnavailable || !e.Retryable {
		t.Errorf("%v", got.err)
	}
	m := s.bare(t, Options{Transport: trip(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("%s: %s: proxy said %q to Bearer %s", words, r.URL, r.Header, Key)
	})})
	got = hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
	if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeUnavailable || !e.Retryable {
		t.Errorf("%v", got.err)
	}
}

// testRedirects sends every request elsewhere: neither the key nor the prompt may go there.
func testRedirects(t *testing.T, s Subject) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var stolen atomic.Int64
		thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
		honest := httptest.NewServer(http.RedirectHandler(thief.URL, status))
		m := s.bare(t, Options{Transport: honest.Client().Transport, BaseURL: honest.URL})
		got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
		if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeProtocol || e.Status != status {
			t.Errorf("%d: %v", status, got.err)
		}
		if stolen.Load() != 0 {
			t.Errorf("%d was followed", status)
		}
		honest.Close()
		thief.Close()
	}
}

// testTLS asks a server whose certificate nobody vouches for.
func testTLS(t *testing.T, s Subject) {
	var asked atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that we did not trust it
	server.StartTLS()
	defer server.Close()
	got := hear(t, t.Context(), s.bare(t, Options{BaseURL: server.URL}).Stream(t.Context(), question()), nil)
	if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeUnavailable || e.Retryable || !strings.Contains(e.Message, "certificate") {
		t.Errorf("%v", got.err)
	}
	if asked.Load() != 0 {
		t.Error("it was asked all the same")
	}
	if v := adapter.Transport(adapter.TransportOptions{}).TLSClientConfig.MinVersion; v < tls.VersionTLS12 {
		t.Errorf("TLS %x", v)
	}
}

// testEarlyAnswer asks a server that answers before it has read the request.
func testEarlyAnswer(t *testing.T, s Subject) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", s.Wire.ContentType)
		_, _ = io.WriteString(w, s.Wire.Open+s.Wire.Text("a")+s.Wire.Finish+s.Wire.Done) // the client may have left
		_ = c.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	r := question()
	r.Messages[0].Content = strings.Repeat("why? ", 20_000)
	m := s.bare(t, Options{BaseURL: server.URL})
	for range 6 {
		if got := hear(t, t.Context(), m.Stream(t.Context(), r), nil); got.err != nil || got.Text != "a" {
			t.Errorf("%q, %v", got.Text, got.err)
		}
	}
}

// testConnections counts connections on real sockets, over each protocol, and how long a provider does not notice that its
// reader has left (AD-01).
func testConnections(t *testing.T, s Subject) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %v", http2), func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var conns atomic.Int64
			var proto atomic.Value
			up := &fakeproviders.Server{Script: always(fakeproviders.Answer{Text: "hello there"})}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto.Store(r.Proto)
				up.ServeHTTP(w, r)
			}))
			server.EnableHTTP2 = http2
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			server.StartTLS()
			defer server.Close()
			transport := adapter.Transport(adapter.TransportOptions{}).Clone() // what providers use, with the test's certificate
			transport.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			defer transport.CloseIdleConnections()
			m := s.bare(t, Options{Transport: transport, BaseURL: server.URL})
			for range 20 {
				if got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil); got.Text != "hello there" || got.err != nil {
					t.Fatalf("%q %v", got.Text, got.err)
				}
			}
			// Where the end of a body is late, as on a busy machine, a connection that can do one thing at a time is not waited for.
			if n := conns.Load(); n > 1 && (http2 || n > 10) {
				t.Errorf("%d connections for 20 answers", n)
			}
			if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]; proto.Load() != want {
				t.Errorf("spoke %v", proto.Load())
			}
			up.Script = always(fakeproviders.Answer{Text: strings.Repeat("word", 100_000), Pace: 100})
			for _, left := range []bool{true, false} {
				longtest.Within(t, "until the provider noticed", noticed(t, up, m, left), 100*time.Millisecond)
			}
		})
	}
}

// noticed leaves answers, by the loop or by the context, and returns how long a provider was still busy: the least of some
// attempts, because a machine that does other things says nothing about the adapter.
func noticed(t *testing.T, up *fakeproviders.Server, m adapter.Model, left bool) time.Duration {
	best := time.Hour
	for range 3 {
		canceled := up.Canceled()
		ctx, cancel := context.WithCancel(t.Context())
		var began time.Time
		hear(t, ctx, m.Stream(ctx, question()), func(heard) bool {
			if began = time.Now(); !left {
				cancel()
			}
			return !left
		})
		cancel()
		wait, stop := context.WithTimeout(t.Context(), time.Hour)
		err := up.Until(wait, func() bool { return up.Open() == 0 && up.Canceled() == canceled+1 })
		stop()
		if err != nil {
			t.Fatalf("still open: %v", err)
		}
		best = min(best, time.Since(began))
	}
	return best
}

// testDying asks a server that closes a kept connection just when the next request arrives on it: it costs no request. Without
// the entry X-Idempotency-Key in the header it would, every second time.
func testDying(t *testing.T, s Subject) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	var died atomic.Int64
	body := s.Wire.Open + s.Wire.Text("a") + s.Wire.Finish + s.Wire.Done
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", s.Wire.ContentType, len(body), body)
				if _, err := r.Peek(1); err == nil {
					died.Add(1) // with a request unread, so that the client gets a reset
				}
			})
		}
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for _, row := range []struct {
		name      string
		transport http.RoundTripper
		works     bool
	}{
		{"as it is", transport, true},
		{"without the entry", trip(func(r *http.Request) (*http.Response, error) {
			r.Header.Del("X-Idempotency-Key")
			return transport.RoundTrip(r)
		}), false},
	} {
		died.Store(0)
		m := s.bare(t, Options{Transport: row.transport, BaseURL: "http://" + l.Addr().String()})
		failed := 0
		for range 50 {
			if got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil); got.err != nil || got.Text != "a" {
				failed++
			}
		}
		if row.works != (failed == 0) || died.Load() == 0 {
			t.Errorf("%s: %d of 50 failed, %d connections died", row.name, failed, died.Load())
		}
	}
}

// trip is a transport that is a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
}
