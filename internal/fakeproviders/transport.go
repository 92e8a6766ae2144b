package fakeproviders

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// process is the server as it runs in this process.
type process struct {
	mu        sync.Mutex
	closed    bool
	listener  *listener
	server    *http.Server
	transport *http.Transport
	accepting sync.WaitGroup // the accept loop
	serving   sync.WaitGroup // one for each connection
}

// Transport returns an http.RoundTripper that reaches the server in this process, without a network, over real HTTP/1.1 on
// connections in memory. The host of the URL does not matter. All calls return the same one; its idle connections end
// with its CloseIdleConnections, everything ends with [Server.Close].
func (s *Server) Transport() http.RoundTripper {
	p := &s.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.transport != nil {
		return p.transport
	}
	p.listener = &listener{accept: make(chan net.Conn), closed: make(chan struct{})}
	p.transport = &http.Transport{
		DialContext:         p.listener.dial,
		DisableCompression:  true, // what would be compressed never leaves the process
		MaxIdleConnsPerHost: 1 << 14,
		IdleConnTimeout:     10 * time.Second, // a new one costs next to nothing
		// A stream that is read token by token needs no larger buffers, and there may be thousands of them.
		ReadBufferSize:  2 << 10,
		WriteBufferSize: 2 << 10,
	}
	if p.closed {
		p.listener.Close()
		return p.transport
	}
	p.server = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				p.serving.Add(1)
			case http.StateClosed, http.StateHijacked:
				p.serving.Done()
			}
		},
	}
	p.accepting.Go(func() { p.server.Serve(p.listener) }) // it ends with ErrServerClosed, by Close
	return p.transport
}

// Close breaks all connections of the [Server.Transport] and waits until nothing is served any more.
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
	server.Close() // what was accepted while the first one ran
	transport.CloseIdleConnections()
	p.serving.Wait()
	return err
}

// listener accepts what is dialed in this process.
type listener struct {
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := newPipe()
	select {
	case l.accept <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address{} }

// address is where everything in memory is.
type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }
