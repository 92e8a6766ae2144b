// Package https encrypts the connections of a server: with a certificate in files, which it reads again when they change, or with
// certificates that it gets by ACME (RFC 8555), as from Let's Encrypt. It also redirects plain HTTP to HTTPS.
package https

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/net/netutil"

	"github.com/lingserve/lingserve/internal/config"
)

const (
	// expiryEvery is how often the server checks when its certificates expire.
	expiryEvery = 24 * time.Hour
	// redirectConnections is how many connections the address for plain HTTP serves at once; each takes a moment.
	redirectConnections = 256
)

// Encryption encrypts the connections of a server and manages its certificates. A nil *Encryption serves plain HTTP; all methods may be
// called on it.
type Encryption struct {
	c    *config.Config
	log  *slog.Logger
	from certificates
}

// certificates come from files or from an authority.
type certificates interface {
	// get returns the certificate for a handshake.
	get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// names are the names of the server.
	names() []string
	// knows reports whether there is, or can be, a certificate for a host.
	knows(host string) bool
	// reload looks for new certificates at once.
	reload()
	// watch renews or reloads the certificates until ctx ends.
	watch(context.Context)
}

// New returns the encryption that the settings ask for, or nil for none. version is in the User-Agent of requests to the authority. Its
// errors are for the user.
func New(c *config.Config, version string, log *slog.Logger) (*Encryption, error) {
	if err := c.CheckTLS(); err != nil || !c.TLS.On() {
		return nil, err
	}
	e := &Encryption{c: c, log: log}
	if len(c.TLS.ACME) > 0 {
		e.from = newAuthority(c, version, log)
		return e, nil
	}
	f := &certificateFiles{cert: c.TLS.Cert, key: c.TLS.Key, log: log}
	if _, err := f.read(); err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key (%s): %w", c.Source("tls.cert"), err)
	}
	if err := expired(f.current.Load().Leaf); err != nil {
		log.Warn("browsers will not accept the certificate", "error", err)
	}
	e.from = f
	return e, nil
}

// Serve serves the connections of a listener. It keeps Go's choice of ciphers and curves, which Go maintains.
func (e *Encryption) Serve(server *http.Server, l net.Listener) error {
	if e == nil {
		return server.Serve(l)
	}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: e.from.get}
	if len(e.c.TLS.ACME) > 0 {
		server.TLSConfig.NextProtos = []string{"h2", "http/1.1", acme.ALPNProto}
	}
	server.Handler = e.strict(server.Handler)
	return server.ServeTLS(l, "", "")
}

// strict tells browsers to use only https from now on (RFC 6797).
func (e *Encryption) strict(next http.Handler) http.Handler {
	seconds := int64(e.c.TLS.HSTS.Seconds())
	if seconds == 0 {
		return next
	}
	value := []string{"max-age=" + strconv.FormatInt(seconds, 10)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Strict-Transport-Security"] = value
		next.ServeHTTP(w, r)
	})
}

// Reload looks for new certificates at once.
func (e *Encryption) Reload() {
	if e != nil {
		e.from.reload()
	}
}

// Base returns the URL of the server for clients on this machine.
func (e *Encryption) Base(addr net.Addr) string {
	if e == nil {
		return "http://" + reachable(addr)
	}
	host, port, _ := net.SplitHostPort(reachable(addr))
	if names := e.from.names(); len(names) > 0 && !e.from.knows(host) {
		host = names[0]
	}
	return "https://" + authorityOf(host, port)
}

// authorityOf returns host and port as an https URL has them.
func authorityOf(host, port string) string {
	if port == "443" {
		return strings.TrimSuffix(net.JoinHostPort(host, ""), ":")
	}
	return net.JoinHostPort(host, port)
}

// Start watches the certificates and redirects plain HTTP until ctx ends; wg counts its goroutines. addr is where the server listens. The
// error is for the user.
func (e *Encryption) Start(ctx context.Context, wg *sync.WaitGroup, addr net.Addr) error {
	if e == nil {
		return nil
	}
	if e.c.TLS.RedirectAddr != "" {
		l, err := net.Listen("tcp", e.c.TLS.RedirectAddr)
		if err != nil {
			return fmt.Errorf("tls.redirect_addr (%s): %w", e.c.Source("tls.redirect_addr"), err)
		}
		port := e.c.TLS.RedirectPort
		if a, ok := addr.(*net.TCPAddr); ok && port == 0 {
			port = a.Port
		}
		server := e.plainServer(port)
		wg.Go(func() {
			if err := server.Serve(netutil.LimitListener(l, redirectConnections)); !errors.Is(err, http.ErrServerClosed) {
				e.log.ErrorContext(ctx, "HTTP redirect stopped", "addr", e.c.TLS.RedirectAddr, "error", err)
			}
		})
		wg.Go(func() { <-ctx.Done(); server.Close() })
		e.log.InfoContext(ctx, "redirecting HTTP to HTTPS", "addr", l.Addr().String())
	}
	wg.Go(func() { e.from.watch(ctx) })
	return nil
}

// plainServer returns the server for plain HTTP. It reads no body, and each answer is small.
func (e *Encryption) plainServer(port int) *http.Server {
	handler := e.redirect(port)
	if a, ok := e.from.(*authority); ok {
		handler = a.manager.HTTPHandler(handler)
	}
	return &http.Server{
		Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
}

// redirect redirects clients to https at a port. It redirects only to hosts with a certificate, so it is no open redirect.
func (e *Encryption) redirect(port int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(strings.ToLower(host), "[]")
		if !strings.HasPrefix(r.URL.Path, "/") {
			http.Error(w, "expected a path that starts with /", http.StatusBadRequest)
			return
		}
		if !e.from.knows(host) {
			http.Error(w, "unknown Host header; expected a name of http.hosts or of the certificates", http.StatusMisdirectedRequest)
			return
		}
		to := url.URL{
			Scheme: "https", Host: authorityOf(host, strconv.Itoa(port)), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery,
		}
		w.Header().Set("Location", to.String())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusPermanentRedirect)
		fmt.Fprintln(w, "this server speaks https")
	})
}

// reachable returns the address that a client on this machine can use.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// expired returns an error if a certificate has expired or is not valid yet.
func expired(leaf *x509.Certificate) error {
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s; renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s; check the clock", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// nearlyOver reports whether a certificate should have been renewed by now.
func nearlyOver(leaf *x509.Certificate) bool {
	return time.Until(leaf.NotAfter) < min(7*24*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore)/4)
}
