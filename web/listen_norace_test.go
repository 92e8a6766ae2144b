//go:build linux && !race

package web

import (
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/access"
)

// DO-01: a health check is answered before more connections are accepted. The race detector does not bear a change of GOMAXPROCS.
func TestAHealthCheckGoesBeforeOtherConnections(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for request, first := range map[string]bool{
		"GET /healthz HTTP/1.1\r\n": true, "GET /readyz HTTP/1.1\r\n": true, "HEAD /healthz HTTP/1.1\r\n": true,
		"GET /v1/runs HTTP/1.1\r\n": false, "GET /heal": false, "": false,
	} {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := listenTo(inner, Limits{}, access.Proxies{}, nil)
		for _, text := range []string{request, ""} {
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if _, err := io.WriteString(client, text); err != nil {
				t.Fatal(err)
			}
		}
		accept := func() net.Conn {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := accept()
		var served atomic.Bool
		go served.Store(true) // as an http.Server does
		second := accept()
		if served.Load() != first {
			t.Errorf("%q: served before the next connection is accepted: %t; expected %t", request, served.Load(), first)
		}
		buf := make([]byte, len(request))
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != request {
			t.Errorf("%q is read as %q, %v", request, buf, err)
		}
		c.Close()
		second.Close()
		l.Close()
	}
}
