package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/internal/https/certtest"
)

func TestServerWithCertificateFilesReloadsThemAndRedirectsPlainHTTP(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "localhost", "127.0.0.1")
	certtest.Write(t, dir, cert, key)
	p := startServerIn(t, dir, "--tls-cert", "tls.crt", "--tls-key", "tls.key", "--tls-redirect-addr", "127.0.0.1:0")
	if !strings.HasPrefix(p.base, "https://127.0.0.1:") {
		t.Errorf("it listens on %s", p.base)
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
