package https

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/https/certtest"
	"github.com/lingserve/lingserve/web"
)

// logged collects what is logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// settings reads flags as the command line does.
func settings(t *testing.T, flags ...string) *config.Config {
	t.Helper()
	set, f := pflag.NewFlagSet("test", pflag.ContinueOnError), config.Flags{}
	f.Bind(set)
	if err := set.Parse(append([]string{"--config", "", "--data", t.TempDir()}, flags...)); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(&f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// encrypt returns the encryption that flags ask for, and what it logs.
func encrypt(t *testing.T, flags ...string) (*Encryption, *logged) {
	t.Helper()
	var out logged
	e, err := New(settings(t, flags...), "", slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return e, &out
}

// serveEncrypted serves the API on a port of this machine, and returns its address.
func serveEncrypted(t *testing.T, e *Encryption) string {
	t.Helper()
	s, err := web.New(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := s.HTTPServer()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Serve(server, l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		server.Close()
		wg.Wait()
		s.Close()
	})
	return l.Addr().String()
}

func TestConnectionsAreEncryptedAsBrowsersWantThem(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "chat.example.com")
	certtest.Write(t, dir, cert, key)
	e, _ := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
	addr := serveEncrypted(t, e)
	const url = "https://chat.example.com/healthz"

	t.Run("HTTP/2 and the newest version by itself", func(t *testing.T) {
		res, err := certtest.Client(t, addr, &tls.Config{RootCAs: ca.Pool()}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 200 || res.ProtoMajor != 2 || res.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%s, %s, %s", res.Status, res.Proto, tls.VersionName(res.TLS.Version))
		}
		if got := res.Header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
			t.Errorf("Strict-Transport-Security: %q", got)
		}
	})
	t.Run("HTTP/1.1 for those who know no other", func(t *testing.T) {
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "chat.example.com", MaxVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: chat.example.com\r\nConnection: close\r\n\r\n")
		text, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(text), "HTTP/1.1 200 OK\r\n") {
			t.Errorf("%v: %s", err, text)
		}
	})
	t.Run("no version that is broken", func(t *testing.T) {
		_, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "chat.example.com", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
		if err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("TLS 1.1: %v", err)
		}
	})
	t.Run("a client refuses an authority that it does not know", func(t *testing.T) {
		_, err := certtest.Client(t, addr, &tls.Config{RootCAs: certtest.New(t).Pool()}).Get(url)
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
			t.Errorf("%v", err)
		}
	})
	t.Run("a client refuses a name that the certificate does not have", func(t *testing.T) {
		_, err := certtest.Client(t, addr, &tls.Config{RootCAs: ca.Pool()}).Get("https://other.example.com/healthz")
		if _, ok := errors.AsType[x509.HostnameError](err); !ok {
			t.Errorf("%v", err)
		}
	})
	t.Run("plain HTTP is told so", func(t *testing.T) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: chat.example.com\r\n\r\n")
		text, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(text), "HTTP/1.0 400 Bad Request") || !strings.Contains(string(text), "HTTPS server") {
			t.Errorf("%v: %q", err, text)
		}
	})
}

func TestBrowsersAreToldNothingOfEncryptionWhereThatIsOff(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "chat.example.com")
	certtest.Write(t, dir, cert, key)
	e, _ := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"), "--tls-hsts", "0s")
	res, err := certtest.Client(t, serveEncrypted(t, e), &tls.Config{RootCAs: ca.Pool()}).Get("https://chat.example.com/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, ok := res.Header["Strict-Transport-Security"]; ok {
		t.Errorf("Strict-Transport-Security: %q", got)
	}
}

func TestAnotherCertificateIsTakenWhenItsFilesChange(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	first, firstKey := ca.Pair(t, certtest.Month, "chat.example.com")
	second, secondKey := ca.Pair(t, certtest.Month, "chat.example.com")
	old, oldKey := ca.Pair(t, -time.Minute, "chat.example.com")
	certtest.Write(t, dir, first, firstKey)
	e, out := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
	addr := serveEncrypted(t, e)
	serial := func() int64 {
		t.Helper()
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "chat.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 3 {
		t.Fatalf("serial %d", got)
	}
	for _, step := range []struct {
		name      string
		cert, key []byte
		serial    int64
		says      string // once, however often it is looked
	}{
		{"nothing has changed", first, firstKey, 3, ""},
		{"half of a pair", second, firstKey, 3, "private key does not match public key"},
		{"no certificate", []byte("hello"), secondKey, 3, "failed to find any PEM data"},
		{"one that has expired", old, oldKey, 3, "the certificate expired at"},
		{"the whole pair", second, secondKey, 4, "new certificate in use"},
		{"half of a pair once more", second, firstKey, 4, "private key does not match public key"},
		{"back again", first, firstKey, 3, "new certificate in use"},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := len(out.String())
			certtest.Write(t, dir, step.cert, step.key)
			for range 3 {
				e.Reload()
			}
			if got := serial(); got != step.serial {
				t.Errorf("serial %d, want %d", got, step.serial)
			}
			says := out.String()[before:]
			want := 1
			if step.says == "" {
				want = 0
			}
			if strings.Count(says, "\n") != want || !strings.Contains(says, step.says) {
				t.Errorf("it says %q, want one line with %q", says, step.says)
			}
			if strings.Contains(says, "PRIVATE") {
				t.Error("a key is logged")
			}
		})
	}
	t.Run("files that are gone", func(t *testing.T) {
		if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
			t.Fatal(err)
		}
		e.Reload()
		if got := serial(); got != 3 || !strings.Contains(out.String(), "open "+dir+"/tls.key: no such file or directory") {
			t.Errorf("serial %d:\n%s", got, out)
		}
	})
}

