package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// TLS names files of PEM. A client reads them anew for each connection.
type TLS struct {
	CA        string // who may have signed the other side's certificate; "" is the system's
	Cert, Key string // this side's
}

// server is the configuration of a listener, nil without a certificate. With a CA the other side needs a certificate of it.
func (t TLS) server() (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	pair, err := t.pair()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.CA != "" {
		pool, err := t.pool()
		if err != nil {
			return nil, err
		}
		config.RootCAs, config.ClientCAs, config.ClientAuth = pool, pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// client are the options of a connection. With a CA or a certificate it has TLS or is not made.
func (t TLS) client() ([]nats.Option, error) {
	if t.CA == "" && t.Cert == "" {
		return nil, nil
	}
	options := []nats.Option{nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12})}
	var pair nats.TLSCertHandler
	var pool nats.RootCAsHandler
	if t.Cert != "" {
		if _, err := t.pair(); err != nil {
			return nil, err
		}
		pair = t.pair
	}
	if t.CA != "" {
		if _, err := t.pool(); err != nil {
			return nil, err
		}
		pool = t.pool
	}
	return append(options, nats.ClientTLSConfig(pair, pool)), nil
}

func (t TLS) pair() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cluster: the certificate: %w", err)
	}
	return pair, nil
}

func (t TLS) pool() (*x509.CertPool, error) {
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("cluster: the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cluster: the CA: %s has no certificate", t.CA)
	}
	return pool, nil
}
