package web

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// Settings of connections.
const (
	// sendBuffer bounds what the kernel takes for a client that has stopped reading: without it some 4 MB, which is minutes
	// of tokens, before a write blocks and its deadline counts.
	sendBuffer = 128 << 10
	// userTimeout is how long data may stay unacknowledged before the kernel gives a connection up. It finds peers that are
	// gone without a word while a stream is written to them.
	userTimeout = 30 * time.Second
	// headerTimeout and maxHeaders are for clients that send their headers slowly, or many.
	headerTimeout = 10 * time.Second
	maxHeaders    = 64 << 10
	idleTimeout   = 2 * time.Minute
)

// HTTPServer returns an http.Server for the handler with the timeouts and connection settings that streams need. It has no
// WriteTimeout and no ReadTimeout: these would cut streams off. Each write and each body has a deadline of its own.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           heardRequests(s.inTime(lastOfItsConnection(s.handler))),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		Protocols:         protocols,
		ConnContext:       connContext,
		HTTP2: &http.HTTP2Config{
			// Streams live long; a page with many of them should not have to wait for one to end.
			MaxConcurrentStreams: 1000,
			SendPingTimeout:      15 * time.Second, // an HTTP/2 connection that is quiet is asked whether it lives
			PingTimeout:          15 * time.Second,
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// inTime gives each body its time. What no handler has read of one is taken in behind the answer.
func (s *Server) inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // each connection of a server can
		body := &wholeBody{ReadCloser: r.Body}
		r.Body = body
		next.ServeHTTP(w, r)
		if !body.whole.Load() {
			s.linger(w, r)
		}
	})
}

// wholeBody knows whether it was read to its end. Behind that net/http looks whether the client is there still: where it found a deadline, while
// the client takes the end of the answer slowly, it would take it for gone, and all that the client asks by the same connection then would be
// broken off.
type wholeBody struct {
	io.ReadCloser
	whole atomic.Bool
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole.Store(true)
	}
	return n, err
}

// Listen listens on addr with the socket settings that streams need, and accepts no more connections at once than there may be.
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
	if err != nil {
		return nil, err
	}
	accepts := listenTo(l, s.o.Limits, s.o.Proxies, s.log)
	s.listener.Store(accepts)
	return accepts, nil
}

// lastOfItsConnection closes a connection behind a request of HTTP/1 whose body came in chunks. Such a request may have had a
// Content-Length as well, which net/http drops without a word; a proxy in front that goes by it takes the same bytes for another
// number of requests, and what somebody hid in them would be answered as a request of its own (RFC 9112, section 6.1).
func lastOfItsConnection(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
