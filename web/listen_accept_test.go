package web

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/web/wire"
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
			turnedAway(t, resp, 503, wire.CodeOverloaded, "the server has too many open connections; retry later")
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
	if !strings.Contains(b.log.String(), "connection limit reached") || strings.Count(b.log.String(), "connection limit reached") != 1 {
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
	from                   string // its client's address
	closed                 int
	both, reading, writing time.Time
}

func (d *deadlines) RemoteAddr() net.Addr {
	addr, _ := netip.ParseAddr(d.from)
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 1))
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
	l := listenTo(&some{first, second}, Limits{Connections: 1}, access.Proxies{}, slog.New(slog.DiscardHandler))
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
	l := listenTo(&accepts, Limits{}, access.Proxies{}, slog.New(slog.DiscardHandler))
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

// DO-02: one address cannot take all places. Beyond its share its oldest silent connection makes room, then a few are surplus ones, and
// all others are closed.
func TestOneAddressHasAShareOfTheConnections(t *testing.T) {
	proxies, err := access.ParseProxies([]string{"192.0.2.9"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from     string
		limits   Limits
		ordinary int // of 100 that come at once
		surplus  int
	}{
		"half of all":             {"198.51.100.7", Limits{Connections: 40}, 20, surplusLeast},
		"what is set":             {"198.51.100.7", Limits{Connections: 40, ConnectionsPerAddress: 5}, 5, surplusLeast},
		"more than all":           {"198.51.100.7", Limits{Connections: 40, ConnectionsPerAddress: 90}, 40, surplusLeast},
		"one at least":            {"198.51.100.7", Limits{Connections: 1}, 1, surplusLeast},
		"a network of IPv6":       {"2001:db8::7", Limits{Connections: 40}, 20, surplusLeast},
		"localhost":               {"127.0.0.1", Limits{Connections: 40}, 40, surplusLeast},
		"localhost with a share":  {"::1", Limits{Connections: 40, ConnectionsPerAddress: 5}, 5, surplusLeast},
		"a proxy that is trusted": {"192.0.2.9", Limits{Connections: 40, ConnectionsPerAddress: 5}, 40, surplusLeast},
		"no limit for all":        {"198.51.100.7", Limits{ConnectionsPerAddress: 5}, 5, surplusLeast},
	} {
		t.Run(name, func(t *testing.T) {
			var accepts some
			for i := range 100 {
				from := test.from
				if strings.HasPrefix(from, "2001:") { // one client has many addresses
					from += ":" + strconv.Itoa(i)
				}
				accepts = append(accepts, &deadlines{from: from})
			}
			l := listenTo(&accepts, test.limits, proxies, slog.New(slog.DiscardHandler))
			ordinary, surplus := 0, 0
			var open []net.Conn
			for {
				c, err := l.Accept()
				if err != nil {
					break
				}
				open = append(open, c)
				if c.(*accepted).refusal == nil {
					ordinary++
				} else {
					surplus++
				}
			}
			if ordinary != test.ordinary || l.open.Load() != int64(test.ordinary+test.surplus) {
				t.Errorf("%d ordinary connections, %d open; expected %d and %d", ordinary, l.open.Load(), test.ordinary, test.ordinary+test.surplus)
			}
			for _, c := range open {
				c.Close()
			}
			if len(l.of) != 0 || l.open.Load() != 0 || l.silent.Len() != 0 {
				t.Errorf("after the end: %v, %d open, %d silent", l.of, l.open.Load(), l.silent.Len())
			}
		})
	}
}

// DO-02: silent connections of an address make room for others of the same address only.
func TestASilentConnectionMakesRoomForItsOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accepts some
		for _, from := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"} {
			accepts = append(accepts, &deadlines{from: from})
		}
		conns := append(some{}, accepts...)
		l := listenTo(&accepts, Limits{Connections: 10, ConnectionsPerAddress: 2}, access.Proxies{}, slog.New(slog.DiscardHandler))
		for i := range conns {
			if i == 3 {
				time.Sleep(2 * silentTime)
			}
			c, err := l.Accept()
			if err != nil || c.(*accepted).refusal != nil {
				t.Fatalf("connection %d: %v, %v", i, c, err)
			}
		}
		for i, want := range []int{0, 1, 0, 0} {
			if got := conns[i].(*deadlines).closed; got != want {
				t.Errorf("connection %d is closed %d times; expected %d", i, got, want)
			}
		}
	})
}

// DO-02: a client is told that its address has too many connections, and its health checks are answered.
func TestAnAddressWithTooManyConnectionsIsToldSo(t *testing.T) {
	const share = 5
	b := newBench(t, func(o *Options) { o.Limits.ConnectionsPerAddress = share }).serve()
	b.http.Transport.(*http.Transport).DisableKeepAlives = true
	for range share {
		c := b.raw("GET /healthz")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	turnedAway(t, b.do("GET", "/v1/workflows", ""), 429, wire.CodeRateLimited, "your address has 5 connections open, the limit of one address; close some")
	resp := b.do("GET", "/healthz", "")
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("a health check: %s", resp.Status)
	}
}
