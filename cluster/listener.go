package cluster

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// idleTimeout is how long an unused connection to another replica stays. The server's is longer, so that the client closes first and sends
// no request on a connection that is about to close.
const idleTimeout = 30 * time.Second

// listen opens the internal listener and returns the address for others.
func listen(ctx context.Context, o Options) (net.Listener, string, error) {
	local := "127.0.0.1"
	if o.Reach != "" {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", o.Reach) // sends nothing
		if err != nil {
			return nil, "", err
		}
		local = conn.LocalAddr().(*net.UDPAddr).IP.String()
		_ = conn.Close()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(o.Listen, net.JoinHostPort(local, "0")))
	if err != nil {
		return nil, "", err
	}
	address := l.Addr().String()
	if host, port, _ := net.SplitHostPort(address); net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort(local, port)
	}
	return l, cmp.Or(o.Advertise, address), nil
}

// newTransport returns the client for other replicas. It speaks HTTP/1.1: each stream has a connection, so a slow reader delays no other,
// no limit of streams applies, and the end of a connection ends one stream. That costs a file descriptor for each forwarded stream.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:  (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConns: 256, MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout,
		DisableCompression: true, // the response passes as it is
	}
}

func newServer(log *slog.Logger) *http.Server {
	return &http.Server{
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * idleTimeout,
		DisableGeneralOptionsHandler: true, // it would answer an unsigned OPTIONS *
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Serve starts to serve the requests that other replicas forward to this one, with Handler(next). It does not block. Call it once.
func (c *Cluster) Serve(next http.Handler) {
	if c.server.Handler != nil {
		panic("cluster: Serve was called twice")
	}
	c.server.Handler = c.Handler(next)
	c.tasks.Go(func() { // ends with Close
		if err := c.server.Serve(c.listener); err != http.ErrServerClosed { //nolint:errorlint // net/http returns the value itself
			c.log.Error("internal listener failed", "error", err)
		}
	})
}
