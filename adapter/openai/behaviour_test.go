package openai

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
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/upstream"
	"go.uber.org/goleak"
)

// canary is a key that must never be seen again.
const canary = "sk-CANARY-0123456789abcdef"

// guarded returns a model with the time limits and retries that the server puts around it.
func guarded(t testing.TB, p adapter.Provider, r *adapter.Registry) adapter.Model {
	t.Helper()
	r.Register("openai", p)
	m, err := r.Model("openai:m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// behaviours are what every adapter does, whatever its wire format: given a script for the stand-in, what the reader sees.
// They run in a bubble, with the time limits and retries around the model.
var behaviours = []struct {
	name     string
	script   func(upstream.Request) upstream.Answer
	limits   adapter.Timeouts
	leave    int           // leave the loop after so many chunks
	cancel   time.Duration // cancel the context after so long
	text     string
	code     string // of the error
	says     string
	took     time.Duration // -1: whatever
	requests int
	canceled int
}{
	{
		name:   "an answer in tokens",
		script: answers(upstream.Answer{Text: "Hello, world", Pace: 10}),
		text:   "Hello, world", took: 300 * time.Millisecond, requests: 1,
	},
	{
		name:   "leaving the loop cancels the request (AD-01)",
		script: answers(upstream.Answer{Text: strings.Repeat("word", 1000), Pace: 10}),
		leave:  3, text: "wordwordword", took: 200 * time.Millisecond, requests: 1, canceled: 1,
	},
	{
		name:   "canceling the context cancels the request (AD-01)",
		script: answers(upstream.Answer{Text: strings.Repeat("word", 1000), Pace: 10}),
		cancel: 250 * time.Millisecond, text: "wordwordword", says: "the run was canceled", took: 250 * time.Millisecond, requests: 1, canceled: 1,
	},
	{
		name:   "canceling before the answer begins",
		script: answers(upstream.Answer{Delay: time.Hour}),
		cancel: time.Second, says: "the run was canceled", took: time.Second, requests: 1, canceled: 1,
	},
	{
		name:   "no answer at all (FT-03)",
		script: answers(upstream.Answer{Raw: []upstream.Raw{{Hang: true}}}),
		limits: adapter.Timeouts{FirstToken: 5 * time.Second},
		code:   adapter.CodeTimeout, says: "did not begin to answer within 5s", took: 5 * time.Second, requests: 1, canceled: 1,
	},
	{
		name:   "a stall in the middle (FT-04)",
		script: answers(upstream.Answer{Raw: []upstream.Raw{{Bytes: delta("a")}, {Hang: true}}}),
		limits: adapter.Timeouts{Idle: 5 * time.Second},
		text:   "a", code: adapter.CodeTimeout, says: "stopped in the middle", took: 5 * time.Second, requests: 1, canceled: 1,
	},
	{
		name:   "a stall with keep-alive comments and empty deltas (FT-04, FT-05)",
		script: answers(upstream.Answer{Raw: append([]upstream.Raw{{Bytes: delta("a")}}, repeat(100, upstream.Raw{Wait: time.Second, Bytes: ": ping\n\n" + delta("")})...)}),
		limits: adapter.Timeouts{Idle: 5500 * time.Millisecond},
		text:   "a", code: adapter.CodeTimeout, says: "stopped in the middle", took: 5500 * time.Millisecond, requests: 1, canceled: 1,
	},
	{
		name:   "comments before the first token are no tokens (FT-05)",
		script: answers(upstream.Answer{Raw: repeat(100, upstream.Raw{Wait: time.Second, Bytes: ": ping\n"})}),
		limits: adapter.Timeouts{FirstToken: 30500 * time.Millisecond},
		code:   adapter.CodeTimeout, says: "did not begin", took: 30500 * time.Millisecond, requests: 1, canceled: 1,
	},
	{
		name:   "an answer that does not end (AD-07)",
		script: answers(upstream.Answer{Text: strings.Repeat("word", 1000), Pace: 1}),
		limits: adapter.Timeouts{Total: 2500 * time.Millisecond},
		text:   "wordwordword", code: adapter.CodeTimeout, says: "not finished after 2.5s", took: 2500 * time.Millisecond, requests: 1, canceled: 1,
	},
	{
		name: "limits the rate twice and then works (FT-01)",
		script: func(r upstream.Request) upstream.Answer {
			if r.Attempt < 3 {
				return upstream.Answer{Status: 429, Header: http.Header{"Retry-After-Ms": {"2000"}}}
			}
			return upstream.Answer{Text: "ok"}
		},
		text: "ok", took: -1, requests: 3,
	},
	{
		name: "fails, breaks the connection, and then works (FT-02, FT-07)",
		script: func(r upstream.Request) upstream.Answer {
			return []upstream.Answer{{Status: 500, Body: "<html>"}, {Raw: []upstream.Raw{{Cut: true}}}, {Text: "ok"}}[min(r.Attempt-1, 2)]
		},
		text: "ok", took: -1, requests: 3,
	},
	{
		name:   "refuses the key",
		script: answers(upstream.Answer{Status: 401, Body: `{"error":{"message":"bad ` + canary + `"}}`}),
		code:   adapter.CodeAuth, says: "check OPENAI_API_KEY", requests: 1,
	},
	{
		name:   "asks to wait for longer than we do",
		script: answers(upstream.Answer{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}),
		code:   adapter.CodeRateLimited, requests: 1,
	},
	{
		name:   "breaks off after the first token: not again (FT-06)",
		script: answers(upstream.Answer{Raw: []upstream.Raw{{Bytes: delta("a")}, {Cut: true}}}),
		text:   "a", code: adapter.CodeProtocol, says: "cut off", requests: 1,
	},
	{
		name:   "never sends [DONE], and never ends",
		script: answers(upstream.Answer{Raw: []upstream.Raw{{Bytes: delta("a") + finish}, {Hang: true}}}),
		text:   "a", took: 3 * time.Second, requests: 1, canceled: 1,
	},
	{
		name:   "sends [DONE], and never ends",
		script: answers(upstream.Answer{Raw: []upstream.Raw{{Bytes: delta("a") + finish + "data: [DONE]\n\n"}, {Hang: true}}}),
		text:   "a", took: 10 * time.Millisecond, requests: 1, canceled: 1,
	},
}

const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"

func delta(text string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", text)
}

func answers(a upstream.Answer) func(upstream.Request) upstream.Answer {
	return func(upstream.Request) upstream.Answer { return a }
}

func repeat(n int, r upstream.Raw) []upstream.Raw {
	all := make([]upstream.Raw, n)
	for i := range all {
		all[i] = r
	}
	return all
}

func TestBehaviours(t *testing.T) {
	for _, row := range behaviours {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstream.Server{Script: row.script}
				defer s.Close()
				p := newProvider(t, Options{Transport: s.Transport(), BaseURL: "http://model.test/v1", Key: canary})
				m := guarded(t, p, &adapter.Registry{Timeouts: row.limits})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, func() { cancel(errors.New("the run was canceled")) })
				}
				began := time.Now()
				var text strings.Builder
				var last error
				chunks, finishes := 0, 0
				for c, err := range m.Stream(ctx, adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "hi"}}}) {
					if last != nil {
						t.Error("a pair after the error")
					}
					last = err
					text.WriteString(c.Text)
					if err == nil {
						if (chunks == 0) != (c.Model == "openai:m") {
							t.Errorf("chunk %d has the model %q", chunks, c.Model)
						}
						chunks++
						if c.Finish != "" {
							finishes++
						}
					}
					if row.leave > 0 && chunks == row.leave {
						break
					}
				}
				took := time.Since(began)
				// Nothing of the server's may take a moment longer than the stream.
				synctest.Wait()
				if s.Open() != 0 || s.Canceled() != row.canceled || s.Requests() != row.requests {
					t.Errorf("open %d, canceled %d, requests %d", s.Open(), s.Canceled(), s.Requests())
				}
				if text.String() != row.text {
					t.Errorf("text %q", text.String())
				}
				if row.took >= 0 && took != row.took {
					t.Errorf("took %v", took)
				}
				e, _ := errors.AsType[*adapter.Error](last)
				switch {
				case row.code == "" && row.says == "":
					if last != nil || row.leave == 0 && finishes != 1 {
						t.Errorf("error %v, %d finishes", last, finishes)
					}
				case row.code == "":
					if last == nil || last.Error() != row.says {
						t.Errorf("error %v", last)
					}
				case e == nil || e.Code != row.code || !strings.Contains(e.Message, row.says):
					t.Errorf("error %v", last)
				}
				noSecret(t, last)
			})
		})
	}
}

