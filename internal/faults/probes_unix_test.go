//go:build nightly && unix

package faults

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// DO-02: one address cannot keep others out, even with connections that send requests.
func TestDO_02_OneAddressCannotTakeAllConnections(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 without being asked")
	}
	const stranger = "127.0.0.2"
	s := serve(t, serving{args: []string{"--limit-connections", "20", "--limit-connections-per-address", "10"}})
	const request = "GET /v1/workflows HTTP/1.1\r\nHost: localhost\r\n\r\n"
	status := func(c net.Conn) int {
		defer c.SetReadDeadline(time.Time{})
		_ = c.SetReadDeadline(time.Now().Add(patience))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	statuses := map[int]int{}
	for range 40 { // they keep their connections open
		c, err := s.tcpFrom(stranger, request)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		statuses[status(c)]++
	}
	if statuses[200] != 10 || statuses[0] != 30 {
		t.Errorf("the stranger was answered %v; expected 10 times 200, and 30 closed connections", statuses)
	}
	for range 5 {
		c, err := s.tcp(request)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := status(c); got != 200 {
			t.Errorf("another client is answered %d; expected 200", got)
		}
	}
	s.stop()
}
