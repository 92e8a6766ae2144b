package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"
	"golang.org/x/net/netutil"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/egress"
)

const (
	// certificatesEvery is how often the files of a certificate are looked at. They change every few weeks.
	certificatesEvery = 10 * time.Second
	// expiryEvery is how often it is looked how long certificates are still good.
	expiryEvery = 24 * time.Hour
	// acmePause is how long nothing is asked of an authority after it has refused a name. Each handshake would be a reason to ask,
	// and Let's Encrypt takes five failures an hour.
	acmePause = 15 * time.Minute
	// acmeRest is how long the manager of certificates by itself says no after a failure, a minute, and a bit.
	acmeRest = 61 * time.Second
	// redirectConnections are served at once on the address for plain HTTP, where each takes a moment.
	redirectConnections = 256
)

// encryption is how the server's connections are encrypted and where its certificates come from. Nil is not at all: all its methods
// can be called.
type encryption struct {
	c    *config.Config
	log  *slog.Logger
	from certificates
}

// certificates are those of files, or of an authority.
type certificates interface {
	// get returns the certificate for a handshake.
	get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// names are those that the server is known by.
	names() []string
	// knows says whether a certificate is there for a host, or can be had.
	knows(host string) bool
	// reload looks for others, since somebody says that there are some.
	reload()
	// watch looks after the certificates until ctx ends.
	watch(context.Context)
}

// newEncryption reads the certificate. Its errors are for the user.
func newEncryption(c *config.Config, log *slog.Logger) (*encryption, error) {
	if err := c.CheckTLS(); err != nil || !c.TLS.On() {
		return nil, err
	}
	e := &encryption{c: c, log: log}
	if len(c.TLS.ACME) > 0 {
		e.from = newAuthority(c, log)
		return e, nil
	}
	f := &certificateFiles{cert: c.TLS.Cert, key: c.TLS.Key, log: log}
	if _, err := f.read(); err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key (%s): %w", c.Source("tls.cert"), err)
	}
	if err := f.expired(); err != nil {
		log.Warn("browsers will not accept the certificate", "error", err)
	}
	e.from = f
	return e, nil
}

// config is what connections are made with. Go's own choice of ciphers and curves is kept: it is looked after.
func (e *encryption) config() *tls.Config {
	o := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: e.from.get}
	if len(e.c.TLS.ACME) > 0 {
		o.NextProtos = []string{"h2", "http/1.1", acme.ALPNProto}
	}
	return o
}

// serve serves the connections of a listener, encrypted where that is on.
func (e *encryption) serve(server *http.Server, l net.Listener) error {
	if e == nil {
		return server.Serve(l)
	}
	server.TLSConfig = e.config()
	server.Handler = e.strict(server.Handler)
	return server.ServeTLS(l, "", "")
}

// strict tells browsers not to come without encryption any more (RFC 6797).
func (e *encryption) strict(next http.Handler) http.Handler {
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

// reload takes other certificates, where there are some.
func (e *encryption) reload() {
	if e != nil {
		e.from.reload()
	}
}

// base is the address of the server as a client on this machine writes it.
func (e *encryption) base(addr net.Addr) string {
	if e == nil {
		return "http://" + reachable(addr)
	}
	host, port, _ := net.SplitHostPort(reachable(addr))
	if names := e.from.names(); len(names) > 0 && !e.from.knows(host) {
		host = names[0]
	}
	if port == "443" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return "https://" + host
	}
	return "https://" + net.JoinHostPort(host, port)
}

