package web

import (
	"net"
	"time"
)

// firstListener accepts connections whose time for the headers of the first request begins with its first byte, as net/http has it for those
// that follow. It reads the first 14 bytes by themselves, to see whether they are HTTP/2's, and is then out of time for the rest where the
// process has stood still since it accepted the connection: a request of which everything is there would be answered with 400.
type firstListener struct{ net.Listener }

// Accept waits for the next connection.
func (l firstListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &firstConn{Conn: c}, nil
}

// firstConn is read by one goroutine at a time.
type firstConn struct {
	net.Conn
	begun bool
}

func (c *firstConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.begun {
		c.begun = true
		_ = c.Conn.SetReadDeadline(time.Now().Add(headerTimeout)) // one that is closed fails at its next byte
	}
	return n, err
}

// NetConn returns what is below.
func (c *firstConn) NetConn() net.Conn { return c.Conn }
