package https

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/acme"

	"github.com/lingserve/lingserve/internal/https/certtest"
)

// acmeServer is as much of an authority that speaks ACME (RFC 8555) as a client needs to see: it gives a certificate for a name once its
// challenge is met. It does not look at signatures.
type acmeServer struct {
	*httptest.Server
	t    *testing.T
	ca   *certtest.Authority
	kind string                                     // of the challenge
	met  func(name, token string, typ string) error // looks whether it is met

	mu     sync.Mutex
	orders []acmeOrder
	names  []string // of certificates that were asked for
	mail   string
	refuse bool
}

type acmeOrder struct {
	name  string
	valid bool // the challenge is met
	cert  []byte
}

func newACMEServer(t *testing.T, kind string) *acmeServer {
	a := &acmeServer{t: t, ca: certtest.New(t), kind: kind}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *acmeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var jws struct{ Payload string }
	_ = json.NewDecoder(r.Body).Decode(&jws) // there is none in a GET
	payload, _ := base64.RawURLEncoding.DecodeString(jws.Payload)
	w.Header().Set("Replay-Nonce", "n")
	path, n := r.URL.Path, 0
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		fmt.Sscan(path[i+1:], &n)
		path = path[:i]
	}
	reply := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	status := func(done bool, is, isNot string) string {
		if done {
			return is
		}
		return isNot
	}
	order := func() map[string]any {
		o := a.orders[n]
		is := status(o.valid, "ready", "pending")
		if o.cert != nil {
			is = "valid"
		}
		return map[string]any{
			"status": is, "identifiers": []any{map[string]string{"type": "dns", "value": o.name}},
			"authorizations": []string{fmt.Sprint(a.URL, "/authz/", n)}, "finalize": fmt.Sprint(a.URL, "/finalize/", n), "certificate": fmt.Sprint(a.URL, "/cert/", n),
		}
	}
	challenge := func() map[string]string {
		return map[string]string{"type": a.kind, "url": fmt.Sprint(a.URL, "/challenge/", n), "token": fmt.Sprint("token-", n), "status": status(a.orders[n].valid, "valid", "pending")}
	}
	switch path {
	case "/directory":
		reply(200, map[string]string{"newNonce": a.URL + "/nonce", "newAccount": a.URL + "/account", "newOrder": a.URL + "/order"})
	case "/nonce":
	case "/account":
		var asked struct{ Contact []string }
		_ = json.Unmarshal(payload, &asked)
		a.mail = strings.Join(asked.Contact, " ")
		w.Header().Set("Location", a.URL+"/account/1")
		reply(201, map[string]string{"status": "valid"})
	case "/order":
		if jws.Payload != "" && !strings.Contains(string(payload), "identifiers") {
			break
		}
		if jws.Payload == "" { // how is it?
			reply(200, order())
			return
		}
		var asked struct {
			Identifiers []struct{ Value string }
		}
		_ = json.Unmarshal(payload, &asked)
		a.names = append(a.names, asked.Identifiers[0].Value)
		if a.refuse {
			reply(403, map[string]string{"type": "urn:ietf:params:acme:error:rejectedIdentifier", "detail": "not this one"})
			return
		}
		n = len(a.orders)
		a.orders = append(a.orders, acmeOrder{name: asked.Identifiers[0].Value})
		w.Header().Set("Location", fmt.Sprint(a.URL, "/order/", n))
		reply(201, order())
	case "/authz":
		reply(200, map[string]any{"status": status(a.orders[n].valid, "valid", "pending"), "identifier": map[string]string{"type": "dns", "value": a.orders[n].name}, "challenges": []any{challenge()}})
	case "/challenge":
		if err := a.met(a.orders[n].name, fmt.Sprint("token-", n), a.kind); err != nil {
			a.t.Error(err)
		} else {
			a.orders[n].valid = true
		}
		reply(200, challenge())
	case "/finalize":
		var asked struct{ CSR string }
		_ = json.Unmarshal(payload, &asked)
		der, _ := base64.RawURLEncoding.DecodeString(asked.CSR)
		csr, err := x509.ParseCertificateRequest(der)
		if err != nil || !slices.Equal(csr.DNSNames, []string{a.orders[n].name}) {
			a.t.Errorf("it asks for a certificate of %v, %v", csr, err)
			return
		}
		a.orders[n].cert = a.ca.Sign(a.t, csr.PublicKey, 90*certtest.Month/30, csr.DNSNames...)
		w.Header().Set("Location", fmt.Sprint(a.URL, "/order/", n))
		reply(200, order())
	case "/cert":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		for _, der := range [][]byte{a.orders[n].cert, a.ca.Cert.Raw} {
			pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: der})
		}
	default:
		a.t.Errorf("it asks for %s", r.URL)
		w.WriteHeader(404)
	}
}