// noSecret looks for the canary in all that an error says (SE-06).
func noSecret(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		if said := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(said, "CANARY") {
			t.Errorf("the key is in %s", said)
		}
		if e, ok := err.(*adapter.Error); ok && strings.Contains(e.Message, "model.test") {
			t.Errorf("an address is in %s", e.Message)
		}
	}
}

// SE-06: printing a provider or a model does not print its key.
func TestAProviderDoesNotPrintItsKey(t *testing.T) {
	p := newProvider(t, Options{Key: canary})
	m, _ := p.Model("m")
	for _, v := range []any{p, m} {
		if said := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); strings.Contains(said, "CANARY") {
			t.Errorf("%s", said)
		}
	}
}

// FT-12: an event of 4 MiB passes, one of 100 MiB is refused, and takes no memory to speak of.
func TestHugeEventsAreBounded(t *testing.T) {
	big := strings.Repeat("x", 4<<20-len(delta(""))) // the event, with its field name, has just 4 MiB
	for _, row := range []struct {
		name  string
		body  func() io.Reader
		chars int
		code  string
	}{
		{"4 MiB", func() io.Reader { return strings.NewReader(delta(big) + finish) }, len(big), ""},
		{"a line of 100 MiB", func() io.Reader {
			return io.MultiReader(strings.NewReader(`data: {"choices":[{"index":0,"delta":{"content":"`), &endlessly{b: "x", n: 100 << 20})
		}, 0, adapter.CodeProtocol},
		{"100 MiB of lines without a blank one", func() io.Reader { return &endlessly{b: "data: x\n", n: 100 << 20} }, 0, adapter.CodeProtocol},
		{"100 MiB of CR", func() io.Reader { return &endlessly{b: "data: x\rid: 1\r", n: 100 << 20} }, 0, adapter.CodeProtocol},
		{"100 MiB of comments", func() io.Reader {
			return io.MultiReader(&endlessly{b: ": is it you\n", n: 100 << 20}, strings.NewReader("\n"+delta("a")+finish))
		}, 1, ""},
		{"a comment of 100 MiB", func() io.Reader { return &endlessly{b: ":", n: 100 << 20} }, 0, adapter.CodeProtocol},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newProvider(t, Options{Transport: bodyOf(row.body)})
			m, _ := p.Model("m")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			chars := 0
			var last error
			for c, err := range m.Stream(t.Context(), adapter.Request{}) {
				chars, last = chars+len(c.Text), err
			}
			runtime.ReadMemStats(&after)
			t.Logf("%v, %d MiB allocated", time.Since(began).Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
			if e, _ := errors.AsType[*adapter.Error](last); chars != row.chars || (e == nil) != (row.code == "") || e != nil && e.Code != row.code {
				t.Errorf("%d characters, %v", chars, last)
			}
			// Doubling up to 4 MiB, and the event's own copies.
			if all := after.TotalAlloc - before.TotalAlloc; all > 40<<20 {
				t.Errorf("%d MiB allocated", all>>20)
			}
		})
	}
}

