package web_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/web"
)

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   net.TCPAddr
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return &c.from }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// DO-02: one address cannot take all connections.
func TestConnectionsOfOneAddressAreLimited(t *testing.T) {
	proxies, err := access.ParseProxies([]string{"192.0.2.9"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from   string // of 100 connections
		limits web.Limits
		open   int
	}{
		"half of all":                   {"198.51.100.7", web.Limits{Connections: 40}, 20},
		"a limit that is set":           {"198.51.100.7", web.Limits{Connections: 40, ConnectionsPerAddress: 5}, 5},
		"at least one":                  {"198.51.100.7", web.Limits{Connections: 1}, 1},
		"an IPv6 network":               {"2001:db8::", web.Limits{Connections: 40}, 20},
		"localhost has none":            {"127.0.0.1", web.Limits{Connections: 40}, 100},
		"localhost with a limit":        {"::1", web.Limits{Connections: 40, ConnectionsPerAddress: 5}, 5},
		"a trusted proxy has none":      {"192.0.2.9", web.Limits{Connections: 40, ConnectionsPerAddress: 5}, 100},
		"a limit of one address alone":  {"198.51.100.7", web.Limits{ConnectionsPerAddress: 5}, 5},
		"without limits there are none": {"198.51.100.7", web.Limits{}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := web.New(web.Options{Limits: test.limits, Proxies: proxies})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			changed := s.HTTPServer().ConnState
			conns := make([]*fakeConn, 100)
			for i := range conns {
				ip := net.ParseIP(test.from)
				if strings.HasPrefix(test.from, "2001:") {
					ip[15] = byte(i) // one client has many addresses
				}
				conns[i] = &fakeConn{from: net.TCPAddr{IP: ip, Port: 1000 + i}}
				changed(conns[i], http.StateNew)
				if conns[i].closed {
					changed(conns[i], http.StateClosed)
				}
			}
			if l := s.Load(); l.Connections != test.open || l.TurnedAway != uint64(100-test.open) {
				t.Errorf("%d are open, %d were closed; expected %d to be open", l.Connections, l.TurnedAway, test.open)
			}
			changed(conns[0], http.StateClosed)
			next := &fakeConn{from: conns[0].from}
			changed(next, http.StateNew)
			if next.closed {
				t.Error("a connection was closed although its address has room")
			}
		})
	}
}

// FT-31: the server accepts no more than its limit. Other clients wait, and are accepted when a connection closes.
func TestConnectionsAboveTheLimitWait(t *testing.T) {
	s, err := web.New(web.Options{Limits: web.Limits{Connections: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { close(closed); first.Close() }()
	second, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	select {
	case <-closed:
	default:
		t.Error("the second connection was accepted beside the first")
	}
}