// asked are the names of the certificates that were asked for.
func (a *acmeServer) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.names)
}

// from returns the encryption of a server that has its certificates from here.
func (a *acmeServer) from(t *testing.T, flags ...string) (*Encryption, *logged) {
	t.Helper()
	e, out := encrypt(t, append([]string{"--tls-acme", "chat.example.com,www.example.com", "--tls-acme-email", "admin@example.com", "--tls-acme-directory", a.URL + "/directory"}, flags...)...)
	e.from.(*authority).manager.Client.HTTPClient = a.Client()
	return e, out
}

// RFC 8737: the authority connects with a protocol of its own, and gets a certificate with the proof.
func proofByTLS(addr, name string) error {
	conn, err := tls.Dial("tcp", addr, &tls.Config{ServerName: name, NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	state := conn.ConnectionState()
	proof := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}
	for _, e := range state.PeerCertificates[0].Extensions {
		if e.Id.Equal(proof) && e.Critical && state.NegotiatedProtocol == acme.ALPNProto {
			return nil
		}
	}
	return fmt.Errorf("the certificate of %s has no proof in it, by the protocol %q", name, state.NegotiatedProtocol)
}

func TestCertificatesAreHadFromAnAuthority(t *testing.T) {
	for _, kind := range []string{"tls-alpn-01", "http-01"} {
		t.Run(kind, func(t *testing.T) {
			ca, data := newACMEServer(t, kind), t.TempDir()
			flags := []string{"--data", data}
			if kind == "http-01" {
				flags = append(flags, "--tls-redirect-addr", "127.0.0.1:0")
			}
			e, _ := ca.from(t, flags...)
			addr, plain := serveEncrypted(t, e), e.plainServer(443).Handler
			ca.met = func(name, token, kind string) error {
				if kind == "tls-alpn-01" {
					return proofByTLS(addr, name)
				}
				w := httptest.NewRecorder()
				plain.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://"+name+"/.well-known/acme-challenge/"+token, http.NoBody))
				if w.Code != 200 || !strings.HasPrefix(w.Body.String(), token+".") {
					return fmt.Errorf("plain HTTP answers %d: %s", w.Code, w.Body)
				}
				return nil
			}
			trust := &tls.Config{RootCAs: ca.ca.Pool()}
			ask := func(name string) error {
				res, err := certtest.Client(t, addr, trust).Get("https://" + name + "/healthz")
				if err != nil {
					return err
				}
				defer res.Body.Close()
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 || res.ProtoMajor != 2 {
					return fmt.Errorf("%s %s, %w", res.Proto, res.Status, err)
				}
				return nil
			}
			for range 2 {
				if err := ask("chat.example.com"); err != nil {
					t.Fatal(err)
				}
			}
			for _, other := range []string{"evil.test", "mail.example.com"} {
				if ask(other) == nil {
					t.Errorf("there is a certificate for %s", other)
				}
			}
			if got := ca.asked(); !slices.Equal(got, []string{"chat.example.com"}) {
				t.Errorf("it has asked for %q", got)
			}
			if ca.mail != "mailto:admin@example.com" {
				t.Errorf("the authority writes to %q", ca.mail)
			}

			// What it has is for nobody else to read.
			folder := filepath.Join(data, "acme")
			if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the folder: %v, %v", info.Mode(), err)
			}
			entries, err := os.ReadDir(folder)
			if err != nil || len(entries) < 2 {
				t.Errorf("the folder has %v, %v", entries, err)
			}
			for _, entry := range entries {
				info, err := entry.Info()
				if errors.Is(err, fs.ErrNotExist) {
					continue // what answered a challenge goes when the certificate is there, in its own time
				}
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", entry.Name(), info, err)
				}
			}

			// After a restart nobody is asked.
			e, _ = ca.from(t, flags...)
			addr = serveEncrypted(t, e)
			if err := ask("chat.example.com"); err != nil {
				t.Error(err)
			}
			if got := ca.asked(); len(got) != 1 {
				t.Errorf("it has asked for %q", got)
			}
		})
	}
}

