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

// DO-02: connections on which clients say nothing keep nobody out. Health checks are always answered, and so is other work after a moment.
func TestDO_02_HealthChecksAreAnsweredWhileConnectionsAreHalfOpen(t *testing.T) {
	const halfOpen, probes = 60, 20
	s := serve(t, serving{args: []string{"--limit-connections", "20"}})
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			_ = c.Close()
		}
	}()
	for i := range halfOpen {
		c, err := s.tcp([]string{"", "G", "GET /v1/workflows HTTP/1.1\r\nHost: localhost\r\nX-Slow: "}[i%3])
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	s.http.Transport = &http.Transport{DisableKeepAlives: true} // as Kubernetes asks
	for i := range probes {
		path := []string{"/healthz", "/readyz"}[i%2]
		if a, err := s.do("GET", path, ""); err != nil || a.status != 200 {
			t.Fatalf("probe %d, %s: %v, %v", i, path, a, err)
		}
	}
	// Silent connections have lost their places a second later, and their clients open others.
	eventually(t, "a run is served", func() bool {
		c, err := s.tcp("")
		if err == nil {
			silent = append(silent, c)
		}
		a, err := s.do("POST", "/v1/runs", runOf("m", "work"), "Accept: application/json")
		return err == nil && a.status == 200
	})
	s.stop()
}

// DO-02: one address cannot keep others out, even with connections that ask for something. Its own health checks are answered.
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
	if statuses[200] != 10 || statuses[429] < 8 || statuses[200]+statuses[429]+statuses[0] != 40 {
		t.Errorf("the stranger was answered %v; expected 10 times 200, some 429 and closed connections", statuses)
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
