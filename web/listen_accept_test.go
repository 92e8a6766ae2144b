package web

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// raw is a connection that has sent a request of its own.
func (b *bench) raw(request string) net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if request != "" {
		if _, err := io.WriteString(c, request+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			b.t.Fatal(err)
		}
	}
	return c
}

// FT-31: who has a connection too many is told so at once, whoever watches the server is answered, and streams go on.
func TestAConnectionTooManyIsAnsweredAndNotLeftToHang(t *testing.T) {
	const most = 20
	b := newBench(t, func(o *Options) { o.Limits.Connections = most }).serve()
	b.http.Transport.(*http.Transport).DisableKeepAlives = true
	stream, st := b.start("?format=sse")
	l := func() *listener { return b.listener.(*listener) }
	open := func(n int64) func() bool { return func() bool { return l().open.Load() == n } }
	eventually(t, "the stream's connection is the only one", open(1))
	var idle []net.Conn
	for range most - 1 { // none is silent, so that none makes room
		c := b.raw("GET /healthz")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		idle = append(idle, c)
	}
	eventually(t, "all places are taken", open(most))

	for path, want := range map[string]string{
		"/v1/workflows": "503 Service Unavailable", "/healthz": "200 OK", "/readyz": "200 OK",
	} {
		resp, err := http.ReadResponse(bufio.NewReader(b.raw("GET "+path)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Status != want || !resp.Close {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
		if resp.StatusCode == 503 {
			turnedAway(t, resp, 503, codeOverloaded, "too many connections are open at once")
		}
		resp.Body.Close()
	}
	eventually(t, "they have ended", open(most))
	// Beyond those, the oldest silent one makes room.
	silent := b.raw("")
	for range surplusLeast - 1 {
		b.raw("")
	}
	eventually(t, "all places behind them are taken", open(most+surplusLeast))
	resp, err := http.ReadResponse(bufio.NewReader(b.raw("GET /healthz")), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("a health check: %v, %v", resp, err)
	}
	resp.Body.Close()
	if head, err := io.ReadAll(silent); len(head) != 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v", head, err)
	}
	if !strings.Contains(b.log.String(), "as many connections as it may") || strings.Count(b.log.String(), "as many connections as it may") != 1 {
		t.Error("the log does not say so once")
	}

	for _, c := range idle {
		c.Close()
	}
	eventually(t, "there is room", func() bool { return l().open.Load() <= most/2+surplusLeast })
	st.send("a", "b")
	st.finish()
	if f := fold(t, stream); f.json() != `{"a":"b"}` || f.terminal == "" {
		t.Errorf("%s %s", f.json(), f.terminal)
	}
	eventually(t, "others are served", func() bool {
		resp := b.do("GET", "/v1/workflows", "")
		defer resp.Body.Close()
		return resp.StatusCode == 200
	})
}

// deadlines is a connection that knows what was set.
type deadlines struct {
	net.Conn
	closed                 int
	both, reading, writing time.Time
}

func (d *deadlines) SetDeadline(t time.Time) error      { d.both = t; return nil }
func (d *deadlines) SetReadDeadline(t time.Time) error  { d.reading = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.writing = t; return nil }
func (d *deadlines) Close() error                       { d.closed++; return nil }

// some are a listener.
type some []net.Conn

func (s *some) Accept() (net.Conn, error) {
	if len(*s) == 0 {
		return nil, net.ErrClosed
	}
	c := (*s)[0]
	*s = (*s)[1:]
	return c, nil
}
func (*some) Close() error   { return nil }
func (*some) Addr() net.Addr { return nil }

func TestASurplusConnectionHasItsTimeAndNoMore(t *testing.T) {
	first, second := new(deadlines), new(deadlines)
	l := listenTo(&some{first, second}, 1, slog.New(slog.DiscardHandler))
	a, err1 := l.Accept()
	b, err2 := l.Accept()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if !first.both.IsZero() || second.both.IsZero() {
		t.Errorf("%v, %v", first.both, second.both)
	}
	end := second.both
	for _, at := range []time.Time{{}, end.Add(time.Hour), end.Add(-time.Second)} {
		want := at
		if at.IsZero() || at.After(end) {
			want = end
		}
		_, _, _ = b.SetDeadline(at), b.SetReadDeadline(at), b.SetWriteDeadline(at)
		if second.both != want || second.reading != want || second.writing != want {
			t.Errorf("%v: %v, %v, %v", at, second.both, second.reading, second.writing)
		}
		_ = a.SetReadDeadline(at)
		if first.reading != at {
			t.Errorf("of an ordinary one: %v, want %v", first.reading, at)
		}
	}
	// However often one is closed, it is counted once.
	_, _, _ = b.Close(), b.Close(), a.Close()
	if n := l.open.Load(); n != 0 || second.closed != 2 {
		t.Errorf("%d are open", n)
	}
	if _, err := l.Accept(); err != net.ErrClosed {
		t.Error(err)
	}
}

func TestWithoutALimitConnectionsAreCountedAndNoneIsTooMany(t *testing.T) {
	const many = 1000
	var accepts some
	for range many {
		accepts = append(accepts, new(deadlines))
	}
	l := listenTo(&accepts, 0, slog.New(slog.DiscardHandler))
	for range many {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if a := c.(*accepted); !a.until.IsZero() {
			t.Fatal("it is one too many")
		}
	}
	if n := l.open.Load(); n != many {
		t.Errorf("%d are open", n)
	}
}