func TestAnAuthorityThatRefusesIsNotAskedAgainAndAgain(t *testing.T) {
	ca := newACMEServer(t, "tls-alpn-01")
	ca.refuse = true
	e, out := ca.from(t)
	hello := &tls.ClientHelloInfo{ServerName: "chat.example.com", CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
	for range 5 {
		if _, err := e.from.get(hello); err == nil || !strings.Contains(err.Error(), "not this one") {
			t.Fatalf("%v", err)
		}
	}
	if got := ca.asked(); len(got) != 1 {
		t.Errorf("it has asked for %q", got)
	}
	if got := strings.Count(out.String(), "\n"); got != 1 || !strings.Contains(out.String(), "name=chat.example.com") {
		t.Errorf("it says\n%s", out)
	}
	e.Reload() // the operator has repaired the cause, and the next handshake may request one
	if failed := e.from.(*authority).failed; len(failed) > 0 {
		t.Errorf("the pause goes on: %v", failed)
	}
}

func TestCertificatesAreHadBeforeTheFirstClientAsks(t *testing.T) {
	ca := newACMEServer(t, "tls-alpn-01")
	e, out := ca.from(t)
	addr := serveEncrypted(t, e)
	ca.met = func(name, _, _ string) error { return proofByTLS(addr, name) }
	a := e.from.(*authority)
	for _, name := range a.domains {
		a.renew(t.Context(), name)
	}
	if got := ca.asked(); !slices.Equal(got, []string{"chat.example.com", "www.example.com"}) {
		t.Errorf("it has asked for %q", got)
	}
	for _, name := range a.domains {
		if !strings.Contains(out.String(), "msg=certificate name="+name+" until=") {
			t.Errorf("it does not say that it has a certificate for %s:\n%s", name, out)
		}
	}
}

func TestThePlainAddressOfAnAuthoritysServerLeadsToItsNames(t *testing.T) {
	ca := newACMEServer(t, "http-01")
	e, _ := ca.from(t)
	for host, to := range map[string]string{
		"chat.example.com": "https://chat.example.com/x", "WWW.example.com:80": "https://www.example.com/x",
		"evil.test": "", "a.chat.example.com": "", "": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/x", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		e.plainServer(443).Handler.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != to || (to == "") != (w.Code == http.StatusMisdirectedRequest) {
			t.Errorf("%s: %d to %q", host, w.Code, got)
		}
	}
	// A challenge that nobody has set is nothing, and of another host nothing at all.
	for host, status := range map[string]int{"chat.example.com": 404, "evil.test": 403} {
		r := httptest.NewRequest(http.MethodGet, "/.well-known/acme-challenge/x", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		e.plainServer(443).Handler.ServeHTTP(w, r)
		if w.Code != status || strings.Contains(w.Body.String(), "/.well") {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}

// DA-08: the issuer of certificates is reached through the environment's proxy only as upstream.proxy_env says.
func TestDA_08_TheIssuerOfCertificatesFollowsTheSettingOfProxies(t *testing.T) {
	for flags, proxied := range map[string]bool{"": false, "--upstream-proxy-env": true} {
		c := settings(t, append([]string{"--tls-acme", "chat.example.com"}, strings.Fields(flags)...)...)
		client := newAuthority(c, "", slog.New(slog.DiscardHandler)).manager.Client.HTTPClient
		if transport, ok := client.Transport.(*http.Transport); !ok || (transport.Proxy != nil) != proxied {
			t.Errorf("with the flags %q it does not use a proxy as it should", flags)
		}
	}
}