// start looks after the certificates, and serves the address for plain HTTP, until ctx ends; then wg counts down. addr is where the
// server listens. The error is for the user.
func (e *encryption) start(ctx context.Context, wg *sync.WaitGroup, addr net.Addr) error {
	if e == nil {
		return nil
	}
	if e.c.TLS.RedirectAddr != "" {
		l, err := net.Listen("tcp", e.c.TLS.RedirectAddr)
		if err != nil {
			return fmt.Errorf("tls.redirect_addr (%s): cannot listen on %s: %s", e.c.Source("tls.redirect_addr"), e.c.TLS.RedirectAddr, plainListen(err))
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

// plainListen is what kept from listening, without the address.
func plainListen(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "the address is in use; choose another port"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 are reserved; grant the program CAP_NET_BIND_SERVICE, or choose another port"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// plainServer serves plain HTTP. No request has a body that would be read, and each answer is small.
func (e *encryption) plainServer(port int) *http.Server {
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

// redirect sends clients to https at a port: only to a host that a certificate is there for, so that nobody can be led elsewhere by it.
func (e *encryption) redirect(port int) http.Handler {
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
		to := url.URL{Scheme: "https", Host: host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		if strings.Contains(host, ":") {
			to.Host = "[" + host + "]"
		}
		if port != 443 {
			to.Host = net.JoinHostPort(host, strconv.Itoa(port))
		}
		w.Header().Set("Location", to.String())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusPermanentRedirect)
		fmt.Fprintln(w, "this server speaks https")
	})
}

// certificateFiles are a certificate and its key in files, read again when they change.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger
	now       atomic.Pointer[tls.Certificate]

	mu   sync.Mutex // of reading
	last [sha256.Size]byte
	said string // the last error, which is not said again
}

// maxCertificate is far more than any chain of certificates has.
const maxCertificate = 1 << 20

// read takes what the files hold, if it is another pair, and a good one. A pair of which half is still the old one is none; the
// next look finds it whole.
func (f *certificateFiles) read() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cert, err := readFile(f.cert)
	if err != nil {
		return false, err
	}
	key, err := readFile(f.key)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(slices.Concat(cert, []byte{0}, key))
	if sum == f.last {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("cannot use the certificate %s with the key %s: %s", f.cert, f.key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	if f.now.Load() != nil {
		if err := expired(pair.Leaf); err != nil {
			return false, err
		}
	}
	f.last = sum
	f.now.Store(&pair)
	return true, nil
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxCertificate) {
		return nil, fmt.Errorf("%s is not a regular file; expected a PEM file", name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name)
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return nil, fmt.Errorf("cannot read %s: %w", name, e.Err)
	}
	return bytes.TrimSpace(text), err
}

func (f *certificateFiles) expired() error { return expired(f.now.Load().Leaf) }

// expired says whether a certificate's time is over, or has not come.
func expired(leaf *x509.Certificate) error {
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s; renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s; check the clock", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// nearlyOver says whether a certificate that is renewed as usual would have been renewed by now.
func nearlyOver(leaf *x509.Certificate) bool {
	return time.Until(leaf.NotAfter) < min(7*24*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore)/4)
}

func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.now.Load(), nil
}

func (f *certificateFiles) names() []string {
	return slices.DeleteFunc(slices.Clone(f.now.Load().Leaf.DNSNames), func(name string) bool { return strings.HasPrefix(name, "*") })
}

func (f *certificateFiles) knows(host string) bool {
	return host != "" && f.now.Load().Leaf.VerifyHostname(host) == nil
}

func (f *certificateFiles) reload() {
	changed, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && err.Error() != f.said:
		f.log.Error("cannot use the certificate; keeping the previous one", "error", err)
		f.said = err.Error()
	case err == nil:
		f.said = ""
	}
	if changed {
		leaf := f.now.Load().Leaf
		f.log.Info("new certificate in use", "names", leaf.DNSNames, "until", leaf.NotAfter)
	}
}

func (f *certificateFiles) watch(ctx context.Context) {
	warn := func() {
		if leaf := f.now.Load().Leaf; nearlyOver(leaf) {
			f.log.WarnContext(ctx, "certificate expires soon", "names", leaf.DNSNames, "until", leaf.NotAfter)
		}
	}
	warn()
	look, day := time.NewTicker(certificatesEvery), time.NewTicker(expiryEvery)
	defer look.Stop()
	defer day.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			f.reload()
		case <-day.C:
			warn()
		}
	}
}

