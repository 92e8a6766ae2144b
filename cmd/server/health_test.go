package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/https/certtest"
)

// health runs the command.
func health(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); isSetting(name) {
			t.Setenv(name, "")
		}
	}
	var out bytes.Buffer
	code = command(append([]string{"health"}, args...), nil, &out, &out)
	return code, out.String()
}

func TestHealthSaysWhetherAServerIsWell(t *testing.T) {
	ready := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
		case "/readyz":
			w.WriteHeader(ready)
		case "/moved/healthz":
			http.Redirect(w, r, "/healthz", http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	addr := s.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	for _, tc := range []struct {
		name  string
		args  []string
		ready int
		code  int
		says  string
	}{
		{"the server of the settings", []string{"--addr", addr}, 200, 0, "ok\n"},
		{"one that listens everywhere", []string{"--addr", ":" + port}, 200, 0, "ok\n"},
		{"one that listens on all addresses", []string{"--addr", "0.0.0.0:" + port}, 200, 0, "ok\n"},
		{"the admin port", []string{"--addr", "127.0.0.1:1", "--admin-addr", addr}, 200, 0, "ok\n"},
		{"a URL", []string{"--url", s.URL + "/"}, 200, 0, "ok\n"},
		{"ready", []string{"--url", s.URL, "--ready"}, 200, 0, "ok\n"},
		{"not ready", []string{"--url", s.URL, "--ready"}, 503, 1, "lingserve: " + s.URL + "/readyz answered with status 503; expected 200\n"},
		{"another program", []string{"--url", s.URL + "/other"}, 200, 1, "answered with status 404; expected 200\n"},
		{"one that leads elsewhere", []string{"--url", s.URL + "/moved"}, 200, 1, "answered with status 302; expected 200\n"},
		{"no server", []string{"--addr", "127.0.0.1:1"}, 200, 1, "lingserve: cannot connect to http://127.0.0.1:1/healthz: "},
		{"no time", []string{"--url", s.URL, "--timeout", "0s"}, 200, 1, "did not answer in time; check that the server runs, or set a longer --timeout\n"},
		{"no URL", []string{"--url", "localhost"}, 200, 2, "expected an http or https address"},
		{"an argument", []string{"now"}, 200, 2, `unexpected argument "now"`},
		{"a wrong setting", []string{"--grace", "soon"}, 200, 1, `--grace: "soon" is invalid; expected a duration`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ready = tc.ready
			code, said := health(t, tc.args...)
			if code != tc.code || !strings.Contains(said, tc.says) {
				t.Errorf("status %d, it says %q; want %d, %q", code, said, tc.code, tc.says)
			}
		})
	}
}

func TestHealthOfAnEncryptedServerAsksThisMachine(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.Pair(t, certtest.Month, "chat.example.com")
	certtest.Write(t, dir, cert, key)
	p := startServerIn(t, dir, "--tls-cert", "tls.crt", "--tls-key", "tls.key")
	addr := "127.0.0.1:" + p.base[strings.LastIndex(p.base, ":")+1:]
	flags := []string{"--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key")}
	if code, said := health(t, append(flags, "--addr", addr)...); code != 0 {
		t.Errorf("status %d, it says %q", code, said)
	}
	// Whoever names a URL means that server and no other.
	if code, said := health(t, "--url", "https://"+addr); code != 1 || !strings.Contains(said, "cannot connect to ") || !strings.Contains(said, "certificate") {
		t.Errorf("status %d, it says %q", code, said)
	}
}

func TestHealthAsksAnAuthoritysServerByItsName(t *testing.T) {
	c := &config.Config{Addr: "[::]:443", TLS: config.TLS{ACME: []string{"chat.example.com"}}}
	tr := &http.Transport{}
	if got := localServer(c, tr); got != "https://[::1]:443" || tr.TLSClientConfig.ServerName != "chat.example.com" {
		t.Errorf("it asks %s as %s", got, tr.TLSClientConfig.ServerName)
	}
}
