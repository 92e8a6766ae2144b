//go:build unix

package faults

import (
	"net"
	"net/http"
	"testing"
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
