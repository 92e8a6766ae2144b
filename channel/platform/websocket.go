package platform

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/lingserve/lingserve/internal/egress"
)

const (
	handshakeTimeout = 30 * time.Second

	// maxSilence is longer than the pauses between the heartbeats of platforms: 41 s at most.
	maxSilence = 2 * time.Minute
)

// NewDialer returns a dialer for WebSockets, which reaches servers as a client from [NewClient] does. Its connections close when ctx ends, and if nothing
// comes for two minutes.
func NewDialer(ctx context.Context, client *http.Client, proxyEnv bool) *websocket.Dialer {
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		transport = egress.NewTransport(proxyEnv)
	}
	d := &websocket.Dialer{HandshakeTimeout: handshakeTimeout, Proxy: transport.Proxy}
	if transport.TLSClientConfig != nil {
		d.TLSClientConfig = transport.TLSClientConfig.Clone()
		d.TLSClientConfig.NextProtos = nil // a WebSocket does not begin in HTTP/2
	}
	d.NetDialContext = func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := transport.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &webSocketConn{conn, context.AfterFunc(ctx, func() { conn.Close() })}, nil
	}
	return d
}

// webSocketConn is the connection of a WebSocket.
type webSocketConn struct {
	net.Conn
	forget func() bool
}

func (c *webSocketConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(maxSilence))
	return c.Conn.Read(p)
}

func (c *webSocketConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
