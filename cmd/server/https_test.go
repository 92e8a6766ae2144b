package main

import (
	"bufio"
	"crypto/tls"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/internal/https/certtest"
)

// A stream is the same over HTTP/2 and TLS: cut off and resumed at another connection, each event comes once.
func TestAStreamOverHTTP2IsResumed(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "localhost", "127.0.0.1")
	certtest.Write(t, dir, cert, key)
	p := startServerIn(t, dir, "--tls-cert", "tls.crt", "--tls-key", "tls.key", "--tls-redirect-addr", "127.0.0.1:0", "--demo-pace", "500")
	if !strings.HasPrefix(p.base, "https://127.0.0.1:") {
		t.Errorf("it listens on %s", p.base)
	}
	addr := strings.TrimPrefix(p.base, "https://")
	ask := func(path, last string) (*http.Response, *bufio.Scanner) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		res, err := certtest.Client(t, addr, &tls.Config{RootCAs: ca.Pool()}, "h2").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode != 200 || res.ProtoMajor != 2 {
			t.Fatalf("%s %s", res.Proto, res.Status)
		}
		return res, bufio.NewScanner(res.Body)
	}
	res, lines := ask("/v1/runs?workflow=chat&input=Hello&format=sse", "")
	var got, want []string
	for len(got) < 8 && lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			got = append(got, id)
		}
	}
	res.Body.Close()
	if len(got) < 8 {
		t.Fatalf("only %d events: %v", len(got), lines.Err())
	}
	events := res.Header.Get("Location") + "/events?format=sse"
	_, lines = ask(events, got[len(got)-1])
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			got = append(got, id)
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	_, lines = ask(events, "")
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			want = append(want, id)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("resumed:\n%s\nas a whole:\n%s", got, want)
	}

	// SIGHUP takes another certificate at once, and plain HTTP leads here all the while.
	cert, key = ca.Pair(t, certtest.Month, "localhost", "127.0.0.1", "new.example.com")
	certtest.Write(t, dir, cert, key)
	p.signal(syscall.SIGHUP)
	p.waitFor(`new certificate in use.*new\.example\.com`)
	plain := p.waitFor(`redirecting HTTP to HTTPS.*addr=(\S+)`)[1]
	c := httpClient(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	back, err := c.Get("http://" + plain + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer back.Body.Close()
	if back.StatusCode != 308 || back.Header.Get("Location") != p.base+"/healthz" {
		t.Errorf("%s to %s", back.Status, back.Header.Get("Location"))
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
