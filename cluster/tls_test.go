package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
)

// certificate makes one for loopback that signs itself, and so is its own CA.
func certificate(t *testing.T) cluster.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	secret, err2 := x509.MarshalPKCS8PrivateKey(key)
	dir := t.TempDir()
	files := cluster.TLS{CA: filepath.Join(dir, "cert.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	if err := errors.Join(err1, err2,
		os.WriteFile(files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return files
}

// TestConnectionsHaveTLS: an embedded server lets in who has a certificate of its CA, and a replica goes in where the server's is of its
// own.
func TestConnectionsHaveTLS(t *testing.T) {
	t.Parallel()
	ours, others := certificate(t), certificate(t)
	address := clustertest.Addresses(t, 1)[0]
	s, err := cluster.Open(t.Context(), cluster.Options{Servers: cluster.Embedded, Dir: t.TempDir(), Listen: address, TLS: ours})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, row := range []struct {
		name string
		tls  cluster.TLS
		want string
	}{
		{"the right ones", ours, ""},
		{"no certificate", cluster.TLS{CA: ours.CA}, "cluster: cannot connect to any server"},
		{"another CA", cluster.TLS{CA: others.CA, Cert: ours.Cert, Key: ours.Key}, "certificate signed by unknown authority"},
		{"a certificate of another CA", cluster.TLS{CA: ours.CA, Cert: others.Cert, Key: others.Key}, "cluster: cannot connect to any server"},
		{"no TLS", cluster.TLS{}, "cluster: cannot connect to any server"},
		{"no file", cluster.TLS{CA: "not-there.pem"}, "cluster: the CA: open not-there.pem"},
		{"no certificate in it", cluster.TLS{CA: ours.Key}, "key.pem has no certificate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			c, err := cluster.Open(t.Context(), cluster.Options{Servers: "nats://" + address, TLS: row.tls})
			t.Logf("%v after %v", err, time.Since(begin))
			if err == nil {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