// Time is that of the bubble, which begins in the year 2000; the certificate is made in it, too.
func TestFilesOfACertificateAreWatched(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cert, key := ca.Pair(t, certtest.Month, "chat.example.com")
		certtest.Write(t, dir, cert, key)
		e, out := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { e.from.watch(ctx) })
		time.Sleep(certificatesEvery / 2)
		if out.String() != "" {
			t.Errorf("it says\n%s", out)
		}
		// After a day the other one has most of a day left, of two; after another day nothing.
		cert, key = ca.Pair(t, 47*time.Hour, "chat.example.com", "www.example.com")
		certtest.Write(t, dir, cert, key)
		time.Sleep(certificatesEvery)
		synctest.Wait()
		if !e.from.knows("www.example.com") {
			t.Errorf("it has not seen the new one:\n%s", out)
		}
		time.Sleep(expiryEvery)
		synctest.Wait()
		if strings.Contains(out.String(), "expires soon") {
			t.Errorf("it warns too early:\n%s", out)
		}
		time.Sleep(expiryEvery)
		synctest.Wait()
		if got := strings.Count(out.String(), "expires soon"); got != 1 {
			t.Errorf("it warns %d times:\n%s", got, out)
		}
		cancel()
		wg.Wait()
	})
}

func TestEncryptionThatCannotWorkStopsTheStart(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "chat.example.com")
	_, other := ca.Pair(t, certtest.Month, "chat.example.com")
	certtest.Write(t, dir, cert, key)
	if err := os.WriteFile(filepath.Join(dir, "other.key"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	crt := filepath.Join(dir, "tls.crt")
	for _, tc := range []struct {
		name  string
		flags []string
		want  []string
	}{
		{"no key", []string{"--tls-cert", crt}, []string{"--tls-cert: needs a key; set tls.key"}},
		{"no certificate", []string{"--tls-key", crt}, []string{"--tls-key: needs a certificate; set tls.cert"}},
		{"no file", []string{"--tls-cert", dir + "/none", "--tls-key", crt}, []string{"tls.cert and tls.key (flag --tls-cert)", "open " + dir + "/none: no such file or directory"}},
		{"a folder", []string{"--tls-cert", dir, "--tls-key", crt}, []string{"is a directory"}},
		{"another's key", []string{"--tls-cert", crt, "--tls-key", dir + "/other.key"}, []string{"other.key: tls: private key does not match public key"}},
		{"both ways", []string{"--tls-cert", crt, "--tls-key", dir + "/tls.key", "--tls-acme", "chat.example.com"}, []string{"--tls-acme: does not go with certificate files"}},
		{"an authority without encryption", []string{"--tls-acme", "chat.example.com", "--tls-acme-directory", "http://10.0.0.1/"}, []string{"--tls-acme-directory: expected an https address"}},
		{"nowhere to keep certificates", []string{"--tls-acme", "chat.example.com", "--database", "memory"}, []string{"--tls-acme: certificates need a folder"}},
		{"a redirect to nothing", []string{"--tls-redirect-addr", ":80"}, []string{"--tls-redirect-addr: redirects need https"}},
		{"two things", []string{"--tls-key", crt, "--tls-acme", "chat.example.com"}, []string{"set tls.cert\n", "does not go with certificate files"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(settings(t, tc.flags...), "", slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, want %q", err, want)
				}
			}
		})
	}
}