// bodyOf answers every request with the stream that it makes.
type bodyOf func() io.Reader

func (b bodyOf) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(b())}, nil
}

// endlessly repeats b up to n bytes, in pieces of 4 KiB as a connection gives them.
type endlessly struct {
	b  string
	n  int
	at int
}

func (e *endlessly) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < min(len(p), 4096, e.n) {
		k := copy(p[n:min(len(p), 4096, e.n)], e.b[e.at:])
		e.at = (e.at + k) % len(e.b)
		n += k
	}
	e.n -= n
	return n, nil
}

// FT-16: a server that closes a kept connection just when the next request arrives on it costs no request. Without the entry
// X-Idempotency-Key in the header it would, every second time.
func TestAPostOnADyingConnectionIsRepeated(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	var died atomic.Int64
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
				body := delta("a") + finish + "data: [DONE]\n\n"
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
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
		{"without the entry", roundTripper(func(r *http.Request) (*http.Response, error) {
			r.Header.Del("X-Idempotency-Key")
			return transport.RoundTrip(r)
		}), false},
	} {
		died.Store(0)
		m, _ := newProvider(t, Options{Transport: row.transport, BaseURL: "http://" + l.Addr().String()}).Model("m")
		failed := 0
		for range 50 {
			if text, err := collect(m, t.Context()); err != nil || text != "a" {
				failed++
			}
		}
		if row.works != (failed == 0) || died.Load() == 0 {
			t.Errorf("%s: %d of 50 failed, %d connections died", row.name, failed, died.Load())
		}
	}
}

// SE-01: neither the key nor the prompt follow a redirect.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var stolen atomic.Int64
		thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
		honest := httptest.NewServer(http.RedirectHandler(thief.URL, status))
		m, _ := newProvider(t, Options{Transport: honest.Client().Transport, BaseURL: honest.URL, Key: canary}).Model("m")
		_, err := collect(m, t.Context())
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Status != status || !strings.Contains(e.Message, "redirect") {
			t.Errorf("%d: %v", status, err)
		}
		if stolen.Load() != 0 {
			t.Errorf("%d was followed", status)
		}
		noSecret(t, err)
		honest.Close()
		thief.Close()
	}
}

func collect(m adapter.Model, ctx context.Context) (text string, err error) {
	for c, e := range m.Stream(ctx, adapter.Request{}) {
		text, err = text+c.Text, e
	}
	return text, err
}

