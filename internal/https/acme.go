package https

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/egress"
)

// acmePause is how long the server does not request a certificate for a name that the authority has refused. Each handshake would request one,
// and Let's Encrypt allows five failures an hour.
const acmePause = 15 * time.Minute

// authority gets certificates by ACME (RFC 8555): when the server starts, and again before they expire.
type authority struct {
	manager *autocert.Manager
	domains []string // in ASCII
	log     *slog.Logger

	mu     sync.Mutex
	failed map[string]failure // by domain
}

type failure struct {
	err   error
	until time.Time
}

func newAuthority(c *config.Config, version string, log *slog.Logger) *authority {
	tr := &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: time.Minute,
		ForceAttemptHTTP2: true, Proxy: egress.Proxy(c.Upstream.ProxyEnv),
	}
	a := &authority{log: log, failed: map[string]failure{}}
	for _, name := range c.TLS.ACME {
		name, _ = idna.Lookup.ToASCII(name) // CheckTLS has seen it
		a.domains = append(a.domains, name)
	}
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Email: c.TLS.ACMEEmail,
		Cache: autocert.DirCache(c.ACMEFolder()), HostPolicy: autocert.HostWhitelist(a.domains...),
		Client: &acme.Client{
			DirectoryURL: c.TLS.ACMEDirectory, UserAgent: "lingserve/" + version,
			HTTPClient: &http.Client{Transport: tr, Timeout: time.Minute},
		},
	}
	return a
}

// get returns the certificate of a name. It requests a missing one, but not in the pause after a failure.
func (a *authority) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name, err := idna.Lookup.ToASCII(hello.ServerName)
	if err != nil || !slices.Contains(a.domains, name) {
		return nil, errors.New("no certificate for this name")
	}
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // the authority checks that this server has the name
		return a.manager.GetCertificate(hello)
	}
	a.mu.Lock()
	f, ok := a.failed[name]
	a.mu.Unlock()
	if ok && time.Now().Before(f.until) {
		return nil, f.err
	}
	cert, err := a.manager.GetCertificate(hello)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.failed, name)
		return cert, nil
	}
	if f, ok := a.failed[name]; !ok || time.Now().After(f.until) { // one of the handshakes that waited logs it
		a.failed[name] = failure{err, time.Now().Add(acmePause)}
		a.log.Error("cannot get a certificate; retrying", "name", name, "after", acmePause, "error", err)
	}
	return nil, err
}

func (a *authority) names() []string { return a.domains }

func (a *authority) knows(host string) bool {
	name, err := idna.Lookup.ToASCII(host)
	return err == nil && slices.Contains(a.domains, name)
}

// reload ends the pauses after failures. The manager itself pauses for a minute.
func (a *authority) reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.failed)
}

// watch gets the certificates before the first client asks, and logs whether they were renewed: the manager renews them by itself and does
// not log.
func (a *authority) watch(ctx context.Context) {
	for {
		for _, name := range a.domains {
			if ctx.Err() == nil {
				a.renew(ctx, name)
			}
		}
		wait := expiryEvery
		a.mu.Lock()
		if len(a.failed) > 0 {
			wait = acmePause
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// renew gets one certificate and logs when it expires.
func (a *authority) renew(ctx context.Context, name string) {
	got := make(chan *tls.Certificate, 1)
	// The manager cannot be stopped; it fails within five minutes. A server that ends does not wait for it.
	go func() {
		cert, _ := a.get(&tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
		got <- cert
	}()
	select {
	case <-ctx.Done():
	case cert := <-got:
		switch {
		case cert == nil: // get has logged it
		case nearlyOver(cert.Leaf):
			a.log.WarnContext(ctx, "certificate expires soon and was not renewed", "name", name, "until", cert.Leaf.NotAfter)
		default:
			a.log.InfoContext(ctx, "certificate", "name", name, "until", cert.Leaf.NotAfter)
		}
	}
}
