package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/lingserve/lingserve/access"
)

// Settings of connections.
const (
	// sendBuffer bounds what the kernel takes for a client that has stopped reading: without it some 4 MB, which is minutes
	// of tokens, before a write blocks and its deadline counts.
	sendBuffer = 128 << 10
	// userTimeout is how long data may stay unacknowledged before the kernel gives a connection up. It finds peers that are
	// gone without a word while a stream is written to them.
	userTimeout = 30 * time.Second
	// headerTimeout and maxHeaders are for clients that send their headers slowly, or many. net/http answers 400 where the time ends within
	// the first line, also if the process was stopped meanwhile: it is longer than most such pauses.
	headerTimeout = 20 * time.Second
	maxHeaders    = 64 << 10
	idleTimeout   = 2 * time.Minute
)

// HTTPServer returns an http.Server for the handler with the timeouts and connection settings that streams need. It has no
// WriteTimeout and no ReadTimeout: these would cut streams off. Each write and each body has its own deadline.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		Protocols:         protocols,
		ConnState:         s.countConnection,
		HTTP2: &http.HTTP2Config{
			// Streams live long; a page with many of them should not have to wait for one to end.
			MaxConcurrentStreams: 1000,
			SendPingTimeout:      15 * time.Second, // an HTTP/2 connection that is quiet is asked whether it lives
			PingTimeout:          15 * time.Second,
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Listen listens on addr with the socket settings that streams need. It accepts up to Limits.Connections connections at once; more wait in
// the kernel's queue until one is closed.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	lc := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
		// Accepted connections inherit what is set here.
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			if e := c.Control(func(fd uintptr) { err = setSocket(fd) }); e != nil {
				return e
			}
			return err
		},
	}
	lc.SetMultipathTCP(false) // its sockets do not take these settings
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil || s.o.Limits.Connections <= 0 {
		return l, err
	}
	return netutil.LimitListener(l, s.o.Limits.Connections), nil
}

// connections counts open connections, in total and by address.
type connections struct {
	ownerCounts
	refused atomic.Uint64 // closed because their address had too many
	warned  atomic.Bool   // the log has the warning about the limit
}

// countConnection counts a connection when it opens and when it closes. It closes a new one if its address has too many.
func (s *Server) countConnection(c net.Conn, state http.ConnState) {
	address, limit := remoteAddress(c), int64(s.o.Limits.Connections)
	switch state {
	case http.StateNew:
		open, ofAddress := s.connections.add(access.Caller(address), 1)
		if limit > 0 && open >= limit && !s.connections.warned.Swap(true) {
			s.log.Warn("connection limit reached; new connections wait", "connections", limit)
		}
		if most := s.maxConnections(address); most > 0 && ofAddress > int64(most) {
			s.connections.refused.Add(1)
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		if open, _ := s.connections.add(access.Caller(address), -1); open <= limit-limit/8 {
			s.connections.warned.Store(false)
		}
	}
}

// maxConnections returns the limit of one address; 0 is none. Trusted proxies have none, because they speak for many clients. Localhost
// has one only if Limits.ConnectionsPerAddress is set.
func (s *Server) maxConnections(address netip.Addr) int {
	l := s.o.Limits
	switch {
	case !address.IsValid(), s.o.Proxies.Trusts(address):
		return 0
	case l.ConnectionsPerAddress > 0:
		return l.ConnectionsPerAddress
	case l.Connections <= 0, address.IsLoopback():
		return 0
	}
	return max(1, l.Connections/2)
}

// remoteAddress returns the address of a connection's client. It is invalid if the connection has none.
func remoteAddress(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