func TestPlainHTTPLeadsToTheHostsOfTheCertificateOnly(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "chat.example.com", "*.apps.example.com", "192.0.2.1", "2001:db8::1")
	certtest.Write(t, dir, cert, key)
	e, _ := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
	for _, tc := range []struct {
		name    string
		request string
		port    int
		status  int
		to      string
	}{
		{"a page", "GET / HTTP/1.1\r\nHost: chat.example.com\r\n\r\n", 443, 308, "https://chat.example.com/"},
		{"path and query", "GET /v1/runs?workflow=a%2Fb&x=1%0d%0a HTTP/1.1\r\nHost: chat.example.com:80\r\n\r\n", 443, 308, "https://chat.example.com/v1/runs?workflow=a%2Fb&x=1%0d%0a"},
		{"a path as it was written", "GET /a%2Fb HTTP/1.1\r\nHost: chat.example.com\r\n\r\n", 443, 308, "https://chat.example.com/a%2Fb"},
		{"the method stays", "POST /v1/runs HTTP/1.1\r\nHost: chat.example.com\r\nContent-Length: 2\r\n\r\n{}", 443, 308, "https://chat.example.com/v1/runs"},
		{"another port", "GET / HTTP/1.1\r\nHost: CHAT.example.com\r\n\r\n", 8443, 308, "https://chat.example.com:8443/"},
		{"a wildcard", "GET / HTTP/1.1\r\nHost: one.apps.example.com\r\n\r\n", 443, 308, "https://one.apps.example.com/"},
		{"an address", "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 443, 308, "https://192.0.2.1/"},
		{"a long address", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", 443, 308, "https://[2001:db8::1]/"},
		{"a path that looks like a host", "GET //evil.test/ HTTP/1.1\r\nHost: chat.example.com\r\n\r\n", 443, 308, "https://chat.example.com//evil.test/"},
		{"a path that looks like a user", "GET /@evil.test HTTP/1.1\r\nHost: chat.example.com\r\n\r\n", 443, 308, "https://chat.example.com/@evil.test"},
		{"another host", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 443, 421, ""},
		{"a host within the request", "GET http://evil.test/ HTTP/1.1\r\nHost: chat.example.com\r\n\r\n", 443, 421, ""},
		{"a host with a user", "GET / HTTP/1.1\r\nHost: chat.example.com@evil.test\r\n\r\n", 443, 421, ""},
		{"two levels below a wildcard", "GET / HTTP/1.1\r\nHost: a.b.apps.example.com\r\n\r\n", 443, 421, ""},
		{"no host", "GET / HTTP/1.0\r\n\r\n", 443, 421, ""},
		{"no path", "OPTIONS * HTTP/1.1\r\nHost: chat.example.com\r\n\r\n", 443, 400, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(tc.request)))
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			e.plainServer(tc.port).Handler.ServeHTTP(w, r)
			if w.Code != tc.status || w.Header().Get("Location") != tc.to {
				t.Errorf("status %d to %q, want %d to %q", w.Code, w.Header().Get("Location"), tc.status, tc.to)
			}
			if strings.Contains(w.Body.String(), "evil") {
				t.Errorf("it repeats the host: %s", w.Body)
			}
		})
	}
}

func TestARedirectFromAnAddressInUseStopsTheStart(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "chat.example.com")
	certtest.Write(t, dir, cert, key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	e, _ := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"), "--tls-redirect-addr", addr)
	var wg sync.WaitGroup
	err = e.Start(t.Context(), &wg, l.Addr())
	if want := "tls.redirect_addr (flag --tls-redirect-addr): listen tcp " + addr + ": bind: address already in use"; err == nil || err.Error() != want {
		t.Errorf("it says %v, want %q", err, want)
	}
	wg.Wait() // nothing was started
}

func TestTheServerNamesTheAddressThatItsCertificateIsGoodFor(t *testing.T) {
	ca := certtest.New(t)
	for _, tc := range []struct {
		name  string
		names []string
		addr  string
		want  string
	}{
		{"a name", []string{"chat.example.com"}, "127.0.0.1:8443", "https://chat.example.com:8443"},
		{"the usual port", []string{"chat.example.com"}, "0.0.0.0:443", "https://chat.example.com"},
		{"this machine", []string{"chat.example.com", "127.0.0.1"}, "0.0.0.0:8443", "https://127.0.0.1:8443"},
		{"a long address", []string{"::1"}, "[::1]:443", "https://[::1]"},
		{"wildcards alone", []string{"*.example.com"}, "127.0.0.1:8443", "https://127.0.0.1:8443"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			cert, key := ca.Pair(t, certtest.Month, tc.names...)
			certtest.Write(t, dir, cert, key)
			e, _ := encrypt(t, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
			addr, err := net.ResolveTCPAddr("tcp", tc.addr)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Base(addr); got != tc.want {
				t.Errorf("it says %s, want %s", got, tc.want)
			}
		})
	}
	var none *Encryption
	if got := none.Base(&net.TCPAddr{IP: net.IPv4zero, Port: 8080}); got != "http://127.0.0.1:8080" {
		t.Errorf("without encryption it says %s", got)
	}
}
