// Package certtest makes certificates for tests.
package certtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs the certificates of a test.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// New makes an authority.
func New(t *testing.T) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// Its time has begun long ago, also for tests whose clock stands still at the beginning of the century.
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{Cert: cert, key: key, next: 2}
}

// Pool has the authority alone: what a client trusts.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Cert)
	return p
}

// Sign makes a certificate for a key.
func (a *Authority) Sign(t *testing.T, key any, good time.Duration, names ...string) []byte {
	t.Helper()
	a.next++
	about := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: names[0]}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(good),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			about.IPAddresses = append(about.IPAddresses, ip)
		} else {
			about.DNSNames = append(about.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, about, a.Cert, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// Pair makes a key and a certificate for it, both in PEM.
func (a *Authority) Pair(t *testing.T, good time.Duration, names ...string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Sign(t, k.Public(), good, names...)}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Month is how long most certificates of tests are valid.
const Month = 30 * 24 * time.Hour

// Write writes a pair into a folder, as tls.crt and tls.key.
func Write(t *testing.T, dir string, cert, key []byte) {
	t.Helper()
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Client returns a client that finds every name at one address. With protocols, it speaks HTTP/2 alone.
func Client(t *testing.T, addr string, c *tls.Config, protocols ...string) *http.Client {
	var p http.Protocols
	p.SetHTTP1(len(protocols) == 0)
	p.SetHTTP2(true)
	tr := &http.Transport{
		TLSClientConfig: c, Protocols: &p,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Hour}
}
