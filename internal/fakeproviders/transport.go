package fakeproviders

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// window is how many bytes a writer may be ahead of its reader: the initial buffer of a loopback socket.
const window = 64 << 10

// process is the server as it runs in this process.
type process struct {
	mu        sync.Mutex
	closed    bool
	server    *http.Server
	transport *http.Transport
	accepting sync.WaitGroup // the accept loop
	serving   sync.WaitGroup // one for each connection
}

// Transport returns an http.RoundTripper that reaches the server in this process, without a network, over HTTP/1.1 on connections in
// memory. The host of the URL does not matter. All calls return the same one. Its CloseIdleConnections closes idle connections,
// [Server.Close] all.
func (s *Server) Transport() http.RoundTripper {
	p := &s.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.transport != nil {
		return p.transport
	}
	listener := bufconn.Listen(window)
	p.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		DisableCompression:  true, // tests compare headers
		MaxIdleConnsPerHost: 1 << 14,
		IdleConnTimeout:     10 * time.Second,
	}
	if p.closed {
		listener.Close()
		return p.transport
	}
	p.server = &http.Server{
		Handler:  s,
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				p.serving.Add(1)
			case http.StateClosed, http.StateHijacked:
				p.serving.Done()
			}
		},
	}
	p.accepting.Go(func() { p.server.Serve(listener) }) // returns ErrServerClosed after Close
	return p.transport
}

// Close closes all connections of the [Server.Transport] and waits until nothing is served any more.
func (s *Server) Close() error {
	p := &s.process
	p.mu.Lock()
	p.closed = true
	server, transport := p.server, p.transport
	p.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	p.accepting.Wait()
	server.Close() // connections accepted during the first one
	transport.CloseIdleConnections()
	p.serving.Wait()
	return err
}