// authority is who certificates are had from, by ACME (RFC 8555): as the server starts, and again before they expire.
type authority struct {
	manager *autocert.Manager
	domains []string // in ASCII
	log     *slog.Logger
	again   chan struct{} // somebody says that names can be had now

	mu     sync.Mutex
	failed map[string]failure // by domain
}

type failure struct {
	err       error
	at, until time.Time
}

func newAuthority(c *config.Config, log *slog.Logger) *authority {
	tr := &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: time.Minute,
		ForceAttemptHTTP2: true, Proxy: egress.Proxy(c.Upstream.ProxyEnv),
	}
	a := &authority{log: log, again: make(chan struct{}, 1), failed: map[string]failure{}}
	for _, name := range c.TLS.ACME {
		name, _ = idna.Lookup.ToASCII(name) // CheckTLS has seen it
		a.domains = append(a.domains, name)
	}
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Email: c.TLS.ACMEEmail,
		Cache: autocert.DirCache(c.ACMEFolder()), HostPolicy: autocert.HostWhitelist(a.domains...),
		Client: &acme.Client{
			DirectoryURL: c.TLS.ACMEDirectory, UserAgent: "lingserve/" + build().version,
			HTTPClient: &http.Client{Transport: tr, Timeout: time.Minute},
		},
	}
	return a
}

// get returns the certificate of a name, and has one made where there is none yet. A name that was refused is not asked for again
// for a while.
func (a *authority) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name, err := idna.Lookup.ToASCII(hello.ServerName)
	if err != nil || !slices.Contains(a.domains, name) {
		return nil, errors.New("no certificate for this name")
	}
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // the authority asks whether we are who we say
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
	if f, ok := a.failed[name]; !ok || time.Now().After(f.until) { // of all who have waited for it, one tells
		now := time.Now()
		a.failed[name] = failure{err, now, now.Add(acmePause)}
		a.log.Error("cannot get a certificate; retrying", "name", name, "after", acmePause, "error", err)
	}
	return nil, err
}

func (a *authority) names() []string { return a.domains }

func (a *authority) knows(host string) bool {
	name, err := idna.Lookup.ToASCII(host)
	return err == nil && slices.Contains(a.domains, name)
}

func (a *authority) reload() {
	a.mu.Lock()
	for name, f := range a.failed {
		f.until = f.at.Add(acmeRest)
		a.failed[name] = f
	}
	a.mu.Unlock()
	select {
	case a.again <- struct{}{}:
	default:
	}
}

// next is how long watch waits: until a name that was refused may be tried again.
func (a *authority) next() time.Duration {
	wait := expiryEvery
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.failed {
		wait = min(wait, max(time.Until(f.until), time.Second))
	}
	return wait
}

// watch gets the certificates before the first client asks, and looks from time to time whether they were renewed, which the manager
// does by itself and without a word.
func (a *authority) watch(ctx context.Context) {
	for {
		for _, name := range a.domains {
			if ctx.Err() == nil {
				a.look(ctx, name)
			}
		}
		timer := time.NewTimer(a.next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-a.again: // those that were refused follow when their time has come
			timer.Stop()
		}
	}
}

// look gets one certificate and says until when it is good.
func (a *authority) look(ctx context.Context, name string) {
	got := make(chan *tls.Certificate, 1)
	// The manager cannot be told to stop, and gives up by itself within five minutes; a server that ends does not wait for that.
	go func() {
		cert, _ := a.get(&tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
		got <- cert
	}()
	select {
	case <-ctx.Done():
	case cert := <-got:
		switch {
		case cert == nil: // which is said
		case nearlyOver(cert.Leaf):
			a.log.WarnContext(ctx, "certificate expires soon and was not renewed", "name", name, "until", cert.Leaf.NotAfter)
		default:
			a.log.InfoContext(ctx, "certificate", "name", name, "until", cert.Leaf.NotAfter)
		}
	}
}
