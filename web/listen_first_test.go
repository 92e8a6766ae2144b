package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
)

// still is a connection whose process stands still when it has read the first bytes.
type still struct {
	net.Conn
	stood bool
}

func (c *still) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.stood {
		c.stood = true
		time.Sleep(2 * headerTimeout)
	}
	return n, err
}

// one is a listener with one connection.
type one struct {
	conn chan net.Conn
	end  chan struct{}
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error {
	close(l.end)
	return nil
}

func (*one) Addr() net.Addr { return &net.TCPAddr{} }

// CL-07: who comes back to a server that has stood still is answered.
func TestCL_07_AServerThatStoodStillAnswersWhatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.s.Close()
		client, server := net.Pipe()
		l := &one{make(chan net.Conn, 1), make(chan struct{})}
		l.conn <- &still{Conn: server}
		srv := b.s.HTTPServer()
		served := make(chan error)
		go func() { served <- srv.Serve(listenTo(l, Limits{}, access.Proxies{}, b.s.log)) }()
		go func() { _, _ = io.WriteString(client, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") }()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("it answers %s", resp.Status)
		}
		resp.Body.Close()
		client.Close()
		srv.Close()
		<-served
	})
}