// SE-24: a certificate that nobody vouches for is refused, and so is an old TLS.
func TestTLSIsVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(&upstream.Server{Script: answers(upstream.Answer{Text: "secret"})})
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that we did not trust it
	s.StartTLS()
	defer s.Close()
	m, _ := newProvider(t, Options{BaseURL: s.URL, Key: canary}).Model("m")
	text, err := collect(m, t.Context())
	if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeUnavailable || e.Retryable || text != "" ||
		!strings.Contains(e.Message, "certificate") {
		t.Errorf("%q %v", text, err)
	}
	if v := adapter.Transport(adapter.TransportOptions{}).TLSClientConfig.MinVersion; v < tls.VersionTLS12 {
		t.Errorf("TLS %x", v)
	}
}

// The errors of a server that cannot be reached say what to look at, and no address (FT-03).
func TestAServerThatCannotBeReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	m, _ := newProvider(t, Options{BaseURL: "http://user:" + canary + "@" + l.Addr().String(), Key: canary}).Model("m")
	_, err = collect(m, t.Context())
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok || e.Code != adapter.CodeUnavailable || !e.Retryable || !strings.Contains(e.Message, "nothing answers") {
		t.Errorf("%v", err)
	}
	if strings.Contains(e.Message, "127.0.0.1") {
		t.Errorf("an address: %s", e.Message)
	}
	noSecret(t, err)
}

// AD-09: connections are used again once an answer has been read, and HTTP/2 is spoken where it is offered.
func TestConnectionsAreUsedAgain(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %v", http2), func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var conns atomic.Int64
			var proto atomic.Value
			up := &upstream.Server{Script: answers(upstream.Answer{Text: "hello there"})}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto.Store(r.Proto)
				up.ServeHTTP(w, r)
			}))
			s.EnableHTTP2 = http2
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			s.StartTLS()
			defer s.Close()
			transport := adapter.Transport(adapter.TransportOptions{}).Clone() // what providers use, with the test's certificate
			transport.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			defer transport.CloseIdleConnections()
			m, _ := newProvider(t, Options{Transport: transport, BaseURL: s.URL}).Model("m")
			for range 20 {
				if text, err := collect(m, t.Context()); text != "hello there" || err != nil {
					t.Fatalf("%q %v", text, err)
				}
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections for 20 answers", n)
			}
			if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]; proto.Load() != want {
				t.Errorf("spoke %v", proto.Load())
			}
			// AD-01 on a real socket, over each protocol.
			up.Script = answers(upstream.Answer{Text: strings.Repeat("word", 10_000), Pace: 100})
			for range m.Stream(t.Context(), adapter.Request{}) {
				break
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			began := time.Now()
			if err := up.Until(ctx, func() bool { return up.Open() == 0 && up.Canceled() == 1 }); err != nil {
				t.Errorf("still open: %v", err)
			}
			t.Logf("the provider noticed after %v", time.Since(began))
		})
	}
}

// Many streams at once on one provider, of which some are left and some canceled.
func TestManyStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstream.Server{Script: func(r upstream.Request) upstream.Answer {
			return upstream.Answer{Text: strings.Repeat(fmt.Sprintf("%04d", r.Attempt), 50), Pace: 20}
		}}
		defer s.Close()
		m := guarded(t, newProvider(t, Options{Transport: s.Transport(), BaseURL: "http://model.test"}), &adapter.Registry{})
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%4 == 1 {
					time.AfterFunc(time.Second, cancel)
				}
				text, n := "", 0
				for c, err := range m.Stream(ctx, adapter.Request{}) {
					if err != nil && i%4 != 1 {
						t.Error(err)
					}
					if text += c.Text; i%4 == 2 && len(text) > 40 {
						break
					}
					n++
				}
				if i%2 == 0 && text != strings.Repeat(text[:4], len(text)/4) {
					t.Errorf("mixed up: %q", text)
				}
				if i%4 == 0 && len(text) != 200 {
					t.Errorf("%d characters", len(text))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if s.Open() != 0 || s.Canceled() != 100 || s.Requests() != 200 {
			t.Errorf("open %d, canceled %d, requests %d", s.Open(), s.Canceled(), s.Requests())
		}
	})
}

// AD-07, FT-03: a server that takes no connection is told from one that takes its time.
func TestConnectingHasALimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		defer transport.CloseIdleConnections()
		p := newProvider(t, Options{Transport: transport, BaseURL: "http://model.test"})
		m := guarded(t, p, &adapter.Registry{
			Timeouts: adapter.Timeouts{Connect: 3 * time.Second, FirstToken: time.Hour},
			Retries:  adapter.Retries{Attempts: 2, Base: 1},
		})
		began := time.Now()
		_, err := collect(m, t.Context())
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeTimeout || !strings.Contains(e.Message, "could not be reached within 3s") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took < 6*time.Second || took > 6*time.Second+time.Millisecond || dials.Load() != 2 {
			t.Errorf("%d dials in %v", dials.Load(), took)
		}
	})
}
